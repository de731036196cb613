//! Randomness as an argument: the system's for keys and ids, a seeded one for tests and simulations.

use std::sync::Mutex;

/// A source of random bytes.
pub trait Random: Send + Sync {
    /// Fills `out` with random bytes.
    fn fill(&self, out: &mut [u8]);

    /// A random 64-bit number.
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// The operating system's generator.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    /// # Panics
    /// If the operating system provides no randomness: no later key could be trusted.
    fn fill(&self, out: &mut [u8]) {
        getrandom::fill(out).expect("the operating system's random generator works");
    }
}

/// A reproducible generator (SplitMix64) for tests and simulations; never for keys that matter.
#[derive(Debug)]
pub struct SeededRandom(Mutex<u64>);

impl SeededRandom {
    /// A generator; the same seed gives the same bytes.
    pub fn new(seed: u64) -> Self {
        SeededRandom(Mutex::new(seed))
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&self, bound: u64) -> u64 {
        self.next_u64() % bound
    }
}

impl Random for SeededRandom {
    fn fill(&self, out: &mut [u8]) {
        let mut state = self.0.lock().unwrap_or_else(|e| e.into_inner());
        for chunk in out.chunks_mut(8) {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = *state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            chunk.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes()[..chunk.len()]);
        }
    }
}
