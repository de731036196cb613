//! `sealpost store probe` and `sealpost backup`, between local stores; and what `store probe` says
//! of buckets that cannot be used.

#[path = "support/run.rs"]
mod run;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use run::{Home, mbox, tree};

/// A message that does not compress, so it is a file of its own.
fn incompressible(seed: u64, size: u64) -> String {
    let letters = (seed..seed + size).map(|n| {
        let mixed = (n ^ 0x9e37_79b9).wrapping_mul(0xff51_afd7_ed55_8ccd);
        char::from(b'0' + ((mixed ^ (mixed >> 29)).wrapping_mul(0xc4ce_b9fe_1a85_ec53) >> 58) as u8)
    });
    let lines: Vec<String> =
        letters.collect::<Vec<char>>().chunks(70).map(|line| line.iter().collect()).collect();
    format!("Subject: large\n\n{}\n", lines.join("\n"))
}

#[test]
fn a_probe_reports_the_properties_of_a_local_store() {
    let home = Home::with_account();
    let (found, status) = home.json(&["store", "probe"]);
    assert_eq!(status, 0);
    assert_eq!(
        (&found["conditional_create"], &found["append_mode"]),
        (&"kept".into(), &"conditional".into())
    );
    assert!(home.ok(&["store", "probe"]).contains("conditional create  works"));
    assert_eq!(home.status(&["store", "probe", "ftp://x"]), 2);
    assert_eq!(home.status(&["store", "probe", "s3://no"]), 2);
}

#[test]
fn a_probe_makes_no_store_where_there_is_none() {
    let home = Home::new();
    std::fs::create_dir(home.path("empty")).unwrap();
    for (path, says) in
        [("nowhere", "there is no directory nowhere"), ("empty", "there is no store in empty")]
    {
        let (failed, status) = home.json(&["store", "probe", path]);
        assert_eq!((status, &failed["store"], &failed["usable"]), (3, &path.into(), &false.into()));
        assert!(failed["error"].as_str().unwrap().starts_with(says), "{failed}");
    }
    assert_eq!(home.json(&["store", "probe"]).1, 3, "nor where the configuration says");
    assert_eq!(home.json(&["store", "probe", "ftp://x"]).1, 2);
    assert!(!home.path("nowhere").exists() && !home.path("data").exists());
    assert_eq!(std::fs::read_dir(home.path("empty")).unwrap().count(), 0);
}

/// Answers every request with the same, until the test ends; returns where.
fn answering(status: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                while request(&mut stream) {
                    let length = body.len();
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
                    stream.write_all(answer.as_bytes()).unwrap();
                }
            });
        }
    });
    endpoint
}

/// Takes a request; whether there was one.
fn request(stream: &mut TcpStream) -> bool {
    let (mut lines, mut length) = (BufReader::new(stream), 0);
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).unwrap_or(0) == 0 {
            return false;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            return std::io::copy(&mut lines.take(length), &mut std::io::sink()).is_ok();
        }
    }
}

