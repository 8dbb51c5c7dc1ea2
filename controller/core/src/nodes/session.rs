//! One agent's session as the controller sees it.

use std::collections::BTreeMap;

use coracle_model::{InstanceId, Millis, SessionNumber};
use coracle_wire::up::Birth;

use crate::clock::Now;
use crate::object::Uid;

use super::Nodes;

/// How often the wait for a confirmation doubles: up to 40 s.
const MOST_DOUBLINGS: u32 = 3;

/// Whether messages can reach the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// Born, and not heard of since as gone.
    Open,
    /// The Last Will came, or the agent said goodbye.
    Closed,
}

/// Where a report stands among those of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Newer than all before it.
    New,
    /// The newest, once more.
    Again,
    /// A newer one came first.
    Overtaken,
}

/// What a node was sent of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// A fingerprint of the pod's compact form.
    pub(super) fingerprint: u64,
}

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    /// Its number.
    pub(super) number: SessionNumber,
    /// The agent's data directory.
    pub(super) instance: InstanceId,
    /// Wall time minus the agent's clock, in milliseconds: fixed for the session, so that stamps stay what they were.
    pub(super) wall_offset_ms: i64,
    link: Link,
    /// The sequence of the last set that was sent.
    pub(super) sequence: u64,
    /// The next flush sends the whole set.
    pub(super) needs_sync: bool,
    /// What the node has been sent.
    pub(super) sent: BTreeMap<Uid, Sent>,
    applied: u64,
    unconfirmed_since: Option<Millis>,
    /// How often in a row the whole set was sent because nothing was confirmed.
    resends: u32,
    last_report: u64,
}

impl Session {
    /// A session that begins with this birth.
    pub(super) fn new(birth: &Birth, now: Now) -> Self {
        let wall = i64::try_from(now.wall_ms).unwrap_or(i64::MAX);
        let agent = i64::try_from(birth.now.0).unwrap_or(i64::MAX);
        Self {
            number: birth.session,
            instance: birth.instance,
            wall_offset_ms: wall.saturating_sub(agent),
            link: Link::Open,
            sequence: 0,
            needs_sync: true,
            sent: BTreeMap::new(),
            applied: 0,
            unconfirmed_since: None,
            resends: 0,
            last_report: 0,
        }
    }

    /// Whether this is that session of that agent.
    pub(super) fn is(&self, instance: InstanceId, number: SessionNumber) -> bool {
        self.instance == instance && self.number == number
    }

    /// Whether messages can reach the agent.
    pub(super) fn is_open(&self) -> bool {
        self.link == Link::Open
    }

    /// The agent is gone for now.
    pub(super) const fn end(&mut self) {
        self.link = Link::Closed;
        self.unconfirmed_since = None;
    }

    /// The next flush sends everything.
    pub(super) const fn restart_sync(&mut self) {
        self.needs_sync = true;
        self.unconfirmed_since = None;
    }

    /// Nothing was confirmed in time: everything is sent again, and the next time waits twice as long. Over a thin link
    /// a set may take longer than that to travel, and sending it ever again would fill the link for good.
    pub(super) const fn lose_patience(&mut self) {
        self.restart_sync();
        self.resends = self.resends.saturating_add(1);
    }

    /// A set was sent.
    pub(super) fn sent_set(&mut self, now: Millis) {
        self.unconfirmed_since.get_or_insert(now);
    }

    /// The agent said which set it has applied.
    pub(super) fn applied(&mut self, sequence: u64, now: Millis) {
        if sequence > self.applied {
            self.applied = sequence;
            // Something arrives; what is still on its way gets its full time again.
            self.unconfirmed_since = self.unconfirmed_since.map(|_| now);
        }
        if self.applied >= self.sequence {
            self.unconfirmed_since = None;
            self.resends = 0;
        }
        if !self.is_open() {
            // It was thought gone, and what changed since was not sent to it.
            self.link = Link::Open;
            self.restart_sync();
        }
    }

    /// When the whole set is to be sent again, because the last one was not confirmed.
    pub(super) fn resend_at(&self) -> Option<Millis> {
        let wait = Nodes::RESEND_MS << self.resends.min(MOST_DOUBLINGS);
        self.unconfirmed_since.filter(|_| self.is_open()).map(|since| since + wait)
    }

    /// Where a report stands among those before it.
    pub(super) const fn heard_report(&mut self, sequence: u64) -> Heard {
        if sequence < self.last_report {
            return Heard::Overtaken;
        }
        let heard = if sequence == self.last_report { Heard::Again } else { Heard::New };
        self.last_report = sequence;
        heard
    }
}
