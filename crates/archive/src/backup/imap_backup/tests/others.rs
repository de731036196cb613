//! imap-backup and mail programs at the same files: what they read, leave and rewrite, and the five
//! ways in which imap-backup loses mail (the numbered ones).

use super::*;

/// Reads as imap-backup does: by offsets, and the next message where the mbox ends.
pub(super) fn imap_backup_reads(root: &Path, folder: &str) -> Vec<(u32, String)> {
    let mbox = fs::read(root.join(format!("{folder}.mbox"))).unwrap();
    let mut found = Vec::new();
    let mut end = 0;
    json::read(fs::File::open(root.join(format!("{folder}.imap"))).unwrap(), |entry| {
        let message = &mbox[entry.offset as usize..(entry.offset + entry.length) as usize];
        assert!(message.starts_with(b"From ") && message.ends_with(b"\n\n"));
        let mut text = String::new();
        std::io::Read::read_to_string(&mut quote::Unquoting::new(message), &mut text).unwrap();
        found.push((entry.uid, text.strip_suffix('\n').unwrap().replace('\n', "\r\n")));
        end = entry.offset + entry.length;
    })
    .unwrap();
    assert_eq!(end, mbox.len() as u64, "imap-backup would go on at the wrong place");
    found
}

/// A run of imap-backup with its default strategy: messages go to the mbox at once, metadata at the
/// end unless it is killed.
fn imap_backup_runs(root: &Path, messages: &[(u32, &str)], torn: &str, killed: bool) {
    let (mbox_path, json_path) = (root.join("INBOX.mbox"), root.join("INBOX.imap"));
    let mut mbox = fs::read(&mbox_path).unwrap_or_default();
    let mut entries = Vec::new();
    if let Ok(file) = fs::File::open(&json_path) {
        json::read(file, |entry| entries.push(entry)).unwrap();
    }
    for (uid, text) in messages {
        let message = format!("From a@b Mon Nov 16 09:05:07 2020\n{text}\n\n");
        let offset = entries.last().map_or(0, |e: &json::Entry| e.offset + e.length);
        let flags = vec!["Seen".to_owned(), "Recent".to_owned()];
        entries.push(json::Entry { uid: *uid, offset, length: message.len() as u64, flags });
        mbox.extend_from_slice(message.as_bytes());
    }
    mbox.extend_from_slice(torn.as_bytes());
    fs::write(mbox_path, mbox).unwrap();
    if !killed {
        let mut writer = json::Writer::new(Vec::new(), 7).unwrap();
        for e in entries {
            writer.message(e.uid, e.offset, e.length, &json::flags(&e.flags)).unwrap();
        }
        fs::write(json_path, writer.finish().unwrap()).unwrap();
    }
}

fn texts(folder: &dyn Folder) -> Vec<(u32, String)> {
    read_all(folder).into_iter().map(|(uid, m)| (uid, String::from_utf8(m.bytes).unwrap())).collect()
}

fn expected(messages: &[(u32, &str)]) -> Vec<(u32, String)> {
    messages.iter().map(|(uid, text)| (*uid, format!("{text}\r\n"))).collect()
}

/// 1: Ctrl-C throws away the work of a whole folder.
#[test]
fn an_interrupted_run_keeps_committed_messages() {
    let directory = tempfile::tempdir().unwrap();
    let (_copy, mut folder) = opened(directory.path(), INBOX, 7);
    for uid in 1..=100 {
        give(&mut *folder, uid, &mail("A: b\r\n\r\nx\r\n"), 100).unwrap();
        if uid % 10 == 0 {
            folder.commit(&Resume { whole: false, ..resume(uid) }).unwrap();
        }
    }
    give(&mut *folder, 101, &mail("lost"), 100).unwrap();
    drop((_copy, folder));
    let (_copy, folder) = opened(directory.path(), INBOX, 7);
    assert_eq!(folder.known().uids().to_string(), "1:100");
    assert_eq!(imap_backup_reads(directory.path(), INBOX).len(), 100);
}

