//! Kubernetes events: what happened to an object, in words, counted.
//!
//! *In:* [`Note`]s from plans and from agents. *Out:* writes of v1 Event objects.
//! *Must never know:* who reads them.
//! *Tested:* tables here.
//!
//! Two notes of the same words about the same object are one event with a higher count. Its name is made of those
//! words, so that it is found by its key. Events live for an hour after they last happened, and are bounded in number,
//! for one object and for all: they are the first to go. An object that has said many different things is heard less
//! often, as in Kubernetes, and when very much happens everywhere, what is normal is not recorded ([`Budget`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_model::Millis;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::clock::{self, Now};
use crate::kind::Kind;
use crate::object::{Key, Object};
use crate::plan::{Note, Plan, Write};
use crate::view::View;

/// How long an event lives after it last happened, in milliseconds.
const LIFE_MS: u64 = 3_600_000;
/// Events kept about the objects of one name in one namespace.
const MAX_FOR_ONE: usize = 64;
/// New events about one object that are recorded at once; further ones as often as [`REFILL_MS`] says. (Kubernetes:
/// `defaultSpamBurst`, `defaultSpamQPS`.)
const BURST_FOR_ONE: usize = 25;
/// How long it takes until one more event about an object is recorded, in milliseconds.
const REFILL_MS: u64 = 300_000;
/// Normal events that are recorded at once, about all objects.
const BURST_IN_ALL: u64 = 5_000;
/// Normal events that are recorded a second in the long run.
const RATE_IN_ALL: u64 = 1_000;
/// Events kept in all.
const MAX_IN_ALL: usize = 20_000;
/// Bytes of a message that are kept (Kubernetes: 1 KiB).
const MAX_MESSAGE_BYTES: usize = 1_024;
/// Bytes of the object's name that are kept in the event's: with a point and 16 digits it fits a DNS subdomain.
const MAX_NAME_BYTES: usize = 236;

/// What may still be recorded. A thousand pods a second start without a thousand durable words about each step.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// In thousandths of an event.
    left: u64,
    since: Millis,
}

impl Budget {
    /// Everything may be recorded.
    #[must_use]
    pub const fn new(now: Millis) -> Self {
        Self { left: BURST_IN_ALL * 1000, since: now }
    }

    /// Whether this note may be recorded; warnings always may.
    pub fn allows(&mut self, note: &Note, now: Millis) -> bool {
        let earned = now.since(self.since).saturating_mul(RATE_IN_ALL);
        self.left = self.left.saturating_add(earned).min(BURST_IN_ALL * 1000);
        self.since = now;
        note.warning || self.left >= 1000
    }

    /// One was recorded.
    pub const fn spend(&mut self) {
        self.left = self.left.saturating_sub(1000);
    }
}

/// The write that records a note: a new event, or a higher count of the one with the same words. Nothing if its object
/// has said much already.
#[must_use]
pub fn record(view: &View, note: &Note, now: Now) -> Option<Write> {
    let about = &note.about;
    let namespace = if about.namespace.is_empty() { "default" } else { &about.namespace };
    let message = cut(&note.message, MAX_MESSAGE_BYTES);
    let name = format!("{}.{:016x}", cut(&about.name, MAX_NAME_BYTES), digest(note, message));
    let key = Key::new(Kind::EVENT, namespace, &name);
    if let Some(event) = view.get(&key) {
        let mut value = event.value();
        value["count"] = json!(value["count"].as_u64().unwrap_or(1).saturating_add(1));
        value["lastTimestamp"] = json!(now.stamp());
        return Some(Write::Update { expected: event.revision, key, value });
    }
    if is_talkative(view, namespace, &name, now) {
        return None;
    }
    let mut involved = json!({
        "kind": about.kind.info().kind, "apiVersion": about.kind.api_version(), "name": &*about.name,
        "uid": note.uid.to_string(),
    });
    if !about.namespace.is_empty() {
        involved["namespace"] = json!(&*about.namespace);
    }
    if !note.field_path.is_empty() {
        involved["fieldPath"] = json!(note.field_path);
    }
    if let Some(object) = view.get_same(about, note.uid) {
        involved["resourceVersion"] = json!(object.revision.to_string());
    }
    let mut source = json!({"component": note.component});
    if !note.host.is_empty() {
        source["host"] = json!(note.host);
    }
    let value = json!({
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": involved, "reason": note.reason, "message": message, "source": source,
        "type": kind_of(note), "count": 1, "firstTimestamp": now.stamp(), "lastTimestamp": now.stamp(),
        "eventTime": null, "reportingComponent": note.component, "reportingInstance": note.host,
    });
    Some(Write::Create { kind: Kind::EVENT, namespace: namespace.to_owned(), value })
}

