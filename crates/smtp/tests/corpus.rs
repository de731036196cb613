//! Replays the fuzzing corpus: every input that once was interesting stays harmless.

use sealpost_smtp::fuzz::{fuzz_replies, fuzz_server};

#[test]
fn replay() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");
    let mut inputs = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let data = std::fs::read(entry.unwrap().path()).unwrap();
        // The first byte of an input says how it is cut; a few other cuts cost nothing.
        for cut in [0, 1, 2, 6, 30] {
            fuzz_server(&[&[cut], data.get(1..).unwrap_or_default()].concat());
        }
        fuzz_server(&data);
        fuzz_replies(&data);
        inputs += 1;
    }
    assert!(inputs >= 10, "the corpus is there");
}
