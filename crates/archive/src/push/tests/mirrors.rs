//! Mirroring between scripted servers.

use super::*;
use crate::push::{Removal, mirror};

/// Ten messages at the source, some of the owner's at the destination, and a map.
struct Pair {
    from: Script,
    to: Script,
    options: Options,
    _stop: watch::Sender<bool>,
}

impl Pair {
    async fn new(own: u32) -> Self {
        let from = Script::start(Box_::with(10), "", &[]).await;
        let mut theirs = Box_::with(0);
        for n in 0..own {
            theirs.add(Some(format!("Message-ID: <own{n}@x>\r\n\r\n").into_bytes()));
        }
        let to = Script::start(theirs, "LITERAL+ MULTIAPPEND UIDPLUS", &[]).await;
        let (stop, watched) = watch::channel(false);
        Pair { from, to, options: options(&watched), _stop: stop }
    }

    async fn mirror(&self, removal: Removal) -> FolderReport {
        let nobody = Arc::new(Nobody);
        let report = mirror(&self.from.server(), &self.to.server(), &self.options, removal, nobody).await;
        report.unwrap().folders.remove(0)
    }

    /// Subjects and flags at the destination.
    fn there(&self) -> Vec<(String, String)> {
        bytes(&self.to, "INBOX")
            .into_iter()
            .map(|(flags, bytes)| {
                (String::from_utf8(bytes).unwrap().lines().next().unwrap().to_owned(), flags)
            })
            .collect()
    }
}

#[tokio::test]
async fn mirror_follows_flags_and_removals_sparing_owner_messages() {
    let pair = Pair::new(2).await;
    let first = pair.mirror(Removal::default()).await;
    assert_eq!((first.put, first.flags, first.removed, first.error), (10, 0, 0, None));
    pair.from.inbox(|inbox| {
        inbox.expunge(3);
        inbox.set_flags(5, "\\Flagged work");
        inbox.add(None);
    });
    // Changed at the destination: it is message 6.
    pair.to.inbox(|inbox| inbox.set_flags(8, "\\Seen \\Answered"));
    let dry = Pair { options: Options { dry_run: true, ..pair.options.clone() }, ..pair };
    let planned = dry.mirror(Removal::default()).await;
    assert_eq!((planned.put, planned.flags, planned.removed), (1, 2, 1));
    assert_eq!((dry.there().len(), dry.to.asked("UID STORE")), (12, 0));
    let pair = Pair { options: Options { dry_run: false, ..dry.options.clone() }, ..dry };
    let second = pair.mirror(Removal::default()).await;
    assert_eq!((second.put, second.flags, second.removed, second.error), (1, 2, 1, None));
    let there = pair.there();
    assert!(!there.iter().any(|(subject, _)| subject == "Subject: message 3"), "{there:?}");
    assert!(there.contains(&("Subject: message 5".into(), "\\Flagged work".into())), "{there:?}");
    assert!(there.contains(&("Subject: message 4".into(), "\\Seen".into())), "{there:?}");
    assert_eq!(there.len(), 12);
    let third = pair.mirror(Removal::default()).await;
    assert_eq!((third.put, third.flags, third.removed), (0, 0, 0));
    // Unless it is asked for.
    let fourth = pair.mirror(Removal { extra: true, force: false }).await;
    assert_eq!((fourth.removed, pair.there().len()), (2, 10));
}

#[tokio::test]
async fn keywords_that_are_refused_keep_nothing_else_back() {
    let pair = Pair::new(0).await;
    pair.mirror(Removal::default()).await;
    pair.to.change(|world| world.faults.push(Fault::NoKeywords));
    pair.from.inbox(|inbox| {
        inbox.expunge(3);
        inbox.set_flags(1, "$alone");
        inbox.set_flags(2, "$new \\Flagged");
        inbox.set_flags(5, "\\Answered");
    });
    let first = pair.mirror(Removal::default()).await;
    assert_eq!((first.flags, first.without_keywords, first.removed, first.error), (3, 2, 1, None));
    let flags: Vec<String> = pair.there().into_iter().map(|(_, flags)| flags).take(4).collect();
    assert_eq!(flags, ["", "\\Flagged", "\\Seen", "\\Answered"]);
    let second = pair.mirror(Removal::default()).await;
    assert_eq!((second.flags, second.without_keywords, second.error), (0, 2, None));
}

