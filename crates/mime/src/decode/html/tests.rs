use super::*;
use proptest::prelude::*;

#[derive(Debug, Default)]
struct HtmlOut {
    text: String,
    aside: String,
}

impl HtmlSink for HtmlOut {
    fn text(&mut self, piece: &str) {
        self.text.push_str(piece);
    }

    fn aside(&mut self, piece: &str) {
        self.aside.push_str(piece);
    }
}

fn out(pieces: &[&str]) -> HtmlOut {
    let mut html = HtmlText::default();
    let mut out = HtmlOut::default();
    pieces.iter().for_each(|piece| html.push(piece, &mut out));
    html.finish(&mut out);
    out
}

fn text(html: &str) -> String {
    out(&[html]).text
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
        ("a<", "a"),
        ("<a/>x<br/>y", "x\ny"),
        ("<script/>x", ""),
        ("<title>T</title>body", "body"),
        ("wi<wbr>der", "wider"),
    ] {
        assert_eq!(text(html), plain, "{html}");
    }
}

#[test]
fn references_are_decoded_as_browsers_do() {
    for (html, plain) in [
        ("1 < 2 &amp;&amp; 3 > 2 &unknown; &eacute;t&#233; &nbsp;x", "1 < 2 && 3 > 2 &unknown; été \u{a0}x"),
        ("AT&T &amp", "AT&T &"),
        ("&lt;b&gt;", "<b>"),
        ("&zcaron;lu&tcaron;ou&ccaron;k&yacute; &Lstrok;&oacute;d&zacute; &Idot;", "žluťoučký Łódź İ"),
        ("f&uumlr M&uumlller &notit; &notin; &notinva;", "für Müller ¬it; ∉ ∉"),
        ("&acE; &NotEqualTilde;", "\u{223e}\u{333} \u{2242}\u{338}"),
        ("a&Tab;b&NewLine;c", "a b c"),
        ("&#8364;&#x20ac;&#X20AC &#128; &#x81;", "€€€ € \u{81}"),
        ("&#0; &#xD800; &#99999999999999; &#x110000;", "\u{fffd} \u{fffd} \u{fffd} \u{fffd}"),
        ("&#0000000000000000000000000000000000000000228;", "ä"),
        ("&#; &#x; &#xg &#a &#228x &# &", "&#; &#x; &#xg &#a äx &# &"),
        (
            "&CounterClockwiseContourIntegral; &CounterClockwiseContourIntegrals;",
            "∳ &CounterClockwiseContourIntegrals;",
        ),
        ("&&amp;&#38;&<b>x</b>", "&&&&x"),
    ] {
        assert_eq!(text(html), plain, "{html}");
    }
}

#[test]
fn titles_and_targets_of_links_stand_aside() {
    for (html, plain, aside) in [
        ("<title>A &amp; B <b>c</b></title>x", "x", "A & B <b>c</b>\n"),
        ("<title>a\n b", "", "a  b\n"),
        (
            "see <a href='https://example.org/?a=1&amp;b=2&copy=3'>this</a> now",
            "see this now",
            "https://example.org/?a=1&b=2&copy=3\n",
        ),
        ("<A HREF = mailto:a@b.example>x</A><area href=\"\n /c\n d \">", "x", "mailto:a@b.example\n/cd\n"),
        ("<a name=x>y</a><a href=''>z</a><link href=style.css><img src=i.png>", "yz", ""),
        ("<script><a href=x></script>y", "y", ""),
    ] {
        let out = out(&[html]);
        assert_eq!((out.text.as_str(), out.aside.as_str()), (plain, aside), "{html}");
    }
}

#[test]
fn endless_names_are_not_collected() {
    let mut html = HtmlText::default();
    let mut out = HtmlOut::default();
    for piece in ["<", "x", " ", "y", "=\"", "&", "&#1", "alt=\"", "<", "<a href='", "1", "script>"] {
        for _ in 0..3000 {
            html.push(piece, &mut out);
        }
        assert!(html.name.len() <= NAME_BYTES);
        assert!(html.value.as_ref().is_none_or(|(of, value)| value.len() <= of.bytes() + 4));
        out = HtmlOut::default();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn cuts_do_not_matter(pieces in proptest::collection::vec(
        prop_oneof!["[<>/!&;#x1=\"'a -]{0,4}", proptest::sample::select(vec![
            "<script>", "</script>", "<!--", "-->", "<p>", "&amp;", "&notin", "<img alt=", "é\n", "<title>", "</title>", "<a href=",
        ]).prop_map(String::from)], 0..8)) {
        let whole = pieces.concat();
        let parts: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let single: Vec<&str> = whole.split_inclusive(|_| true).collect();
        let all = out(&[&whole]);
        for cut in [out(&parts), out(&single)] {
            prop_assert_eq!((&cut.text, &cut.aside), (&all.text, &all.aside));
        }
    }
}
