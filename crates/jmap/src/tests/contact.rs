//! Contacts: the examples of RFC 9553, what it calls invalid, and the arguments of RFC 9610.

use sealpost_base::limits::CARD_LANGUAGES;
use serde_json::{Map, Value, json};

use crate::contact::{AddressBook, AddressBookSet, CardQuery, check_card};
use crate::error::{MethodErrorType, SetErrorDetail, SetErrorType};

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(members) = value else { panic!("no object: {value}") };
    members
}

/// A card with these properties beside those it must have.
fn card(properties: Value) -> Map<String, Value> {
    let mut card = object(json!({"@type": "Card", "version": "1.0", "uid": "urn:uuid:1"}));
    card.extend(object(properties));
    card
}

#[track_caller]
fn is_valid(properties: Value) {
    if let Err(error) = check_card(&card(properties.clone())) {
        panic!("{properties}: {error:?}");
    }
}

#[track_caller]
fn is_wrong(properties: Value) {
    let expected: Vec<String> = object(properties.clone()).keys().cloned().collect();
    let error = check_card(&card(properties.clone())).expect_err(&properties.to_string());
    assert_eq!(error.error, SetErrorType::InvalidProperties);
    let SetErrorDetail::Properties(names) = error.detail else { panic!("no properties") };
    assert!(names.iter().all(|name| expected.contains(name)), "{names:?} of {properties}");
}

#[test]
fn examples_of_jscontact_are_valid() {
    // RFC 9553 §2.1: Figures 8 to 15.
    is_valid(json!({"created": "2022-09-30T14:35:10Z", "kind": "individual", "language": "de-AT",
        "prodId": "ACME Contacts App version 1.23.5", "updated": "2021-10-31T22:27:10Z",
        "relatedTo": {"urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6": {"relation": {"friend": true}},
                      "8cacdfb7d1ffdb59@example.com": {"relation": {}}}}));
    is_valid(json!({"kind": "group", "name": {"full": "The Doe family"},
        "members": {"urn:uuid:03a0e51f-d1aa-4385-8a53-e29025acd8af": true}}));
    // RFC 9553 §2.2: Figures 17 to 24.
    is_valid(
        json!({"name": {"components": [{"kind": "given", "value": "Robert"}, {"kind": "given2", "value": "Pau"},
        {"kind": "surname", "value": "Shou Chang"}], "sortAs": {"surname": "Pau Shou Chang", "given": "Robert"},
        "isOrdered": true}, "nicknames": {"k391": {"name": "Johnny"}}}),
    );
    is_valid(json!({"organizations": {"o1": {"name": "ABC, Inc.", "sortAs": "ABC",
            "units": [{"name": "North American Division"}, {"name": "Marketing"}]}},
        "speakToAs": {"grammaticalGender": "neuter", "pronouns": {"k19": {"pronouns": "they/them", "pref": 2}}},
        "titles": {"k2": {"kind": "role", "name": "Project Leader", "organizationId": "o1"}}}));
    // RFC 9553 §2.3, §2.4: Figures 25 to 30.
    is_valid(json!({"emails": {"e1": {"contexts": {"work": true}, "address": "jqpublic@xyz.example.com"},
            "e2": {"address": "jane_doe@example.com", "pref": 1}},
        "onlineServices": {"x1": {"uri": "xmpp:alice@example.com"},
            "x2": {"service": "Mastodon", "user": "@alice@example2.com", "uri": "https://example2.com/@alice"}},
        "phones": {"tel0": {"contexts": {"private": true}, "features": {"voice": true},
            "number": "tel:+1-555-555-5555;ext=5555", "pref": 1}},
        "preferredLanguages": {"l1": {"language": "en", "contexts": {"work": true}, "pref": 1}},
        "calendars": {"calA": {"kind": "calendar", "uri": "webcal://calendar.example.com/calA.ics"}},
        "schedulingAddresses": {"sched1": {"uri": "mailto:janedoe@example.com"}}}));
    // RFC 9553 §2.5: Figure 31.
    is_valid(json!({"addresses": {"k23": {"contexts": {"work": true}, "components": [
            {"kind": "number", "value": "54321"}, {"kind": "separator", "value": " "}, {"kind": "name", "value": "Oak St"},
            {"kind": "locality", "value": "Reston"}, {"kind": "region", "value": "VA"}, {"kind": "separator", "value": " "},
            {"kind": "postcode", "value": "20190"}, {"kind": "country", "value": "USA"}],
        "countryCode": "US", "defaultSeparator": ", ", "isOrdered": true},
        "g": {"coordinates": "geo:46.772673,-71.282945", "timeZone": "Etc/UTC"}}}));
    // RFC 9553 §2.6: Figures 34 to 38.
    is_valid(json!({"cryptoKeys": {"mykey1": {"uri": "https://www.example.com/keys/jdoe.cer"}},
        "directories": {"dir2": {"kind": "directory", "uri": "ldap://ldap.example/o=Example%20Tech,ou=Engineering", "pref": 1}},
        "links": {"link3": {"kind": "contact", "uri": "mailto:contact@example.com", "pref": 1}},
        "media": {"res45": {"kind": "sound", "uri": "CID:JOHNQ.part8.19960229T080000.xyzMail@example.com"},
                  "res1": {"kind": "photo", "uri": "data:image/jpeg;base64,/9j/4AAQSkZJRgABAQAASABIAAD/4"}}}));
    // RFC 9553 §2.8.
    is_valid(json!({"anniversaries": {
            "k8": {"kind": "birth", "date": {"year": 1953, "month": 4, "day": 15}},
            "k9": {"kind": "death", "date": {"@type": "Timestamp", "utc": "2019-10-15T23:10:00Z"}, "place": {"full": "4445 Tree Street"}}},
        "keywords": {"internet": true, "IETF": true},
        "notes": {"n1": {"note": "Open office hours", "created": "2022-11-23T15:01:32Z", "author": {"name": "John"}}},
        "personalInfo": {"pi2": {"kind": "expertise", "value": "chemistry", "level": "high", "listAs": 1}}}));
}

