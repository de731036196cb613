use super::*;

/// `name|adl|mailbox|host`, `-` for NIL.
fn list(value: &str) -> Vec<String> {
    let show = |field: &Option<String>| field.clone().unwrap_or_else(|| "-".into());
    parse_list(value).0.iter().map(|a| [&a.name, &a.adl, &a.mailbox, &a.host].map(show).join("|")).collect()
}

#[test]
fn rfc_5322_appendix_a() {
    assert_eq!(list("John Doe <jdoe@machine.example>"), ["John Doe|-|jdoe|machine.example"]);
    assert_eq!(
        list("\"Joe Q. Public\" <john.q.public@example.com>"),
        ["Joe Q. Public|-|john.q.public|example.com"]
    );
    assert_eq!(
        list("Mary Smith <mary@x.test>, jdoe@example.org, Who? <one@y.test>"),
        ["Mary Smith|-|mary|x.test", "-|-|jdoe|example.org", "Who?|-|one|y.test"]
    );
    assert_eq!(
        list("<boss@nil.test>, \"Giant; \\\"Big\\\" Box\" <sysservices@example.net>"),
        ["-|-|boss|nil.test", "Giant; \"Big\" Box|-|sysservices|example.net"]
    );
    assert_eq!(
        list("A Group:Ed Jones <c@a.test>,joe@where.test,John <jdoe@one.test>;"),
        ["-|-|A Group|-", "Ed Jones|-|c|a.test", "-|-|joe|where.test", "John|-|jdoe|one.test", "-|-|-|-"]
    );
    assert_eq!(list("Undisclosed recipients:;"), ["-|-|Undisclosed recipients|-", "-|-|-|-"]);
    assert_eq!(
        list("Pete(A nice \\) chap) <pete(his account)@silly.test(his host)>"),
        ["Pete|-|pete|silly.test"]
    );
    assert_eq!(
        list(
            "A Group(Some people)\r\n     :Chris Jones <c@(Chris's host.)public.example>,\r\n         joe@example.org,\r\n  John <jdoe@one.test> (my dear friend); (the end of the group)"
        ),
        [
            "-|-|A Group|-",
            "Chris Jones|-|c|public.example",
            "-|-|joe|example.org",
            "John|-|jdoe|one.test",
            "-|-|-|-"
        ]
    );
    assert_eq!(
        list("Joe Q. Public <john.q.public@example.com>"),
        ["Joe Q. Public|-|john.q.public|example.com"]
    );
    assert_eq!(
        list("Mary Smith <@node.test,@x:mary@example.net>, , jdoe@test . example"),
        ["Mary Smith|@node.test,@x|mary|example.net", "-|-|jdoe|test.example"]
    );
}

#[test]
fn old_and_broken_forms() {
    assert_eq!(list("user@host (Full Name)"), ["Full Name|-|user|host"]);
    assert_eq!(list("=?utf-8?q?a=2C_b?= <a@b>"), ["=?utf-8?q?a=2C_b?=|-|a|b"]);
    assert_eq!(list("root"), ["-|-|root|"]);
    assert_eq!(list("X <a@b:25>, c@d"), ["X|-|a|b", "-|-|c|d"]);
    assert_eq!(list("<>"), ["-|-||"]);
    assert_eq!(list("\"a@b\"@c"), ["-|-|a@b|c"]);
    assert_eq!(list("a@[127.0.0.1]"), ["-|-|a|[127.0.0.1]"]);
    assert_eq!(list("a@[IPv6:::1], b@c"), ["-|-|a|[IPv6:::1]", "-|-|b|c"]);
    assert_eq!(list("Bad <a@b, c@d"), ["Bad|-|a|b", "-|-|c|d"]);
    assert_eq!(list("a@b c@d"), ["-|-|a|b", "-|-|c|d"]);
    assert_eq!(list(""), [""; 0]);
    assert_eq!(list(",, ;"), [""; 0]);
    assert_eq!(list("group: a@b"), ["-|-|group|-", "-|-|a|b", "-|-|-|-"]);
    assert_eq!(list("a . b @ c . d"), ["-|-|a.b|c.d"]);
    assert_eq!(list("()"), [""; 0]);
}

#[test]
fn words_without_an_address_or_its_brackets_stay_apart() {
    assert_eq!(list("Just A Name"), ["Just A Name|-||"]);
    assert_eq!(list("\"Just A Name\", x@y"), ["Just A Name|-||", "-|-|x|y"]);
    assert_eq!(list("Just\r\n\tA  Name (comment)"), ["Just A Name|-||"]);
    assert_eq!(list("\"Ann Bee\" ann@example.org"), ["Ann Bee|-|ann|example.org"]);
    assert_eq!(list("Ann B. Bee ann@example.org"), ["Ann B. Bee|-|ann|example.org"]);
    assert_eq!(list("J. R. ann@example.org, b@c"), ["J. R.|-|ann|example.org", "-|-|b|c"]);
    assert_eq!(list("ann@example.org Ann Bee"), ["Ann Bee|-|ann|example.org"]);
    assert_eq!(list("Ann ann @ example . org Bee"), ["Ann Bee|-|ann|example.org"]);
    assert_eq!(list("=?utf-8?q?Ann?= =?utf-8?q?_Bee?= a@b"), ["=?utf-8?q?Ann?= =?utf-8?q?_Bee?=|-|a|b"]);
    assert_eq!(list("Ann a@b Bob c@d"), ["Ann|-|a|b", "Bob|-|c|d"]);
    assert_eq!(list("<Just A Name>"), ["Just A Name|-||"]);
    assert_eq!(list("X <Just A Name>"), ["X|-|Just A Name|"]);
    assert_eq!(list("<Ann Bee ann@example.org>"), ["Ann Bee|-|ann|example.org"]);
    assert_eq!(list("Ann Bee <>"), ["Ann Bee|-||"]);
    assert_eq!(
        list("A Group: Ed Jones, c@d, Mary"),
        ["-|-|A Group|-", "Ed Jones|-||", "-|-|c|d", "-|-|Mary|", "-|-|-|-"]
    );
    assert_eq!(list("(only a comment)"), ["only a comment|-||"]);
    assert_eq!(list("a@b (name), (comment)"), ["name|-|a|b"]);
}

#[test]
fn hostile_values_take_linear_time() {
    for piece in ["a ", ". ", "@ ", "a@b ", "<a ", "\"a\" ", "(", "[", "a:"] {
        let (found, _) = parse_list(&piece.repeat(60_000));
        assert!(found.len() <= limits::ENVELOPE_ADDRESSES, "{piece}");
    }
}

#[test]
fn addresses_are_limited() {
    let (found, more) = parse_list(&"a@b,".repeat(limits::ENVELOPE_ADDRESSES + 1));
    assert!(more && found.len() == limits::ENVELOPE_ADDRESSES);
    let (found, more) = parse_list(&"a@b,".repeat(limits::ENVELOPE_ADDRESSES));
    assert!(!more && found.len() == limits::ENVELOPE_ADDRESSES);
}