#[test]
fn errors_of_a_bucket_are_explained() {
    let home = Home::new();
    let key =
        home.file("key", "aws_access_key_id = id\naws_secret_access_key = secret\n").display().to_string();
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let no_bucket =
        "<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message></Error>";
    let no_key = "<Error><Code>InvalidAccessKeyId</Code><Message>The AWS Access Key Id</Message></Error>";
    let no_secret =
        "<Error><Code>SignatureDoesNotMatch</Code><Message>The request signature</Message></Error>";
    let denied = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>";
    let moved = "<Error><Code>PermanentRedirect</Code><Endpoint>mail.s3.example</Endpoint></Error>";
    let malformed = "<Error><Code>AuthorizationHeaderMalformed</Code><Region>garage</Region></Error>";
    for (endpoint, status, says) in [
        (
            answering("404 Not Found", no_bucket),
            3,
            "no bucket named mail at ENDPOINT; create it, or correct [store] url".to_owned(),
        ),
        (
            answering("403 Forbidden", no_key),
            2,
            format!("ENDPOINT does not know this access key; correct aws_access_key_id in {key}"),
        ),
        (
            answering("403 Forbidden", no_secret),
            2,
            format!(
                "ENDPOINT rejects the secret of the access key; correct aws_secret_access_key in {key}"
            ),
        ),
        (
            answering("403 Forbidden", denied),
            1,
            "the access key has no permission for the bucket named mail at ENDPOINT; allow it to read, write, \
             list and delete objects there"
                .to_owned(),
        ),
        (
            answering("301 Moved Permanently", moved),
            2,
            "the bucket named mail is not in the region \"here\" of ENDPOINT; correct [store] region, or [store] \
             endpoint"
                .to_owned(),
        ),
        (
            answering("400 Bad Request", malformed),
            2,
            "ENDPOINT requires the region \"garage\", not \"here\"; correct [store] region".to_owned(),
        ),
        (
            answering("405 Not Allowed", "<html>What do you want?</html>"),
            2,
            "the server at ENDPOINT replies \"405 Method Not Allowed\" and is not a store; correct [store] \
             endpoint"
                .to_owned(),
        ),
        (nobody, 75, "no server listens at ENDPOINT; start the store, or correct [store] endpoint".to_owned()),
    ] {
        let config = format!(
            "[store]\nurl = \"s3://mail/a\"\nendpoint = \"{endpoint}\"\nregion = \"here\"\n\
             credentials = \"{key}\"\ntimeout = \"2s\"\n"
        );
        home.file("sealpost.toml", config);
        let says = says.replace("ENDPOINT", &endpoint);
        let output = home.run(&["store", "probe", "--config", "sealpost.toml", "--json"]);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().last(), Some(format!("sealpost: {says}").as_str()));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let expected = serde_json::json!({"store": "s3://mail/a", "usable": false, "error": says});
        assert_eq!(document, expected);
    }
}

