//! The one way to change anything: inputs queue here, the core turns its crank, the batch is made durable, and only then
//! are answers, watch events and messages released, in the order of their revisions (DESIGN, decision 3).
//!
//! *In:* requests, what agents say, the clock. *Out:* answers, watches, messages for the link.
//! *Must never know:* HTTP or MQTT.
//! *Tested:* through every end-to-end test; the store's own tests cut its power.
//!
//! What queues during one fsync is the next batch: there is no timer, and an idle controller writes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use coracle_controller_core::controller::{Controller, Identity, Ticket};
use coracle_controller_core::history::History;
use coracle_controller_core::request::{Answer, Request};
use coracle_controller_core::schedule::Detail;
use coracle_controller_core::schedule::config::Configuration;
use coracle_controller_core::{ApiError, Change, Effect, Input, Kind, Now, View};
use coracle_model::Millis;
use coracle_wire::down::Down;
use coracle_wire::up::Up;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use coracle_controller_core::store::{Room, Store, StoreError};

#[cfg(test)]
mod tests;

/// Requests that may wait; beyond this one is answered 429.
const REQUESTS: usize = 4096;
/// Words of agents that may wait; beyond this one is dropped (it is said again, some seconds later). A fleet that is told
/// something answers all at once, and requests do not wait behind it.
const WORDS: usize = 32_768;
/// Questions that may wait; beyond this one is answered 429. One is answered after each batch, so that nobody who only
/// asks holds up those who do something.
const QUESTIONS: usize = 16;
/// Inputs of each kind that one batch takes: bounds the latency of the first of them.
const BATCH: usize = 1024;
/// Messages for the link that may wait.
const DOWNS: usize = 65_536;
/// The longest sleep of an idle controller, in milliseconds.
const IDLE_MS: u64 = 60_000;
/// How often a full store is asked whether it has room again, in milliseconds.
const FULL_MS: u64 = 1_000;
/// Changes that a watch hands out at once.
const WATCH_CHUNK: usize = 1024;

/// The queue is full; an agent's word may be dropped, since it is said again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the controller is busy")]
pub struct Busy;

/// Why the committer ended.
#[derive(Debug, thiserror::Error)]
pub enum CommitterError {
    /// The store could not be read.
    #[error("failed to load the store")]
    Load(#[source] StoreError),
    /// A batch could not be made durable: nothing of it was shown to anybody, and the process has to end.
    #[error("failed to commit a batch")]
    Commit(#[source] StoreError),
}

struct Shared {
    view: RwLock<View>,
    history: RwLock<History>,
    leases: RwLock<BTreeMap<String, u64>>,
    revision: watch::Sender<u64>,
    room: RwLock<Room>,
    next_ticket: AtomicU64,
}

/// A request, and who waits for its answer.
type Wish = (Box<Request>, oneshot::Sender<Result<Answer, ApiError>>);
/// A node's name, and what its agent said.
type Word = (String, Box<Up>);

/// A question that the core answers without moving: where a pod goes, and why; and who asks.
struct Question {
    namespace: String,
    pod: String,
    detail: Detail,
    answer: oneshot::Sender<Result<Value, ApiError>>,
}

/// What the next turn takes.
#[derive(Default)]
struct Batch {
    requests: Vec<Wish>,
    words: Vec<Word>,
    question: Option<Question>,
}

/// Messages for the link, each with its node's name.
pub type Downs = mpsc::Receiver<(String, Down)>;

/// The cluster, as the API and the link see it.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
    requests: mpsc::Sender<Wish>,
    words: mpsc::Sender<Word>,
    questions: mpsc::Sender<Question>,
}

impl Cluster {
    /// Reads the committed view. The lock is short: never wait for anything inside.
    pub fn read<R>(&self, look: impl FnOnce(&View) -> R) -> R {
        look(&self.shared.view.read())
    }

