//! Names of charsets in mail: those of IANA and of browsers, numbers of code pages with and without
//! a prefix, and spellings with other or no separators.

use encoding_rs::{
    BIG5, EUC_JP, EUC_KR, Encoding, GB18030, GBK, IBM866, KOI8_R, KOI8_U, MACINTOSH, SHIFT_JIS, UTF_8,
    UTF_16BE, UTF_16LE, WINDOWS_874, WINDOWS_1252, X_MAC_CYRILLIC,
};

use super::iso2022::Variant;
use super::single_byte::SingleByte;
use super::utf32::Order;

/// How a charset is decoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Decoding {
    /// The guess: text labelled ASCII is more often UTF-8 or windows-1252.
    Guess,
    /// The guess, which reads UTF-8.
    Utf8,
    Whatwg(&'static Encoding),
    /// In a byte order that has to be detected.
    Utf16,
    /// A name in the table of single-byte charsets.
    SingleByte(&'static str),
    Iso2022(Variant),
    Hz,
    Johab,
    Utf7,
    Utf32(Order),
}

/// Bytes of a label that is looked up; no charset has a longer name.
const LABEL_BYTES: usize = 64;

/// The charset that a label means; `None` if it is not known.
pub(super) fn find(label: &str) -> Option<Decoding> {
    let label = label.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';'));
    if label.is_empty() || label.len() > LABEL_BYTES {
        return None;
    }
    let squeezed: String =
        label.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    named(&squeezed)
        .or_else(|| known(Encoding::for_label_no_replacement(label.as_bytes())?))
        .or_else(|| code_page(number(&squeezed, &PREFIXES)?))
        .or_else(|| iso_8859(number(&squeezed, &["iso8859", "8859"])?))
        .or_else(|| {
            SingleByte::names().find(|name| *name == label.to_ascii_lowercase()).map(Decoding::SingleByte)
        })
}

/// A part of ISO 8859, with or without the year after it.
fn iso_8859(number: u32) -> Option<Decoding> {
    let part = if number > 9999 { number / 10_000 } else { number };
    code_page(28590 + u32::from(u8::try_from(part).ok()?))
}

/// Prefixes of the number of a code page, without separators.
const PREFIXES: [&str; 13] =
    ["cp", "ibm", "xcp", "xibm", "csibm", "oem", "dos", "ms", "windows", "win", "xwindows", "ccsid", ""];