#[test]
fn a_command_that_waits_for_a_store_reports_it() {
    let home = Home::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    home.file("key", "aws_access_key_id = AK\naws_secret_access_key = SK\n");
    home.file(
        "sealpost.toml",
        format!(
            "[store]\nurl = \"s3://mail/a\"\nendpoint = \"{endpoint}\"\ncredentials = \"key\"\ntimeout = \"1s\"\n"
        ),
    );
    let output = home.run(&["store", "probe", "--config", "sealpost.toml"]);
    assert_eq!(output.status.code(), Some(75), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let (first, last) = said.split_once('\n').unwrap();
    assert_eq!(first, "sealpost: the store s3://mail/a cannot be used yet; still trying");
    assert!(last.starts_with(&format!("sealpost: timeout: no response from {endpoint};")), "{last}");
}

#[test]
fn a_copy_is_complete_and_a_second_one_incremental() {
    let home = Home::with_account();
    home.file("first.mbox", mbox(30, 300));
    home.file("second.mbox", mbox(35, 400));
    home.file("large.eml", format!("Subject: large\n\n{}", "a line that compresses well\n".repeat(400_000)));
    assert_eq!(home.import("first.mbox").1, 0);
    // While a server has it open.
    let server = home.serve();
    let (copied, status) = home.json(&["backup", "data", "backup"]);
    assert_eq!(status, 0, "{copied}");
    assert!(copied["copied"].as_u64().unwrap() > 30 && copied["already"] == 0, "{copied}");
    let (again, _) = home.json(&["backup", "data", "backup"]);
    assert_eq!((&again["copied"], &again["already"]), (&0.into(), &copied["copied"]));
    assert_eq!(home.import("second.mbox").1, 0);
    assert_eq!(home.import("large.eml").1, 0);
    let (more, _) = home.json(&["backup", "data", "backup"]);
    assert!(more["copied"].as_u64().unwrap() >= 6, "{more}");
    drop(server);
    for key in ["server.key", "mail.key"] {
        std::fs::copy(home.path("data").join(key), home.path("backup").join(key)).unwrap();
    }
    let whole = ["check", "--password-file", "password", "--json", "--dir"];
    let checked = |dir: &str| {
        let output = home.run(&[&whole[..], &[dir]].concat());
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str::<serde_json::Value>(text.lines().last().unwrap()).unwrap()
    };
    let (original, backup) = (checked("data"), checked("backup"));
    // A backup keeps the versions of records that were replaced since the copy before.
    let without_records = |report: &serde_json::Value| {
        let mut checked = report["checked"].clone();
        checked["records"].take();
        checked
    };
    assert_eq!(without_records(&original), without_records(&backup));
    assert!(backup["checked"]["messages"].as_u64().unwrap() > 30, "{backup}");
    // One account alone is all there is here, but for the queue and the key that signs pushes.
    let (one, _) = home.json(&["backup", "data", "one", "--account", "jane@example.org"]);
    let (all, _) = home.json(&["backup", "data", "all"]);
    let of_server = (paths(&home, "data", "queue/%").len() + paths(&home, "data", "push/%").len()) as u64;
    assert_eq!(one["copied"].as_u64().unwrap() + of_server, all["copied"].as_u64().unwrap());
    assert_eq!(home.status(&["backup", "data", "one", "--account", "nobody@example.org"]), 3);
}

#[test]
fn a_missing_source_is_not_copied_and_creates_nothing() {
    let home = Home::with_account();
    home.file("file", "no directory");
    assert_eq!(home.status(&["backup", "nowhere", "new"]), 3);
    std::fs::create_dir(home.path("empty")).unwrap();
    assert_eq!(home.status(&["backup", "empty", "new"]), 3);
    assert_eq!(home.status(&["backup", "data", "file"]), 2);
    assert_eq!(home.status(&["backup", "file", "new"]), 2);
    assert!(!home.path("nowhere").exists() && !home.path("new").exists());
    assert_eq!(std::fs::read_dir(home.path("empty")).unwrap().count(), 0);
}

#[test]
fn damage_of_the_same_size_is_found_when_asked_for() {
    let home = Home::with_account();
    // It is compared in pieces.
    home.file("large.eml", incompressible(0, 8_000_000));
    assert_eq!(home.import("large.eml").1, 0);
    assert_eq!(home.json(&["backup", "data", "backup"]).1, 0);
    let (verified, status) = home.json(&["backup", "data", "backup", "--verify"]);
    assert_eq!((status, &verified["copied"]), (0, &0.into()), "{verified}");
    let mut damaged = 0;
    for (name, _) in tree(&home.path("backup/objects")) {
        let path = home.path("backup/objects").join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        std::fs::write(&path, bytes).unwrap();
        damaged += 1;
    }
    assert!(damaged > 0);
    let (found, status) = home.json(&["backup", "data", "backup", "--verify"]);
    assert_eq!((status, found["differing"].as_array().unwrap().len()), (1, damaged), "{found}");
}

/// The database of the store in `dir`.
fn database(home: &Home, dir: &str) -> rusqlite::Connection {
    let database = rusqlite::Connection::open(home.path(dir).join("objects.sqlite")).unwrap();
    database.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
    database
}

/// Paths of objects that are like `pattern`.
fn paths(home: &Home, dir: &str, pattern: &str) -> Vec<String> {
    let database = database(home, dir);
    let mut select = database.prepare("SELECT path FROM objects WHERE path LIKE ?1 ORDER BY path").unwrap();
    select.query_map([pattern], |row| row.get(0)).unwrap().map(|path| path.unwrap()).collect()
}

/// Says that the object is in a file that is not there.
fn damage(home: &Home, dir: &str, path: &str) {
    let changed = database(home, dir).execute(
        "UPDATE objects SET file = '00/none' || id, head = NULL, rest = NULL WHERE path = ?1",
        [path],
    );
    assert_eq!(changed.unwrap(), 1, "{path}");
}

fn put(home: &Home, dir: &str, path: &str) {
    database(home, dir)
        .execute("INSERT INTO objects (path, size, modified, head) VALUES (?1, 4, 0, x'01020304')", [path])
        .unwrap();
}

#[test]
fn a_backup_names_damaged_objects_and_copies_the_others() {
    let home = Home::with_account();
    let password = ["--password-file", "password"];
    home.ok(&[&["account", "add", "john@example.org"][..], &password].concat());
    for (name, account) in [
        ("first", "john@example.org"),
        ("second", "john@example.org"),
        ("third", "john@example.org"),
        ("fourth", "jane@example.org"),
    ] {
        let name = home.file(&format!("{name}.mbox"), mbox(5, 300)).display().to_string();
        home.ok(&[&["import", &name, "--account", account][..], &password].concat());
    }
    // Whose log is longest is John's.
    let logs = paths(&home, "data", "acct/%/log/%");
    let entries_of = |account: &str| -> Vec<String> {
        logs.iter().filter(|path| path.starts_with(account)).cloned().collect()
    };
    let of = |path: &str| path[..path.find("/log/").unwrap()].to_owned();
    let accounts = [of(&logs[0]), of(logs.last().unwrap())];
    let [john, jane] = match entries_of(&accounts[0]).len() > entries_of(&accounts[1]).len() {
        true => [&accounts[0], &accounts[1]],
        false => [&accounts[1], &accounts[0]],
    };
    // What is derived does not matter.
    let segment = format!("{jane}/idx/summary/zzzz");
    put(&home, "data", &segment);
    damage(&home, "data", &segment);
    let (copied, status) = home.json(&["backup", "data", "first"]);
    assert_eq!((status, &copied["unreadable_derived"]), (0, &vec![segment.clone()].into()), "{copied}");
    assert_eq!(copied["unreadable"], serde_json::json!([]));

    let message = paths(&home, "data", &format!("{jane}/msg/%"))[0].clone();
    let entries = entries_of(john);
    assert!(entries.len() >= 3, "{entries:?}");
    let entry = &entries[1];
    for path in ["zebra/a/1", "zebra/a/2", "zebra/a/3", "zebra/b/1"] {
        put(&home, "data", path);
    }
    let position = entry.rsplit('/').next().unwrap();
    let checkpoints = [format!("{john}/manifest/0000000000000000"), format!("{john}/manifest/{position}")];
    checkpoints.iter().for_each(|path| put(&home, "data", path));
    for path in [&message, entry, "zebra/a/2"] {
        damage(&home, "data", path);
    }
    let output = home.run(&["backup", "data", "backup"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    for path in [&message, entry, "zebra/a/2", &segment] {
        assert!(said.contains(path), "{path}: {said}");
    }
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("3 objects not copied"), "{text}");
    assert_eq!(paths(&home, "backup", &format!("{john}/log/%")), entries[..1]);
    assert_eq!(paths(&home, "backup", &format!("{john}/manifest/%")), checkpoints[..1]);
    assert_eq!(paths(&home, "backup", &format!("{jane}/log/%")), entries_of(jane));
    assert_eq!(paths(&home, "backup", "zebra/%"), ["zebra/a/1", "zebra/b/1"]);
    assert_eq!(paths(&home, "backup", "accounts/%"), paths(&home, "data", "accounts/%"));
    let messages = |dir: &str| paths(&home, dir, "acct/%/msg/%").len();
    assert_eq!(messages("backup") + 1, messages("data"));
    // Once more, and over a complete copy: existing objects leave no gap.
    let (again, status) = home.json(&["backup", "data", "backup"]);
    assert_eq!((status, &again["copied"]), (1, &0.into()), "{again}");
    let mut unreadable = [&message[..], entry, "zebra/a/2"];
    unreadable.sort();
    assert_eq!(again["unreadable"], serde_json::json!(unreadable));
    let held_back = again["held_back"].as_array().unwrap();
    assert_eq!(held_back.len(), entries.len() - 2 + 2, "{again}");
    let (over, status) = home.json(&["backup", "data", "first"]);
    assert_eq!((status, &over["unreadable"]), (1, &vec!["zebra/a/2"].into()), "{over}");
    let (verified, status) = home.json(&["backup", "data", "first", "--verify"]);
    assert_eq!((status, &verified["unreadable"]), (1, &again["unreadable"]), "{verified}");
    assert_eq!(paths(&home, "first", &format!("{john}/log/%")), entries);
}

#[test]
fn missing_or_short_files_of_a_copy_are_written_again() {
    let home = Home::with_account();
    // The last is copied in pieces.
    for (name, size) in [("a", 200_000), ("b", 210_000), ("c", 220_000), ("d", 8_000_000)] {
        let name = format!("{name}.eml");
        home.file(&name, incompressible(size, size));
        assert_eq!(home.import(&name).1, 0);
    }
    assert_eq!(home.json(&["backup", "data", "backup"]).1, 0);
    let files = |dir: &str| -> Vec<_> {
        let root = home.path(dir).join("objects");
        tree(&root).into_iter().map(|(name, bytes)| (root.join(name), bytes)).collect()
    };
    let copies = files("backup");
    assert!(copies.len() >= 4, "{}", copies.len());
    let ruin = || {
        for (n, (path, _)) in files("backup").iter().enumerate() {
            let opened = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            match n % 3 {
                0 => std::fs::remove_file(path).unwrap(),
                1 => opened.set_len(0).unwrap(),
                _ => opened.set_len(opened.metadata().unwrap().len() - 1).unwrap(),
            }
        }
    };
    for verify in [&[][..], &["--verify"]] {
        ruin();
        let (mended, status) = home.json(&[&["backup", "data", "backup"], verify].concat());
        assert_eq!((status, &mended["copied"]), (0, &copies.len().into()), "{mended}");
        let (verified, status) = home.json(&["backup", "data", "backup", "--verify"]);
        assert_eq!((status, &verified["copied"]), (0, &0.into()), "{verified}");
        let contents = |files: Vec<(_, Vec<u8>)>| {
            let mut contents: Vec<_> = files.into_iter().map(|(_, bytes)| bytes).collect();
            contents.sort();
            contents
        };
        assert!(contents(files("backup")) == contents(copies.clone()));
    }
    // What FROM does not have either cannot be written again.
    ruin();
    let ruined = files("backup").len();
    for (path, _) in files("data") {
        std::fs::remove_file(path).unwrap();
    }
    let (lost, status) = home.json(&["backup", "data", "backup"]);
    // The second version of the account's record is held back, because the first one cannot be read.
    let count = |of: &str| lost[of].as_array().unwrap().len();
    assert_eq!((status, count("unreadable") + count("held_back")), (1, copies.len()), "{lost}");
    assert_eq!(files("backup").len(), ruined, "what is left of them stays");
}

#[test]
fn a_backup_keeps_and_names_objects_of_another_store() {
    let (home, other) = (Home::with_account(), Home::with_account());
    let to = other.path("data").display().to_string();
    let (summary, status) = home.json(&["backup", "data", &to]);
    assert_eq!(status, 1, "{summary}");
    let differing = summary["differing"].as_array().unwrap();
    assert!(differing.iter().any(|path| path.as_str().unwrap().starts_with("accounts/jane@example.org/")));
    assert_eq!(other.check().1, 0);
}

/// A backup is restored and used, and then an operator copies over it the later changes of the
/// first store, and the other way round.
#[test]
fn a_log_that_went_on_differently_stays_as_it_is() {
    let home = Home::with_account();
    let import = |count: usize, to: &str| {
        let name = home.file(&format!("{count}.mbox"), mbox(count, 300)).display().to_string();
        home.ok(&["import", &name, "--account", run::ACCOUNT, "--password-file", "password", "--dir", to]);
    };
    import(5, "data");
    assert_eq!(home.json(&["backup", "data", "restored"]).1, 0);
    std::fs::copy(home.path("data/server.key"), home.path("restored/server.key")).unwrap();
    [20, 21, 22].into_iter().for_each(|count| import(count, "data"));
    import(3, "restored");
    for (from, to) in [("data", "restored"), ("restored", "data")] {
        let before = paths(&home, to, "%");
        let (copied, status) = home.json(&["backup", from, to]);
        assert_eq!((status, copied["differing"].as_array().unwrap().len()), (1, 1), "{copied}");
        assert_eq!(paths(&home, to, "%"), before);
        let checked = home.run(&["check", "--password-file", "password", "--dir", to]);
        assert!(checked.status.success(), "{checked:?}");
    }
}

/// Two made an account of the same name.
#[test]
fn a_record_that_went_on_differently_stays_in_force() {
    let (home, other) = (Home::with_account(), Home::with_account());
    home.ok(&["account", "app-password", "add", run::ACCOUNT, "phone", "--password-file", "password"]);
    let to = other.path("data").display().to_string();
    let (copied, status) = home.json(&["backup", "data", &to]);
    assert_eq!((status, copied["differing"].as_array().unwrap().len()), (1, 1), "{copied}");
    assert_eq!(copied["held_back"].as_array().unwrap().len(), 1, "{copied}");
    assert_eq!(other.check().1, 0);
}

#[test]
fn unreadable_objects_are_reported_and_all_others_copied() {
    let home = Home::with_account();
    for size in [200_000, 210_000, 8_000_000] {
        let name = format!("{size}.eml");
        home.file(&name, incompressible(size, size));
        assert_eq!(home.import(&name).1, 0);
    }
    // A read of that from its beginning fails with an input/output error.
    let fails = std::path::Path::new("/proc/self/mem");
    let objects = home.path("data/objects");
    let broken: Vec<String> = {
        let database = database(&home, "data");
        let mut select =
            database.prepare("SELECT path, file FROM objects WHERE file IS NOT NULL AND path LIKE '%/msg/%'");
        let select = select.as_mut().unwrap();
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?))).unwrap();
        let rows: Vec<(String, String)> = rows.map(|row| row.unwrap()).collect();
        assert!(rows.len() >= 3 && rows.iter().all(|(_, file)| !file.contains('+')), "{rows:?}");
        let broken = rows.iter().skip(1).map(|(path, file)| {
            std::fs::remove_file(objects.join(file)).unwrap();
            std::os::unix::fs::symlink(fails, objects.join(file)).unwrap();
            path.clone()
        });
        broken.collect()
    };
    let output = home.run(&["backup", "data", "backup"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    for path in &broken {
        assert!(said.contains(&format!("{path}: cannot be read (the disk fails to read it)")), "{said}");
    }
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("{} objects not copied: unreadable", broken.len())), "{text}");
    let copied = paths(&home, "backup", "acct/%");
    let left_out = |path: &String| !broken.contains(path);
    assert_eq!(copied, paths(&home, "data", "acct/%").into_iter().filter(left_out).collect::<Vec<_>>());
    for verify in [&[][..], &["--verify"]] {
        let (again, status) = home.json(&[&["backup", "data", "backup"], verify].concat());
        assert_eq!((status, &again["copied"]), (1, &0.into()), "{again}");
        assert_eq!(again["unreadable"].as_array().unwrap().len(), broken.len(), "{again}");
    }
}