/// 2: A killed run and the next one leave messages that read back wrong.
#[test]
fn bytes_appended_by_another_program_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let mut mails = three(root);
    let foreign = "From me@example.org Thu Jan  1 00:00:10 2015\nSubject: mine\n\nsaved here\n\n";
    let append = |text: &str| {
        let mut mbox = fs::File::options().append(true).open(root.join("INBOX.mbox")).unwrap();
        std::io::Write::write_all(&mut mbox, text.as_bytes()).unwrap();
    };
    append(foreign);
    assert!(!open(root).unwrap().folders().unwrap()[0].as_left, "a pull has to look into it");
    let (backup, mut folder) = opened(root, INBOX, 7);
    assert!(folder.notices().iter().any(|notice| notice.contains("INBOX.mbox.orphans")));
    assert_eq!(text(root, "INBOX.mbox.orphans"), foreign);
    assert_eq!(read_all(&*folder), mails);
    folder.close().unwrap();
    drop(backup);
    assert!(open(root).unwrap().folders().unwrap()[0].as_left);

    // The rest of a killed run of ours is fetched again, and kept nowhere else.
    let (backup, mut folder) = opened(root, INBOX, 7);
    give(&mut *folder, 11, &mail("A: b\r\n\r\nnever committed\r\n"), 5).unwrap();
    drop((folder, backup));
    append("From \nA: b\n\nnever committed\n\n");
    fs::remove_file(root.join("INBOX.mbox.orphans")).unwrap();
    let (_copy, mut folder) = opened(root, INBOX, 7);
    assert!(!root.join("INBOX.mbox.orphans").exists());
    mails.insert(12, mail("A: b\r\n\r\ntwelve\r\n"));
    give(&mut *folder, 12, &mails[&12], 5).unwrap();
    folder.commit(&resume(13)).unwrap();
    assert_eq!(read_all(&*folder), mails);
}

#[test]
fn messages_rewritten_by_a_mail_program_are_refetched_and_kept() {
    let part = |text: &str| -> Vec<String> {
        text.split_inclusive("\n\n").collect::<Vec<_>>().chunks(2).map(|parts| parts.concat()).collect()
    };
    let deleted: fn(&[String]) -> String = |parts| [&*parts[0], &parts[2]].concat();
    let read: fn(&[String]) -> String = |parts| parts.concat().replacen("A: b\n", "A: b\nStatus: RO\n", 1);
    let last: fn(&[String]) -> String =
        |parts| [&*parts[0], &parts[1], &parts[2].replace("A: b\n", "A: b\nStatus: O\n")].concat();
    for (rewrite, left) in [(deleted, "1"), (read, ""), (last, "1:2")] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let mails = three(root);
        let parts = part(&text(root, "INBOX.mbox"));
        assert_eq!(parts.len(), 3);
        fs::write(root.join("INBOX.mbox"), rewrite(&parts)).unwrap();
        let (backup, mut folder) = opened(root, INBOX, 7);
        let notices = folder.notices();
        assert!(
            notices.iter().any(|notice| notice.contains("fetching") && notice.ends_with("again")),
            "{notices:?}"
        );
        assert!(notices.iter().any(|notice| notice.contains("INBOX.mbox.orphans")), "{notices:?}");
        assert_eq!((folder.known().uids().to_string(), folder.resume().whole), (left.to_owned(), false));
        let kept: String = parts[..folder.known().uids().len()].concat();
        assert_eq!(kept + &text(root, "INBOX.mbox.orphans"), rewrite(&parts));
        assert!(read_all(&*folder).iter().all(|(uid, mail)| mails[uid] == *mail));
        for (uid, mail) in &mails {
            give(&mut *folder, *uid, mail, 9).unwrap();
        }
        folder.commit(&resume(10)).unwrap();
        assert_eq!(read_all(&*folder), mails);
        folder.close().unwrap();
        assert_eq!(imap_backup_reads(root, INBOX).len(), 3);
        drop(backup);
        let (_copy, mut folder) = opened(root, INBOX, 7);
        assert!(folder.notices().is_empty());
        assert_eq!(read_all(&*folder), mails);
    }
}

