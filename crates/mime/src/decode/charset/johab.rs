//! Johab (KS X 1001:1992 annex 3, code page 1361): Hangul by its letters, five bits each. Streaming.

use encoding_rs::EUC_KR;

/// Decodes one text that arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct Johab {
    lead: Option<u8>,
}

/// In the tables: the letter is missing, and the code means nothing.
const FILL: u8 = 0xfe;
const NONE: u8 = 0xff;

/// The meanings of the five bits of a leading consonant, a vowel and a final consonant.
const LEADING: [u8; 32] = letters(&[1..2, 2..21], 1);
const VOWELS: [u8; 32] = letters(&[2..3, 3..8, 10..16, 18..24, 26..30], 2);
const FINAL: [u8; 32] = letters(&[1..2, 2..18, 19..30], 1);

/// The codes that mean letters, numbered from 0; `fill` is the one for a missing letter, and the
/// first of the ranges.
const fn letters<const N: usize>(ranges: &[std::ops::Range<usize>; N], fill: usize) -> [u8; 32] {
    let mut table = [NONE; 32];
    let (mut range, mut number) = (1, 0);
    table[fill] = FILL;
    while range < N {
        let mut code = ranges[range].start;
        while code < ranges[range].end {
            table[code] = number;
            (code, number) = (code + 1, number + 1);
        }
        range += 1;
    }
    table
}

/// The letters alone, as compatibility letters: the distances from U+3131.
const LEADING_ALONE: [u8; 19] = [0, 1, 3, 6, 7, 8, 16, 17, 18, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29];
const FINAL_ALONE: [u8; 27] =
    [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 22, 23, 25, 26, 27, 28, 29];
/// The first vowel's distance.
const VOWEL_ALONE: u8 = 30;

impl Johab {
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut String) {
        for &byte in bytes {
            match self.lead.take() {
                Some(lead) => match pair(lead, byte) {
                    Some(c) => out.push(c),
                    None => {
                        out.push(char::REPLACEMENT_CHARACTER);
                        // The second half of a damaged character may be text.
                        if byte.is_ascii() {
                            out.push(char::from(byte));
                        }
                    }
                },
                None if byte.is_ascii() => out.push(char::from(byte)),
                None => self.lead = Some(byte),
            }
        }
    }

    pub(super) fn finish(self, out: &mut String) {
        if self.lead.is_some() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

fn pair(lead: u8, trail: u8) -> Option<char> {
    match lead {
        0x84..=0xd3 => hangul(u16::from_be_bytes([lead, trail])),
        0xd9..=0xde | 0xe0..=0xf9 => wansung(lead, trail),
        _ => None,
    }
}

fn hangul(code: u16) -> Option<char> {
    let at = |table: &[u8; 32], shift: u32| table[usize::from(code >> shift & 0x1f)];
    let (leading, vowel, last) = (at(&LEADING, 10), at(&VOWELS, 5), at(&FINAL, 0));
    if [leading, vowel, last].contains(&NONE) {
        return None;
    }
    let alone = |distance: u8| char::from_u32(0x3131 + u32::from(distance));
    match (leading, vowel, last) {
        (FILL, FILL, FILL) => Some('\u{3000}'),
        (leading, FILL, FILL) => alone(LEADING_ALONE[usize::from(leading)]),
        (FILL, vowel, FILL) => alone(VOWEL_ALONE + vowel),
        (FILL, FILL, last) => alone(FINAL_ALONE[usize::from(last)]),
        (FILL, _, _) | (_, FILL, _) => None,
        (leading, vowel, last) => {
            let last = if last == FILL { 0 } else { u32::from(last) + 1 };
            char::from_u32(0xac00 + (u32::from(leading) * 21 + u32::from(vowel)) * 28 + last)
        }
    }
}

/// Signs and hanja: the rows of KS X 1001, two to a leading byte.
fn wansung(lead: u8, trail: u8) -> Option<char> {
    // Letters that stand alone are among the Hangul.
    if !matches!(trail, 0x31..=0x7e | 0x91..=0xfe) || (lead == 0xda && (0xa1..=0xd3).contains(&trail)) {
        return None;
    }
    let rows = if lead < 0xe0 { 2 * (u16::from(lead) - 0xd9) } else { 2 * u16::from(lead) - 0x197 };
    let cell = u16::from(if trail < 0x91 { trail - 0x31 } else { trail - 0x43 });
    let (row, cell) = (rows + cell / 94 + 0xa1, cell % 94 + 0xa1);
    let euc = [u8::try_from(row).ok()?, u8::try_from(cell).ok()?];
    EUC_KR.decode_without_bom_handling_and_without_replacement(&euc)?.chars().next()
}
