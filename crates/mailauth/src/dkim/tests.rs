use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use sealpost_base::SeededRandom;

use super::*;

/// RFC 8463 Appendix A.3.
const MESSAGE: &str = "DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;\r
 d=football.example.com; i=@football.example.com;\r
 q=dns/txt; s=brisbane; t=1528637909; h=from : to :\r
 subject : date : message-id : from : subject : date;\r
 bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\r
 b=/gCrinpcQOoIfuHNQIbq4pgh9kyIK3AQUdt9OdqQehSwhEIug4D11Bus\r
 Fa3bT3FY5OsU7ZbnKELq+eXdp1Q1Dw==\r
DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed;\r
 d=football.example.com; i=@football.example.com;\r
 q=dns/txt; s=test; t=1528637909; h=from : to : subject :\r
 date : message-id : from : subject : date;\r
 bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\r
 b=F45dVWDfMbQDGHJFlXUNB2HKfbCeLRyhDXgFpEL8GwpsRe0IeIixNTe3\r
 DhCVlUrSjV4BwcVcOF6+FF3Zo9Rpo1tFOeS9mPYQTnGdaSGsgeefOsk2Jz\r
 dA+L10TeYt9BgDfQNZtKdN1WO//KgIqXP7OdEFE4LjFYNcUxZQ4FADY+8=\r
From: Joe SixPack <joe@football.example.com>\r
To: Suzie Q <suzie@shopping.example.net>\r
Subject: Is dinner ready?\r
Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)\r
Message-ID: <20030712040037.46341.5F8J@football.example.com>\r
\r
Hi.\r
\r
We lost the game.  Are you hungry yet?\r
\r
Joe.\r
";
/// RFC 8463 Appendix A.2.
const BRISBANE: &str = "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
/// RFC 8463 Appendix A.2.
const TEST: &str = "v=DKIM1; k=rsa; p=MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDkHlOQoBTzWRiGs5V6NpP3idY6Wk08a5qhdR6wy5bdOKb2jLQi\
                    Y/J16JYi0Qvx/byYzCNb3W91y3FutACDfzwQ/BC/e/8uBsCR+yz1Lxj+PL6lHvqMKrM3rG4hstT5QjvHO9PzoxZyVYLzBfO2EeC3\
                    Ip3G+2kryOTIKT+l/K4w3QIDAQAB";
/// RFC 8463 Appendix A.1.
const SECRET: &str = "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";
const PASS: Verdict = Verdict::Pass { unsigned_body_bytes: 0, is_testing: false };
const NOW: u64 = 1_528_637_909;

fn split(message: &str) -> (&[u8], &[u8]) {
    let end = message.find("\r\n\r\n").unwrap() + 4;
    (&message.as_bytes()[..end], &message.as_bytes()[end..])
}

fn seen(message: &str) -> SignedMessage {
    let (header, body) = split(message);
    let mut verifier = Verifier::new(header);
    verifier.push(body);
    verifier.finish()
}

/// The verdicts on the signatures of `message` with one record for each.
fn verdicts(message: &str, records: &[&str]) -> Vec<Verdict> {
    let message = seen(message);
    assert_eq!(message.len(), records.len());
    records
        .iter()
        .enumerate()
        .map(|(index, record)| message.verify(index, KeyLookup::Records(&[(*record).to_owned()]), NOW))
        .collect()
}

fn ed25519() -> SigningKey {
    let secret = STANDARD.decode(SECRET).unwrap();
    let prefix = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    SigningKey::from_pkcs8(&[&prefix[..], &secret].concat()).unwrap()
}

fn signed(message: &str, keys: &[(&str, &SigningKey)]) -> String {
    let (header, body) = split(message);
    let options = SigningOptions { domain: "football.example.com", timestamp: NOW, expiry: Some(NOW + 60) };
    let mut signer = Signer::new(header, options).unwrap();
    for piece in body.chunks(5) {
        signer.push(piece);
    }
    String::from_utf8(signer.finish(keys).unwrap()).unwrap() + message
}

/// The message of the RFC without its signatures.
fn plain() -> &'static str {
    &MESSAGE[MESSAGE.find("From: Joe").unwrap()..]
}

