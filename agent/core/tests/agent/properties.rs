//! What holds whatever comes, in whatever order.

use coracle_agent_core::{Agent, Input, Remembered};
use coracle_model::{Limits, Millis};
use proptest::prelude::*;
use proptest::sample::select;

use crate::stage::{Stage, identity};

/// One line of a session, senseless or not. Sessions are few, so that late words of old ones are common.
fn line() -> impl Strategy<Value = String> {
    let pods = vec![
        "a=x:1",
        "a=x:2,Always",
        "a=x:1,stop=3s",
        "b=x:1",
        "b=y:1,job",
        "b=?",
        "c=z:1,Never",
        "d=x:1,twins",
        "e=y:1",
        "f=x:1",
    ];
    let session = 1_u8..4;
    let set = proptest::collection::vec(select(pods), 0..5).prop_map(|pods| pods.join(" "));
    prop_oneof![
        2 => session.clone().prop_map(|number| format!("connected {number}")),
        1 => Just("disconnected".to_owned()),
        4 => session.clone().prop_map(|number| format!("welcome {number}")),
        4 => (session.clone(), 0_u8..6, 0_u8..3, 0_u8..3, set.clone())
            .prop_map(|(number, seq, part, parts, set)| format!("sync {number} seq={seq} part={part}/{parts} {set}")),
        3 => (session.clone(), 0_u8..6, set).prop_map(|(number, seq, set)| format!("sync {number} seq={seq} {set}")),
        4 => (session.clone(), 0_u8..8, select(vec!["a=x:2", "b=x:1", "c=y:1", "-a", "-b", "e=?"]))
            .prop_map(|(number, seq, change)| format!("delta {number} seq={seq} {change}")),
        2 => (session.clone(), 0_u8..9).prop_map(|(number, seq)| format!("ack {number} {seq}")),
        1 => session.clone().prop_map(|number| format!("reintroduce {number}")),
        3 => (select(vec!["x:1", "x:2", "y:1", "z:1"]), select(vec!["ok 2", "busy no", "notfound no", "same x:1 2"]))
            .prop_map(|(image, how)| format!("artifact {image} {how}")),
        4 => (select(vec!["x:1", "x:2", "y:1"]), select(vec!["0", "1 last", "1", "7", "0 damaged", "0 gone"]))
            .prop_map(|(image, block)| format!("block {image} {block}")),
        3 => (select(vec!["a", "b", "c", "e"]), 1_u8..4, 0_u8..2)
            .prop_map(|(pod, attempt, code)| format!("exited {pod}#{attempt} {code}")),
        1 => (session, 1_u8..5).prop_map(|(number, id)| format!("open {number} {id}")),
        1 => (select(vec!["below-data", "below-end", "above-end", "above-data"]), 1_u8..5)
            .prop_map(|(verb, id)| format!("{verb} {id}")),
        1 => Just("junk".to_owned()),
        1 => Just("restart".to_owned()),
    ]
}

fn play(lines: &[(u16, String)]) -> (Stage, u64) {
    let mut stage = Stage::default();
    for line in ["runtime", "disk", "has x:1", "0s start"] {
        stage.line(line);
    }
    let mut now = 0;
    for (wait, line) in lines {
        now += u64::from(*wait);
        stage.line(&format!("{now}ms {line}"));
    }
    (stage, now)
}

proptest! {
    // Every case plays a whole life, digests and all.
    #![proptest_config(ProptestConfig::with_cases(64))]

    // EDGE-05, SAF-04: whatever has happened, one good session makes the node run what is desired and nothing else.
    #[test]
    fn one_good_session_heals_everything(lines in proptest::collection::vec((0_u16..9_000, line()), 0..60)) {
        let (mut stage, now) = play(&lines);
        stage.line(&format!("{now}ms connected 9"));
        stage.line(&format!("{now}ms welcome 9"));
        stage.line(&format!("{now}ms sync 9 seq=9 g=x:1 h=x:1"));
        // Whoever has to go gets a short grace.
        stage.line(&format!("{}ms tick", now + 2_000));
        prop_assert_eq!(stage.phases(), vec![("g".to_owned(), "Running"), ("h".to_owned(), "Running")]);
    }

    #[test]
    fn no_payload_makes_an_agent_panic(payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 1..30)) {
        let mut agent = Agent::new(identity(), Limits::LINUX, Remembered::default(), Millis::ZERO);
        agent.handle(Millis::ZERO, Input::Connected(coracle_model::SessionNumber(1)));
        for (index, mut payload) in payloads.into_iter().enumerate() {
            // A right frame, so that the message behind it is read.
            if let Some(Ok(length)) = payload.len().checked_sub(6).map(u32::try_from).filter(|_| index % 2 == 0) {
                payload[0] = 1;
                payload[1] %= 14;
                payload[2..6].copy_from_slice(&length.to_le_bytes());
            }
            agent.handle(Millis(5), Input::Down(payload));
            while agent.poll_effect().is_some() {}
        }
    }
}