#[test]
fn localized_cards_are_valid_too() {
    // RFC 9553 §2.2.1.1: Figure 20, with paths into an array.
    is_valid(
        json!({"language": "zh-Hant", "name": {"components": [{"kind": "surname", "value": "孫"}, {"kind": "given", "value": "中山"}]},
        "localizations": {"yue": {"name/phoneticSystem": "jyut", "name/phoneticScript": "Latn",
            "name/components/0/phonetic": "syun1", "name/components/1/phonetic": "zung1saan1"}}}),
    );
    // RFC 9553 §2.7.1: Figures 39 and 40.
    is_valid(
        json!({"titles": {"t1": {"kind": "title", "name": "novelist"}}, "localizations": {"es": {"titles/t1/name": "escritor"}}}),
    );
    let with = |patches: Value| json!({"localizations": {"es": patches}});
    for wrong in [
        with(json!({"titles/t1/name": "x"})),
        with(json!({"name": 1})),
        with(json!({"localizations": {}})),
        with(json!({"uid": null})),
        with(json!({"keywords": {}, "keywords/a": true})),
        with(json!(1)),
        json!({"localizations": {"not a language": {}}}),
    ] {
        is_wrong(wrong);
    }
    let many: Map<String, Value> = (0..=CARD_LANGUAGES).map(|n| (format!("x{n}"), json!({}))).collect();
    is_wrong(json!({"localizations": many}));
}