/// Whether there are so many events about the object of the event `name` that another one has to wait.
fn is_talkative(view: &View, namespace: &str, name: &str, now: Now) -> bool {
    let prefix = name.rfind('.').map_or(name, |point| &name[..=point]);
    let of_object = |event: &&Arc<Object>| event.name().starts_with(prefix);
    let first = Key::new(Kind::EVENT, namespace, prefix);
    let events = view.list_from(&first).take_while(of_object);
    let (count, oldest) = events
        .take(MAX_FOR_ONE)
        .fold((0, now.wall_ms), |(count, oldest), event| (count + 1, event.created_ms.min(oldest)));
    let earned = now.wall_ms.saturating_sub(oldest) / REFILL_MS;
    count >= BURST_FOR_ONE + usize::try_from(earned).unwrap_or(MAX_FOR_ONE)
}

/// Deletes events that are an hour old, and the oldest of too many.
#[must_use]
pub fn expire(view: &View, now: Now) -> Plan {
    let mut plan = Plan::default();
    let mut by_object: BTreeMap<(&str, &str), Vec<&Arc<Object>>> = BTreeMap::new();
    let mut total = 0_usize;
    for event in view.list(Kind::EVENT, None) {
        // Only one that was made an hour ago can have last happened then; the others need not be read.
        if event.created_ms.saturating_add(LIFE_MS) <= now.wall_ms
            && last_ms(event).saturating_add(LIFE_MS) <= now.wall_ms
        {
            plan.writes.push(delete(event));
            continue;
        }
        total += 1;
        let object = event.name().rsplit_once('.').map_or(event.name(), |(object, _)| object);
        by_object.entry((event.namespace(), object)).or_default().push(event);
    }
    let mut kept = Vec::with_capacity(total);
    for (_, mut events) in by_object {
        if events.len() > MAX_FOR_ONE {
            events = drop_oldest(events, MAX_FOR_ONE, &mut plan);
        }
        kept.append(&mut events);
    }
    if kept.len() > MAX_IN_ALL {
        drop_oldest(kept, MAX_IN_ALL, &mut plan);
    }
    plan
}

/// Deletes the oldest, so that `most` are left; gives back those.
fn drop_oldest<'a>(events: Vec<&'a Arc<Object>>, most: usize, plan: &mut Plan) -> Vec<&'a Arc<Object>> {
    let mut dated: Vec<(u64, &Arc<Object>)> = events.into_iter().map(|event| (last_ms(event), event)).collect();
    dated.sort_by_key(|(at_ms, event)| (*at_ms, event.revision));
    let surplus = dated.len().saturating_sub(most);
    plan.writes.extend(dated.drain(..surplus).map(|(_, event)| delete(event)));
    dated.into_iter().map(|(_, event)| event).collect()
}

fn delete(event: &Object) -> Write {
    Write::Delete { key: event.key.clone(), uid: event.uid, grace_seconds: None, propagation: None }
}

/// When an event last happened, in milliseconds since 1970; for one made by a user with a newer API, its series or its
/// creation.
fn last_ms(event: &Object) -> u64 {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Event {
        last_timestamp: Option<String>,
        event_time: Option<String>,
        series: Option<Value>,
    }
    let Some(read) = event.decode::<Event>() else { return event.created_ms };
    let observed = read.series.and_then(|series| series["lastObservedTime"].as_str().map(str::to_owned));
    let stamps = [read.last_timestamp, observed, read.event_time].into_iter().flatten();
    stamps.filter_map(|stamp| clock::parse_stamp(&stamp)).max().unwrap_or(event.created_ms)
}

const fn kind_of(note: &Note) -> &'static str {
    if note.warning { "Warning" } else { "Normal" }
}

