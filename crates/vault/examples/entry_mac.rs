//! What the MAC of a log entry costs a delivery and a reader: `make entry-mac`, in a release build.
//!
//! For entries of several sizes: sealing a delivery (HPKE, cipher and MAC), judging it, which is
//! parsing and the MAC, and opening it. A table goes to standard output, in microseconds for each
//! entry; the last column is the MAC's part of sealing.

#![allow(clippy::print_stdout, reason = "it reports on its terminal")]

use std::hint::black_box;
use std::time::Duration;

use sealpost_base::{AccountId, Clock, Position, Random, Result, SystemClock, SystemRandom};
use sealpost_vault::entry::{self, Generation, Header, LogKey, Verdict};
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::{AccountKeys, Hash, RootKey};

/// Bytes of plaintext: one delivery, some, and what an entry of many deliveries takes.
const SIZES: [usize; 4] = [300, 4 * 1024, 64 * 1024, 512 * 1024];
/// How long each operation is repeated.
const REPEATED: Duration = Duration::from_millis(500);

fn main() -> Result<()> {
    let random = SystemRandom;
    let account = AccountId::random(&random);
    let key = LogKey::of(&ServerKeys::generate(&random));
    let keys = AccountKeys::derive(&RootKey::generate(&random), account);
    let public = keys.public();
    let header =
        Header { account, position: Position(1), prev: Hash::ZERO, generation: Generation::default() };
    println!(
        "| bytes | seal a delivery, µs | judge (the MAC), µs | open, µs | MAC / seal |\n|---|---|---|---|---|"
    );
    for size in SIZES {
        let mut plaintext = vec![0; size];
        random.fill(&mut plaintext);
        let seal = || entry::seal_delivery(&public, &key, &header, &plaintext, &random);
        let object = seal()?;
        let object = object.as_ref();
        let sealing = timed(|| drop(black_box(seal())));
        let judging = timed(|| {
            let verdict = entry::judge(&key, account, Position(1), black_box(object));
            assert!(matches!(verdict, Verdict::Authentic(..)), "{verdict:?}");
        });
        let opening = timed(|| drop(black_box(entry::open(&keys, account, Position(1), object))));
        let part = 100.0 * judging / sealing;
        println!("| {size} | {sealing:.2} | {judging:.2} | {opening:.2} | {part:.1} % |");
    }
    Ok(())
}

/// Microseconds that `operation` takes.
fn timed(operation: impl Fn()) -> f64 {
    let clock = SystemClock::new();
    let (begun, mut count) = (clock.monotonic(), 0u32);
    loop {
        operation();
        count += 1;
        let took = clock.monotonic().saturating_sub(begun);
        if took >= REPEATED {
            return took.as_secs_f64() * 1e6 / f64::from(count);
        }
    }
}
