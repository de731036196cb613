use encoding_rs::WINDOWS_1252;
use proptest::prelude::*;

use super::*;

#[test]
fn labelled_text() {
    for (label, bytes, text) in [
        ("ISO-8859-1", &b"caf\xe9"[..], "café"),
        ("iso-2022-jp", b"\x1b$B$3$s$K$A$O\x1b(B", "こんにちは"),
        ("gb18030", b"\xc4\xe3\xba\xc3", "你好"),
        ("koi8-r", b"\xf0\xd2\xc9\xd7\xc5\xd4", "Привет"),
        ("cp932", b"\x93\xfa\x96{", "日本"),
        ("utf-16", b"\xfe\xff\0h\0i", "hi"),
        ("utf-16", b"\xff\xfeh\0i\0", "hi"),
        ("utf-16", b"\0h\0i", "hi"),
        ("utf-16", b"h\0i\0", "hi"),
        ("utf-16", b"e\xe5g,", "日本"),
        ("utf-16", b"\xe5e,g\n\0", "日本\n"),
        ("utf-7", b"Hi Mom -+Jjo--+ACE-!+- +ZeVnLIqe", "Hi Mom -\u{263a}-!!+ 日本語"),
        ("UTF-7", b"+2D3eAA-+ADw b+2D3-", "\u{1f600}< b\u{fffd}"),
        ("cp437", b"\x81ber", "über"),
        ("ibm850", b"gr\x94\xe1e", "größe"),
        ("cp852", b"\xa7lut\xec", "žlutý"),
        ("cp858", b"\xd5", "€"),
        ("cp864", b"%", "\u{66a}"),
        ("cp857", b"\xe7a", "\u{fffd}a"),
        ("utf-32", b"\0\0\xfe\xff\0\0\0a\0\x01\xf6\0", "a\u{1f600}"),
        ("utf-32", b"a\0\0\0\xdf\0\0\0", "aß"),
        ("utf-32be", b"\0\0\0a\0\x11\0\0\0", "a\u{fffd}\u{fffd}"),
        ("iso-2022-kr", b"\x1b$)C\x0eGQ19>n\x0f ok", "한국어 ok"),
        ("iso-2022-cn", b"\x1b$)A\x0eDc:C\x0f ok", "你好 ok"),
        ("hz-gb-2312", b"a ~~ ~{Dc:C~}, ~\nb", "a ~ 你好, b"),
        ("eucjp-ms", b"\xa5\xc6\xa5\xb9\xa5\xc8", "テスト"),
        ("cp1361", b"\xd0\x65\x8a\x82\xb4\xe1 ok", "한국어 ok"),
    ] {
        assert_eq!(decode(Some(label), bytes), text, "{label}");
    }
}

#[test]
fn labels_are_known_in_many_spellings() {
    for (labels, known) in [
        (
            &[
                "cp850",
                "IBM850",
                "850",
                "ibm-850",
                "cp-850",
                "x-cp850",
                "CP_850",
                "csPC850Multilingual",
                "oem850",
            ][..],
            true,
        ),
        (&["437", "csPC8CodePage437", "ibm437", "x-ibm437", "dos-437"], true),
        (&["windows-1251", "cp1251", "win1251", "windows1251", "x-windows-1251", "1251"], true),
        (
            &[
                "iso-8859-15",
                "ISO_8859-15",
                "iso8859_15",
                "latin-9",
                "ISO_8859-15:1998",
                "iso-8859-15-1998",
                "8859-15",
                "cp28605",
            ],
            true,
        ),
        (
            &[
                "ks_c_5601-1987",
                "KS_C_5601-1989",
                "ks-c-5601-1987",
                "ksc5601",
                "cp949",
                "uhc",
                "ms949",
                "windows-949",
                "euc_kr",
            ],
            true,
        ),
        (&["utf8", "UTF_8", "\"utf-8\"", "unicode-1-1-utf-8", "cp65001", "us-ascii", "ASCII"], true),
        (&["shift-jis", "SJIS", "x-sjis", "cp932", "windows-31j", "ms_kanji"], true),
        (&["gb2312", "GB_2312-80", "euc-cn", "gbk", "x-gbk", "cp936"], true),
        (&["iso2022jp", "iso-2022-jp-2", "cp50221", "csISO2022JP", "iso-2022-jp-ms"], true),
        (&["utf-32", "UTF32LE", "ucs-4", "utf-16be", "utf16", "unicode"], true),
        (
            &[
                "",
                " ",
                "klingon",
                "x-nonsense",
                "unknown-8bit",
                "x-unknown",
                "iso-8859-99",
                "cp1",
                "replacement",
            ],
            false,
        ),
    ] {
        for label in labels {
            assert_eq!(is_known(label), known, "{label}");
        }
    }
    let long = format!("{}utf-8", " ".repeat(100));
    assert!(is_known(&long) && !is_known(&"x".repeat(100_000)));
}

