use std::io::{Read, Write};

use super::*;

const FROM: &str = "From a@b.c Thu Jan  1 00:00:10 1970\nA: b\n\n";

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// The messages of an archive, or why they cannot be read.
fn messages(found: &FoundArchive) -> Vec<Result<Vec<u8>>> {
    let spool = tempfile::tempdir().unwrap();
    let mut source = found.open(Options::default(), spool.path()).unwrap();
    let mut messages = Vec::new();
    while let Some(_meta) = source.next_message().unwrap() {
        let mut message = Ok(Vec::new());
        loop {
            match (source.next_chunk(), &mut message) {
                (Ok(Some(chunk)), Ok(message)) => message.extend_from_slice(chunk),
                (Err(e), _) => {
                    message = Err(e);
                    break;
                }
                _ => break,
            }
        }
        messages.push(message);
    }
    messages
}

fn reasons(skipped: &[Skipped], root: &Path) -> Vec<String> {
    let line = |s: &Skipped| format!("{}: {}", s.path.strip_prefix(root).unwrap().display(), s.reason);
    skipped.iter().map(line).collect()
}

#[test]
fn a_tree_of_everything() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path();
    for maildir in ["Mail", "Mail/.Work.2026", "Mail/Lists/rust"] {
        fs::create_dir_all(path.join(maildir).join("cur")).unwrap();
    }
    fs::create_dir_all(path.join("tb/Sent.sbd")).unwrap();
    fs::create_dir_all(path.join("apple/Old.mbox")).unwrap();
    fs::create_dir_all(path.join("mh")).unwrap();
    fs::write(path.join("Mail/cur/1.x:2,S"), "A: b\n\n").unwrap();
    fs::write(path.join("Mail/dovecot.index"), "no mail").unwrap();
    fs::write(path.join("Mail/notes"), "no mail").unwrap();
    for file in ["tb/Inbox", "tb/Sent", "tb/Sent.sbd/2025", "apple/Old.mbox/mbox"] {
        fs::write(path.join(file), FROM).unwrap();
    }
    fs::write(path.join("tb/Sent.msf"), "// <!-- <mdb:mork:z v=\"1.4\"/> -->").unwrap();
    fs::write(path.join("tb/Drafts"), "").unwrap();
    fs::write(path.join("old.mbox.gz"), gzip(FROM.as_bytes())).unwrap();
    fs::write(path.join("one.EML"), "A: b\r\n\r\n").unwrap();
    for number in [1, 2, 10] {
        fs::write(path.join(format!("mh/{number}")), format!("Subject: {number}\n\n")).unwrap();
    }
    std::os::unix::fs::symlink(path, path.join("loop")).unwrap();
    let discovery = discover(path).unwrap();
    let found = |found: &FoundArchive| (found.mailbox.clone(), found.format);
    let expected = [
        ("Mail", Format::Maildir),
        ("Mail/Work/2026", Format::Maildir),
        ("Mail/Lists/rust", Format::Maildir),
        ("apple/Old", Format::Mbox),
        ("mh", Format::Eml),
        ("mh", Format::Eml),
        ("mh", Format::Eml),
        ("old", Format::Mbox),
        ("INBOX", Format::Eml),
        ("tb/Inbox", Format::Mbox),
        ("tb/Sent", Format::Mbox),
        ("tb/Sent/2025", Format::Mbox),
    ];
    let expected = expected.map(|(mailbox, format)| (mailbox.to_owned(), format));
    assert_eq!(discovery.found.iter().map(found).collect::<Vec<_>>(), expected);
    let numbered: Vec<_> = discovery.found[4..7].iter().flat_map(messages).map(Result::unwrap).collect();
    assert_eq!(numbered, [1, 2, 10].map(|n| format!("Subject: {n}\r\n\r\n").into_bytes()));
    assert_eq!(
        reasons(&discovery.skipped, path),
        [
            "Mail/notes: not mail: it begins with neither a mail header nor a \"From \" line",
            "loop: a symbolic link; name what it leads to",
            "tb/Drafts: there is nothing in it",
            "tb/Sent.msf: an index of Thunderbird (.msf), not mail",
        ]
    );
    assert_eq!(discovery.failed, []);
    let single = discover(&path.join("Mail/cur/1.x:2,S")).unwrap();
    assert_eq!(single.failed.len(), 1, "by its name alone it is nothing");
    assert_eq!(discover(&path.join("Mail")).unwrap().found[0].mailbox, "INBOX");
    assert!(discover(&path.join("absent")).is_err());
}

