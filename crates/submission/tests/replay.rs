//! Replays the kept inputs of the fuzz targets, `tests/corpus/TARGET/*`, on any toolchain, and
//! messages of all kinds of header lines.

#[path = "fuzz/submission_message.rs"]
mod submission_message;
#[path = "fuzz/submission_srs.rs"]
mod submission_srs;
#[path = "fuzz/submission_vacation.rs"]
mod submission_vacation;

use proptest::prelude::*;
use submission_message::fuzz_submission_message;
use submission_srs::fuzz_submission_srs;
use submission_vacation::fuzz_submission_vacation;

#[test]
fn submission_message() {
    sealpost_testkit::corpus::replay_variants(
        env!("CARGO_MANIFEST_DIR"),
        "submission_message",
        fuzz_submission_message,
    );
}

#[test]
fn submission_srs() {
    sealpost_testkit::corpus::replay_variants(
        env!("CARGO_MANIFEST_DIR"),
        "submission_srs",
        fuzz_submission_srs,
    );
}

#[test]
fn submission_vacation() {
    sealpost_testkit::corpus::replay_variants(
        env!("CARGO_MANIFEST_DIR"),
        "submission_vacation",
        fuzz_submission_vacation,
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

    #[test]
    fn headers_of_all_kinds(
        lines in proptest::collection::vec(
            "(To|Cc|Subject|Message-ID|References|In-Reply-To|X): ?([ab]@c,?|<a@b>|\"a b\"@c| \t|=\\?utf-8\\?q\\?=0A=0Dx\\?=|\"|\\(|G:|;|ä|\u{0}){0,4}(\r\n|\n|\r|\r\n |\n\t)",
            0..6,
        )
    ) {
        fuzz_submission_vacation(lines.concat().as_bytes());
    }

    #[test]
    fn senders_of_all_kinds(text in "((SRS0|srs1|SRS1)?[=+-]?([ab]|=|==|xy|ä|\"|@| |\\.){0,8}){1,2}@[a-c]{1,3}(\\.[a-c]{1,3})?") {
        fuzz_submission_srs(text.as_bytes());
    }
}
