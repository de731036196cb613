//! The signature of a text that is too long for a segment: a set of its runs of four bytes, with
//! false positives and no false negatives. A search reads only the texts whose signatures match.
//!
//! A Bloom filter with one hash, of a size in proportion to the text. It has seven bits in a byte,
//! so that it is UTF-8 as everything else in a segment is. A sender can fill the signature of a
//! mail; then the mail is read, as without one.

use sealpost_base::limits;

/// Bytes of a run. Shorter strings match every signature.
const GRAM: usize = 4;
/// The smallest signature.
const LEAST_BYTES: usize = 256;
const BITS: usize = 7;
/// A signature is halved while at most this many of eight bits are set afterwards.
const FULL_EIGHTHS: usize = 3;

/// The signature of texts that are searched together.
pub(super) fn of(texts: [&str; 2]) -> String {
    let mut bits = vec![0; limits::TEXT_SIGNATURE_BYTES];
    for (at, bit) in texts.iter().flat_map(|text| grams(text.as_bytes())).map(place) {
        let at = at & (bits.len() - 1);
        bits[at] |= bit;
    }
    while bits.len() > LEAST_BYTES {
        // A place in the half is the place in the whole without its first digit.
        let (one, other) = bits.split_at(bits.len() / 2);
        let half: Vec<u8> = one.iter().zip(other).map(|(one, other)| one | other).collect();
        let set: usize = half.iter().map(|byte| byte.count_ones() as usize).sum();
        if set * 8 > half.len() * BITS * FULL_EIGHTHS {
            break;
        }
        bits = half;
    }
    bits.into_iter().map(char::from).collect()
}

/// Whether a text with that signature may hold `needle`.
pub(super) fn may_hold(signature: &str, needle: &[u8]) -> bool {
    let bits = signature.as_bytes();
    // Not one that was made here.
    if !bits.len().is_power_of_two() {
        return true;
    }
    grams(needle).map(place).all(|(at, bit)| bits[at & (bits.len() - 1)] & bit != 0)
}

/// The runs in which there is no white space, of which fields and bodies have more or less of.
fn grams(text: &[u8]) -> impl Iterator<Item = u32> {
    let runs = text.array_windows::<GRAM>().filter(|gram| !gram.iter().any(u8::is_ascii_whitespace));
    runs.map(|gram| u32::from_le_bytes(*gram))
}

/// The byte, in a signature of any size, and the bit in it.
fn place(gram: u32) -> (usize, u8) {
    // Fibonacci hashing.
    let hash = u64::from(gram).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((hash >> 32) as usize, 1 << ((hash >> 48) % BITS as u64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        /// Every word of a text may be in it.
        #[test]
        fn never_no_too_often(
            header in "[a-z :\n]{0,80}",
            body in "([a-zé日 \r\n\t]{0,30}|[ -~]{0,300}){0,40}",
            from in 0usize..2000,
            length in 0usize..40,
        ) {
            let signature = of([&header, &body]);
            prop_assert!(signature.len() <= limits::TEXT_SIGNATURE_BYTES);
            for text in [&header, &body] {
                let bytes = text.as_bytes();
                let from = from.min(bytes.len());
                let needle = &bytes[from..bytes.len().min(from + length)];
                prop_assert!(may_hold(&signature, needle));
            }
        }
    }

    #[test]
    fn mostly_no_where_it_is_no() {
        let text: String = (0..4000u32).map(|n| format!("{:x} ", n.wrapping_mul(2_654_435_761))).collect();
        let signature = of(["", &text]);
        assert!((LEAST_BYTES..=limits::TEXT_SIGNATURE_BYTES).contains(&signature.len()));
        assert!(!may_hold(&signature, b"zephyrine") && !may_hold(&signature, "日本語の文".as_bytes()));
        assert!(may_hold(&signature, b"abc"), "too short to be looked for");
        assert_eq!(of(["", "short"]).len(), LEAST_BYTES);
        assert!(may_hold("abc", b"zephyrine"), "not one of ours");
    }

    #[test]
    fn a_text_that_has_everything_may_hold_everything() {
        let all: Vec<String> = (0..=u16::MAX).map(|n| format!("{n:04x}")).collect();
        let signature = of([&all.concat(), ""]);
        assert_eq!(signature.len(), limits::TEXT_SIGNATURE_BYTES);
        assert!(may_hold(&signature, b"beef0001"));
    }
}
