//! A small store of each format from 5 on, in `tests/formats/{format}/` of the repository: opened,
//! read, changed and checked by this version.
//!
//! A store is made once, when its format is fixed, and never again: `cargo test --workspace --test
//! formats -- --ignored`. Time and randomness are fixed, but for the names of its files. Beside it,
//! `expected.txt` says what is in it, and `secrets.txt` what opens it.

#[path = "formats/contents.rs"]
mod contents;
#[path = "formats/make.rs"]
mod make;
#[path = "support/run.rs"]
mod run;

use std::path::{Path, PathBuf};

use run::{ACCOUNT, Home};
use sealpost_vault::FORMAT;

/// The password of both accounts.
const PASSWORD: &str = "one and two";

fn formats() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/formats")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else {
            std::fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

/// The formats of which there is a store, and where.
fn kept() -> Vec<(u32, PathBuf)> {
    let entries = std::fs::read_dir(formats()).unwrap().map(|entry| entry.unwrap().path());
    let format = |path: &PathBuf| path.file_name()?.to_str()?.parse().ok();
    let mut kept: Vec<_> = entries.filter_map(|path| Some((format(&path)?, path))).collect();
    kept.sort();
    kept
}

#[test]
fn every_format_since_5_is_kept() {
    let formats: Vec<_> = kept().into_iter().map(|(format, _)| format).collect();
    assert_eq!(formats, (5..=FORMAT).collect::<Vec<_>>(), "make one: see the top of this file");
}

#[tokio::test]
async fn stores_of_every_format_are_read_changed_and_checked() {
    for (format, kept) in kept() {
        let home = Home::new();
        home.file("password", PASSWORD);
        let data = home.path("data");
        copy(&kept.join("store"), &data);
        let expected = std::fs::read_to_string(kept.join("expected.txt")).unwrap();
        let secrets = std::fs::read_to_string(kept.join("secrets.txt")).unwrap();
        for secret in std::iter::once(PASSWORD).chain(secrets.lines()) {
            let found = contents::of(&data, secret).await;
            for (found, expected) in found.lines().zip(expected.lines()) {
                assert_eq!(found, expected, "format {format}, opened by {secret}");
            }
            assert_eq!(found.lines().count(), expected.lines().count());
        }
        let (report, status) = home.check();
        assert_eq!((status, &report["ok"]), (0, &true.into()), "format {format}: {report}");

        home.file("new.eml", "Subject: new\n\nBody of new.\n");
        assert_eq!(home.import("new.eml").1, 0);
        let server = home.serve();
        server.deliver(
            ACCOUNT,
            "Subject: Re: plan\r\nMessage-ID: <late@x>\r\nIn-Reply-To: <b@x>\r\n\r\nLate.\r\n",
        );
        assert!(server.logs_in(PASSWORD));
        server.stop();
        let changed = contents::of(&data, PASSWORD).await;
        let added: Vec<_> = changed.lines().filter(|line| !expected.contains(line)).collect();
        assert_eq!(
            added.iter().filter(|line| line.contains("subject")).count(),
            2,
            "format {format}: {added:?}"
        );
        let of_thread = |line: &str| line.split(' ').find(|word| word.starts_with('T')).map(str::to_owned);
        let reply = added.iter().find(|line| line.contains("Re: plan")).and_then(|line| of_thread(line));
        let plan = expected.lines().find(|line| line.contains("subject plan")).and_then(of_thread);
        assert!(plan.is_some() && reply == plan, "it joins the thread: {changed}");
        let (report, status) = home.check();
        assert_eq!((status, &report["ok"]), (0, &true.into()), "format {format}, changed: {report}");
    }
}

/// Makes the store of this version's format. Only when a format is fixed.
#[tokio::test]
#[ignore = "writes files into the source tree"]
async fn make_the_store_of_this_format() {
    let to = formats().join(FORMAT.to_string());
    std::fs::create_dir_all(&to).unwrap();
    let secrets = make::store(&to.join("store"), PASSWORD).await;
    std::fs::write(to.join("secrets.txt"), secrets.join("\n") + "\n").unwrap();
    // Of a copy, since a store that is opened is written to.
    let home = Home::new();
    copy(&to.join("store"), &home.path("data"));
    let contents = contents::of(&home.path("data"), PASSWORD).await;
    std::fs::write(to.join("expected.txt"), contents).unwrap();
}