/// FNV-1a of 64 bits over what makes two notes one event.
fn digest(note: &Note, message: &str) -> u64 {
    let uid = note.uid.to_string();
    let parts = [&uid, &*note.reason, message, &*note.component, &note.host, kind_of(note), &note.field_path];
    let bytes = parts.into_iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The beginning of a text, cut between characters.
fn cut(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Names;
    use crate::object::Uid;
    use crate::store::{Action, Change};

    fn note(name: &str, message: &str) -> Note {
        Note {
            about: Key::new(Kind::POD, "default", name),
            uid: coracle_model::PodUid(7),
            field_path: String::new(),
            warning: true,
            reason: "BackOff".to_owned(),
            message: message.to_owned(),
            component: "kubelet".into(),
            host: "n1".to_owned(),
        }
    }

    /// Carries out what recording and expiring want.
    fn carry_out(view: &mut View, write: Write, now: Now, names: &mut Names) {
        let revision = view.revision() + 1;
        let (action, kind, value) = match write {
            Write::Create { kind, mut value, .. } => {
                value["metadata"]["uid"] = json!(Uid::to_string(&coracle_model::PodUid(names.uid())));
                value["metadata"]["creationTimestamp"] = json!(now.stamp());
                (Action::Added, kind, value)
            }
            Write::Update { key, value, .. } => (Action::Modified, key.kind, value),
            Write::Delete { key, .. } => {
                let object = view.get(&key).expect("the event");
                (Action::Deleted, key.kind, object.value())
            }
            other => panic!("unexpected {other:?}"),
        };
        let object = Arc::new(Object::from_value(kind, revision, value).expect("an event"));
        view.apply(&Change { revision, action, object, previous: None });
    }

    fn events(view: &View) -> Vec<Value> {
        view.list(Kind::EVENT, None).map(|event| event.value()).collect()
    }

    fn at(seconds: u64) -> Now {
        Now { wall_ms: 1_795_232_430_000 + seconds * 1000, mono: coracle_model::Millis::from_secs(seconds) }
    }

    // RS-06, DEP-12
    #[test]
    fn the_same_words_are_counted() {
        let (mut view, mut names) = (View::default(), Names::new(1));
        for (seconds, message) in [(0, "again"), (10, "again"), (20, "other"), (30, "again")] {
            let write = record(&view, &note("p", message), at(seconds)).expect("a write");
            carry_out(&mut view, write, at(seconds), &mut names);
        }
        let mut found = events(&view);
        found.sort_by_key(|event| event["count"].as_u64());
        assert_eq!(found.len(), 2);
        assert_eq!((&found[0]["message"], &found[0]["count"]), (&json!("other"), &json!(1)));
        let again = &found[1];
        assert_eq!((&again["message"], &again["count"]), (&json!("again"), &json!(3)));
        assert_eq!(again["firstTimestamp"], "2026-11-21T03:40:30Z");
        assert_eq!(again["lastTimestamp"], "2026-11-21T03:41:00Z");
        assert_eq!((&again["type"], &again["source"]["host"]), (&json!("Warning"), &json!("n1")));
        assert_eq!(again["involvedObject"]["kind"], "Pod");
    }

    #[test]
    fn an_hour_after_it_last_happened_an_event_goes() {
        let (mut view, mut names) = (View::default(), Names::new(1));
        for (seconds, message) in [(0, "once"), (0, "often"), (3000, "often")] {
            let write = record(&view, &note("p", message), at(seconds)).expect("a write");
            carry_out(&mut view, write, at(seconds), &mut names);
        }
        assert!(expire(&view, at(3599)).writes.is_empty());
        for write in expire(&view, at(3600)).writes {
            carry_out(&mut view, write, at(3600), &mut names);
        }
        assert_eq!(events(&view).iter().map(|event| event["message"].clone()).collect::<Vec<_>>(), ["often"]);
        assert_eq!(expire(&view, at(6600)).writes.len(), 1);
    }

    #[test]
    fn the_oldest_events_of_one_object_go_when_there_are_too_many() {
        let (mut view, mut names) = (View::default(), Names::new(1));
        for index in 0..MAX_FOR_ONE as u64 + 3 {
            for name in ["talker", "quiet"].into_iter().take(if index == 0 { 2 } else { 1 }) {
                // As if it had not said anything before.
                let write = record(&View::default(), &note(name, &format!("word {index}")), at(index));
                carry_out(&mut view, write.expect("a write"), at(index), &mut names);
            }
        }
        let plan = expire(&view, at(100));
        assert_eq!(plan.writes.len(), 3);
        for write in plan.writes {
            carry_out(&mut view, write, at(100), &mut names);
        }
        let left = events(&view);
        assert!(!left.iter().any(|event| event["message"] == "word 2"));
        assert!(left.iter().any(|event| event["involvedObject"]["name"] == "quiet"));
    }

    // RS-06
    #[test]
    fn an_object_that_says_ever_new_things_is_heard_less_often() {
        let (mut view, mut names) = (View::default(), Names::new(1));
        let mut say = |name: &str, word: u64, seconds: u64| {
            let write = record(&view, &note(name, &format!("word {word}")), at(seconds));
            let is_heard = write.is_some();
            if let Some(write) = write {
                carry_out(&mut view, write, at(seconds), &mut names);
            }
            is_heard
        };
        assert!((0..BURST_FOR_ONE as u64).all(|word| say("talker", word, word)));
        assert!(!say("talker", 100, 30));
        assert!(say("talker", 3, 31), "what it has said before is counted");
        assert!(say("talker-2", 100, 31), "another object");
        assert!(say("talker", 101, 300));
        assert!(!say("talker", 102, 301));
    }

    #[test]
    fn when_very_much_happens_what_is_normal_is_not_recorded() {
        let warning = note("p", "w");
        let normal = Note { warning: false, ..warning.clone() };
        let mut budget = Budget::new(Millis(0));
        for _ in 0..BURST_IN_ALL {
            assert!(budget.allows(&normal, Millis(0)));
            budget.spend();
        }
        assert!(!budget.allows(&normal, Millis(0)));
        assert!(budget.allows(&warning, Millis(0)));
        assert!(budget.allows(&normal, Millis(1)));
        budget.spend();
        assert!(!budget.allows(&normal, Millis(1)));
        assert!(budget.allows(&normal, Millis(60_000)));
    }

    #[test]
    fn long_words_are_cut_between_letters() {
        let view = View::default();
        let long = Note { message: "ä".repeat(2000), ..note(&"x".repeat(253), "") };
        let Some(Write::Create { value, .. }) = record(&view, &long, at(0)) else { panic!("no create") };
        assert_eq!(value["message"].as_str().map(str::len), Some(1024));
        assert_eq!(value["metadata"]["name"].as_str().map(str::len), Some(253));
    }
}
