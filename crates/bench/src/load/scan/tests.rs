use proptest::prelude::*;

use super::*;

fn lines(input: &str) -> Vec<(String, bool, bool)> {
    let seen = scan_in_pieces(input.as_bytes(), &[]);
    seen.into_iter().map(|(text, first, last, _)| (String::from_utf8(text).unwrap(), first, last)).collect()
}

#[test]
fn literals_interrupt_data_and_nothing_else() {
    let whole = |text: &str| (text.to_owned(), true, true);
    assert_eq!(
        lines("* 1 FETCH (BODY[] {7}\r\na1 OK\r\n UID 3)\r\na1 OK done {3}\r\n* OK a {2}\r\n+ go {9}\r\n"),
        [
            ("* 1 FETCH (BODY[] {7}".to_owned(), true, false),
            (" UID 3)".to_owned(), false, true),
            whole("a1 OK done {3}"),
            whole("* OK a {2}"),
            whole("+ go {9}"),
        ]
    );
    assert_eq!(lines("* 1 FETCH (BINARY[1] ~{0}\r\n)\r\n").len(), 2);
    assert_eq!(lines("* LIST () \"/\" \"a{5}\"\r\n* 2 EXISTS\r\n").len(), 2);
}

#[test]
fn smtp_has_no_literals() {
    let mut count = 0;
    Scanner::new(Syntax::Smtp).feed(b"* 250 {5}\r\n250 ok\r\n", |line| {
        count += 1;
        assert!(line.first && line.last);
    });
    assert_eq!(count, 2);
}

#[test]
fn a_long_split_line_keeps_beginning_and_literal() {
    let mut input = format!("* SEARCH {}{{4}}\r\n", "1 ".repeat(HEAD_BYTES)).into_bytes();
    let length = input.len() as u64;
    input.extend_from_slice(b"\r\n\r\n x\r\n");
    let seen = scan_in_pieces(&input, &vec![100; 200]);
    assert_eq!(seen.len(), 2);
    assert_eq!((seen[0].0.len(), seen[0].1, seen[0].2, seen[0].3), (HEAD_BYTES, true, false, length));
    assert_eq!(seen[1], (b" x".to_vec(), false, true, 8));
}

/// A server's output with difficult parts, and how many responses it has.
fn response() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..40);
    let text = "[ -z]{0,12}";
    prop_oneof![
        text.prop_map(|t| format!("a7 OK {t}\r\n").into_bytes()),
        text.prop_map(|t| format!("* NO {t} {{3}}\r\n").into_bytes()),
        (bytes.clone(), any::<bool>()).prop_map(|(bytes, binary)| {
            let mark = if binary { "~" } else { "" };
            let mut out = format!("* 3 FETCH (X {mark}{{{}}}\r\n", bytes.len()).into_bytes();
            out.extend_from_slice(&bytes);
            out.extend_from_slice(b" Y {2}\r\n\r\n)\r\n");
            out
        }),
        (0..3 * HEAD_BYTES).prop_map(|n| format!("* SEARCH{}\r\n", " 12".repeat(n / 3)).into_bytes()),
    ]
}

proptest! {
    #[test]
    fn cuts_do_not_matter_and_nothing_is_lost(
        responses in prop::collection::vec(response(), 1..8),
        cuts in prop::collection::vec(1usize..60, 0..200),
    ) {
        let input = responses.concat();
        let whole = scan_in_pieces(&input, &[]);
        let pieces = scan_in_pieces(&input, &cuts);
        let cut_heads: Vec<_> = whole.iter().map(|(text, ..)| text.clone()).collect();
        for (at, (text, first, last, bytes)) in pieces.iter().enumerate() {
            prop_assert_eq!((&cut_heads[at], whole[at].1, whole[at].2, whole[at].3), (text, *first, *last, *bytes));
        }
        prop_assert_eq!(pieces.len(), whole.len());
        prop_assert_eq!(whole.iter().filter(|line| line.1).count(), responses.len());
        prop_assert_eq!(whole.iter().filter(|line| line.2).count(), responses.len());
        prop_assert_eq!(whole.iter().map(|line| line.3).sum::<u64>(), input.len() as u64);
    }

    #[test]
    fn anything_is_scanned(input in prop::collection::vec(any::<u8>(), 0..300), cuts in prop::collection::vec(1usize..20, 0..40)) {
        prop_assert_eq!(scan_in_pieces(&input, &cuts), scan_in_pieces(&input, &[]));
    }
}
