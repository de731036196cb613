//! imap-codec as an independent oracle: each side parses the other's output to the same value.

use imap_codec::decode::Decoder;
use imap_codec::encode::Encoder;
use imap_codec::{CommandCodec, ResponseCodec};
use proptest::prelude::*;

use super::round_trip::written;
use super::strategy;
use crate::parse::{self, Refused};
use crate::types::{Command, Response, Status};
use crate::write::{Literals, Writer};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn commands_there_and_back(tag in strategy::tag(), body in strategy::common_body()) {
        let command = Command { tag, body };
        let wire = written(&command, Literals::Synchronizing);
        let codec = CommandCodec::default();
        // Bytes above 127 in quoted strings and literals are read, and all of the input must be.
        let (rest, theirs) = match codec.decode(&wire) {
            Ok(decoded) => decoded,
            Err(error) => return Err(TestCaseError::fail(format!("{error:?} for {}", wire.escape_ascii()))),
        };
        prop_assert!(rest.is_empty());
        let back = codec.encode(&theirs).dump();
        prop_assert_eq!(parse::command(&back, false), Ok(command), "{}", back.escape_ascii());
    }

    #[test]
    fn commands_that_imap_codec_accepts_are_accepted(
        tag in strategy::tag(),
        body in strategy::common_body(),
        at in any::<prop::sample::Index>(),
        byte in proptest::sample::select(b" ()[]<>{}.,:*%\"\\+-~019azAZ\r\n\0\x7f\xff".to_vec()),
        how in 0..3,
    ) {
        let mut wire = written(&Command { tag, body }, Literals::NonSynchronizing);
        let at = at.index(wire.len());
        match how {
            0 => wire[at] = byte,
            1 => wire.insert(at, byte),
            _ => drop(wire.remove(at)),
        }
        if let Ok((rest, theirs)) = CommandCodec::default().decode(&wire) {
            let wire = &wire[..wire.len() - rest.len()];
            match parse::command(wire, false) {
                // A name that is no modified UTF-7, which imap-codec does not look at.
                Ok(_) | Err(Refused::Name { .. }) => {}
                Err(refused) => {
                    let allowed = format!("{refused:?}");
                    prop_assert!(KNOWN_DIFFERENCES.iter().any(|known| allowed.contains(known)),
                        "{refused:?} for {} which they read as {theirs:?}", wire.escape_ascii());
                }
            }
        }
    }

    #[test]
    fn responses_there_and_back(response in strategy::response()) {
        // imap-codec reads PREAUTH only as a greeting, which is another type there.
        prop_assume!(!matches!(response, Response::Status { status: Status::PreAuth, .. }));
        prop_assume!(it_knows(&response));
        let mut writer = Writer::new();
        writer.response(&response);
        let wire = writer.as_bytes();
        let codec = ResponseCodec::default();
        let (rest, theirs) = match codec.decode(wire) {
            Ok(decoded) => decoded,
            Err(error) => return Err(TestCaseError::fail(format!("{error:?} for {}", wire.escape_ascii()))),
        };
        prop_assert!(rest.is_empty());
        let back = codec.encode(&theirs).dump();
        let again: Result<Response, _> = parse::response(&back, false);
        prop_assert_eq!(again, Ok(response), "{}", back.escape_ascii());
    }
}

/// Where we are stricter, and why.
const KNOWN_DIFFERENCES: [&str; 1] = [
    // It takes mod-sequences of 64 bits; they have 63 (RFC 7162 §7).
    "a number is too large",
];

/// Whether imap-codec reads such a response: not those of METADATA and QUOTA, and no extended data
/// of LIST (RFC 5258).
fn it_knows(response: &Response) -> bool {
    match response {
        Response::Metadata { .. }
        | Response::MetadataChanged { .. }
        | Response::Quota { .. }
        | Response::QuotaRoot { .. } => false,
        Response::List(item) | Response::Lsub(item) => item.extended.is_empty(),
        _ => true,
    }
}
