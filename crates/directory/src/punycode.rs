//! Punycode decoding (RFC 3492 §6.2), for domain labels that arrive as `xn--…`.

/// RFC 3492 §5.
const BASE: u32 = 36;
const T_MIN: u32 = 1;
const T_MAX: u32 = 26;
const SKEW: u32 = 38;
const DAMP: u32 = 700;
const INITIAL_BIAS: u32 = 72;
const INITIAL_N: u32 = 128;

/// A label has at most 63 bytes (RFC 1035 §2.3.4).
const LABEL_BYTES: usize = 63;

/// The Unicode text that `encoded` (what follows `xn--`, lower case) stands for; `None` if it
/// stands for nothing.
pub(super) fn decode(encoded: &str) -> Option<String> {
    if encoded.len() > LABEL_BYTES || !encoded.is_ascii() {
        return None;
    }
    let (basic, extended) = encoded.rsplit_once('-').unwrap_or(("", encoded));
    let mut text: Vec<char> = basic.chars().collect();
    let (mut n, mut i, mut bias) = (INITIAL_N, 0u32, INITIAL_BIAS);
    let mut digits = extended.bytes().peekable();
    while digits.peek().is_some() {
        let before = i;
        let (mut weight, mut k) = (1u32, BASE);
        loop {
            let digit = digit(digits.next()?)?;
            i = i.checked_add(digit.checked_mul(weight)?)?;
            let threshold = k.saturating_sub(bias).clamp(T_MIN, T_MAX);
            if digit < threshold {
                break;
            }
            weight = weight.checked_mul(BASE - threshold)?;
            k += BASE;
        }
        let length = text.len() as u32 + 1;
        bias = adapt(i - before, length, before == 0);
        n = n.checked_add(i / length)?;
        i %= length;
        text.insert(i as usize, char::from_u32(n)?);
        i += 1;
    }
    Some(text.into_iter().collect())
}

fn digit(byte: u8) -> Option<u32> {
    match byte {
        b'a'..=b'z' => Some(u32::from(byte - b'a')),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 26),
        _ => None,
    }
}

/// RFC 3492 §6.1.
fn adapt(delta: u32, length: u32, first: bool) -> u32 {
    let mut delta = if first { delta / DAMP } else { delta / 2 };
    delta += delta / length;
    let mut k = 0;
    while delta > ((BASE - T_MIN) * T_MAX) / 2 {
        delta /= BASE - T_MIN;
        k += BASE;
    }
    k + (BASE - T_MIN + 1) * delta / (delta + SKEW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // The first three are from RFC 3492 §7.1: (B) Chinese simplified, (L) 3<nen>B<gumi>…, and
        // (S) is ASCII only.
        for (encoded, text) in [
            ("ihqwcrb4cv8a8dqg056pqjye", "他们为什么不说中文"),
            ("3b-ww4c5e180e575a65lsy2b", "3年b組金八先生"),
            ("bcher-kva", "bücher"),
            ("mnchen-3ya", "münchen"),
            ("", ""),
        ] {
            assert_eq!(decode(encoded).as_deref(), Some(text));
        }
        for bad in ["999999999", "a-\u{e9}", "ab c", "A"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
        assert_eq!(decode(&"a".repeat(LABEL_BYTES + 1)), None);
    }
}