    /// Carries out a request; answered once it is durable.
    ///
    /// # Errors
    /// As the API refuses it; 429 when too much is waiting, 503 when the controller is stopping.
    pub async fn execute(&self, request: Request) -> Result<Answer, ApiError> {
        let (answer, answered) = oneshot::channel();
        self.requests.try_send((Box::new(request), answer)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                ApiError::too_many_requests("too many requests wait to be committed, please try again later", 1)
            }
            mpsc::error::TrySendError::Closed(_) => ApiError::unavailable("the controller is stopping"),
        })?;
        answered.await.map_err(|_| ApiError::unavailable("the controller is stopping"))?
    }

    /// Where a pod goes now, and why, as a `PodPlacement`: of what is durable, at the revision that is shown.
    ///
    /// # Errors
    /// 404 for a pod that is not there, 429 when too many ask, 503 when the controller is stopping.
    pub async fn placement(&self, namespace: &str, pod: &str, detail: Detail) -> Result<Value, ApiError> {
        let (answer, answered) = oneshot::channel();
        let question = Question { namespace: namespace.to_owned(), pod: pod.to_owned(), detail, answer };
        self.questions.try_send(question).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                ApiError::too_many_requests("too many questions wait to be answered, please try again later", 1)
            }
            mpsc::error::TrySendError::Closed(_) => ApiError::unavailable("the controller is stopping"),
        })?;
        answered.await.map_err(|_| ApiError::unavailable("the controller is stopping"))?
    }

    /// Passes on what an agent said.
    ///
    /// # Errors
    /// [`Busy`] when too much is waiting.
    pub fn hear(&self, node: String, up: Up) -> Result<(), Busy> {
        self.words.try_send((node, Box::new(up))).map_err(|_| Busy)
    }

    /// Follows the committed changes of one kind after a revision.
    ///
    /// # Errors
    /// 410 `Expired` when they are no longer kept.
    pub fn watch(&self, kind: Kind, after: u64) -> Result<Watch, ApiError> {
        self.shared.history.read().since(kind, after, 0)?;
        let revision = self.shared.revision.subscribe();
        Ok(Watch { kind, after, shared: Arc::clone(&self.shared), revision })
    }

    /// When each node was last heard, in milliseconds since 1970.
    #[must_use]
    pub fn leases(&self) -> Vec<(String, u64)> {
        self.shared.leases.read().iter().map(|(node, at)| (node.clone(), *at)).collect()
    }

    /// The revision of the committed view.
    #[must_use]
    pub fn revision(&self) -> u64 {
        *self.shared.revision.borrow()
    }

    /// How much room the store has.
    #[must_use]
    pub fn room(&self) -> Room {
        self.shared.room.read().clone()
    }
}

/// A reader of committed changes.
pub struct Watch {
    kind: Kind,
    after: u64,
    shared: Arc<Shared>,
    revision: watch::Receiver<u64>,
}

impl Watch {
    /// Waits for the next changes of the kind, in the order of their revisions. Cancel-safe.
    ///
    /// # Errors
    /// 410 when the reader fell too far behind, 503 when the controller stops.
    pub async fn next(&mut self) -> Result<Vec<Arc<Change>>, ApiError> {
        loop {
            let committed = *self.revision.borrow_and_update();
            if committed > self.after {
                let changes = self.shared.history.read().since(self.kind, self.after, WATCH_CHUNK)?;
                if changes.len() == WATCH_CHUNK
                    && let Some(last) = changes.last()
                {
                    self.after = last.revision;
                } else {
                    self.after = committed.max(changes.last().map_or(0, |last| last.revision));
                }
                if !changes.is_empty() {
                    return Ok(changes);
                }
            }
            self.revision.changed().await.map_err(|_| ApiError::unavailable("the controller is stopping"))?;
        }
    }

    /// Everything of the kind up to this revision has been handed out.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.after
    }
}

/// The task that owns the core and the store.
pub struct Committer {
    controller: Controller,
    identity: Identity,
    /// How pods are placed; for a controller that begins anew too.
    scheduler: Configuration,
    store: Box<dyn Store>,
    shared: Arc<Shared>,
    requests: mpsc::Receiver<Wish>,
    words: mpsc::Receiver<Word>,
    questions: mpsc::Receiver<Question>,
    downs: mpsc::Sender<(String, Down)>,
    waiting: BTreeMap<Ticket, oneshot::Sender<Result<Answer, ApiError>>>,
    clock: Clock,
}