/// Starts a server, delivers one message to it and stops it: the code of the last reply.
fn deliver_once(home: &Home, subject: &str) -> String {
    let server = home.serve();
    let (accepted, replies) = server.lmtp(run::ACCOUNT, &format!("Subject: {subject}\r\n\r\nx\r\n"));
    server.stop();
    accepted.unwrap_or(replies)[..3].to_owned()
}

#[test]
fn a_store_that_went_back_is_reported_until_confirmed() {
    let home = Home::with_account();
    let deliver = |subject| deliver_once(&home, subject);
    assert_eq!(deliver("one"), "250");
    assert_eq!(home.json(&["backup", "data", "backup"]).1, 0);
    assert_eq!(deliver("two"), "250");
    assert_eq!(home.check().1, 0);
    // An earlier state of everything, in the place of what there was.
    std::fs::rename(home.path("data"), home.path("before")).unwrap();
    assert_eq!(home.json(&["backup", "backup", "data"]).1, 0);
    for file in ["server.key", "mail.key", "watermarks"] {
        std::fs::copy(home.path("before").join(file), home.path("data").join(file)).unwrap();
    }
    let (found, status) = home.check();
    assert!(status == 1 && found.to_string().contains("confirm-restore"), "{found}");
    assert_eq!(deliver("three"), "451", "the sender tries again");
    let server = home.serve();
    // What is left can be read.
    server.commands(&["EXAMINE INBOX", "FETCH 1 BODY.PEEK[]"]);
    let (_, status) = home.json(&["store", "confirm-restore"]);
    assert_eq!(status, 0);
    server.stop();
    assert_eq!(home.check().1, 0);
    assert_eq!(deliver("three"), "250");
    assert_eq!(home.check().1, 0);
}

#[test]
fn a_new_server_key_still_detects_an_older_store() {
    let home = Home::with_account();
    let deliver = |subject| deliver_once(&home, subject);
    assert_eq!((deliver("one"), deliver("two")), ("250".to_owned(), "250".to_owned()));
    // What this node saw last is under the key of before, and nothing is seen between the two.
    home.ok(&["server", "key", "rotate"]);
    let last = paths(&home, "data", "acct/%/log/%").pop().unwrap();
    assert_eq!(database(&home, "data").execute("DELETE FROM objects WHERE path = ?1", [&last]).unwrap(), 1);
    let (found, status) = home.check();
    assert!(status == 1 && found.to_string().contains("confirm-restore"), "{found}");
    assert_eq!(deliver("three"), "451", "the sender tries again");
    home.ok(&["server", "key", "rotate"]);
    assert_eq!(deliver("three"), "451", "and again under a third key");
    home.ok(&["store", "confirm-restore"]);
    assert_eq!(deliver("three"), "250");
    assert_eq!(home.check().1, 0);
}
