use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use proptest::prelude::*;
use sealpost_base::Timestamp;

use super::*;
use crate::Source;
use crate::lines::LineEnds;

fn read(folder: &std::path::Path) -> Vec<(crate::Meta, Vec<u8>)> {
    let mut reader = MaildirReader::open(folder).unwrap();
    let mut messages = Vec::new();
    while let Some(meta) = reader.next_message().unwrap() {
        let mut bytes = Vec::new();
        while let Some(chunk) = reader.next_chunk().unwrap() {
            bytes.extend_from_slice(chunk);
        }
        messages.push((meta, bytes));
    }
    messages
}

#[test]
fn a_foreign_maildir() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path();
    std::fs::create_dir_all(path.join("cur")).unwrap();
    std::fs::create_dir_all(path.join("new")).unwrap();
    std::fs::write(path.join("dovecot-keywords"), "0 work\n").unwrap();
    std::fs::write(path.join("cur/1300000000.b.host:2,Sa"), "A: 2\n\n").unwrap();
    std::fs::write(path.join("new/1200000000.a.host"), "A: 1\r\n\r\nx").unwrap();
    std::fs::write(path.join("new/.hidden"), "no").unwrap();
    std::fs::create_dir(path.join("cur/directory")).unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"1400000000.\xff.host:2,F");
    std::fs::write(path.join("cur").join(odd), "A: 3\n\n").unwrap();
    let found = read(path);
    assert_eq!(found.len(), 3);
    assert_eq!(found[2].0.flags.as_deref().unwrap(), ["\\Flagged"], "whatever its name is");
    assert_eq!(
        found[0].0.received,
        Some(Timestamp::from_seconds(1_200_000_000)),
        "copied: the name is older"
    );
    assert_eq!(found[0].1, b"A: 1\r\n\r\nx");
    assert_eq!(found[1].0.flags.as_deref().unwrap(), ["\\Seen", "work"]);
    assert_eq!(found[1].1, b"A: 2\r\n\r\n");
}

/// Dovecot may keep messages compressed. Files that no server puts there are reported, and the
/// others are read.
#[test]
fn messages_may_be_compressed_and_other_files_are_named() {
    let root = tempfile::tempdir().unwrap();
    let cur = root.path().join("cur");
    std::fs::create_dir_all(&cur).unwrap();
    let message = b"\xef\xbb\xbfFrom a\nA: b\n\n".repeat(9000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&message).unwrap();
    let gzip = gzip.finish().unwrap();
    std::fs::write(cur.join("1300000000.a.host,S=9:2,SZ"), &gzip).unwrap();
    std::fs::write(cur.join("1300000001.b.host:2,S"), &message).unwrap();
    std::fs::write(cur.join("1300000002.c.host:2,"), &gzip[..gzip.len() - 20]).unwrap();
    std::fs::write(cur.join("1300000003.d.host:2,"), "").unwrap();
    std::fs::write(cur.join("1300000004.e.host:2,"), b"\x89PNG\r\n\x1a\n").unwrap();
    std::fs::write(cur.join("1300000005.f.host:2,"), "no header\n").unwrap();
    let mut reader = MaildirReader::open(root.path()).unwrap();
    let mut outcomes = Vec::new();
    loop {
        match reader.next_message() {
            Ok(None) => break,
            Err(e) => outcomes.push(Err(e.to_string())),
            Ok(Some(_)) => {
                let mut bytes = Vec::new();
                let end = loop {
                    match reader.next_chunk() {
                        Ok(Some(chunk)) => bytes.extend_from_slice(chunk),
                        Ok(None) => break Ok(bytes),
                        Err(e) => break Err(e.to_string()),
                    }
                };
                outcomes.push(end);
            }
        }
    }
    let exact = String::from_utf8(message).unwrap().replace('\n', "\r\n").into_bytes();
    assert!(
        outcomes[0] == Ok(exact.clone()) && outcomes[1] == Ok(exact),
        "byte for byte, also what looks odd"
    );
    for (at, says) in [(2, "cut off"), (3, "there is nothing in it"), (4, "a PNG picture, not mail")] {
        let error = outcomes[at].as_ref().unwrap_err();
        assert!(error.contains(says) && error.contains("host"), "{error}");
    }
    assert_eq!(outcomes[5].as_deref().unwrap(), b"no header\r\n", "it stands where messages are");
}

