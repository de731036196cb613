//! Replays the fuzzing corpus: every input that once was interesting stays harmless.

use std::path::Path;

use sealpost_smtp::fuzz::{fuzz_replies, fuzz_server};

fn inputs(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(target);
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn what_clients_send() {
    let inputs = inputs("smtp_server");
    assert!(inputs.len() >= 10, "the corpus is there");
    for data in inputs {
        // The first octet of an input says how it is cut; a few other cuts cost nothing.
        for cut in [0, 1, 2, 6, 30] {
            fuzz_server(&[&[cut], data.get(1..).unwrap_or_default()].concat());
        }
        fuzz_server(&data);
    }
}

#[test]
fn what_servers_send() {
    let inputs = inputs("smtp_replies");
    assert!(inputs.len() >= 3, "the corpus is there");
    inputs.iter().for_each(|data| fuzz_replies(data));
}
