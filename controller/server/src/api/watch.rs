//! Watches: one JSON object a line, as long as somebody reads.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use coracle_controller_core::object::Object;
use coracle_controller_core::store::{Action, Change};
use coracle_controller_core::table::table;
use coracle_controller_core::{ApiError, Kind};
use futures_util::stream;
use http::Response;
use serde_json::json;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep, interval_at, sleep};

use super::App;
use super::query::Query;
use super::read::{stored, too_new};
use super::respond::{self, Shape};
use super::route::Target;
use super::snapshot::{self, Selection};
use crate::committer::Watch;

/// How long a watch lasts that names no `timeoutSeconds`.
const LONGEST: Duration = Duration::from_secs(3600);
/// How often a bookmark tells a quiet reader how far it is.
const BOOKMARKS: Duration = Duration::from_secs(60);
/// Initial objects in one piece of the answer.
const PIECE: usize = 256;

/// The changes of the objects that are meant, as a body that ends when the reader, the time or the program does.
pub(super) fn watch(app: &App, target: &Target, query: &Query, shape: Shape) -> Result<Response<Body>, ApiError> {
    stored(target.kind)?;
    let selection = Selection::of(target, query)?;
    let asked = query.number::<u64>("resourceVersion")?;
    let wants_initial = query.flag("sendInitialEvents")?;
    if wants_initial && query.text("resourceVersionMatch") != Some("NotOlderThan") {
        return Err(ApiError::bad_request(
            "sendInitialEvents is forbidden: it needs resourceVersionMatch=NotOlderThan",
        ));
    }
    let current = app.cluster.revision();
    if let Some(asked) = asked.filter(|asked| *asked > current) {
        return Err(too_new(asked, current));
    }
    let (after, initial) = match asked {
        Some(asked) if asked > 0 && !wants_initial => (asked, VecDeque::new()),
        // With no revision, or 0, a watch starts with what is there.
        _ => {
            let (revision, objects) = snapshot::now(app, &selection);
            (revision, VecDeque::from(objects))
        }
    };
    let seconds = query.number::<u64>("timeoutSeconds")?.filter(|seconds| *seconds > 0);
    let longest = seconds.map_or(LONGEST, |seconds| Duration::from_secs(seconds).min(LONGEST));
    let mut bookmarks = interval_at(Instant::now() + BOOKMARKS, BOOKMARKS);
    bookmarks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let events = Events {
        changes: app.cluster.watch(target.kind, after)?,
        selection,
        shape,
        initial,
        announce_end: wants_initial,
        named_columns: false,
        bookmarks: query.flag("allowWatchBookmarks")?.then_some(bookmarks),
        deadline: Box::pin(sleep(longest)),
        stop: app.stop.clone(),
        ended: false,
    };
    let body = stream::unfold(events, |mut events| async move {
        let piece = events.next().await?;
        Some((Ok::<Bytes, std::convert::Infallible>(piece), events))
    });
    Ok(respond::bytes(200, "application/json", Body::from_stream(body)))
}

struct Events {
    changes: Watch,
    selection: Selection,
    shape: Shape,
    initial: VecDeque<Arc<Object>>,
    /// A bookmark is still to say that the initial objects are complete.
    announce_end: bool,
    /// A Table names its columns in its first event.
    named_columns: bool,
    bookmarks: Option<Interval>,
    deadline: Pin<Box<Sleep>>,
    stop: Receiver<bool>,
    ended: bool,
}

/// What happened first.
enum Woken {
    Changes(Result<Vec<Arc<Change>>, ApiError>),
    Bookmark,
    End,
}

impl Events {
    /// The next lines; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        let mut lines = String::new();
        let piece = self.initial.len().min(PIECE);
        for object in self.initial.drain(..piece).collect::<Vec<_>>() {
            self.event(&mut lines, Action::Added.as_str(), &object);
        }
        if self.initial.is_empty() && self.announce_end {
            self.announce_end = false;
            self.bookmark(&mut lines, true);
        }
        while lines.is_empty() && !self.ended {
            match self.wait().await {
                Woken::Changes(Ok(changes)) => changes.iter().for_each(|change| self.change(&mut lines, change)),
                Woken::Changes(Err(error)) => {
                    self.ended = true;
                    line(&mut lines, "ERROR", &error.to_json().to_string());
                }
                Woken::Bookmark => self.bookmark(&mut lines, false),
                Woken::End => self.ended = true,
            }
        }
        (!lines.is_empty()).then(|| Bytes::from(lines))
    }

    async fn wait(&mut self) -> Woken {
        let bookmark = async {
            match &mut self.bookmarks {
                Some(interval) => {
                    interval.tick().await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changes = self.changes.next() => Woken::Changes(changes),
            () = bookmark => Woken::Bookmark,
            () = &mut self.deadline => Woken::End,
            _ = self.stop.wait_for(|stopping| *stopping) => Woken::End,
        }
    }

    /// A change, as who has selected some objects sees it: one that leaves the selection is gone for them.
    fn change(&mut self, lines: &mut String, change: &Change) {
        let deleted = change.action == Action::Deleted;
        let before = change.previous.as_ref().or(deleted.then_some(&change.object));
        let was = before.is_some_and(|before| self.selection.matches(before))
            || (change.previous.is_none() && change.action == Action::Modified);
        let is = !deleted && self.selection.matches(&change.object);
        let seen = match (was, is) {
            (false, false) => return,
            (false, true) => Action::Added,
            (true, true) => Action::Modified,
            (true, false) => Action::Deleted,
        };
        if seen == Action::Deleted
            && !deleted
            && let Some(last) = left(before.unwrap_or(&change.object), change.revision)
        {
            self.event(lines, seen.as_str(), &last);
            return;
        }
        self.event(lines, seen.as_str(), &change.object);
    }

    fn event(&mut self, lines: &mut String, word: &str, object: &Object) {
        match self.shape {
            Shape::Whole => {
                let _: std::fmt::Result = write!(lines, "{{\"type\":\"{word}\",\"object\":");
                object.write(lines);
                lines.push_str("}\n");
            }
            _ => line(lines, word, &self.shape.one(object, !self.named_columns)),
        }
        self.named_columns = true;
    }

    /// How far the reader is. The first one after the initial objects says so, which clients wait for.
    fn bookmark(&mut self, lines: &mut String, initial: bool) {
        let mut metadata = json!({"resourceVersion": self.changes.revision().to_string(), "creationTimestamp": null});
        if initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let kind = self.selection.kind;
        let object = match self.shape {
            Shape::Whole => json!({"kind": kind.info().kind, "apiVersion": kind.api_version(), "metadata": metadata}),
            Shape::Metadata(api_version) => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": metadata})
            }
            Shape::Table(form) => table(kind, [], metadata, 0, form, !self.named_columns),
        };
        self.named_columns = true;
        line(lines, "BOOKMARK", &object.to_string());
    }
}

/// An object as it was when it left a selection, at the revision at which it did.
fn left(before: &Object, revision: u64) -> Option<Object> {
    Object::from_value(before.key.kind, revision, before.value()).ok()
}

fn line(lines: &mut String, word: &str, object: &str) {
    // Writing to a string does not fail.
    let _: std::fmt::Result = writeln!(lines, "{{\"type\":\"{word}\",\"object\":{object}}}");
}

/// Whether a request for a list is one to watch.
pub(super) fn is_watch(kind: Kind, query: &Query) -> Result<bool, ApiError> {
    let wanted = query.flag("watch")?;
    if wanted {
        stored(kind)?;
    }
    Ok(wanted)
}