#[test]
fn every_single_byte_charset_is_known_and_decodes_all_bytes() {
    let all: Vec<u8> = (0..=255).collect();
    assert!(SingleByte::names().count() > 20);
    for name in SingleByte::names() {
        let text = decode(Some(name), &all);
        assert_eq!(text.chars().count(), 256, "{name}");
        assert!(text.is_char_boundary(32) && text.starts_with('\0'), "{name}");
    }
}

#[test]
fn escapes_side_by_side_are_no_error() {
    let jp = |bytes: &[u8]| decode(Some("iso-2022-jp"), bytes);
    assert_eq!(jp(b"\x1b$BEl5~\x1b(B\x1b$BET\x1b(B"), "東京都");
    assert_eq!(jp(b"\x1b(B\x1b(J\x1b$B\x1b$@El\x1b(B"), "東");
    assert_eq!(jp(b"\x1b$BEl5~\x1b(B\r\n\x1b$BET\x1b(B"), "東京\r\n都");
    // Katakana in three ways, the supplement, revised registration, and what RFC 1554 adds.
    assert_eq!(jp(b"\x1b(I6\x1b(B \x0e6\x0f \xb6"), "ｶ ｶ ｶ");
    assert_eq!(jp(b"\x1b$(D\"/\x1b(B \x1b&@\x1b$BEl\x1b(B"), "˘ 東");
    assert_eq!(jp(b"\x1b.A\x1bNi \x1b$ADc\x1b$(CGQ\x1b(B"), "é 你한");
    assert_eq!(jp(b"\x1b(J\\~\x1b(B\\~"), "¥‾\\~");
    // Damage.
    assert_eq!(jp(b"\x1b$BE\x1b(Ba"), "\u{fffd}a");
    assert_eq!(jp(b"a\x1b[1mb\x1b"), "a\u{fffd}[1mb\u{fffd}");
    let kr = |bytes: &[u8]| decode(Some("iso-2022-kr"), bytes);
    assert_eq!(kr(b"\x0eGQ19\n>n"), "한국\n>n", "a line begins with SI");
    assert_eq!(kr(b"\xc7\xd1\xb1\xb9"), "한국");
    assert_eq!(decode(Some("iso-2022-cn"), b"\x1b$)G\x0eGQ\x0fa \x1b$*H\x1bNGQb"), "\u{fffd}a \u{fffd}b");
    assert_eq!(decode(Some("hz"), b"~{Dc\n:C ~{Dc"), "你\n:C 你");
    assert_eq!(decode(Some("hz"), b"\xc4\xe3~x~"), "你~x~");
    assert_eq!(decode(Some("hz"), b"~{0~~}"), "剥", "the second byte may be a tilde");
    assert_eq!(jp(b"\x1b.A\x1bN\x7f\x1bN a"), "ÿ\u{a0}a");
}

