//! Stored inputs of the fuzz targets, and random ones, on any toolchain.

#[path = "fuzz/mailformat.rs"]
mod fuzz;

use fuzz::{fuzz_import, fuzz_mbox};
use proptest::prelude::*;
use sealpost_testkit::corpus::replay_variants;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn mboxes() {
    replay_variants(CRATE, "mailformat_mbox", fuzz_mbox);
}

#[test]
fn files_of_whatever_kind() {
    let directory = tempfile::tempdir().unwrap();
    replay_variants(CRATE, "mailformat_import", |data| fuzz_import(data, directory.path()));
}

/// Fragments of mail files.
fn mail_file() -> impl Strategy<Value = Vec<u8>> {
    let texts = vec![
        "From a@b Thu Jan  1 00:00:10 1970\n",
        "From - \r\n",
        ">From x\n",
        "From ",
        "Content-Length: 7\n",
        "Content-Length: 40\n",
        "Status: RO\n",
        "X-Status: D\r\n",
        "X-Keywords: a b (c)\n",
        "X-Mozilla-Status: 0009\n",
        "X-Gmail-Labels: Inbox,\"a, b\n",
        "X-GM-THRID: 1\n",
        "X-IMAP: 1 2\nSubject: FOLDER INTERNAL DATA\n",
        "X-Sealpost-Own-",
        "X-Sealpost-Own-:\n",
        "A: b\n",
        "\n",
        "\r\n",
        "\r",
        " x\n",
        "text",
        "\u{feff}",
        "\0",
    ];
    let file = prop::collection::vec(prop::sample::select(texts), 0..24).prop_map(|texts| texts.concat());
    (any::<u8>(), file).prop_map(|(how, file)| [&[how][..], file.as_bytes()].concat())
}

proptest! {
    #[test]
    fn any_mbox_is_read_and_comes_back(data in mail_file()) {
        fuzz_mbox(&data);
    }

    #[test]
    fn any_file_is_mail_or_named(data in mail_file()) {
        let directory = tempfile::tempdir().unwrap();
        fuzz_import(&data, directory.path());
    }
}