#[test]
fn rejects_values_outside_the_types_of_a_card() {
    for wrong in [
        json!({"created": "2022-09-30T14:35:10.500Z0"}),
        json!({"created": "2022-09-30T14:35:10.50Z"}),
        json!({"created": "2022-09-30T14:35:10+00:00"}),
        json!({"language": "de_AT"}),
        json!({"prodId": ""}),
        json!({"members": {"a": true}}),
        json!({"keywords": {"a": false}}),
        json!({"relatedTo": {"a": {"relation": {"Friend": true}}}}),
        json!({"name": {}}),
        json!({"name": {"components": [{"kind": "separator", "value": " "}], "isOrdered": true}}),
        json!({"name": {"components": [{"kind": "given", "value": "a"}, {"kind": "separator", "value": " "}]}}),
        json!({"name": {"full": "a", "defaultSeparator": " "}}),
        json!({"name": {"full": "a", "sortAs": {"given": "a"}}}),
        json!({"name": {"components": [{"kind": "given", "value": "a"}], "sortAs": {"surname": "a"}}}),
        json!({"name": {"components": [{"kind": "given", "value": "a", "phonetic": "a"}]}}),
        json!({"name": {"components": [{"kind": "Given", "value": "a"}]}}),
        json!({"name": {"@type": "Card", "full": "a"}}),
        json!({"nicknames": {"a/b": {"name": "x"}}}),
        json!({"nicknames": {"a": {"name": "x", "pref": 101}}}),
        json!({"organizations": {"a": {}}}),
        json!({"organizations": {"a": {"units": []}}}),
        json!({"speakToAs": {}}),
        json!({"emails": {"a": {"address": "nowhere"}}}),
        json!({"onlineServices": {"a": {"service": "x"}}}),
        json!({"phones": {"a": {"features": {}}}}),
        json!({"calendars": {"a": {"uri": "https://example.com"}}}),
        json!({"links": {"a": {"uri": "no uri"}}}),
        json!({"links": {"a": {"uri": "https://example.com/ü"}}}),
        json!({"addresses": {"a": {}}}),
        json!({"addresses": {"a": {"countryCode": "USA"}}}),
        json!({"addresses": {"a": {"coordinates": "https://example.com"}}}),
        json!({"media": {"a": {"kind": "photo"}}}),
        json!({"media": {"a": {"kind": "photo", "uri": "https://example.com", "blobId": "B1"}}}),
        json!({"directories": {"a": {"kind": "entry", "uri": "https://example.com", "listAs": 0}}}),
        json!({"anniversaries": {"a": {"kind": "birth", "date": {"day": 30, "month": 2}}}}),
        json!({"anniversaries": {"a": {"kind": "birth", "date": {"day": 29, "month": 2, "year": 2023}}}}),
        json!({"anniversaries": {"a": {"kind": "birth", "date": {"month": 2}}}}),
        json!({"anniversaries": {"a": {"kind": "birth", "date": {"day": 2}}}}),
        json!({"anniversaries": {"a": {"kind": "birth", "date": {"@type": "Timestamp"}}}}),
        json!({"notes": {"a": {"note": "x", "author": {}}}}),
        json!({"personalInfo": {"a": {"kind": "hobby", "value": 1}}}),
        json!({"kind": null}),
    ] {
        is_wrong(wrong);
    }
    is_valid(json!({"anniversaries": {"a": {"kind": "birth", "date": {"day": 29, "month": 2}}}}));
}

#[test]
fn unknown_properties_stay_and_reserved_ones_do_not() {
    is_valid(json!({"futureThing": null, "example.com:x": [1], "@extra": true, "kind": "robot",
        "emails": {"e": {"address": "a@b", "example.com:verified": true, "certainty": 0.5}}}));
    for wrong in [
        json!({"extra": 1}),
        json!({"Kind": "org"}),
        json!({"@TYPE": "Card"}),
        json!({"my property": 1}),
        json!({"": 1}),
        json!({":x": 1}),
        json!({"example.com:": 1}),
        json!({"example.com:a/b": 1}),
        json!({"emails": {"e": {"address": "a@b", "Label": "x"}}}),
    ] {
        is_wrong(wrong);
    }
}

#[test]
fn all_that_is_missing_is_named() {
    let error = check_card(&object(json!({"@type": "Jcard"}))).unwrap_err();
    let SetErrorDetail::Properties(names) = error.detail else { panic!("no properties") };
    assert_eq!(names, ["@type", "version", "uid"]);
}

#[test]
fn arguments_of_contacts_are_read() {
    let set = json!({"accountId": "a", "onDestroyRemoveContents": true, "onSuccessSetIsDefault": "#x"});
    let set = AddressBookSet::from_arguments(object(set)).unwrap();
    assert!(set.on_destroy_remove_contents && set.on_success_set_is_default.is_some());
    let null =
        AddressBookSet::from_arguments(object(json!({"accountId": "a", "onSuccessSetIsDefault": null})));
    assert_eq!(null.unwrap().on_success_set_is_default, None);
    let query =
        |filter: Value| CardQuery::from_arguments(object(json!({"accountId": "a", "filter": filter})));
    assert!(query(json!({"name/given": "a", "createdBefore": "2020-01-01T00:00:00Z"})).is_ok());
    assert_eq!(query(json!({"colour": 1})).unwrap_err().error, MethodErrorType::UnsupportedFilter);
    let book = json!({"name": "a", "shareWith": {"P1": {"mayRead": true}}});
    assert!(AddressBook::for_create(object(book)).unwrap().share_with.flatten().is_some());
}