#[tokio::test]
async fn only_refused_keywords_are_left_out() {
    let pair = Pair::new(0).await;
    pair.mirror(Removal::default()).await;
    pair.to.change(|world| world.faults.push(Fault::NoKeyword("bad")));
    pair.from.inbox(|inbox| {
        inbox.set_flags(1, "bad good \\Flagged");
        inbox.set_flags(2, "bad other");
        inbox.set_flags(3, "bad");
        inbox.set_flags(4, "good");
    });
    let first = pair.mirror(Removal::default()).await;
    assert_eq!((first.flags, first.without_keywords, first.error), (4, 3, None));
    let flags: Vec<String> = pair.there().into_iter().map(|(_, flags)| flags).take(4).collect();
    assert_eq!(flags, ["\\Flagged good", "other", "", "good"]);
    let refused = pair.to.asked_for("+FLAGS.SILENT (bad)");
    assert_eq!(refused, 1);
}

#[tokio::test]
async fn a_source_that_is_suddenly_empty_empties_nothing() {
    let pair = Pair::new(20).await;
    pair.mirror(Removal::default()).await;
    for keep in [0, 4] {
        pair.from.change(|world| drop(world.boxes.insert("INBOX".into(), Box_::with(keep))));
        let report = pair.mirror(Removal::default()).await;
        assert_eq!((report.removed, pair.there().len()), (0, 30), "{keep}");
        assert!(report.error.is_some_and(|e| e.contains("--force")), "{keep}");
    }
    let report = pair.mirror(Removal { force: true, extra: false }).await;
    assert_eq!((report.removed, pair.there().len()), (6, 24));
}

#[tokio::test]
async fn an_incomplete_mirror_removes_nothing() {
    let pair = Pair::new(0).await;
    pair.mirror(Removal::default()).await;
    pair.from.inbox(|inbox| {
        inbox.expunge(3);
        inbox.add(Some(b"Refuse: me\r\n\r\n".to_vec()));
    });
    let report = pair.mirror(Removal::default()).await;
    assert_eq!((report.removed, report.failures, pair.there().len()), (0, 1, 10));
    pair.from.inbox(|inbox| inbox.expunge(11));
    pair.from.change(|world| world.faults.push(Fault::HalfListed));
    let report = pair.mirror(Removal { force: true, extra: true }).await;
    assert_eq!((report.removed, pair.there().len()), (0, 10), "{report:?}");
    pair.from.change(|world| world.faults.clear());
    assert_eq!(pair.mirror(Removal::default()).await.removed, 1);
}

#[tokio::test]
async fn another_uidvalidity_at_either_end_removes_nothing_by_itself() {
    let pair = Pair::new(0).await;
    pair.mirror(Removal::default()).await;
    // The source has other UIDs now, and one message less.
    pair.from.change(|world| {
        let mut again = Box_ { uidvalidity: 99, uidnext: 50, ..Box_::default() };
        for n in 2..=10 {
            again.add(Some(crate::pull::tests::server::text(n).into_bytes()));
        }
        world.boxes.insert("INBOX".into(), again);
    });
    let report = pair.mirror(Removal::default()).await;
    assert_eq!((report.put, report.removed, pair.there().len()), (0, 0, 10), "{report:?}");
    assert!(report.error.is_some_and(|e| e.contains("UIDVALIDITY")));
    // Recognized messages stay ours.
    pair.from.inbox(|inbox| inbox.expunge(55));
    let report = pair.mirror(Removal { force: true, extra: false }).await;
    assert_eq!((report.removed, pair.there().len()), (2, 8));
    // At the destination: no message there is known to be ours.
    pair.to.inbox(|inbox| inbox.uidvalidity = 1000);
    pair.from.inbox(|inbox| inbox.expunge(56));
    let report = pair.mirror(Removal { force: true, extra: false }).await;
    assert_eq!((report.put, report.removed, pair.there().len()), (0, 0, 8), "{report:?}");
}

