//! The real controller core on a fake store, with an image service that knows every name.

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_controller_core::controller::{Identity, Ticket};
use coracle_controller_core::request::{Answer, Request};
use coracle_controller_core::store::{Action, Room};
use coracle_controller_core::{ApiError, Change, Controller, Effect, Input, Key, Now, Object, View};
use coracle_model::{ClusterId, Digest, Millis};
use coracle_wire::artifact::{ArtifactManifest, ArtifactReply, Block};
use coracle_wire::down::Down;
use coracle_wire::up::Up;
use sha2::{Digest as _, Sha256};

use crate::chance::Chance;

/// Virtual wall time at the start: 2026-11-21.
const WALL_START_MS: u64 = 1_795_219_200_000;

/// What a turn of the controller gave.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    pub(crate) changes: Vec<Change>,
    pub(crate) answers: Vec<(Ticket, Result<Answer, ApiError>)>,
    pub(crate) downs: Vec<(String, Down)>,
    /// What of the batch went wrong without the end of the process.
    pub(crate) crashed: Option<Crash>,
}

/// Where a crash falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// Decided, not committed: nothing of it may ever be seen.
    BeforeCommit,
    /// Committed, and nobody was told.
    AfterCommit,
    /// Refused by a full disk: the process goes on, and the core begins anew on what is durable.
    NoRoom,
}

/// A controller that may crash.
#[derive(Debug)]
pub(crate) struct SimulatedController {
    core: Option<Controller>,
    durable: BTreeMap<Key, Arc<Object>>,
    revision: u64,
    is_full: bool,
    /// What the wall clock shows beyond the time that has passed.
    wall_offset_ms: u64,
}

impl SimulatedController {
    pub(crate) const fn new() -> Self {
        Self { core: None, durable: BTreeMap::new(), revision: 0, is_full: false, wall_offset_ms: 0 }
    }

    /// The disk runs out of room, or has some again.
    pub(crate) fn set_full(&mut self, now: u64, is_full: bool) {
        self.is_full = is_full;
        self.tell_room(now);
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.is_full
    }

    fn tell_room(&mut self, now: u64) {
        let room = if self.is_full { Room::Full("the disk is full".to_owned()) } else { Room::Plenty };
        let now = self.clock(now);
        if let Some(core) = &mut self.core {
            core.handle(now, Input::Room(room));
        }
    }

    /// Somebody sets the wall clock.
    pub(crate) const fn set_wall_offset(&mut self, offset_ms: u64) {
        self.wall_offset_ms = offset_ms;
    }

    const fn clock(&self, now: u64) -> Now {
        Now { wall_ms: WALL_START_MS + self.wall_offset_ms + now, mono: Millis(now) }
    }

    pub(crate) const fn is_up(&self) -> bool {
        self.core.is_some()
    }

    /// What is durable: the truth after any crash.
    pub(crate) const fn durable(&self) -> &BTreeMap<Key, Arc<Object>> {
        &self.durable
    }

    pub(crate) fn start(&mut self, now: u64, chance: &mut Chance) {
        let view = View::new(self.revision, self.durable.values().cloned());
        let identity = Identity { cluster: ClusterId(1), artifact_key: [7; 32], entropy: chance.next() };
        self.core = Some(Controller::new(view, identity, self.clock(now)));
        self.tell_room(now);
    }

    pub(crate) fn crash(&mut self) {
        self.core = None;
    }

    /// What a store must never do; for the tests of the checkers.
    #[cfg(test)]
    pub(crate) fn lose(&mut self, key: &Key) {
        self.durable.remove(key);
    }

    pub(crate) fn request(&mut self, now: u64, ticket: Ticket, request: Request) {
        let now = self.clock(now);
        if let Some(core) = &mut self.core {
            core.handle(now, Input::Request(ticket, Box::new(request)));
        }
    }

    /// An agent's message. What the core does not see is answered here, as the shell would.
    pub(crate) fn hear(&mut self, now: u64, node: &str, payload: &[u8]) -> Option<Down> {
        let now = self.clock(now);
        let core = self.core.as_mut()?;
        match Up::decode(payload).ok()? {
            Up::Artifact(request) => {
                let result = Ok(manifest(&request.image));
                Some(Down::Artifact(ArtifactReply { image: request.image, result }))
            }
            Up::Blocks(request) => {
                let index = *request.blocks.first()?;
                Some(Down::Block(Block { artifact: request.artifact, index, bytes: CODE.to_vec() }))
            }
            up => {
                core.handle(now, Input::Hear { node: node.to_owned(), up: Box::new(up) });
                None
            }
        }
    }

    /// One batch; `crash` says whether and where the power fails in it. The power waits for a batch that is not empty.
    pub(crate) fn turn(&mut self, now: u64, crash: Option<Crash>, chance: &mut Chance) -> Turn {
        let mut turn = Turn::default();
        let moment = self.clock(now);
        let Some(core) = &mut self.core else { return turn };
        let stage = core.settle(moment);
        let crash = crash.filter(|_| !stage.changes.is_empty());
        if crash == Some(Crash::NoRoom) {
            let refusal = || Err(ApiError::insufficient_storage("the disk is full"));
            turn.answers = stage
                .effects
                .into_iter()
                .filter_map(|effect| match effect {
                    Effect::Answer(ticket, answer) => Some((ticket, answer.and_then(|_| refusal()))),
                    Effect::Send { .. } => None,
                })
                .collect();
            self.start(now, chance);
            turn.crashed = crash;
            return turn;
        }
        if crash == Some(Crash::BeforeCommit) {
            self.crash();
            return turn;
        }
        for change in &stage.changes {
            self.revision = self.revision.max(change.revision);
            if change.action == Action::Deleted {
                self.durable.remove(&change.object.key);
            } else {
                self.durable.insert(change.object.key.clone(), Arc::clone(&change.object));
            }
        }
        turn.changes = stage.changes;
        if crash == Some(Crash::AfterCommit) {
            self.crash();
            return turn;
        }
        for effect in stage.effects {
            match effect {
                Effect::Answer(ticket, answer) => turn.answers.push((ticket, *answer)),
                Effect::Send { node, down } => turn.downs.push((node, *down)),
            }
        }
        turn
    }

    pub(crate) fn wake_at(&self) -> Option<u64> {
        Some(self.core.as_ref()?.wake_at()?.0)
    }
}

/// Every artifact is one block of these bytes.
const CODE: &[u8] = b"machine code";

fn manifest(image: &str) -> ArtifactManifest {
    let digest = |bytes: &[u8]| Digest(Sha256::digest(bytes).into());
    ArtifactManifest {
        image: digest(image.as_bytes()),
        artifact: digest(CODE),
        size: CODE.len() as u64,
        target: "aarch64-unknown-linux-gnu".to_owned(),
        engine: "simulated".to_owned(),
        blocks: vec![digest(CODE)],
        signature: vec![0; 64],
    }
}
