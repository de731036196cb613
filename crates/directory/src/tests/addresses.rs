//! Which accounts an address leads to: aliases, catch-alls, outside targets, served domains.

use super::*;

#[tokio::test]
async fn where_mail_goes() {
    let world = Fixture::new();
    let directory = world.directory();
    for account in ["me@x", "you@x", "me+work@x", "me@y"] {
        directory.create(&name(account), new("pw")).await.unwrap();
    }
    alias(&directory, "info@x", &["me@x", "you@x"]).await;
    alias(&directory, "nested@x", &["info@x", "me@y", "gone@x"]).await;
    alias(&directory, "@y", &["you@x"]).await;
    alias(&directory, "tagged@x", &["me+news@x"]).await;

    assert_eq!(names(&directory, "ME@X").await, ["me@x"]);
    assert_eq!(names(&directory, "info@x").await, ["me@x", "you@x"]);
    assert_eq!(names(&directory, "nested@x").await, ["me@y", "me@x", "you@x"]);
    assert_eq!(names(&directory, "anybody@y").await, ["you@x"], "the catch-all");
    assert_eq!(names(&directory, "me@y").await, ["me@y"], "an account comes before the catch-all");
    assert_eq!(names(&directory, "me+work@x").await, ["me+work@x"], "an account comes before the tag");

    let tagged = directory.resolve("Me+List@x").await.unwrap();
    assert_eq!(
        (tagged.recipients[0].name.as_str(), tagged.recipients[0].detail.as_deref()),
        ("me@x", Some("list"))
    );
    let tagged = directory.resolve("tagged@x").await.unwrap();
    assert_eq!(tagged.recipients[0].detail.as_deref(), Some("news"));
    let tagged = directory.resolve("info+fair@x").await.unwrap();
    assert!(
        tagged.recipients.len() == 2 && tagged.recipients.iter().all(|r| r.detail.as_deref() == Some("fair"))
    );

    for nobody in ["no@x", "me@elsewhere", "no+tag@x"] {
        assert_eq!(kind(directory.resolve(nobody)).await, Kind::NotFound, "{nobody}");
    }
    assert_eq!(kind(directory.resolve("not an address")).await, Kind::Invalid);
    directory.remove(&name("you@x")).await.unwrap();
    assert_eq!(names(&directory, "info@x").await, ["me@x"], "a removed account gets nothing");
}

#[tokio::test]
async fn the_postmaster_always_resolves() {
    let world = Fixture::new();
    let directory = world.directory().on_host("Host.Example", Some("Mail.Example"), Some("admin@x")).unwrap();
    directory.create(&name("admin@x"), new("pw")).await.unwrap();
    directory.create(&name("me@x"), new("pw")).await.unwrap();
    assert_eq!(names(&directory, "PostMaster").await, ["admin@x"]);
    for ours in ["postmaster@mail.example", "postmaster@host.example"] {
        assert_eq!(names(&directory, ours).await, ["admin@x"]);
    }
    assert_eq!(kind(directory.resolve("postmaster@elsewhere")).await, Kind::NotFound);
    alias(&directory, "postmaster@host.example", &["me@x"]).await;
    assert_eq!(names(&directory, "postmaster").await, ["me@x"], "an alias comes before the setting");
    assert_eq!(directory.account_name("ME").unwrap().as_str(), "me@mail.example");
}

