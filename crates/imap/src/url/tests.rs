//! URLs as the RFCs write them, and invalid ones.

use super::*;
use crate::types::SectionText;

fn parsed(text: &str) -> ImapUrl {
    match ImapUrl::parse(text.as_bytes()) {
        Ok(url) => url,
        Err(InvalidUrl(why)) => panic!("{why}: {text}"),
    }
}

fn brief(text: &str) -> (String, u32, Vec<u32>, SectionText) {
    let url = parsed(text);
    let path = url.section.path.iter().map(|n| n.get()).collect();
    (url.mailbox.as_str().to_owned(), url.uid.get(), path, url.section.text)
}

/// RFC 4469 §A, RFC 8508 §4.2, RFC 5092 §9
#[test]
fn relative_ones() {
    let whole = SectionText::Everything;
    assert_eq!(
        brief("/Drafts;UIDVALIDITY=385759045/;UID=20/;section=HEADER"),
        ("Drafts".into(), 20, vec![], SectionText::Header)
    );
    assert_eq!(parsed("/Drafts;UIDVALIDITY=385759045/;UID=20").uid_validity.unwrap().get(), 385_759_045);
    assert_eq!(
        brief("/Drafts;UIDVALIDITY=385759045/;UID=20/;Section=2.MIME"),
        ("Drafts".into(), 20, vec![2], SectionText::Mime)
    );
    assert_eq!(
        brief("/INBOX/;UID=113330/;section=1.5.9"),
        ("INBOX".into(), 113_330, vec![1, 5, 9], whole.clone())
    );
    assert_eq!(brief("/inbox/;uid=1"), ("INBOX".into(), 1, vec![], whole.clone()));
    assert_eq!(brief("/a/b%20c/;UID=7"), ("a/b c".into(), 7, vec![], whole.clone()));
    assert_eq!(
        brief("/~peter/%E6%97%A5%E6%9C%AC%E8%AA%9E/%E5%8F%B0%E5%8C%97/;UID=7").0,
        "~peter/日本語/台北"
    );
    let fields = brief("/x/;UID=7/;SECTION=HEADER.FIELDS%20(DATE%20FROM)").3;
    assert!(matches!(fields, SectionText::HeaderFields(names) if names.len() == 2));
    let partial = |text| parsed(text).partial.unwrap();
    assert_eq!(partial("/x/;UID=20/;PARTIAL=0.1024"), Partial { start: 0, count: 1024 });
    assert_eq!(partial("/x/;UID=20/;section=1/;PARTIAL=10"), Partial { start: 10, count: u64::MAX });
    // Dot segments.
    assert_eq!(brief("/foo/../bar/./;UID=20").0, "bar");
    assert_eq!(brief("/../x/;UID=20/;section=1/../;section=2").2, [2]);
}

#[test]
fn absolute_ones() {
    let url = parsed("imap://minbari.example.org/gray-council;UIDVALIDITY=385759045/;UID=20/;PARTIAL=0.1024");
    assert_eq!(url.server, Some(UrlServer { user: None, host: "minbari.example.org".into(), port: None }));
    let server = |text| parsed(text).server.unwrap();
    assert_eq!(server("IMAP://;AUTH=GSSAPI@Minbari.example.org:1143/x/;uid=20").port, Some(1143));
    assert_eq!(server("imap://michael;AUTH=*@example.org/x/;uid=20").user.as_deref(), Some("michael"));
    assert_eq!(server("imap://me%40example.org@[::1]:143/x/;uid=20").user.as_deref(), Some("me@example.org"));
    assert_eq!(server("imap://me@[::1]/x/;uid=20").host, "[::1]");
}

/// RFC 4467 §9
#[test]
fn authorized_ones() {
    let rump = "imap://joe@example.com/INBOX/;uid=20/;section=1.2;urlauth=submit+fred";
    let url = parsed(rump);
    let auth = url.auth.unwrap();
    assert_eq!((auth.access, auth.token, auth.rump), (Access::Submit("fred".into()), None, rump.len()));
    assert_eq!(url.section.path.len(), 2);
    let auth = parsed(&format!("{rump}:internal:91354a473744909de610943775f92038")).auth.unwrap();
    assert_eq!(auth.rump, rump.len());
    let token = auth.token.unwrap();
    assert_eq!((&*token.mechanism, token.token.len(), token.token[0]), ("INTERNAL", 16, 0x91));
    let auth = |text: &str| parsed(&format!("imap://joe@example.com/INBOX/;uid=20{text}")).auth.unwrap();
    let expiring = auth(";EXPIRE=2026-11-20T13:00:00.25+01:00;URLAUTH=user+a%40b");
    assert_eq!(expiring.access, Access::User("a@b".into()));
    assert_eq!(expiring.expire.unwrap().seconds(), 1_795_176_000);
    assert_eq!(auth(";expire=2026-11-20t12%3A00:00z;urlauth=AUTHUSER").expire, expiring.expire);
    assert_eq!(auth("/;PARTIAL=1.2;URLAUTH=anonymous").access, Access::Anonymous);
    // With `+` in the name, and `@` as it is.
    for (text, user) in [
        ("t1@localhost", "t1@localhost"),
        ("t1%40localhost", "t1@localhost"),
        ("me+t1@localhost", "me+t1@localhost"),
        ("me%2Bt1%40localhost", "me+t1@localhost"),
        ("a+b+c", "a+b+c"),
        ("+", "+"),
    ] {
        let token = "internal:91354a473744909de610943775f92038";
        for (kind, access) in [("user", Access::User(user.into())), ("submit", Access::Submit(user.into()))] {
            let rump = format!(";URLAUTH={kind}+{text}");
            assert_eq!(auth(&rump).access, access, "{text}");
            let whole = auth(&format!("{rump}:{token}"));
            assert_eq!((whole.access, whole.token.is_some()), (access, true), "{text}");
            assert_eq!(whole.rump, "imap://joe@example.com/INBOX/;uid=20".len() + rump.len());
        }
    }
}

