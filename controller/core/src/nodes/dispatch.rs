//! From the view to a node: what it should run, as a whole set or as what changed.

use std::collections::BTreeSet;
use std::hash::Hasher;
use std::sync::Arc;

use coracle_model::Millis;
use coracle_model::limits::SYNC_PART_BYTES;
use coracle_wire::Item;
use coracle_wire::down::{Delta, Down, Sync};

use crate::kind::Kind;
use crate::object::{Object, Uid};
use crate::view::View;

use super::lower::{self, Specs};
use super::session::{Sent, Session};

/// What this node is to be sent now.
pub(super) fn flush(session: &mut Session, desired: Desired<'_>, dirty: &BTreeSet<Uid>, now: Millis) -> Vec<Down> {
    if session.needs_sync { sync(session, desired, now) } else { deltas(session, desired, dirty, now) }
}

/// Where it is read what a node should run.
pub(super) struct Desired<'a> {
    pub(super) view: &'a View,
    pub(super) node: &'a str,
    pub(super) specs: &'a mut Specs,
}

/// The whole set, in parts. A pod that has come to its end is left out: the node must not run it again.
fn sync(session: &mut Session, mut desired: Desired<'_>, now: Millis) -> Vec<Down> {
    session.needs_sync = false;
    session.sent.clear();
    session.sequence += 1;
    let mut parts: Vec<Vec<Item>> = vec![Vec::new()];
    let mut bytes = 0;
    for object in desired.view.pods_on(desired.node) {
        if !object.is_deleting() && object.row.pod().is_some_and(|row| row.phase.is_terminal()) {
            continue;
        }
        let Some((item, sent)) = desired.encode(object) else { continue };
        session.sent.insert(object.uid, sent);
        if bytes + item.len() > SYNC_PART_BYTES && bytes > 0 {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += item.len();
        if let Some(part) = parts.last_mut() {
            part.push(item);
        }
    }
    session.sent_set(now);
    let count = u16::try_from(parts.len()).unwrap_or(u16::MAX);
    let numbered = (0..count).zip(parts);
    let (session, sequence) = (session.number, session.sequence);
    numbered.map(|(part, pods)| Down::Sync(Sync { session, sequence, part, parts: count, pods })).collect()
}

/// What changed among the dirty pods; in several deltas, each with its sequence, when it is much.
fn deltas(session: &mut Session, mut desired: Desired<'_>, dirty: &BTreeSet<Uid>, now: Millis) -> Vec<Down> {
    let mut downs = Vec::new();
    let mut delta = empty_delta(session);
    let mut bytes = 0;
    for uid in dirty {
        let object = desired.view.by_uid(*uid).filter(|object| bound_to(object, desired.node));
        let encoded = object.and_then(|object| desired.encode(object));
        match encoded {
            Some((item, sent)) => {
                if session.sent.get(uid) == Some(&sent) || finished_elsewhere(session, object, *uid) {
                    continue;
                }
                session.sent.insert(*uid, sent);
                bytes += item.len();
                delta.upserts.push(item);
            }
            None => {
                if session.sent.remove(uid).is_some() {
                    bytes += 24;
                    delta.removes.push(*uid);
                }
            }
        }
        if bytes > SYNC_PART_BYTES {
            session.sequence = delta.sequence;
            let next = empty_delta(session);
            downs.push(Down::Delta(std::mem::replace(&mut delta, next)));
            bytes = 0;
        }
    }
    if !delta.upserts.is_empty() || !delta.removes.is_empty() {
        session.sequence = delta.sequence;
        downs.push(Down::Delta(delta));
    }
    if !downs.is_empty() {
        session.sent_set(now);
    }
    downs
}

/// A pod that ended before this session and that the node was therefore never told of.
fn finished_elsewhere(session: &Session, object: Option<&Arc<Object>>, uid: Uid) -> bool {
    let finished = object
        .is_some_and(|object| !object.is_deleting() && object.row.pod().is_some_and(|row| row.phase.is_terminal()));
    finished && !session.sent.contains_key(&uid)
}

const fn empty_delta(session: &Session) -> Delta {
    let sequence = session.sequence + 1;
    Delta { session: session.number, sequence, upserts: Vec::new(), removes: Vec::new() }
}

fn bound_to(object: &Object, node: &str) -> bool {
    object.key.kind == Kind::POD && object.row.pod().and_then(|row| row.node.as_deref()) == Some(node)
}

impl Desired<'_> {
    fn encode(&mut self, object: &Object) -> Option<(Item, Sent)> {
        let pod = lower::pod(self.view, object, self.specs)?;
        let item = Item::new(pod.uid, &pod);
        let sent = Sent { fingerprint: fingerprint(&item) };
        Some((item, sent))
    }
}

/// Tells two forms of one pod apart. It never leaves this process, so the standard hasher with its fixed keys serves.
fn fingerprint(item: &Item) -> u64 {
    #[expect(deprecated, reason = "SipHash with fixed keys: the same in every run of the simulator")]
    let mut hasher = std::hash::SipHasher::new();
    hasher.write(item.body());
    hasher.finish()
}
