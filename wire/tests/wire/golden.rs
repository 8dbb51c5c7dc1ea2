//! Every message is written exactly as it was, and read back. A file in `golden/` is 32 bytes a line in hexadecimal.
//!
//! A new message gets a sample in `samples.rs`; `CORACLE_BLESS=1 cargo test -p coracle-wire` then writes its file. A file
//! that is there changes only together with `envelope::VERSION`, or by bytes added at the end of a message, or of an item's
//! element whose new field may be absent.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use coracle_wire::down::Down;
use coracle_wire::up::Up;

use crate::samples;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

fn hex(payload: &[u8]) -> String {
    let mut text = String::new();
    for line in payload.chunks(32) {
        for byte in line {
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
    }
    text
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).expect("two digits")).collect()
}

fn payloads() -> Vec<(&'static str, Vec<u8>)> {
    let up = samples::up().into_iter().map(|(name, message)| (name, message.encode().expect("it fits")));
    let down = samples::down().into_iter().map(|(name, message)| (name, message.encode().expect("it fits")));
    up.chain(down).collect()
}

#[test]
fn every_message_is_written_as_it_always_was() {
    let bless = std::env::var_os("CORACLE_BLESS").is_some();
    let mut wrong = String::new();
    for (name, payload) in payloads() {
        let path = folder().join(name).with_extension("hex");
        if bless {
            std::fs::write(&path, hex(&payload)).expect("writable");
        } else if std::fs::read_to_string(&path).ok().as_deref() != Some(hex(&payload).as_str()) {
            let _ = writeln!(wrong, "{name}.hex would be\n{}", hex(&payload));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn golden_bytes_are_read_as_the_messages_that_they_are() {
    let golden = |name: &str| bytes(&std::fs::read_to_string(folder().join(name).with_extension("hex")).expect(name));
    for (name, message) in samples::up() {
        assert_eq!(Up::decode(&golden(name)), Ok(message), "{name}");
    }
    for (name, message) in samples::down() {
        assert_eq!(Down::decode(&golden(name)), Ok(message), "{name}");
    }
}

#[test]
fn every_kind_has_a_sample_and_every_file_is_used() {
    let kinds = |direction: &str| -> BTreeSet<u8> {
        payloads().into_iter().filter(|(name, _)| name.starts_with(direction)).map(|(_, payload)| payload[1]).collect()
    };
    let unknown_above = |kinds: BTreeSet<u8>| {
        let last = kinds.last().copied().expect("kinds");
        assert_eq!(kinds, (1..=last).collect());
        last + 1
    };
    let empty = |kind: u8| [1, kind, 0, 0, 0, 0];
    let next_up = unknown_above(kinds("up-"));
    let next_down = unknown_above(kinds("down-"));
    assert!(matches!(Up::decode(&empty(next_up)), Err(coracle_wire::DecodeError::Kind { .. })));
    assert!(matches!(Down::decode(&empty(next_down)), Err(coracle_wire::DecodeError::Kind { .. })));

    let names: BTreeSet<String> = payloads().into_iter().map(|(name, _)| format!("{name}.hex")).collect();
    let files: BTreeSet<String> = std::fs::read_dir(folder())
        .expect("the folder")
        .map(|entry| entry.expect("entry").file_name().into_string().expect("a name"))
        .collect();
    assert_eq!(files, names);
}
