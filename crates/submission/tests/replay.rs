//! Replays the kept inputs of the fuzz target, `tests/corpus/TARGET/*`, on any toolchain, and
//! messages of all kinds of header lines.

#[path = "fuzz/submission_message.rs"]
mod submission_message;

use proptest::prelude::*;
use submission_message::fuzz_submission_message;

#[test]
fn submission_message() {
    sealpost_testkit::corpus::replay_variants(
        env!("CARGO_MANIFEST_DIR"),
        "submission_message",
        fuzz_submission_message,
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn messages_of_header_lines(
        lines in proptest::collection::vec(
            "(From|FROM |Sender|Bcc|Bcc\t|Date|Message-ID|X|From you|:|\u{0}|ä)?:?( ?[ab]@c,?| \t|<|\"|\\(|Group:|;){0,3}(\r\n|\n|\r|\r\n |\r\n\t)",
            0..8,
        )
    ) {
        fuzz_submission_message(lines.concat().as_bytes());
    }
}
