//! Any two lines are a sender and the domain that its mail is forwarded from: what is rewritten
//! comes back, and nothing that was not leads anywhere.

use sealpost_base::{SeededRandom, Timestamp, limits};
use sealpost_smtp::types::{Host, LocalPart, Mailbox};
use sealpost_submission::srs::Srs;
use sealpost_vault::mail_key::MailKeys;

const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// # Panics
/// If a sender does not come back, or an address that was not written leads somewhere.
pub fn fuzz_submission_srs(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let srs = Srs::new(MailKeys::generate(&SeededRandom::new(1)));
    // A guess of 40 bits, and no fuzzer knows the key.
    assert!(!matches!(srs.original(text, NOW), Some(Ok(_))), "{text:?} leads somewhere");
    let Some((local, host)) = text.rsplit_once('@') else { return };
    let (Some(local), Some(host)) = (LocalPart::new(local), Host::domain(host)) else { return };
    let sender = Mailbox { local, host };
    let here = Host::domain("here.example").expect("a domain");
    let Some(rewritten) = srs.rewrite(&sender, &here, NOW) else { return };
    assert!(rewritten.to_string().len() <= limits::SRS_ADDRESS_BYTES);
    let original = srs.original(rewritten.local.as_str(), NOW);
    let Some(Ok(original)) = original else { panic!("{rewritten} leads to {original:?}") };
    if rewritten.local.as_str().starts_with("SRS0") {
        assert_eq!(original, sender);
    } else {
        // Of what others have rewritten the first server is next.
        assert!(original.local.as_str().starts_with("SRS0"), "{original}");
    }
    // A second server and its keys make it one that does not grow.
    let other = Srs::new(MailKeys::generate(&SeededRandom::new(2)));
    let Some(second) = other.rewrite(&rewritten, &here, NOW) else { return };
    let Some(third) = srs.rewrite(&second, &here, NOW) else { return };
    assert_eq!(second.to_string().len(), third.to_string().len());
    assert!(matches!(other.original(second.local.as_str(), NOW), Some(Ok(_))));
}
