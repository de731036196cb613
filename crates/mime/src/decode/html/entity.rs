//! Character references: numbers, and the names of HTML 4 that mail uses.

use std::borrow::Cow;

/// `text` with its character references decoded; unknown ones stay.
pub fn decode_references(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        out.push_str(&rest[..start]);
        rest = &rest[start + 1..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '#').unwrap_or(rest.len());
        match character(&rest[..end]) {
            Some(c) => {
                out.push(c);
                rest = &rest[end..];
                rest = rest.strip_prefix(';').unwrap_or(rest);
            }
            None => out.push('&'),
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The character that `name`, without `&` and `;`, stands for.
pub fn character(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        // HTML: numbers of the C1 range mean windows-1252.
        return match code {
            0x80..=0x9f => encoding_rs::WINDOWS_1252.decode(&[code as u8]).0.chars().next(),
            0 => Some('\u{fffd}'),
            _ => char::from_u32(code),
        };
    }
    if let Ok(at) = LATIN_1.binary_search_by_key(&name, |(n, _)| n) {
        return char::from_u32(LATIN_1[at].1);
    }
    None
}

/// Sorted by name.
const LATIN_1: &[(&str, u32)] = &[
    ("AElig", 0xc6),
    ("AMP", 0x26),
    ("Aacute", 0xc1),
    ("Acirc", 0xc2),
    ("Agrave", 0xc0),
    ("Alpha", 0x391),
    ("Aring", 0xc5),
    ("Atilde", 0xc3),
    ("Auml", 0xc4),
    ("Beta", 0x392),
    ("Ccedil", 0xc7),
    ("Dagger", 0x2021),
    ("Delta", 0x394),
    ("ETH", 0xd0),
    ("Eacute", 0xc9),
    ("Ecirc", 0xca),
    ("Egrave", 0xc8),
    ("Euml", 0xcb),
    ("GT", 0x3e),
    ("Gamma", 0x393),
    ("Iacute", 0xcd),
    ("Icirc", 0xce),
    ("Igrave", 0xcc),
    ("Iuml", 0xcf),
    ("LT", 0x3c),
    ("Lambda", 0x39b),
    ("Ntilde", 0xd1),
    ("OElig", 0x152),
    ("Oacute", 0xd3),
    ("Ocirc", 0xd4),
    ("Ograve", 0xd2),
    ("Omega", 0x3a9),
    ("Oslash", 0xd8),
    ("Otilde", 0xd5),
    ("Ouml", 0xd6),
    ("Phi", 0x3a6),
    ("Pi", 0x3a0),
    ("QUOT", 0x22),
    ("Scaron", 0x160),
    ("Sigma", 0x3a3),
    ("THORN", 0xde),
    ("Theta", 0x398),
    ("Uacute", 0xda),
    ("Ucirc", 0xdb),
    ("Ugrave", 0xd9),
    ("Uuml", 0xdc),
    ("Yacute", 0xdd),
    ("Yuml", 0x178),
    ("aacute", 0xe1),
    ("acirc", 0xe2),
    ("acute", 0xb4),
    ("aelig", 0xe6),
    ("agrave", 0xe0),
    ("alpha", 0x3b1),
    ("amp", 0x26),
    ("apos", 0x27),
    ("aring", 0xe5),
    ("atilde", 0xe3),
    ("auml", 0xe4),
    ("bdquo", 0x201e),
    ("beta", 0x3b2),
    ("brvbar", 0xa6),
    ("bull", 0x2022),
    ("ccedil", 0xe7),
    ("cedil", 0xb8),
    ("cent", 0xa2),
    ("circ", 0x2c6),
    ("copy", 0xa9),
    ("curren", 0xa4),
    ("dagger", 0x2020),
    ("darr", 0x2193),
    ("deg", 0xb0),
    ("delta", 0x3b4),
    ("divide", 0xf7),
    ("eacute", 0xe9),
    ("ecirc", 0xea),
    ("egrave", 0xe8),
    ("emsp", 0x2003),
    ("ensp", 0x2002),
    ("epsilon", 0x3b5),
    ("eth", 0xf0),
    ("euml", 0xeb),
    ("euro", 0x20ac),
    ("frac12", 0xbd),
    ("frac14", 0xbc),
    ("frac34", 0xbe),
    ("gamma", 0x3b3),
    ("ge", 0x2265),
    ("gt", 0x3e),
    ("hearts", 0x2665),
    ("hellip", 0x2026),
    ("iacute", 0xed),
    ("icirc", 0xee),
    ("iexcl", 0xa1),
    ("igrave", 0xec),
    ("infin", 0x221e),
    ("iquest", 0xbf),
    ("iuml", 0xef),
    ("lambda", 0x3bb),
    ("laquo", 0xab),
    ("larr", 0x2190),
    ("ldquo", 0x201c),
    ("le", 0x2264),
    ("lsaquo", 0x2039),
    ("lsquo", 0x2018),
    ("lt", 0x3c),
    ("macr", 0xaf),
    ("mdash", 0x2014),
    ("micro", 0xb5),
    ("middot", 0xb7),
    ("minus", 0x2212),
    ("mu", 0x3bc),
    ("nbsp", 0xa0),
    ("ndash", 0x2013),
    ("ne", 0x2260),
    ("not", 0xac),
    ("ntilde", 0xf1),
    ("oacute", 0xf3),
    ("ocirc", 0xf4),
    ("oelig", 0x153),
    ("ograve", 0xf2),
    ("omega", 0x3c9),
    ("ordf", 0xaa),
    ("ordm", 0xba),
    ("oslash", 0xf8),
    ("otilde", 0xf5),
    ("ouml", 0xf6),
    ("para", 0xb6),
    ("permil", 0x2030),
    ("phi", 0x3c6),
    ("pi", 0x3c0),
    ("plusmn", 0xb1),
    ("pound", 0xa3),
    ("quot", 0x22),
    ("raquo", 0xbb),
    ("rarr", 0x2192),
    ("rdquo", 0x201d),
    ("reg", 0xae),
    ("rsaquo", 0x203a),
    ("rsquo", 0x2019),
    ("sbquo", 0x201a),
    ("scaron", 0x161),
    ("sect", 0xa7),
    ("shy", 0xad),
    ("sigma", 0x3c3),
    ("sup1", 0xb9),
    ("sup2", 0xb2),
    ("sup3", 0xb3),
    ("szlig", 0xdf),
    ("theta", 0x3b8),
    ("thinsp", 0x2009),
    ("thorn", 0xfe),
    ("tilde", 0x2dc),
    ("times", 0xd7),
    ("trade", 0x2122),
    ("uacute", 0xfa),
    ("uarr", 0x2191),
    ("ucirc", 0xfb),
    ("ugrave", 0xf9),
    ("uml", 0xa8),
    ("uuml", 0xfc),
    ("yacute", 0xfd),
    ("yen", 0xa5),
    ("yuml", 0xff),
    ("zwj", 0x200d),
    ("zwnj", 0x200c),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        assert!(LATIN_1.is_sorted_by_key(|(name, _)| *name));
        assert_eq!(character("eacute"), Some('é'));
        assert_eq!(character("#8364"), Some('€'));
        assert_eq!(character("#x20AC"), Some('€'));
        assert_eq!(character("#128"), Some('€'));
        assert_eq!(character("#xD800"), None);
        assert_eq!(character("#99999999999"), None);
        assert_eq!(character("nonsense"), None);
        assert_eq!(decode_references("a &lt; b &amp c &x; &"), "a < b & c &x; &");
    }
}