#[test]
fn message_of_rfc_8463_verifies() {
    assert_eq!(verdicts(MESSAGE, &[BRISBANE, TEST]), [PASS, PASS]);
    assert_eq!(seen(MESSAGE).signature(1).unwrap().key_name(), "test._domainkey.football.example.com");
    assert_eq!(verdicts(MESSAGE, &[TEST, BRISBANE]), [Verdict::Fail(Fault::KeyUnsuitable); 2]);
}

#[test]
fn relaxed_changes_pass_and_others_do_not() {
    for (from, to, ed25519) in [
        ("Subject: Is", "SUBJECT:\r\n   Is ", PASS),
        ("yet?\r\n", "yet? \t\r\n", PASS),
        ("game.  Are", "game. Are", PASS),
        ("Joe.\r\n", "Joe.\r\n\r\n\r\n", PASS),
        ("Joe.\r\n", "Joe.", PASS),
        ("To: Suzie", "X-New: field\r\nTo: Suzie", PASS),
        ("hungry", "angry", Verdict::Fail(Fault::BodyHash)),
        ("dinner", "supper", Verdict::Fail(Fault::Mismatch)),
        ("t=1528637909", "t=1528637908", Verdict::Fail(Fault::Mismatch)),
        ("\r\nFrom: Joe", "\r\nFrom: Eve <eve@example.com>\r\nFrom: Joe", Verdict::Fail(Fault::Mismatch)),
        ("Subject: Is", "Subject: new\r\nSubject: Is", Verdict::Fail(Fault::Mismatch)),
        ("; bh=", "; x=1528637910; bh=", Verdict::Fail(Fault::Mismatch)),
        ("d=football", "x=1528637908; t=1; d=football", Verdict::Fail(Fault::SignatureSyntax)),
    ] {
        let changed = MESSAGE.replacen(from, to, 1);
        let changed = if to.contains("x=1528637910") {
            MESSAGE.replacen(";\r\n bh=", "; x=1528637910;\r\n bh=", 1)
        } else {
            changed
        };
        assert_ne!(changed, MESSAGE, "{from}");
        assert_eq!(verdicts(&changed, &[BRISBANE, TEST])[0], ed25519, "{from} -> {to}");
    }
}

#[test]
fn keys_decide() {
    let message = seen(MESSAGE);
    let verdict = |records: &[&str]| {
        let records: Vec<String> = records.iter().map(|record| (*record).to_owned()).collect();
        message.verify(0, KeyLookup::Records(&records), NOW)
    };
    let testing = format!("{BRISBANE}; t=y:s");
    assert_eq!(verdict(&[&testing]), Verdict::Pass { unsigned_body_bytes: 0, is_testing: true });
    assert_eq!(verdict(&["v=spf1 -all", BRISBANE]), PASS);
    assert_eq!(verdict(&["v=DKIM1; p="]), Verdict::Fail(Fault::KeyRevoked));
    assert_eq!(verdict(&[]), Verdict::Fail(Fault::NoKey));
    assert_eq!(message.verify(0, KeyLookup::NotFound, NOW), Verdict::Fail(Fault::NoKey));
    assert_eq!(message.verify(0, KeyLookup::Unavailable, NOW), Verdict::TemporaryError);
    let many = ["x"; sealpost_base::limits::DKIM_KEY_RECORDS];
    assert_eq!(verdict(&[&many[..], &[BRISBANE]].concat()), Verdict::Fail(Fault::KeySyntax));
}

#[test]
fn signatures_beyond_the_limit_do_not_count() {
    let limit = sealpost_base::limits::DKIM_SIGNATURES;
    let junk = "DKIM-Signature: v=1\r\n".repeat(limit + 3);
    assert_eq!(seen(&(junk + MESSAGE)).len(), limit);
    assert!(seen(plain()).is_empty());
}