#[test]
fn stateful_encoded_words_are_decoded_separately() {
    let words = |label: &str, words: &[&[u8]]| {
        decode_words(label, &words.iter().map(|word| word.to_vec()).collect::<Vec<_>>())
    };
    let jp = |pieces: &[&[u8]]| words("iso-2022-jp", pieces);
    assert_eq!(jp(&[b"\x1b$BEl5~\x1b(B", b"\x1b$BET\x1b(B"]), "東京都");
    assert_eq!(jp(&[b"\x1b$BEl5~", b"\x1b$BET"]), "東京都", "no escape back");
    assert_eq!(jp(&[b"\x1b$BEl5~", b"abc"]), "東京abc", "it begins in ASCII");
    // A program that cut the text without regard to escapes.
    assert_eq!(jp(&[b"\x1b$BEl", b"5~", b"ET\x1b(B!"]), "東京都!");
    assert_eq!(jp(&[b"\x1b$BElE", b"T\x1b(B"]), "東都");
    assert_eq!(words("iso-2022-kr", &[b"\x1b$)C\x0eGQ\x0f", b"\x1b$)C\x0e19\x0f"]), "한국");
    assert_eq!(words("iso-2022-kr", &[b"\x0eGQ", b"19"]), "한19");
    assert_eq!(words("hz-gb-2312", &[b"~{Dc~}", b"~{:C~}"]), "你好");
    assert_eq!(words("hz-gb-2312", &[b"~{Dc", b":C~}"]), "你好");
    assert_eq!(words("hz-gb-2312", &[b"~{Dc", b":C"]), "你:C");
    assert_eq!(words("utf-7", &[b"+ZeVnLA", b"+ip4-"]), "日本語");
    for (label, text) in [
        ("utf-8", &b"\xe6\x97\xa5"[..]),
        ("shift_jis", b"\x93\xfa"),
        ("euc-kr", b"\xc7\xd1"),
        ("utf-16be", b"e\xe5"),
    ] {
        for at in 1..text.len() {
            let cut = words(label, &[&text[..at], &text[at..]]);
            assert_eq!(cut, decode(Some(label), text), "{label}");
        }
    }
}

/// Programs that cut the bytes of a text into encoded-words wherever these are full.
#[test]
fn stateful_text_that_is_cut_anywhere_is_one_text() {
    for (label, encoded, text) in [
        ("iso-2022-jp", &b"\x1b$BF|K\\\x1b(B a \x1b$B8l\x1b(B!"[..], "日本 a 語!"),
        ("iso-2022-jp", b"a\x1b$B%F%9%H\x1b(J\x1b(I1\x1b(B", "aテストｱ"),
        ("iso-2022-jp-2", b"\x1b$BF|\x1b(B\x1b.A\x1bNi\x1b$(CGQ\x1b(B.\x1b$AVP\x1b(B", "日é한.中"),
        ("iso-2022-jp-1", b"\x1b$(D0!\x1b(B!", "丂!"),
        ("iso-2022-kr", b"\x1b$)Ca \x0eGQ19\x0f b", "a 한국 b"),
        ("hz-gb-2312", b"a~{Dc:C~}b~~~{VP~}", "a你好b~中"),
        ("utf-7", b"a+ZeVnLIqe-b+AOk-", "a日本語bé"),
        ("utf-7", b"+ZeVnLIqeZeVnLIqeZeVnLIqeZeVnLIqe-", "日本語日本語日本語日本語"),
        ("utf-7", b"+2D3eAQ- +- +AOkA6Q-", "😁 + éé"),
    ] {
        assert_eq!(decode(Some(label), encoded), text, "{label}");
        for one in 0..=encoded.len() {
            for two in one..=encoded.len() {
                let words = [&encoded[..one], &encoded[one..two], &encoded[two..]].map(<[u8]>::to_vec);
                assert_eq!(decode_words(label, &words), text, "{label} cut at {one} and {two}");
            }
        }
        let single: Vec<_> = encoded.iter().map(|byte| vec![*byte]).collect();
        assert_eq!(decode_words(label, &single), text, "{label}");
    }
    // Each word separately, as in RFC 2047, also where nothing ends the first one.
    let words =
        |words: &[&[u8]]| decode_words("utf-7", &words.iter().map(|w| w.to_vec()).collect::<Vec<_>>());
    assert_eq!(words(&[b"+ZeVnLIqe", b"abc"]), "日本語abc");
    assert_eq!(words(&[b"+ZeVnLIqe", b"Re-united"]), "日本語Re-united");
    assert_eq!(words(&[b"+ZeVnLIqe", b"+ZeVnLIqe-"]), "日本語日本語");
    assert_eq!(words(&[b"+ZeU", b"+Zyw"]), "日本");
}