#[test]
fn orphans_of_killed_runs_are_found_out() {
    let all = [(1, "A: 1\n\none"), (2, "A: 2\n\ntwo"), (3, "A: 3\n\nthr"), (4, "A: 4\n\nfour")];
    for torn in ["", "From a@b Mo", "From a@b Mon Nov 16 09:05:07 2020\nA: 3\n"] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        imap_backup_runs(root, &all[..2], torn, true);
        imap_backup_runs(root, &all, "", false);
        assert_eq!(imap_backup_would_misread(root), torn.len() + 2 * 45, "as with imap-backup alone");
        let (_copy, mut folder) = opened(root, INBOX, 7);
        let wanted: Vec<_> = expected(&all).into_iter().map(|(uid, t)| (uid, crlf(&t))).collect();
        assert_eq!(texts(&*folder), wanted);
        assert!(folder.notices().iter().any(|n| n.contains("killed")));
        assert_eq!(imap_backup_reads(root, INBOX), wanted);
    }
}

fn crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

fn imap_backup_would_misread(root: &Path) -> usize {
    let mut end = 0;
    json::read(fs::File::open(root.join("INBOX.imap")).unwrap(), |e| end = e.offset + e.length).unwrap();
    fs::metadata(root.join("INBOX.mbox")).unwrap().len() as usize - end as usize
}

/// 3: A truncated `.imap` makes the next run delete the mbox.
#[test]
fn damaged_metadata_costs_no_mail() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let mails = three(root);
    let whole = fs::read(root.join("INBOX.imap")).unwrap();
    for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
        fs::write(root.join("INBOX.imap"), &whole[..cut]).unwrap();
        let (_copy, folder) = opened(root, INBOX, 7);
        assert_eq!(read_all(&*folder), mails);
        assert_eq!(fs::read(root.join("INBOX.imap")).unwrap(), whole);
    }
    // Without our journal there is no other source: everything is put aside, and nothing removed.
    let mbox = fs::read(root.join("INBOX.mbox")).unwrap();
    fs::remove_file(root.join("INBOX.sealpost")).unwrap();
    fs::write(root.join("INBOX.imap"), &whole[..20]).unwrap();
    {
        // Reading changes nothing.
        let backup = open(root).unwrap();
        assert!(backup.folders().unwrap().is_empty());
        assert_eq!(
            backup.open_to_read(&folder_name(INBOX)).err().unwrap().kind(),
            sealpost_base::Kind::Corrupt
        );
        assert!(backup.folders().unwrap().is_empty());
    }
    let (_copy, mut folder) = opened(root, INBOX, 7);
    assert!(folder.known().uids().is_empty() && !folder.notices().is_empty());
    assert_eq!(fs::read(root.join("INBOX.mbox.damaged-1")).unwrap(), mbox);
    assert_eq!(fs::read(root.join("INBOX.imap.damaged-1")).unwrap(), &whole[..20]);
}

/// 4: A message whose first line begins `From ` is skipped, every time.
#[test]
fn a_first_line_that_looks_like_a_separator_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let (_copy, mut folder) = opened(directory.path(), INBOX, 7);
    let odd = mail("From me to you\r\nA: b\r\n\r\nFrom here\r\n");
    give(&mut *folder, 5, &odd, 3).unwrap();
    give(&mut *folder, 6, &mail(">From me\r\n\r\nx\r\n"), 3).unwrap();
    folder.commit(&resume(7)).unwrap();
    assert_eq!(read_all(&*folder)[&5], odd);
    folder.close().unwrap();
    let wanted = ["From me to you\r\nA: b\r\n\r\nFrom here\r\n", ">From me\r\n\r\nx\r\n"];
    assert_eq!(imap_backup_reads(directory.path(), INBOX), [(5, wanted[0].into()), (6, wanted[1].into())]);
    let mut mbox = fs::File::open(directory.path().join("INBOX.mbox")).unwrap();
    assert_eq!(segments::segments(&mut mbox).unwrap().unwrap().len(), 2, "by separators, too");
}