/// `l=` covers the beginning of a body; bytes after it are counted, and a shorter body is refused.
#[test]
fn body_length_limits_the_signed_bytes() {
    let length = "Hi.\r\n\r\nWe lost the game. Are you hungry yet?\r\n\r\nJoe.\r\n".len();
    let with = |l: usize| MESSAGE.replacen("bh=", &format!("l={l}; bh="), 1);
    // The header hash no longer fits, but the body is judged first.
    assert_eq!(verdicts(&with(length), &[BRISBANE, TEST])[0], Verdict::Fail(Fault::Mismatch));
    assert_eq!(verdicts(&with(length + 1), &[BRISBANE, TEST])[0], Verdict::Fail(Fault::BodyLength));
    assert_eq!(verdicts(&with(length - 1), &[BRISBANE, TEST])[0], Verdict::Fail(Fault::BodyHash));
    let longer = with(length) + "More.\r\n";
    assert_eq!(verdicts(&longer, &[BRISBANE, TEST])[0], Verdict::Fail(Fault::Mismatch));
}

#[test]
fn made_signatures_verify_and_lines_are_short() {
    let random = SeededRandom::new(1);
    let rsa = SigningKey::from_pkcs8(&SigningKey::generate(Algorithm::RsaSha256, &random).unwrap()).unwrap();
    let message = signed(plain(), &[("brisbane", &ed25519()), ("rsa", &rsa)]);
    assert_eq!(verdicts(&message, &[BRISBANE, &rsa.record()]), [PASS, PASS]);
    assert!(message.lines().all(|line| line.len() <= 78), "{message}");
    let expired = seen(&message).verify(0, KeyLookup::Records(&[BRISBANE.to_owned()]), NOW + 61);
    assert_eq!(expired, Verdict::Fail(Fault::Expired));
    assert_eq!(ed25519().record(), BRISBANE);
}

#[test]
fn adding_a_closed_field_breaks_the_signature() {
    let message = signed(plain(), &[("brisbane", &ed25519())]);
    for (field, verdict) in [
        ("From", Verdict::Fail(Fault::Mismatch)),
        ("Subject", Verdict::Fail(Fault::Mismatch)),
        ("Cc", Verdict::Fail(Fault::Mismatch)),
        ("Content-Type", Verdict::Fail(Fault::Mismatch)),
        ("List-Id", PASS),
        ("Received", PASS),
    ] {
        assert_eq!(verdicts(&format!("{field}: new\r\n{message}"), &[BRISBANE]), [verdict], "{field}");
    }
}

#[test]
fn messages_without_from_are_not_signed() {
    let options = SigningOptions { domain: "example.com", timestamp: 0, expiry: None };
    assert!(Signer::new(b"Subject: x\r\n\r\n", options).is_err());
}

#[test]
fn generated_keys_are_read_again() {
    let random = SeededRandom::new(7);
    let der = SigningKey::generate(Algorithm::Ed25519Sha256, &random).unwrap();
    let key = SigningKey::from_pkcs8(&der).unwrap();
    assert_eq!(key.algorithm(), Algorithm::Ed25519Sha256);
    assert!(SigningKey::from_pkcs8(&der[1..]).is_err());
    assert!(KeyRecord::parse(&key.record()).is_ok());
}

proptest! {
    /// Whatever is signed verifies, and any changed byte that is not white space is noticed.
    #[test]
    fn any_changed_byte_is_refused(
        subject in "[ -~]{0,90}",
        body in "([ -~\t]{0,80}\r\n){0,6}",
        at in any::<prop::sample::Index>(),
    ) {
        let message = format!("From: a@football.example.com\r\nSubject: {subject}\r\n\r\n{body}");
        let message = signed(&message, &[("brisbane", &ed25519())]);
        prop_assert_eq!(verdicts(&message, &[BRISBANE]), [PASS]);
        let begin = message.find("From: a@").unwrap();
        let at = begin + at.index(message.len() - begin);
        let byte = message.as_bytes()[at];
        // The name of a field has no case; white space and line ends may change.
        prop_assume!(byte.is_ascii_graphic());
        let mut changed = message.clone().into_bytes();
        changed[at] ^= 0x01;
        prop_assume!(changed[at].is_ascii_graphic());
        let changed = String::from_utf8(changed).unwrap();
        prop_assert_ne!(verdicts(&changed, &[BRISBANE]), [PASS]);
    }
}
