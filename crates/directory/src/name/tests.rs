//! Which addresses there are, how they are spelled, and which of them can be names.

use proptest::prelude::*;
use sealpost_base::Kind;

use super::*;

#[test]
fn spellings_of_one_address() {
    for (spelling, canonical) in [
        ("Me@LocalHost", "me@localhost"),
        ("\"me\"@localhost", "me@localhost"),
        ("\"j\\.doe\"@x.org", "j.doe@x.org"),
        ("\"J\\.d oe\"@x.org", "\"j.d oe\"@x.org"),
        ("\"a\\\\\\\"\"@x.org", "\"a\\\\\\\"\"@x.org"),
        ("o'brien+a/b=c{d}@x.org", "o'brien+a/b=c{d}@x.org"),
        ("GRÜN@EXÄMPLE.org", "grün@exämple.org"),
        ("gru\u{308}n@exa\u{308}mple.org", "grün@exämple.org"),
        ("用户@例子.广告", "用户@例子.广告"),
        ("a@XN--BCHER-KVA.example", "a@bücher.example"),
        ("a@bücher\u{3002}example.", "a@bücher.example"),
        ("a@xn--999999999.example", "a@xn--999999999.example"),
        ("a@[IPv6:::1]", "a@[ipv6:::1]"),
        ("a@[192.0.2.1]", "a@[192.0.2.1]"),
        ("\"a@b\"@c", "\"a@b\"@c"),
        ("\"\\\"@b\"@c", "\"\\\"@b\"@c"),
    ] {
        assert_eq!(Address::parse(spelling).unwrap().as_str(), canonical);
        assert_eq!(Address::parse(canonical).unwrap().as_str(), canonical, "canonical is a fixed point");
    }
}

#[test]
fn invalid_addresses_are_refused() {
    for (bad, why) in [
        ("", "form name@domain"),
        ("me", "form name@domain"),
        ("not an address", "form name@domain"),
        ("not an address@x", "a space is not allowed before the @"),
        ("ja\u{a0}ne@x", "U+00A0"),
        ("m\0e@x", "U+0000"),
        ("a@b@x", "\"b@x\" cannot be"),
        ("jane,joe@x", ", is not allowed before"),
        ("<jane@x>", "< is not allowed before"),
        ("a:b@x", ": is not allowed before"),
        ("a(b)@x", "( is not allowed before"),
        ("a\"b@x", "\" is not allowed before"),
        ("a\\b@x", "\\ is not allowed before"),
        (".jane@x", "with a dot"),
        ("jane.@x", "with a dot"),
        ("ja..ne@x", "two in a row"),
        ("@x", "nothing before"),
        ("me@", "domain name is required"),
        ("me@a..b", "two in a row"),
        ("me@.x", "begin with a dot"),
        ("me@-x", "\"-x\" cannot"),
        ("me@x-.org", "\"x-\" cannot"),
        ("me@a/b", "a part of the name"),
        ("me@a b", "a part of the name"),
        ("\"me@x", "before the @"),
        ("\"me\"x@y", "form name@domain"),
        ("\"\"@x", "nothing before"),
        ("me@[]", "no address of a host"),
        ("me@[127.0.0.1", "a part of the name"),
        ("me@[256.0.0.1]", "no address of a host"),
        ("a@℀.x", "a part of the name"),
    ] {
        let e = Address::parse(bad).unwrap_err();
        assert!(e.kind() == Kind::Invalid && e.to_string().contains(why), "{bad:?}: {e}");
    }
    let long = format!("{}@x", "a".repeat(limits::LOCAL_PART_BYTES + 1));
    assert_eq!(Address::parse(&long).unwrap_err().kind(), Kind::Limit);
    let long = format!("a@{}", "b".repeat(limits::DOMAIN_BYTES + 1));
    assert_eq!(Address::parse(&long).unwrap_err().kind(), Kind::Limit);
    assert_eq!(Address::parse(&format!("a@{}", "b".repeat(64))).unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn names_need_no_quotes_and_have_a_domain() {
    for name in ["me@localhost", "o'brien@x.org", "\"me\"@x.org", "grün@exämple.org"] {
        assert!(AccountName::parse(name).is_ok(), "{name}");
    }
    for address in ["\"two words\"@x.org", "me@[192.0.2.1]"] {
        assert!(Address::parse(address).is_ok());
        assert_eq!(AccountName::parse(address).unwrap_err().kind(), Kind::Invalid, "{address}");
    }
}

#[test]
fn a_name_is_looked_at_before_it_is_completed() {
    let parse = |text: &str, domain| Address::parse_in(text, domain).map_err(|e| e.to_string());
    assert_eq!(parse("Jane", Some("x.org")).unwrap().as_str(), "jane@x.org");
    assert_eq!(parse("jane@y.org", Some("x.org")).unwrap().as_str(), "jane@y.org");
    let unset = parse("jane", None).unwrap_err();
    assert!(unset.contains("jane@example.org") && unset.contains("`domain`"), "{unset}");
    for domain in [None, Some("x.org")] {
        let wrong = parse("not an address", domain).unwrap_err();
        assert_eq!(wrong, "\"not an address\" is not an address: a space is not allowed before the @");
    }
}

#[test]
fn a_tag_follows_the_first_plus() {
    let address = Address::parse("me+a+b@x").unwrap();
    let (user, tag) = address.split_tag().unwrap();
    assert_eq!((user.as_str(), user.local(), user.domain(), tag), ("me@x", "me", "x", "a+b"));
    for whole in ["+a@x", "\"a b+c\"@x", "a@x"] {
        assert!(Address::parse(whole).unwrap().split_tag().is_none(), "{whole}");
    }
    assert!(Address::parse("me@x").unwrap().split_tag().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn canonical_form_is_a_fixed_point(text in "\\PC{1,12}@\\PC{1,12}") {
        if let Ok(address) = Address::parse(&text) {
            prop_assert_eq!(&Address::parse(address.as_str()).unwrap(), &address);
        }
    }

    #[test]
    fn any_quoted_text_has_one_canonical_form(content in "[ -~]{1,20}") {
        let escaped: String = content.chars().flat_map(|c| ['\\', c]).collect();
        let address = Address::parse(&format!("\"{escaped}\"@x")).unwrap();
        prop_assert_eq!(&Address::parse(address.as_str()).unwrap(), &address);
    }
}
