//! Every input a fuzzer kept, and neighbours of each, through the fuzz entry points.

#[path = "fuzz/imap.rs"]
mod fuzz;

use fuzz::{fuzz_command, fuzz_response};
use sealpost_base::{Random, SeededRandom};
use sealpost_testkit::corpus;

/// Neighbours tried of each input.
const NEIGHBOURS: u64 = 150;

fn replay(kind: &str, run: fn(&[u8])) {
    let inputs = corpus::inputs(env!("CARGO_MANIFEST_DIR"), kind);
    for (i, input) in inputs.iter().enumerate() {
        run(input);
        let random = SeededRandom::new(i as u64);
        for _ in 0..NEIGHBOURS {
            run(&neighbour(input, &inputs, &random));
        }
    }
}

/// The input with a few bytes changed, left out or repeated, or spliced with another.
fn neighbour(input: &[u8], inputs: &[Vec<u8>], random: &SeededRandom) -> Vec<u8> {
    const BYTES: &[u8] = b"\0\r\n \"\\(){}[]<>+*%~&-:,.019aAxX\x7f\x80\xff";
    let mut out = input.to_vec();
    for _ in 0..=random.below(4) {
        if out.is_empty() {
            break;
        }
        let at = random.below(out.len() as u64) as usize;
        let byte = BYTES[random.below(BYTES.len() as u64) as usize];
        match random.below(6) {
            0 => out[at] = byte,
            1 => out.insert(at, byte),
            2 => drop(out.remove(at)),
            3 => drop(out.drain(at..out.len().min(at + 1 + random.below(12) as usize))),
            4 => {
                let piece = out[at..out.len().min(at + 20)].to_vec();
                out.splice(at..at, piece);
            }
            _ => {
                let other = &inputs[random.below(inputs.len() as u64) as usize];
                let from = random.next_u64() as usize % other.len();
                out.truncate(at);
                out.extend_from_slice(&other[from..]);
            }
        }
    }
    out
}

#[test]
fn commands() {
    replay("imap_command", fuzz_command);
}

#[test]
fn responses() {
    replay("imap_response", fuzz_response);
}