#[tokio::test]
async fn a_server_without_uidplus_loses_nothing() {
    let pair = Pair::new(0).await;
    pair.mirror(Removal::default()).await;
    pair.to.change(|world| world.capabilities = "LITERAL+".into());
    pair.from.inbox(|inbox| inbox.expunge(3));
    let report = pair.mirror(Removal::default()).await;
    assert_eq!((report.removed, pair.there().len(), pair.to.asked("UID EXPUNGE")), (0, 10, 0));
    assert!(report.error.is_some_and(|e| e.contains("UIDPLUS")));
}

/// Messages with different Message-IDs.
fn of_ids(ids: &[&str]) -> Box_ {
    let mut mailbox = Box_::with(0);
    for id in ids {
        mailbox.add(Some(format!("Message-ID: <{id}@x>\r\n\r\n").into_bytes()));
    }
    mailbox
}

#[tokio::test]
async fn folders_merged_at_the_destination_lose_no_messages() {
    let everything = Removal { force: true, extra: true };
    let pair = Pair::new(0).await;
    pair.to.change(|world| world.faults.push(Fault::IgnoresCase));
    pair.from.change(|world| {
        world.boxes.insert("Work".into(), of_ids(&["a", "b", "c"]));
        world.boxes.insert("WORK".into(), of_ids(&["d", "e"]));
    });
    for round in 0..3 {
        // INBOX is mirrored, whatever the state of the others.
        pair.from.inbox(|inbox| inbox.set_flags(5, if round == 1 { "\\Flagged" } else { "\\Seen" }));
        pair.from.change(|world| world.boxes.get_mut("Work").unwrap().set_flags(1, "\\Answered"));
        pair.from.inbox(|inbox| inbox.expunge(7 + round));
        let options = Options { dry_run: round == 2, ..pair.options.clone() };
        let nobody = Arc::new(Nobody);
        let report = mirror(&pair.from.server(), &pair.to.server(), &options, everything, nobody).await;
        let folders = report.unwrap().folders;
        let names: Vec<_> = folders.iter().map(|folder| &*folder.name).collect();
        assert_eq!(names, ["INBOX", "WORK", "Work"]);
        assert_eq!((folders[0].removed, &folders[0].error), (u64::from(round > 0), &None), "{round}");
        for (folder, other) in [(&folders[1], "Work"), (&folders[2], "WORK")] {
            assert_eq!((folder.removed, folder.flags), (0, 0), "{round} {folder:?}");
            let why = folder.error.as_deref().unwrap_or_default();
            assert!(
                why.contains(&format!("{other} has the same name at the destination")),
                "{round} {folder:?}"
            );
        }
        assert_eq!((bytes(&pair.to, "WORK").len(), bytes(&pair.to, "Work").len()), (5, 0));
    }
}

#[tokio::test]
async fn a_folder_renamed_at_the_destination_is_mirrored() {
    let pair = Pair::new(0).await;
    pair.to.change(|world| {
        world.faults.push(Fault::IgnoresCase);
        world.boxes.insert("work".into(), of_ids(&["own"]));
    });
    pair.from.change(|world| drop(world.boxes.insert("Work".into(), of_ids(&["a", "b", "c"]))));
    for (round, removed) in [0, 1].into_iter().enumerate() {
        if round == 1 {
            pair.from.change(|world| {
                let work = world.boxes.get_mut("Work").unwrap();
                work.expunge(2);
                work.set_flags(3, "\\Flagged");
            });
        }
        let nobody = Arc::new(Nobody);
        let both = (pair.from.server(), pair.to.server());
        let report = mirror(&both.0, &both.1, &pair.options, Removal::default(), nobody).await.unwrap();
        let work = &report.folders[1];
        assert_eq!((work.removed, work.flags, &work.error), (removed, removed, &None), "{work:?}");
    }
    let flags: Vec<String> = bytes(&pair.to, "work").into_iter().map(|(flags, _)| flags).collect();
    assert_eq!(flags, ["\\Seen", "\\Seen", "\\Flagged"]);
}