#[test]
fn a_message_renamed_while_we_read_is_found() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path();
    std::fs::create_dir_all(path.join("cur")).unwrap();
    std::fs::write(path.join("cur/1300000000.b.host:2,"), "A: 2\n\n").unwrap();
    std::fs::write(path.join("cur/1300000001.c.host:2,"), "A: 3\n\n").unwrap();
    let mut reader = MaildirReader::open(path).unwrap();
    std::fs::rename(path.join("cur/1300000000.b.host:2,"), path.join("cur/1300000000.b.host:2,S")).unwrap();
    std::fs::remove_file(path.join("cur/1300000001.c.host:2,")).unwrap();
    assert_eq!(reader.next_message().unwrap().unwrap().flags.unwrap(), ["\\Seen"]);
    assert!(reader.next_message().is_err(), "gone for good");
    assert!(reader.next_message().unwrap().is_none());
}

#[test]
fn exporting_again_writes_nothing_twice() {
    let root = tempfile::tempdir().unwrap();
    for (flags, expected) in [
        (vec![], Placed::Absent),
        (vec![], Placed::Unchanged),
        (vec!["\\Seen".to_owned()], Placed::Renamed),
        (vec!["\\Seen".to_owned(), "work".to_owned()], Placed::Renamed),
    ] {
        let mut writer = MaildirWriter::open(root.path(), "Work/2026", LineEnds::Lf).unwrap();
        assert_eq!(writer.place("1.a", &flags).unwrap(), expected);
        if expected == Placed::Absent {
            writer.begin("1.a").unwrap();
            writer.write(b"A: b\r\n\r").unwrap();
            writer.end(&flags, Timestamp::from_seconds(1_000_000_000)).unwrap();
        }
        assert_eq!(writer.finish().unwrap(), 0);
        let found = read(&root.path().join(".Work.2026"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0.flags.as_ref(), Some(&flags));
        assert_eq!(found[0].0.received, Some(Timestamp::from_seconds(1_000_000_000)));
        assert_eq!(found[0].1, b"A: b\r\n\r");
    }
    let mut writer = MaildirWriter::open(root.path(), "INBOX", LineEnds::Lf).unwrap();
    for bad in ["", "../x", "a:b", ".a", "a/b"] {
        assert!(writer.place(bad, &[]).is_err(), "{bad}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn written_messages_are_read_back(lines in proptest::collection::vec("[ -~]{0,9}", 1..5), bits in 0u8..64,
                               seconds in 100_000_000i64..2_000_000_000, exact in any::<bool>()) {
        let root = tempfile::tempdir().unwrap();
        let message = lines.join("\r\n") + "\r\n";
        let all = ["$Forwarded", "\\Answered", "\\Draft", "\\Flagged", "\\Seen", "work"];
        let flags: Vec<String> = all.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, f)| f.to_string()).collect();
        let line_ends = if exact { LineEnds::Exact } else { LineEnds::Lf };
        let mut writer = MaildirWriter::open(root.path(), "INBOX", line_ends).unwrap();
        writer.begin("2000000000.x").unwrap();
        message.as_bytes().chunks(3).for_each(|piece| writer.write(piece).unwrap());
        writer.end(&flags, Timestamp::from_seconds(seconds)).unwrap();
        writer.finish().unwrap();
        let found = read(root.path());
        prop_assert_eq!(&found[0].1, message.as_bytes());
        prop_assert_eq!(found[0].0.flags.as_ref(), Some(&flags));
        prop_assert_eq!(found[0].0.received, Some(Timestamp::from_seconds(seconds)));
    }
}
