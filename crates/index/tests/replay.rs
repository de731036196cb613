//! Replays every input that fuzzing kept (`tests/corpus/{target}/`).

use std::fs;
use std::path::Path;

use sealpost_testkit::corpus;

#[test]
fn summaries() {
    corpus::replay(env!("CARGO_MANIFEST_DIR"), "index_summaries", sealpost_index::fuzz::fuzz_summaries);
}

#[test]
fn headers() {
    corpus::replay(env!("CARGO_MANIFEST_DIR"), "index_headers", sealpost_index::fuzz::fuzz_headers);
}

/// Writes a first input for `index_headers`. Only for a new format version, under a new name.
#[test]
#[ignore = "writes files into the source tree"]
fn write_headers() {
    let headers: [&[u8]; 4] =
        [b"From: a@b\r\nSubject: =?utf-8?q?J=C3=B6rg?=\r\n\r\n", b"\xff\x00: \xe9\r\n", b"", &[b'x'; 20_000]];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/index_headers");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("four-headers"), sealpost_index::fuzz::header_bytes(&headers)).unwrap();
}

/// Writes a first input for `index_summaries`. Only for a new format version, under a new name.
#[test]
#[ignore = "writes files into the source tree"]
fn write_summaries() {
    let mails: [&[u8]; 3] = [
        b"From: =?utf-8?q?J=C3=B6rg?= <j@x>\r\nTo: A Group:Ed <c@a.test>;, d@x\r\nSubject: Re: a\r\n\r\nBody\r\n",
        b"Date: Fri, 21 Nov 1997 09:55:06 -0600\r\nMessage-ID: <a@b>\r\nReferences: <c@d> <e@f>\r\n\r\n",
        b"Sender: s@x\r\n\r\n",
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/index_summaries");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("three-messages"), sealpost_index::fuzz::summary_bytes(&mails)).unwrap();
}