/// The two clocks, read in one place.
#[derive(Clone, Copy)]
struct Clock {
    start: Instant,
}

impl Clock {
    fn now(self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now {
            wall_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
            mono: Millis(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)),
        }
    }

    fn at(self, time: Millis) -> Instant {
        self.start + Duration::from_millis(time.0)
    }
}

impl Committer {
    /// Loads the store and looks at everything once. The receiver yields messages for the link.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn load(
        mut store: Box<dyn Store>,
        identity: Identity,
        scheduler: Configuration,
    ) -> Result<(Self, Cluster, Downs), CommitterError> {
        let snapshot = store.load().map_err(CommitterError::Load)?;
        let mut history = History::new(snapshot.log_floor);
        for change in snapshot.log {
            history.push(Arc::new(change));
        }
        let view = View::new(snapshot.revision, snapshot.objects);
        let clock = Clock { start: Instant::now() };
        let controller = Controller::configured(view.clone(), identity, &scheduler, clock.now());
        let (revision, _) = watch::channel(view.revision());
        let shared = Arc::new(Shared {
            view: RwLock::new(view),
            history: RwLock::new(history),
            leases: RwLock::default(),
            revision,
            room: RwLock::default(),
            next_ticket: AtomicU64::new(1),
        });
        let (request_sender, requests) = mpsc::channel(REQUESTS);
        let (word_sender, words) = mpsc::channel(WORDS);
        let (question_sender, questions) = mpsc::channel(QUESTIONS);
        let (downs, receiver) = mpsc::channel(DOWNS);
        let cluster = Cluster {
            shared: Arc::clone(&shared),
            requests: request_sender,
            words: word_sender,
            questions: question_sender,
        };
        let waiting = BTreeMap::new();
        let committer =
            Self { controller, identity, scheduler, store, shared, requests, words, questions, downs, waiting, clock };
        Ok((committer, cluster, receiver))
    }

    /// Runs until told to stop, or until a batch cannot be made durable.
    ///
    /// # Errors
    /// When a commit fails. Nothing of that batch has been released.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) -> Result<(), CommitterError> {
        let mut batch = Batch::default();
        loop {
            self.turn(&mut batch).await?;
            self.answer(batch.question.take());
            let now = self.clock.now();
            let longest = now.mono + if matches!(*self.shared.room.read(), Room::Full(_)) { FULL_MS } else { IDLE_MS };
            let wake_at = self.controller.wake_at().map_or(longest, |at| at.min(longest));
            let idle = self.clock.at(wake_at);
            tokio::select! {
                received = self.requests.recv_many(&mut batch.requests, BATCH) => if received == 0 { return Ok(()) },
                received = self.words.recv_many(&mut batch.words, BATCH) => if received == 0 { return Ok(()) },
                asked = self.questions.recv() => batch.question = asked,
                () = tokio::time::sleep_until(idle) => {}
                _ = stop.wait_for(|stopping| *stopping) => return Ok(()),
            }
        }
    }

    /// Answers a question on what has just been committed.
    fn answer(&mut self, question: Option<Question>) {
        let question = question.or_else(|| self.questions.try_recv().ok());
        let Some(Question { namespace, pod, detail, answer }) = question.filter(|asked| !asked.answer.is_closed())
        else {
            return;
        };
        let _: Result<(), _> = answer.send(self.controller.placement(&namespace, &pod, &detail));
    }

    /// One batch: inputs, settle, commit, release.
    async fn turn(&mut self, batch: &mut Batch) -> Result<(), CommitterError> {
        let now = self.clock.now();
        self.look_for_room(now);
        let heard = self.hand_over(batch, now);
        let stage = self.controller.settle(now);
        if !stage.changes.is_empty() {
            // The fsync blocks this thread for a moment; other tasks go on on the runtime's other threads.
            match tokio::task::block_in_place(|| self.store.commit(&stage.changes)) {
                Ok(()) => self.publish(stage.changes),
                Err(StoreError::Full { what }) => {
                    self.start_over(now, what, stage.effects);
                    return Ok(());
                }
                Err(error) => return Err(CommitterError::Commit(error)),
            }
        }
        self.show_leases(heard, now);
        self.release(stage.effects);
        Ok(())
    }

    /// Gives the core what has come, and what came since, up to a full batch; tells which nodes were heard.
    fn hand_over(&mut self, batch: &mut Batch, now: Now) -> Vec<String> {
        while batch.requests.len() < BATCH
            && let Ok(wish) = self.requests.try_recv()
        {
            batch.requests.push(wish);
        }
        while batch.words.len() < BATCH
            && let Ok(word) = self.words.try_recv()
        {
            batch.words.push(word);
        }
        for (request, answer) in batch.requests.drain(..) {
            let ticket = self.shared.next_ticket.fetch_add(1, Ordering::Relaxed);
            self.waiting.insert(ticket, answer);
            self.controller.handle(now, Input::Request(ticket, request));
        }
        let mut heard = Vec::with_capacity(batch.words.len());
        for (node, up) in batch.words.drain(..) {
            heard.push(node.clone());
            self.controller.handle(now, Input::Hear { node, up });
        }
        heard
    }

    /// Asks the store for room, and tells the core and the log when that has changed.
    fn look_for_room(&mut self, now: Now) {
        let room = self.store.room();
        let before = self.shared.room.read().clone();
        // The number of free bytes in the sentence is that of the moment in which the room ran out.
        if std::mem::discriminant(&room) != std::mem::discriminant(&before) {
            self.set_room(now, room);
        }
    }

    fn set_room(&mut self, now: Now, room: Room) {
        match &room {
            Room::Plenty => tracing::info!("the store has room again"),
            Room::Scarce => tracing::warn!("the disk of the store is nearly full: events are not kept"),
            Room::Full(what) => tracing::error!("the API is read-only: {what}"),
        }
        self.controller.handle(now, Input::Room(room.clone()));
        *self.shared.room.write() = room;
    }

    /// Nothing of the batch is durable, so nothing of it was: the core begins anew on the committed view, as after a
    /// start, and whoever asked for something in it is told that it was not done.
    fn start_over(&mut self, now: Now, what: String, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Answer(ticket, answer) = effect {
                let answer = answer.and_then(|_| Err(ApiError::insufficient_storage(what.as_str())));
                self.release(vec![Effect::Answer(ticket, Box::new(answer))]);
            }
        }
        // Names that were thrown away with the batch are not drawn again.
        self.identity.entropy = self.identity.entropy.wrapping_add(1);
        let view = self.shared.view.read().clone();
        self.controller = Controller::configured(view, self.identity, &self.scheduler, now);
        self.set_room(now, Room::Full(what));
    }

    fn publish(&self, changes: Vec<Change>) {
        let mut view = self.shared.view.write();
        let mut history = self.shared.history.write();
        for change in changes {
            view.apply(&change);
            history.push(Arc::new(change));
        }
        let revision = view.revision();
        drop(history);
        drop(view);
        self.shared.revision.send_replace(revision);
    }

    fn show_leases(&self, heard: Vec<String>, now: Now) {
        let known = self.controller.leases();
        let renewed = heard.into_iter().filter(|node| known.has_heard(node));
        let renewed = renewed.map(|node| {
            let age_ms = now.mono.since(known.renewed_at(&node));
            (node, now.wall_ms.saturating_sub(age_ms))
        });
        self.shared.leases.write().extend(renewed);
    }

    fn release(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Answer(ticket, answer) => {
                    if let Some(waiting) = self.waiting.remove(&ticket) {
                        // Whoever asked may have hung up; what was asked is done all the same.
                        let _: Result<(), _> = waiting.send(*answer);
                    }
                }
                Effect::Send { node, down } => {
                    if self.downs.try_send((node, *down)).is_err() {
                        tracing::debug!("a message for a node was dropped; the next sync mends it");
                    }
                }
            }
        }
    }
}