/// 5: Not byte-exact, no INTERNALDATE, no keywords.
#[test]
fn bytes_dates_and_keywords_are_exact() {
    let directory = tempfile::tempdir().unwrap();
    let bytes: [&[u8]; 8] =
        [b"", b"\n", b"\r", b"a\nb\r\nc\rd\n\n\n", b"\r\n\r\nno header", b"x\0y\r\n", b"From", &[0xff; 3000]];
    let mails: Mails = bytes.iter().zip(1..).map(|(bytes, uid)| (uid, mail_of(bytes))).collect();
    let (_copy, mut folder) = opened(directory.path(), INBOX, 7);
    mails.iter().for_each(|(uid, mail)| give(&mut *folder, *uid, mail, 1).unwrap());
    folder.commit(&resume(9)).unwrap();
    assert_eq!(read_all(&*folder), mails);
}

#[test]
fn imap_backup_continues_and_so_do_we() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let mails = three(root);
    imap_backup_runs(root, &[(20, "A: b\n\ntwenty")], "", false);
    let (backup, mut folder) = opened(root, INBOX, 7);
    let mut now = read_all(&*folder);
    assert_eq!(now.remove(&20).unwrap().bytes, b"A: b\r\n\r\ntwenty\r\n");
    assert_eq!(now, mails, "with dates and keywords, although it went through imap-backup");
    assert_eq!(folder.resume(), Resume::default(), "flags have to be compared");
    give(&mut *folder, 21, &mail("bare\nLF"), 9).unwrap();
    folder.commit(&resume(22)).unwrap();
    folder.close().unwrap();
    drop(backup);
    // A run of ours that ended before the metadata was written, then imap-backup, which appends at
    // the wrong position.
    let (backup, mut folder) = opened(root, INBOX, 7);
    give(&mut *folder, 22, &mail("A: b\r\n\r\ntwenty-two\r\n"), 9).unwrap();
    folder.commit(&resume(23)).unwrap();
    drop((folder, backup));
    imap_backup_runs(root, &[(22, "A: b\n\ntwenty-two"), (23, "A: b\n\ntwenty-three")], "", false);
    let (_copy, folder) = opened(root, INBOX, 7);
    let now = read_all(&*folder);
    assert_eq!(now.keys().copied().collect::<Vec<_>>(), [1, 2, 9, 20, 21, 22, 23]);
    assert_eq!(now[&21].bytes, b"bare\nLF");
    assert_eq!(now[&22].bytes, b"A: b\r\n\r\ntwenty-two\r\n");
    assert_eq!(now[&23].bytes, b"A: b\r\n\r\ntwenty-three\r\n");
    assert_eq!(imap_backup_reads(root, INBOX).len(), 7);
}

#[test]
fn version_2_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let all = [(4, "A: 1\n\none"), (5, "A: 2\n\ntwo")];
    imap_backup_runs(root, &all, "", false);
    fs::write(root.join("INBOX.imap"), r#"{"version":2,"uid_validity":7,"uids":[4,5]}"#).unwrap();
    let backup = open(root).unwrap();
    assert_eq!(backup.folders().unwrap()[0].identity.uidvalidity, 7);
    let folder = backup.open(&folder_name(INBOX), &identity(7)).unwrap();
    let wanted: Vec<_> = expected(&all).into_iter().map(|(uid, t)| (uid, crlf(&t))).collect();
    assert_eq!(texts(&*folder), wanted);
    assert!(text(root, "INBOX.imap").starts_with(r#"{"version":3,"#));
}