#[test]
fn boms_and_meta_choose_the_charset_of_bodies() {
    let body = |label: Option<&str>, html: bool, bytes: &[u8]| {
        let mut decoder = CharsetDecoder::of_body(label, html);
        let mut out = String::new();
        bytes.chunks(3).for_each(|piece| decoder.push(piece, &mut out));
        decoder.finish(&mut out);
        out
    };
    let koi8 = b"<meta charset=koi8-r>\xd0\xd2";
    assert!(body(None, true, koi8).ends_with("пр"));
    assert!(body(Some("us-ascii"), true, koi8).ends_with("пр"));
    assert!(body(Some(""), true, koi8).ends_with("пр"));
    assert!(body(Some("utf-8"), true, koi8).ends_with("ÐÒ"), "Content-Type goes first");
    assert!(body(Some("windows-1251"), true, koi8).ends_with("РТ"));
    assert!(body(None, false, koi8).ends_with("ÐÒ"), "not HTML");
    assert_eq!(body(None, false, b"\xff\xfea\0b\0"), "ab");
    assert_eq!(body(None, false, b"\0\0\xfe\xff\0\0\0a"), "a");
    assert_eq!(body(Some("utf-8"), false, b"\xef\xbb\xbfa"), "a");
    assert_eq!(body(None, true, b""), "");
}

#[test]
fn the_guess_reads_both() {
    assert_eq!(decode(None, "grün".as_bytes()), "grün");
    assert_eq!(decode(None, b"gr\xfcn \x80 gr\xc3\xbcn"), "grün € grün");
    assert_eq!(decode(Some("x-nonsense"), b"gr\xfcn"), "grün");
    assert_eq!(decode(Some("us-ascii"), b"\xe2\x82"), "â‚");
    for byte in 0x80..=0xff {
        assert_eq!(decode(None, &[byte]), WINDOWS_1252.decode(&[byte]).0);
    }
}

const LABELS: [&str; 13] = [
    "utf-8",
    "utf-7",
    "gb18030",
    "iso-2022-jp",
    "iso-2022-kr",
    "iso-2022-cn",
    "hz",
    "utf-16be",
    "utf-32",
    "shift_jis",
    "johab",
    "cp850",
    "x-nonsense",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn cuts_do_not_matter(pieces in proptest::collection::vec(proptest::collection::vec(
        prop_oneof![
            proptest::sample::select(&b"\xe2\x82\xac\xf0a+-2\x1b$B()AC~{}\x0e\x0fN.\n\xff\xfe\x00\x84\xd9"[..]),
            any::<u8>(),
        ], 0..5), 0..6)
    ) {
        let whole = pieces.concat();
        for label in LABELS {
            let mut decoder = CharsetDecoder::new(Some(label));
            let mut out = String::new();
            pieces.iter().for_each(|piece| decoder.push(piece, &mut out));
            decoder.finish(&mut out);
            prop_assert_eq!(out, decode(Some(label), &whole));
        }
        for html in [false, true] {
            let mut outs = [String::new(), String::new()];
            let mut one = CharsetDecoder::of_body(None, html);
            one.push(&whole, &mut outs[0]);
            one.finish(&mut outs[0]);
            let mut many = CharsetDecoder::of_body(None, html);
            pieces.iter().for_each(|piece| many.push(piece, &mut outs[1]));
            many.finish(&mut outs[1]);
            prop_assert_eq!(&outs[0], &outs[1]);
        }
    }
}