#[test]
fn invalid_urls_are_refused() {
    let long = format!("/{}/;UID=1", "x".repeat(limits::IMAP_URL_BYTES));
    for text in [
        "",
        "/",
        "INBOX/;UID=1",
        ";UID=1",
        "//example.org/INBOX/;UID=1",
        "http://example.org/INBOX/;UID=1",
        "imap://example.org",
        "imap://example.org/",
        "imap:///INBOX/;UID=1",
        "imap://@example.org/INBOX/;UID=1",
        "imap://a:b@example.org/INBOX/;UID=1",
        "imap://a;x=y@example.org/INBOX/;UID=1",
        "imap://example.org:x/INBOX/;UID=1",
        "/INBOX",
        "/INBOX;UIDVALIDITY=1",
        "/INBOX?ALL",
        "/INBOX;UID=1",
        "/INBOX/;UID=0",
        "/INBOX/;UID=",
        "/INBOX/;UID=4294967296",
        "/INBOX/;UID=+1",
        "/INBOX/;UID=1/",
        "/INBOX/;UID=1;UID=2",
        "/INBOX/;UID=1/;UID=2",
        "/INBOX/;UIDVALIDITY=1/;UID=1",
        "/INBOX;UIDVALIDITY=0/;UID=1",
        "/INBOX/;UID=1;SECTION=1",
        "/INBOX/;UID=1/;SECTION=",
        "/INBOX/;UID=1/;SECTION=1]",
        "/INBOX/;UID=1/;SECTION=1%5D",
        "/INBOX/;UID=1/;SECTION=FOO",
        "/INBOX/;UID=1/;PARTIAL=0.0",
        "/INBOX/;UID=1/;PARTIAL=",
        "/INBOX/;UID=1/;PARTIAL=1/;SECTION=1",
        "/INBOX/;UID=1/;COLOR=red",
        "/INBOX/;UID",
        "/a b/;UID=1",
        "/a%2/;UID=1",
        "/a%00/;UID=1",
        "/a%ff/;UID=1",
        "/a%0A/;UID=1",
        "/é/;UID=1",
        "/;UID=1",
        "imap://a@b/x/;UID=1;EXPIRE=2026-11-20T12:00:00Z",
        "imap://a@b/x/;UID=1;EXPIRE=yesterday;URLAUTH=anonymous",
        "imap://a@b/x/;UID=1;EXPIRE=2026-13-20T12:00:00Z;URLAUTH=anonymous",
        "imap://a@b/x/;UID=1;EXPIRE=2026-11-20T12:00:00;URLAUTH=anonymous",
        "imap://a@b/x/;UID=1/;URLAUTH=anonymous",
        "imap://a@b/x/;UID=1;URLAUTH=everybody",
        "imap://a@b/x/;UID=1;URLAUTH=user+",
        "imap://a@b/x/;UID=1;URLAUTH=user",
        "imap://a@b/x/;UID=1;URLAUTH=user+a/b",
        "imap://a@b/x/;UID=1;URLAUTH=other+a@b",
        "imap://a@b/x/;UID=1;URLAUTH=anonymous+a@b",
        "imap://a@b/x/;UID=1;URLAUTH=anonymous:INTERNAL",
        "imap://a@b/x/;UID=1;URLAUTH=anonymous:INTERNAL:0011",
        "imap://a@b/x/;UID=1;URLAUTH=anonymous::91354a473744909de610943775f92038",
        "imap://a@b/x/;UID=1;URLAUTH=anonymous:INTERNAL:91354a473744909de610943775f9203x",
        "imap://a@b/x/../y/;UID=1;URLAUTH=anonymous",
        &long,
    ] {
        assert!(ImapUrl::parse(text.as_bytes()).is_err(), "{text}");
    }
    assert!(ImapUrl::parse(b"/\xff/;UID=1").is_err());
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(300))]
    #[test]
    fn nothing_panics(text in "(imap://)?[a@:/]{0,6}(/?;(UID|SECTION|PARTIAL|EXPIRE|URLAUTH|uidvalidity)=[0-9a%.:+Z-]{0,9}){0,5}") {
        let _ = ImapUrl::parse(text.as_bytes());
    }
}
