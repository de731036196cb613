//! Every input a fuzzer kept, and neighbours of each, through the fuzz entry points.

#[path = "fuzz/jmap.rs"]
mod fuzz;

use fuzz::{fuzz_card, fuzz_patch, fuzz_request, fuzz_words};
use sealpost_base::SeededRandom;
use sealpost_testkit::corpus;

/// Neighbours tried of each input.
const NEIGHBOURS: u64 = 100;

fn replay(kind: &str, run: fn(&[u8])) {
    let inputs = corpus::inputs(env!("CARGO_MANIFEST_DIR"), kind);
    for (i, input) in inputs.iter().enumerate() {
        run(input);
        let random = SeededRandom::new(i as u64);
        for _ in 0..NEIGHBOURS {
            run(&neighbour(input, &random));
        }
    }
}

/// The input with a few pieces left out, repeated, or replaced by a value of another type.
fn neighbour(input: &[u8], random: &SeededRandom) -> Vec<u8> {
    const PIECES: &[&[u8]] = &[
        b"null", b"true", b"-1", b"1.5", b"\"\"", b"\"#a\"", b"[]", b"{}", b"/", b"~", b"#", b"\\u0000",
        b"\xff", b",",
    ];
    let mut out = input.to_vec();
    for _ in 0..=random.below(3) {
        if out.is_empty() {
            break;
        }
        let at = random.below(out.len() as u64) as usize;
        let end = out.len().min(at + random.below(8) as usize);
        let piece = match random.below(3) {
            0 => PIECES[random.below(PIECES.len() as u64) as usize].to_vec(),
            1 => [&out[at..end], &out[at..end]].concat(),
            _ => Vec::new(),
        };
        out.splice(at..end, piece);
    }
    out
}

#[test]
fn requests() {
    replay("jmap_request", fuzz_request);
}

#[test]
fn patches() {
    replay("jmap_patch", fuzz_patch);
}

#[test]
fn cards() {
    replay("jmap_card", fuzz_card);
}

#[test]
fn words() {
    replay("jmap_words", fuzz_words);
}