#[tokio::test]
async fn aliases_that_run_in_circles_or_fan_out_end() {
    let world = Fixture::new();
    let directory = world.directory();
    directory.create(&name("me@x"), new("pw")).await.unwrap();
    alias(&directory, "a@x", &["b@x"]).await;
    alias(&directory, "b@x", &["a@x", "me@x"]).await;
    alias(&directory, "@circle", &["none@circle"]).await;
    assert_eq!(names(&directory, "a@x").await, ["me@x"]);
    assert_eq!(kind(directory.resolve("any@circle")).await, Kind::NotFound);

    for n in 0..=limits::ALIAS_DEPTH {
        alias(&directory, &format!("deep{n}@x"), &[&format!("deep{}@x", n + 1)]).await;
    }
    assert_eq!(kind(directory.resolve("deep0@x")).await, Kind::Limit);

    for n in 0..4 {
        let wide: Vec<_> = (0..limits::ALIAS_TARGETS).map(|m| format!("t{n}-{m}@x")).collect();
        alias(&directory, &format!("wide{n}@x"), &wide.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    alias(&directory, "wide@x", &["wide0@x", "wide1@x", "wide2@x", "wide3@x"]).await;
    assert_eq!(kind(directory.resolve("wide@x")).await, Kind::Limit);
}

#[tokio::test]
async fn aliases_come_and_go() {
    let world = Fixture::new();
    let (here, there) = (world.directory(), world.directory());
    here.create(&name("me@x"), new("pw")).await.unwrap();
    alias(&here, "Info@X", &["me@x"]).await;
    alias(&there, "info@x", &["me@x", "you@x"]).await;
    alias(&here, "@x", &["me@x"]).await;
    let listed: Vec<_> = here.aliases().try_collect().await.unwrap();
    let listed: Vec<_> = listed.iter().map(|a| (a.name.to_string(), a.targets.len())).collect();
    assert_eq!(listed, [("@x".to_owned(), 1), ("info@x".to_owned(), 2)]);

    let info = AliasName::parse("info@x").unwrap();
    there.remove_alias(&info).await.unwrap();
    assert_eq!(kind(here.remove_alias(&info)).await, Kind::NotFound);
    assert!(here.alias(&info).await.unwrap().is_none());
    alias(&here, "info@x", &["me@x"]).await;
    assert!(there.alias(&info).await.unwrap().is_some());

    let me = AliasName::parse("me@x").unwrap();
    assert_eq!(kind(here.set_alias(&me, &addresses(&["info@x"]))).await, Kind::Conflict);
    assert_eq!(kind(here.create(&name("info@x"), new("pw"))).await, Kind::Conflict);
    assert_eq!(kind(here.set_alias(&info, Targets::default())).await, Kind::Invalid);
    let many: Vec<_> =
        (0..=limits::ALIAS_TARGETS).map(|n| Address::parse(&format!("me+{n}@x")).unwrap()).collect();
    assert_eq!(kind(here.set_alias(&info, &many)).await, Kind::Limit);
    assert_eq!(kind(here.add_to_alias(&info, &many[1..])).await, Kind::Limit, "with the one that is there");
}

#[tokio::test]
async fn targets_are_added_replaced_and_taken_away() {
    let world = Fixture::new();
    let directory = world.directory();
    for account in ["jane@x", "joe@x", "me@x"] {
        directory.create(&name(account), new("pw")).await.unwrap();
    }
    for alias in ["info@x", "@other"] {
        let alias = AliasName::parse(alias).unwrap();
        let made = directory.add_to_alias(&alias, &addresses(&["me@x", "jane@x"])).await.unwrap();
        assert_eq!((made.added.here, made.removed), (addresses(&["jane@x", "me@x"]), Targets::default()));
        let added = directory.add_to_alias(&alias, &addresses(&["joe@x", "jane@x"])).await.unwrap();
        assert_eq!((added.added.here, added.removed), (addresses(&["joe@x"]), Targets::default()));
        assert_eq!(added.alias.targets.here, addresses(&["jane@x", "joe@x", "me@x"]));
        assert_eq!(directory.alias(&alias).await.unwrap(), Some(added.alias));
        let set = directory.set_alias(&alias, &addresses(&["joe@x"])).await.unwrap();
        assert_eq!((set.added.here, set.removed.here), (Vec::new(), addresses(&["jane@x", "me@x"])));

        directory.add_to_alias(&alias, &addresses(&["me@x"])).await.unwrap();
        let taken = directory.take_from_alias(&alias, &addresses(&["joe@x"])).await.unwrap();
        assert_eq!(
            (taken.alias.targets.here, taken.removed.here),
            (addresses(&["me@x"]), addresses(&["joe@x"]))
        );
        for (target, refused) in [("joe@x", Kind::NotFound), ("me@x", Kind::Invalid)] {
            assert_eq!(kind(directory.take_from_alias(&alias, &addresses(&[target]))).await, refused);
        }
        directory.remove_alias(&alias).await.unwrap();
        assert_eq!(kind(directory.take_from_alias(&alias, &addresses(&["me@x"]))).await, Kind::NotFound);
    }
}

#[tokio::test]
async fn an_alias_leads_to_accounts_and_never_back_to_itself() {
    let world = Fixture::new();
    let directory = world.directory();
    directory.create(&name("me@x"), new("pw")).await.unwrap();
    directory.create(&name("gone@x"), new("pw")).await.unwrap();
    directory.remove(&name("gone@x")).await.unwrap();
    let add = async |alias: &str, target: &str| {
        let (alias, targets) = (AliasName::parse(alias).unwrap(), addresses(&[target]));
        let added = directory.add_to_alias(&alias, &targets).await.map(drop);
        let set = directory.set_alias(&alias, &targets).await.map(drop);
        assert_eq!(added.as_ref().map_err(|e| e.kind()), set.as_ref().map_err(|e| e.kind()));
        set
    };
    for (alias, target) in
        [("a@x", "me@x"), ("b@x", "a@x"), ("c@x", "b+tag@x"), ("@y", "c@x"), ("d@x", "any@y")]
    {
        add(alias, target).await.unwrap();
    }
    for (alias, target, expected) in [
        ("e@x", "nobody@x", Kind::NotFound),
        ("e@x", "gone@x", Kind::NotFound),
        ("e@x", "joe@elsewhere.example", Kind::NotFound),
        ("e@x", "e@x", Kind::Invalid),
        ("e@x", "e+tag@x", Kind::Invalid),
        ("a@x", "b@x", Kind::Invalid),
        ("a@x", "c@x", Kind::Invalid),
        ("a@x", "d@x", Kind::Invalid),
        ("@y", "other@y", Kind::Invalid),
        ("@z", "other@z", Kind::Invalid),
        ("@y", "d@x", Kind::Invalid),
    ] {
        assert_eq!(add(alias, target).await.unwrap_err().kind(), expected, "{alias} -> {target}");
    }
    let outside = add("e@x", "joe@elsewhere.example").await.unwrap_err().to_string();
    assert!(outside.contains("not of this server"), "{outside}");
    let unknown = add("e@x", "nobody@y.x").await.unwrap_err().to_string();
    assert!(unknown.contains("not of this server"), "{unknown}");
    let unknown = add("e@x", "nobody@x").await.unwrap_err().to_string();
    assert!(unknown.contains("create it first"), "{unknown}");
    // As deep as deliveries go, and no deeper.
    for n in 0..limits::ALIAS_DEPTH {
        let below = if n == 0 { "me@x".to_owned() } else { format!("deep{}@x", n - 1) };
        add(&format!("deep{n}@x"), &below).await.unwrap();
    }
    let deepest = format!("deep{}@x", limits::ALIAS_DEPTH - 1);
    assert_eq!(names(&directory, &deepest).await, ["me@x"]);
    assert_eq!(add("deeper@x", &deepest).await.unwrap_err().kind(), Kind::Limit);
}

#[tokio::test]
async fn aliases_that_a_removal_leaves_without_accounts_are_known() {
    let world = Fixture::new();
    let directory = world.directory();
    for account in ["jane@x", "me@x"] {
        directory.create(&name(account), new("pw")).await.unwrap();
    }
    alias(&directory, "both@x", &["jane@x", "me@x"]).await;
    alias(&directory, "one@x", &["jane@x"]).await;
    alias(&directory, "other@x", &["me@x"]).await;
    directory.remove(&name("jane@x")).await.unwrap();
    let left = directory.aliases_left_without(name("jane@x").address()).await.unwrap();
    let left: Vec<_> = left.iter().map(|alias| alias.name.to_string()).collect();
    assert_eq!(left, ["one@x"]);
    assert!(
        !directory
            .leads_anywhere(&directory.alias(&AliasName::parse("one@x").unwrap()).await.unwrap().unwrap())
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn aliases_lead_to_other_servers() {
    let world = Fixture::new();
    let directory = world.directory();
    directory.create(&name("me@x"), new("pw")).await.unwrap();
    let info = AliasName::parse("info@x").unwrap();
    let texts = ["me@x", "Jane.Doe@Elsewhere.example"].map(str::to_owned);
    let targets = directory.targets(&texts).await.unwrap();
    assert_eq!(
        (targets.here.clone(), targets.outside[0].as_str()),
        (addresses(&["me@x"]), texts[1].as_str())
    );
    let made = directory.add_to_alias(&info, targets).await.unwrap();
    assert_eq!(made.added.texts().collect::<Vec<_>>(), ["me@x", &texts[1]]);
    assert_eq!(directory.alias(&info).await.unwrap(), Some(made.alias));
    // The same one in another case is no other one.
    let again = directory.targets(&["jane.doe@elsewhere.example".to_owned()]).await.unwrap();
    assert!(directory.add_to_alias(&info, again).await.unwrap().added.is_empty());

    let resolved = directory.resolve("info+tag@x").await.unwrap();
    assert_eq!(resolved.recipients.len(), 1);
    let outside: Vec<_> = resolved.outside.iter().map(|to| (to.address.as_str(), &to.alias)).collect();
    assert_eq!(outside, [(texts[1].as_str(), &info)]);
    // Through another alias, and a catch-all that leads outside alone.
    alias(&directory, "both@x", &["info@x", "me@x"]).await;
    assert_eq!(
        directory.resolve("both@x").await.unwrap().outside,
        directory.resolve("info@x").await.unwrap().outside
    );
    let all = AliasName::parse("@y").unwrap();
    directory
        .set_alias(&all, Targets { here: Vec::new(), ..directory.targets(&texts).await.unwrap() })
        .await
        .unwrap();
    assert!(directory.leads_anywhere(&directory.alias(&all).await.unwrap().unwrap()).await.unwrap());
    let resolved = directory.resolve("any@y").await.unwrap();
    assert_eq!((resolved.recipients.len(), &resolved.outside[0].alias), (0, &all));
    directory.add_to_alias(&AliasName::parse("to@x").unwrap(), &addresses(&["any@y"])).await.unwrap();

    let taken = directory.take_from_alias(&info, &addresses(&["jane.doe@elsewhere.example"])).await.unwrap();
    assert_eq!((taken.removed.outside.len(), taken.alias.targets.len()), (1, 1));
}

#[tokio::test]
async fn an_outside_target_is_not_of_a_domain_served_here() {
    let world = Fixture::new();
    let directory = world.directory();
    directory.create(&name("me@x"), new("pw")).await.unwrap();
    let outside =
        |text: &str| Targets { outside: vec![OutsideAddress::parse(text).unwrap()], ..Targets::default() };
    let info = AliasName::parse("info@x").unwrap();
    assert_eq!(kind(directory.set_alias(&info, outside("you@x"))).await, Kind::NotFound);
    let new_domain = AliasName::parse("info@new").unwrap();
    assert_eq!(kind(directory.set_alias(&new_domain, outside("you@new"))).await, Kind::NotFound);
    directory.create(&name("me@y"), new("pw")).await.unwrap();
    world.clock.advance(super::served::AGE);
    assert_eq!(kind(directory.set_alias(&info, outside("you@y"))).await, Kind::Invalid);
    // A domain that came here: its mail stays here, and is refused while no account has the
    // address.
    directory.set_alias(&info, outside("you@z")).await.unwrap();
    assert_eq!(directory.resolve("info@x").await.unwrap().outside.len(), 1);
    directory.create(&name("me@z"), new("pw")).await.unwrap();
    world.clock.advance(super::served::AGE);
    assert_eq!(kind(directory.resolve("info@x")).await, Kind::NotFound);
    directory.create(&name("you@z"), new("pw")).await.unwrap();
    let resolved = directory.resolve("info@x").await.unwrap();
    assert_eq!((resolved.recipients.len(), resolved.outside.len()), (1, 0));
    assert!(OutsideAddress::parse("me@[192.0.2.1]").is_err() && OutsideAddress::parse("me").is_err());
}

#[tokio::test]
async fn outside_targets_count_like_others() {
    let world = Fixture::new();
    let directory = world.directory();
    let many = |from: usize, to: usize| {
        let outside = (from..to).map(|n| OutsideAddress::parse(&format!("a{n}@elsewhere.example")).unwrap());
        Targets { outside: outside.collect(), ..Targets::default() }
    };
    let wide = AliasName::parse("wide@x").unwrap();
    assert_eq!(kind(directory.set_alias(&wide, many(0, limits::ALIAS_TARGETS + 1))).await, Kind::Limit);
    let parts = limits::ALIAS_LOOKUPS / limits::ALIAS_TARGETS + 1;
    for n in 0..parts {
        let part = AliasName::parse(&format!("wide{n}@x")).unwrap();
        directory
            .set_alias(&part, many(n * limits::ALIAS_TARGETS, (n + 1) * limits::ALIAS_TARGETS))
            .await
            .unwrap();
        let targets = addresses(&[&format!("wide{n}@x")]);
        let added = directory.add_to_alias(&wide, &targets).await.map(drop).map_err(|e| e.kind());
        assert!(added.is_ok(), "{n}: {added:?}");
    }
    assert_eq!(directory.resolve("wide0@x").await.unwrap().outside.len(), limits::ALIAS_TARGETS);
    assert_eq!(kind(directory.resolve("wide@x")).await, Kind::Limit);
}

/// On a store behind a network: what it was a few seconds ago is good enough to take a message, and
/// never to refuse one.
#[tokio::test]
async fn deliveries_cache_records_but_never_refuse_by_them() {
    let calls = Faulty::new(Arc::new(InMemory::new()), Plan::default(), 1);
    let world = Fixture { store: Store::over(Arc::new(calls.clone())).packing(), ..Fixture::new() };
    let (here, there) = (world.directory(), world.directory());
    assert!(here.resolve("me@mail.example").await.is_err());
    there.create(&name("me@mail.example"), new("secret")).await.unwrap();
    alias(&there, "you@mail.example", &["me@mail.example"]).await;
    // That there was none is not remembered.
    assert_eq!(names(&here, "me@mail.example").await, ["me@mail.example"]);
    assert_eq!(names(&here, "you@mail.example").await, ["me@mail.example"]);
    let before = calls.calls();
    assert_eq!(names(&here, "me@mail.example").await, ["me@mail.example"]);
    assert_eq!(calls.calls(), before);
    // What others change is seen after ten seconds,
    let quota = |bytes| {
        move |record: &mut AccountRecord| {
            record.quota = Some(bytes);
            Ok(())
        }
    };
    there.update(&name("me@mail.example"), quota(5)).await.unwrap();
    let quota_of = async |directory: &Directory| {
        directory.resolve("me@mail.example").await.unwrap().recipients[0].quotas.storage
    };
    assert_eq!(quota_of(&here).await, None);
    assert_eq!(here.get(&name("me@mail.example")).await.unwrap().quota, Some(5), "only deliveries remember");
    world.clock.advance(Duration::from_secs(11));
    assert_eq!(quota_of(&here).await, Some(5));
    // what this process changes at once.
    here.update(&name("me@mail.example"), quota(7)).await.unwrap();
    assert_eq!(quota_of(&here).await, Some(7));
    // A removed account gets mail for as long, and one that exists again refuses none.
    there.remove(&name("me@mail.example")).await.unwrap();
    assert_eq!(names(&here, "me@mail.example").await, ["me@mail.example"]);
    world.clock.advance(Duration::from_secs(11));
    assert_eq!(here.resolve("me@mail.example").await.unwrap_err().kind(), Kind::NotFound);
    there.undelete(&name("me@mail.example")).await.unwrap();
    assert_eq!(names(&here, "me@mail.example").await, ["me@mail.example"]);
}

#[tokio::test]
async fn a_domain_is_served_while_it_has_addresses() {
    let world = Fixture::new();
    let (directory, other) = (world.directory(), world.directory());
    let serves = async |domain: &str| {
        // The memory store does not tell of changes.
        world.clock.advance(super::served::AGE);
        directory.serves(domain).await.unwrap()
    };
    for own in ["mail.example", "MAIL.Example", "mail.example."] {
        assert!(serves(own).await, "{own}");
    }
    for foreign in ["example", "x.mail.example", "one.example", "[192.0.2.1]", "", "a b", "-"] {
        assert!(!serves(foreign).await, "{foreign:?}");
    }
    other.create(&name("me@one.example"), new("a")).await.unwrap();
    other.create(&name("odd+me@b\u{fc}cher.example"), new("a")).await.unwrap();
    alias(&other, "info@two.example", &["me@one.example"]).await;
    alias(&other, "@three.example", &["me@one.example"]).await;
    for served in
        ["one.example", "two.example", "THREE.example", "xn--bcher-kva.example", "b\u{fc}cher.example"]
    {
        assert!(serves(served).await, "{served}");
    }
    assert!(!serves("ne.example").await && !serves("four.example").await);
    // What was removed names no domain any more; another account in it does.
    other.remove(&name("me@one.example")).await.unwrap();
    other.remove_alias(&AliasName::parse("info@two.example").unwrap()).await.unwrap();
    assert!(!serves("one.example").await && !serves("two.example").await);
    other.create(&name("you@one.example"), new("a")).await.unwrap();
    assert!(serves("one.example").await);
}

/// Outsiders may ask as often as they like.
#[tokio::test]
async fn records_are_not_looked_at_for_each_foreign_domain() {
    let world = Fixture::new();
    let directory = world.directory();
    assert!(!directory.serves("one.example").await.unwrap());
    directory.create(&name("me@one.example"), new("a")).await.unwrap();
    assert!(!directory.serves("one.example").await.unwrap(), "it was looked a moment ago");
    world.clock.advance(super::served::AGE);
    assert!(directory.serves("one.example").await.unwrap());
}

#[tokio::test]
async fn the_catch_all_does_not_get_names_of_removed_accounts() {
    let world = Fixture::new();
    let mut directory = world.directory();
    for account in ["me@x", "you@x", "third@x"] {
        directory.create(&name(account), new("pw")).await.unwrap();
    }
    alias(&directory, "@x", &["you@x"]).await;
    assert_eq!(names(&directory, "nobody@x").await, ["you@x"]);
    directory.remove(&name("me@x")).await.unwrap();
    for address in ["me@x", "me+tag@x"] {
        assert_eq!(kind(directory.resolve(address)).await, Kind::NotFound);
    }
    directory.purge(&name("me@x"), Timestamp(i64::MAX)).await.unwrap();
    assert_eq!(kind(directory.resolve("me@x")).await, Kind::NotFound);
    alias(&directory, "me@x", &["third@x"]).await;
    assert_eq!(names(&directory, "me@x").await, ["third@x"], "an alias of that name may have it");

    // An attacker with write access to the store removes the record, or its newest version: a node
    // that has read it refuses for now.
    let path = |version: u64| format!("accounts/third@x/{version:016x}");
    world.store.put_again(&path(2), "accounts/aside/0000000000000002").await.unwrap();
    directory.suspend(&name("third@x")).await.unwrap();
    assert_eq!(directory.get(&name("third@x")).await.unwrap().version, 4);
    world.store.delete(&path(4)).await.unwrap();
    world.store.delete(&path(3)).await.unwrap();
    world.store.put_again("accounts/aside/0000000000000002", &path(2)).await.unwrap();
    world.store.delete("accounts/aside/0000000000000002").await.unwrap();
    for version in [2, 0] {
        if version == 0 {
            assert_eq!(directory.get(&name("third@x")).await.unwrap().version, 2);
            world.store.delete(&path(2)).await.unwrap();
        }
        for refuses in [kind(directory.resolve("third@x")).await, kind(directory.get(&name("third@x"))).await]
        {
            assert_eq!(refuses, Kind::Retry, "{version}");
        }
        // Until an operator says that it is right so.
        directory.versions.watermarks = Default::default();
    }
}
