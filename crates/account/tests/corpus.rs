//! Replays every input that fuzzing kept (`tests/corpus/{target}/`).

use std::fs;
use std::path::Path;

fn replay(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(target);
    let mut inputs = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        run(&fs::read(entry.unwrap().path()).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0, "no inputs in {}", folder.display());
}

#[test]
fn events() {
    replay("account_events", sealpost_account::fuzz::fuzz_events);
}

#[test]
fn checkpoint() {
    replay("account_checkpoint", sealpost_account::fuzz::fuzz_checkpoint);
}