#[test]
fn a_named_and_a_found_file_read_the_same() {
    let root = tempfile::tempdir().unwrap();
    let message = "A: b\r\n\r\nFrom here\r\n>From there\r\n";
    for (at, (name, content, expected)) in [
        ("one.eml", format!("From a@b.c Thu Jan  1 00:00:10 1970\r\n{message}"), vec![message]),
        ("two.eml", format!("\u{feff}{message}"), vec![message]),
        ("three.eml", format!("From a@b.c\r\n{message}"), vec![message]),
        // Its name is wrong: it is an mbox.
        ("four.eml", format!("{FROM}x\n\n{FROM}y\n"), vec!["A: b\r\n\r\nx\r\n", "A: b\r\n\r\ny\r\n"]),
        (
            "five",
            format!("Subject: x\r\n{message}"),
            vec!["Subject: x\r\nA: b\r\n\r\nFrom here\r\n>From there\r\n"],
        ),
        ("six", format!("\u{feff}{FROM}x\n\n{FROM}y\n"), vec!["A: b\r\n\r\nx\r\n", "A: b\r\n\r\ny\r\n"]),
        ("seven.eml", "PK\x03\x04".to_owned(), vec![]),
        ("eight", "Dear all\n".to_owned(), vec![]),
        ("nine.mbox", "Dear all\n".to_owned(), vec![]),
        ("ten.eml", String::new(), vec![]),
    ]
    .into_iter()
    .enumerate()
    {
        let directory = root.path().join(at.to_string());
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join(name), content).unwrap();
        let found = discover(&directory).unwrap();
        let named = discover(&directory.join(name)).unwrap();
        let texts = |discovery: &Discovery| -> Vec<String> {
            let all = discovery.found.iter().flat_map(messages);
            all.map(|message| String::from_utf8(message.unwrap()).unwrap()).collect()
        };
        assert_eq!(texts(&found), expected, "{name} found");
        assert_eq!(texts(&named), expected, "{name} named");
        assert_eq!((found.skipped, &found.failed[..]), (named.failed, &[][..]), "{name}");
    }
}

#[test]
fn compressed_files_are_read_and_damaged_ones_are_not_whole() {
    let root = tempfile::tempdir().unwrap();
    let mbox: String = (0..20_000).map(|n| format!("{FROM}{n} {}\n\n", n * n)).collect();
    let whole = gzip(mbox.as_bytes());
    let file = root.path().join("old.mbox.gz");
    fs::write(&file, &whole).unwrap();
    let all = messages(&discover(&file).unwrap().found[0]);
    assert!(all.len() == 20_000 && all.iter().all(Result::is_ok));
    fs::write(&file, &whole[..whole.len() - 9]).unwrap();
    let some = messages(&discover(&file).unwrap().found[0]);
    let (last, before) = some.split_last().unwrap();
    assert!(!before.is_empty() && before.iter().all(Result::is_ok), "what was before is there");
    assert!(last.as_ref().unwrap_err().to_string().contains("cut off"), "the last one is not whole");
    // Cut within the bytes that are examined first.
    fs::write(&file, &gzip(b"Subject: x\n\nbody\n")[..15]).unwrap();
    for discovery in [discover(&file).unwrap(), discover(root.path()).unwrap()] {
        assert!(discovery.failed[0].reason.contains("cut off"), "{:?}", discovery.failed);
    }
    for (plain, reason) in [
        (gzip(b"Subject: x\n"), "compressed twice; decompress it first"),
        (
            b"PK\x03\x04".to_vec(),
            "unpacked: a zip archive (or a document that is one); unpack it and import the files in it",
        ),
        (Vec::new(), "unpacked: there is nothing in it"),
    ] {
        fs::write(&file, gzip(&plain)).unwrap();
        assert_eq!(discover(&file).unwrap().failed[0].reason, reason);
    }
}

/// imap-backup keeps flags beside the mbox: status fields in a message were sent.
#[test]
fn messages_of_imap_backup_keep_their_fields() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("INBOX.mbox");
    fs::write(&file, "From a@b.c Thu Jan  1 00:00:10 1970\nStatus: RO\nA: b\n\nx\n\n").unwrap();
    let read = || messages(&discover(&file).unwrap().found[0]).remove(0).unwrap();
    assert_eq!(read(), b"A: b\r\n\r\nx\r\n");
    fs::write(root.path().join("INBOX.imap"), "{}").unwrap();
    assert_eq!(read(), b"Status: RO\r\nA: b\r\n\r\nx\r\n");
}

#[test]
fn a_pipe_is_read_once_and_whole() {
    let root = tempfile::tempdir().unwrap();
    for content in [FROM.repeat(3000).into_bytes(), gzip(FROM.repeat(3000).as_bytes())] {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let writing = std::thread::spawn(move || writer.write_all(&content));
        let mut out = Discovery::default();
        named(Path::new(STDIN), Input::of(reader).unwrap(), None, &mut out);
        assert_eq!(messages(&out.found[0]).len(), 3000);
        assert_eq!(out.found[0].mailbox, "INBOX");
        writing.join().unwrap().unwrap();
    }
    let null = discover(Path::new("/dev/null")).unwrap();
    assert_eq!(null.failed[0].reason, "there is nothing in it");
    drop(root);
}

#[test]
fn directories_that_are_too_deep_are_skipped_and_named() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("z.eml"), "A: b\n\n").unwrap();
    let mut deep = root.path().join("a");
    for _ in 0..limits::MAILBOX_LEVELS + 2 {
        deep = deep.join("a");
    }
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("y.eml"), "A: b\n\n").unwrap();
    let discovery = discover(root.path()).unwrap();
    assert_eq!(discovery.found.len(), 1);
    assert!(discovery.skipped[0].reason.starts_with("below more than"));
    let mut bytes = Vec::new();
    Input::open(&deep.join("y.eml")).unwrap().into_reader().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, b"A: b\n\n");
}
