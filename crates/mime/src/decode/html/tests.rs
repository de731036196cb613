use super::*;
use proptest::prelude::*;

fn text(pieces: &[&str]) -> String {
    let mut html = HtmlText::default();
    let mut out = String::new();
    pieces.iter().for_each(|piece| html.push(piece, &mut out));
    html.finish(&mut out);
    out
}

#[test]
fn tags_go_and_blocks_are_lines() {
    for (html, plain) in [
        ("<p>One</p><p>Two <b>bo</b>ld</p>", "One\nTwo bold"),
        ("  <html><body>\r\n a \t b<br>c<td>d</td></body>", "a b\nc d"),
        ("a<!-- no <b> - -- --->b<!doctype html>c<?xml x?>d", "abcd"),
        ("<script>if (a<b) document.write('</p>');</script>x", "x"),
        ("<style type=\"text/css\">p > a { }</style >y", "y"),
        ("<SCRIPT>let s = '<b attr=\"';</SCRIPT>z", "z"),
        ("<img src=x alt=\"a &lt; picture\">!", "a < picture !"),
        ("<a title='x>y' href=z>link</a>", "link"),
        ("1 < 2 &amp;&amp; 3 > 2 &unknown; &eacute;t&#233; &nbsp;x", "1 < 2 && 3 > 2 &unknown; été \u{a0}x"),
        ("AT&T &amp", "AT&T &"),
        ("a<", "a"),
        ("&lt;b&gt;", "<b>"),
        ("<a/>x<br/>y", "x\ny"),
        ("<title>T</title>body", "T\nbody"),
    ] {
        assert_eq!(text(&[html]), plain, "{html}");
    }
}

#[test]
fn endless_names_are_not_collected() {
    let mut html = HtmlText::default();
    let mut out = String::new();
    for piece in ["<", "x", " ", "y", "=\"", "&", "alt=\"", "<", "script>"] {
        for _ in 0..1000 {
            html.push(piece, &mut out);
        }
        assert!(
            html.name.len() <= NAME_BYTES && html.alt.as_ref().is_none_or(|alt| alt.len() <= ALT_BYTES + 4)
        );
        out.clear();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn cuts_do_not_matter(pieces in proptest::collection::vec(
        prop_oneof!["[<>/!&;=\"'a -]{0,4}", Just("<script>".into()), Just("</script>".into()), Just("<!--".into()),
            Just("-->".into()), Just("<p>".into()), Just("&amp;".into()), Just("<img alt=".into()), Just("é\n".into())], 0..8)) {
        let whole = pieces.concat();
        let parts: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let single: Vec<&str> = whole.split_inclusive(|_| true).collect();
        prop_assert_eq!(text(&parts), text(&[&whole]));
        prop_assert_eq!(text(&single), text(&[&whole]));
    }
}