fn number(squeezed: &str, prefixes: &[&str]) -> Option<u32> {
    let digits = |prefix: &&str| {
        squeezed.strip_prefix(*prefix).filter(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
    };
    prefixes.iter().find_map(digits)?.parse().ok()
}

fn known(encoding: &'static Encoding) -> Option<Decoding> {
    // The escapes of these are decoded here, more tolerantly.
    match encoding.name() {
        "ISO-2022-JP" => Some(Decoding::Iso2022(Variant::Japanese)),
        "x-user-defined" => None,
        _ if encoding == UTF_8 => Some(Decoding::Utf8),
        _ => Some(Decoding::Whatwg(encoding)),
    }
}

/// Names that encoding_rs does not have, or interprets differently; lower case, without separators.
fn named(squeezed: &str) -> Option<Decoding> {
    use Decoding::*;
    Some(match squeezed {
        // windows-1252 is what WHATWG prescribes; the guess also reads UTF-8 that is mislabelled as
        // ASCII.
        "usascii" | "ascii" | "ansix341968" | "ansix341986" | "iso646us" | "us" | "csascii" | "isoir6"
        | "iso646irv1991" => Guess,
        "utf8" | "utf8mb4" | "xutf8" | "unicode11utf8" => Utf8,
        // encoding_rs omits UTF-7, as browsers must; old Outlook mail is full of it.
        "utf7" | "unicode11utf7" | "csunicode11utf7" | "xunicode20utf7" | "csutf7" => Utf7,
        "utf32" | "csutf32" | "ucs4" | "iso10646ucs4" | "csucs4" => Utf32(Order::Unknown),
        "utf32be" | "csutf32be" | "ucs4be" => Utf32(Order::Big),
        "utf32le" | "csutf32le" | "ucs4le" => Utf32(Order::Little),
        "utf16" | "csutf16" => Utf16,
        "utf16be" | "csutf16be" | "ucs2" | "ucs2be" | "iso10646ucs2" | "csunicode" => Whatwg(UTF_16BE),
        "utf16le" | "csutf16le" | "ucs2le" => Whatwg(UTF_16LE),
        "iso2022jp" | "csiso2022jp" | "iso2022jp1" | "iso2022jp2" | "csiso2022jp2" | "iso2022jp3"
        | "iso2022jp2004" | "iso2022jpext" | "iso2022jpms" | "jis" | "xjis" | "jis7" | "iso2022" => {
            Iso2022(Variant::Japanese)
        }
        "iso2022kr" | "csiso2022kr" => Iso2022(Variant::Korean),
        "iso2022cn" | "csiso2022cn" | "iso2022cnext" => Iso2022(Variant::Chinese),
        "hz" | "hzgb2312" | "cshzgb2312" => Hz,
        "johab" | "ksc56011992" | "mscp1361" => Johab,
        "eucjp" | "xeucjp" | "eucjpms" | "eucjpopen" | "eucjpwin" | "ujis" | "eucjpx0213" | "eucjis2004"
        | "eucjisx0213" => Whatwg(EUC_JP),
        "sjis" | "shiftjis" | "xsjis" | "mskanji" | "shiftjis2004" | "shiftjisx0213" | "sjiswin"
        | "shiftjisms" => Whatwg(SHIFT_JIS),
        "euckr" | "uhc" | "xuhc" | "xwindows949" | "ksc5601" | "ksx1001" | "xeuckr" | "wansung"
        | "ksc56011987" | "ksc56011989" | "xmackorean" => Whatwg(EUC_KR),
        "euccn" | "gb2312" | "gbk" | "xgbk" | "csgbk" | "gb231280" | "xeuccn" | "xgb" | "gb23121980"
        | "xmacsimpchinese" => Whatwg(GBK),
        "gb18030" | "gb180302000" | "gb180302022" | "gb180302005" => Whatwg(GB18030),
        "big5" | "big5eten" | "big5hkscs" | "xbig5" | "xxbig5" | "big5tw" | "hkscs" | "xmactradchinese" => {
            Whatwg(BIG5)
        }
        "koi8" | "koi8r" | "koi8ru" => Whatwg(if squeezed == "koi8ru" { KOI8_U } else { KOI8_R }),
        "latin1" | "isolatin1" | "latin" | "iso8859" => Whatwg(WINDOWS_1252),
        "maccyrillic" | "xmacukrainian" => Whatwg(X_MAC_CYRILLIC),
        "latin7" | "l7" => return code_page(28603),
        "latin8" | "l8" | "isoceltic" => return code_page(28604),
        "latin9" | "latin0" => return code_page(28605),
        "latin10" | "l10" => return code_page(28606),
        "tis620" | "tis6202533" | "iso885911" => Whatwg(WINDOWS_874),
        "macroman" | "xmacroman" => Whatwg(MACINTOSH),
        "cspc8codepage437" => SingleByte("ibm437"),
        "cspc850multilingual" => SingleByte("ibm850"),
        "cspcp852" => SingleByte("ibm852"),
        "pcmultilingual850euro" => SingleByte("ibm858"),
        "cspc775baltic" => SingleByte("ibm775"),
        "cspc862latinhebrew" => SingleByte("ibm862"),
        "cpis" => SingleByte("ibm861"),
        "cpgr" => SingleByte("ibm869"),
        "koi8t" => SingleByte("koi8-t"),
        "kz1048" | "strk10482002" | "rk1048" | "cskz1048" => SingleByte("kz-1048"),
        "ptcp154" | "csptcp154" | "pt154" | "cp154" | "cyrillicasian" => SingleByte("ptcp154"),
        "hproman8" | "roman8" | "r8" | "cshproman8" => SingleByte("hp-roman8"),
        "macce" | "xmacce" | "maccentraleurope" | "maclatin2" | "xmaccentraleurroman" => {
            SingleByte("x-mac-ce")
        }
        "maccroatian" | "xmaccroatian" => SingleByte("x-mac-croatian"),
        "macgreek" | "xmacgreek" => SingleByte("x-mac-greek"),
        "maciceland" | "macicelandic" | "xmacicelandic" => SingleByte("x-mac-icelandic"),
        "macromania" | "macromanian" | "xmacromanian" => SingleByte("x-mac-romanian"),
        "macturkish" | "xmacturkish" => SingleByte("x-mac-turkish"),
        _ => return None,
    })
}

/// A code page of IBM or of Windows.
fn code_page(number: u32) -> Option<Decoding> {
    use Decoding::*;
    let whatwg = |label: String| Encoding::for_label(label.as_bytes()).map(Whatwg);
    Some(match number {
        437 => SingleByte("ibm437"),
        720 => SingleByte("ibm720"),
        737 => SingleByte("ibm737"),
        775 => SingleByte("ibm775"),
        850 => SingleByte("ibm850"),
        852 => SingleByte("ibm852"),
        855 => SingleByte("ibm855"),
        856 => SingleByte("ibm856"),
        857 => SingleByte("ibm857"),
        858 => SingleByte("ibm858"),
        860 => SingleByte("ibm860"),
        861 => SingleByte("ibm861"),
        862 => SingleByte("ibm862"),
        863 => SingleByte("ibm863"),
        864 => SingleByte("ibm864"),
        865 => SingleByte("ibm865"),
        866 => Whatwg(IBM866),
        869 => SingleByte("ibm869"),
        1125 => SingleByte("ibm1125"),
        154 => SingleByte("ptcp154"),
        874 => Whatwg(WINDOWS_874),
        367 | 20127 => Guess,
        819 => Whatwg(WINDOWS_1252),
        912 => return code_page(28592),
        813 => return code_page(28597),
        915 => return code_page(28595),
        916 => return code_page(28598),
        920 => return code_page(28599),
        923 => return code_page(28605),
        1089 => return code_page(28596),
        878 | 20866 => Whatwg(KOI8_R),
        1168 | 21866 => Whatwg(KOI8_U),
        932 | 943 => Whatwg(SHIFT_JIS),
        936 | 1386 | 51936 | 20936 => Whatwg(GBK),
        949 | 1363 | 970 | 51949 | 20949 => Whatwg(EUC_KR),
        950 | 951 | 1370 => Whatwg(BIG5),
        1200 => Whatwg(UTF_16LE),
        1201 => Whatwg(UTF_16BE),
        1250..=1258 => return whatwg(format!("windows-{number}")),
        1361 => Johab,
        10000 => Whatwg(MACINTOSH),
        10006 => SingleByte("x-mac-greek"),
        10007 => Whatwg(X_MAC_CYRILLIC),
        10010 => SingleByte("x-mac-romanian"),
        10029 => SingleByte("x-mac-ce"),
        10079 => SingleByte("x-mac-icelandic"),
        10081 => SingleByte("x-mac-turkish"),
        10082 => SingleByte("x-mac-croatian"),
        12000 => Utf32(Order::Little),
        12001 => Utf32(Order::Big),
        20932 | 51932 | 954 | 33722 => Whatwg(EUC_JP),
        28591..=28606 => return whatwg(format!("iso-8859-{}", number - 28590)),
        38598 => return whatwg("iso-8859-8-i".to_owned()),
        50220..=50222 => Iso2022(Variant::Japanese),
        50225 => Iso2022(Variant::Korean),
        50227 | 50229 => Iso2022(Variant::Chinese),
        52936 => Hz,
        54936 => Whatwg(GB18030),
        65000 => Utf7,
        65001 => Utf8,
        _ => return None,
    })
}
