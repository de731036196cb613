//! Any bytes are a message of a name server; the answer taken from it keeps the promises of its type.

use sealpost_dns::hickory::{answer_in_message, watch_messages};
use sealpost_dns::{DnsName, RecordType};

/// The bytes as a message, asked for each type, and as a stream of messages.
///
/// # Panics
/// If an answer has records of another type or none, or if cutting a stream changes the messages.
pub fn fuzz_dns_answers(data: &[u8]) {
    let name = DnsName::new("example.org").expect("a name");
    for kind in [
        RecordType::A,
        RecordType::Aaaa,
        RecordType::Mx,
        RecordType::Txt,
        RecordType::Tlsa,
        RecordType::Srv,
        RecordType::Ptr,
        RecordType::Cname,
    ] {
        if let Ok(answer) = answer_in_message(data, &name, kind) {
            assert!(!answer.records.is_empty());
            assert!(answer.records.iter().all(|record| record.kind() == kind));
            assert!(!answer.secure, "nothing was validated");
        }
    }
    let whole = watch_messages(&[data]);
    let pieces: Vec<&[u8]> = data.chunks(3).collect();
    assert_eq!(whole, watch_messages(&pieces), "cutting changes the messages");
}
