//! Emails: header properties, keywords, and what may be created and changed.

use sealpost_base::limits::*;
use serde_json::{Map, Value, json};

use crate::email::*;
use crate::error::{MethodErrorType, SetErrorDetail, SetErrorType};
use crate::patch::PatchObject;
use crate::read::FromJson;

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(members) = value else { panic!("no object: {value}") };
    members
}

#[test]
fn header_properties_are_written_as_they_were() {
    for text in [
        "header:subject",
        "header:Subject:asText",
        "header:SUBJECT:asRaw",
        "header:Resent-To:asAddresses:all",
        "header:x:all",
        "header:X-Mine:asURLs:all",
        "header:List-Id:asText",
        "header:all",
        "header:asText:asText",
    ] {
        assert_eq!(HeaderProperty::parse(text).unwrap().to_string(), text);
    }
    for (text, why) in [
        ("header:", "not the name of a field"),
        ("header:a b", "not the name of a field"),
        ("header:é", "not the name of a field"),
        ("header:a:", "after the field's name come :asRaw or"),
        ("header:a:astext", "after the field's name come"),
        ("header:a:all:asText", "after the field's name come"),
        ("header:a:all:all", "after the field's name come"),
        ("header:From:asDate", "asDate is forbidden for this field"),
        ("header:received:asText", "asText is forbidden for this field"),
        ("header:list-post:asText", "asText is forbidden for this field"),
    ] {
        let error = HeaderProperty::parse(text).unwrap_err();
        assert!(error.starts_with(why), "{text}: {error}");
    }
    // The table of §4.1.2 by columns: one field of each kind.
    let fields = ["Subject", "from", "Message-ID", "Date", "List-Post", "Received", "X-Any"];
    for (form, allowed) in [
        (HeaderForm::Raw, "1111111"),
        (HeaderForm::Text, "1000001"),
        (HeaderForm::Addresses, "0100001"),
        (HeaderForm::GroupedAddresses, "0100001"),
        (HeaderForm::MessageIds, "0010001"),
        (HeaderForm::Date, "0001001"),
        (HeaderForm::Urls, "0000101"),
    ] {
        let row: String =
            fields.iter().map(|field| if form.is_allowed_for(field) { '1' } else { '0' }).collect();
        assert_eq!(row, allowed, "{form:?}");
    }
}

#[test]
fn values_have_the_type_of_the_form() {
    let email = json!({
        "header:X-A:asText": "a", "header:X-B:asAddresses": [{"name": null, "email": "b"}],
        "header:X-C:asGroupedAddresses:all": [[{"name": "g", "addresses": []}]],
        "header:X-D:asMessageIds": ["d"], "header:X-E:asDate:all": ["2014-10-30T14:12:00+08:00", null],
        "header:X-F:asURLs": null, "header:X-G": " raw", "header:X-H:all": [],
    });
    assert_eq!(serde_json::to_value(Email::from_json(email.clone()).unwrap()).unwrap(), email);
    for (name, value) in [
        ("header:X:asText", json!(["a"])),
        ("header:X:all", json!("a")),
        ("header:X:all", json!(null)),
        ("header:X:asAddresses", json!("a@b")),
        ("header:X:asDate", json!("yesterday")),
    ] {
        let error = Email::from_json(json!({name: value})).unwrap_err();
        assert_eq!(error.argument(), name, "{error}");
    }
}

#[test]
fn keywords_are_lowercase_and_printable() {
    assert_eq!(Keyword::new("$Seen").unwrap().as_str(), "$seen");
    assert!(Keyword::new(&"k".repeat(255)).is_some());
    for bad in ["", "a b", "a\\b", "a(", "a)", "a{", "a]", "a%", "a*", "a\"", "é", "\x7f", &"k".repeat(256)]
    {
        assert_eq!(Keyword::new(bad), None, "{bad}");
    }
    for good in ["a}", "a[", "a/b", "~"] {
        assert!(Keyword::new(good).is_some(), "{good}");
    }
}

/// An email that may be created, with some members replaced; null removes one.
fn created(changes: Value) -> Result<Email, (Vec<String>, String)> {
    let mut email = object(json!({
        "mailboxIds": {"#m": true}, "keywords": {"$draft": true}, "subject": "s",
        "from": [{"name": "Jöe", "email": "joe@example.com"}],
        "textBody": [{"partId": "1", "type": "text/plain"}],
        "attachments": [{"blobId": "B1", "type": "image/png", "name": "a.png", "size": 5}],
        "bodyValues": {"1": {"value": "text", "isTruncated": false}},
    }));
    for (name, value) in object(changes) {
        if value.is_null() {
            email.remove(&name);
        } else {
            email.insert(name, value);
        }
    }
    for_create(email).map_err(|error| {
        assert_eq!(error.error, SetErrorType::InvalidProperties);
        let SetErrorDetail::Properties(names) = error.detail else { panic!("no properties") };
        (names, error.description.unwrap())
    })
}

#[test]
fn an_email_is_created_from_valid_objects() {
    for good in [
        json!({}),
        json!({"header:X-A": " a\r\n b", "header:X-B:asText:all": ["1", "2"]}),
        json!({"textBody": null, "attachments": null, "bodyStructure": {"type": "multipart/mixed", "subParts": [
            {"partId": "1", "type": "text/plain", "header:Content-MD5": " x"},
            {"type": "multipart/related", "subParts": [{"blobId": "B2", "cid": "c"}]},
        ]}}),
        json!({"htmlBody": [{"partId": "2"}], "bodyValues": {"1": {"value": ""}, "2": {"value": "<p>"}}}),
    ] {
        if let Err(error) = created(good.clone()) {
            panic!("{good}: {error:?}");
        }
    }
}

#[test]
fn an_email_that_is_ambiguous_is_not_created() {
    let mixed = |part: Value| {
        let structure = json!({"type": "multipart/mixed", "subParts": [part]});
        json!({"textBody": null, "attachments": null, "bodyStructure": structure})
    };
    for (changes, property) in [
        (json!({"mailboxIds": null}), "mailboxIds"),
        (json!({"mailboxIds": {}}), "mailboxIds"),
        (json!({"id": "M1"}), "id"),
        (json!({"preview": "p"}), "preview"),
        (json!({"headers": []}), "headers"),
        (json!({"colour": 1}), "colour"),
        (json!({"subject": 1}), "subject"),
        (json!({"header:Subject": " s"}), "header:Subject"),
        (json!({"header:X:asText": "a", "header:x": " a"}), "header:x"),
        (json!({"header:From:asText": "a"}), "header:From:asText"),
        (json!({"header:Content-Type": " text/plain"}), "header:Content-Type"),
        (json!({"attachments": null, "bodyStructure": {"partId": "1", "type": "text/plain"}}), "textBody"),
        (json!({"textBody": []}), "textBody"),
        (json!({"textBody": [{"partId": "1", "type": "text/html"}]}), "textBody"),
        (json!({"htmlBody": [{"partId": "1", "type": "text/plain"}]}), "htmlBody"),
        (json!({"textBody": [{"partId": "1", "blobId": "B"}]}), "textBody"),
        (json!({"textBody": [{"type": "text/plain"}]}), "textBody"),
        (json!({"textBody": [{"partId": "9"}]}), "textBody"),
        (json!({"textBody": [{"partId": "1", "charset": "utf-8"}]}), "textBody"),
        (json!({"textBody": [{"partId": "1", "size": 1}]}), "textBody"),
        (json!({"textBody": [{"partId": "1", "headers": []}]}), "textBody"),
        (json!({"textBody": [{"partId": "1", "header:Content-Transfer-Encoding": " 8bit"}]}), "textBody"),
        (json!({"attachments": [{"blobId": "B", "cid": "c", "header:Content-ID": " <c>"}]}), "attachments"),
        (
            json!({"attachments": [{"blobId": "B", "type": "a/b", "header:content-type": " c/d"}]}),
            "attachments",
        ),
        (json!({"attachments": [{"subParts": [], "type": "multipart/mixed"}]}), "attachments"),
        (json!({"bodyValues": {"1": {"value": "", "isTruncated": true}}}), "bodyValues"),
        (json!({"bodyValues": {"1": {"value": "", "isEncodingProblem": true}}}), "bodyValues"),
        (mixed(json!({"type": "multipart/mixed"})), "bodyStructure"),
        (mixed(json!({"type": "text/plain", "partId": "1", "subParts": []})), "bodyStructure"),
        (mixed(json!({"type": "multipart/mixed", "blobId": "B", "subParts": []})), "bodyStructure"),
        (
            json!({"textBody": null, "attachments": null,
            "bodyStructure": {"partId": "1", "type": "text/plain", "header:subject": " s"}}),
            "bodyStructure",
        ),
    ] {
        let (names, why) = created(changes.clone()).expect_err(&changes.to_string());
        assert_eq!(names, [property], "{changes}: {why}");
    }
}

#[test]
fn no_value_ends_a_header_field() {
    for (changes, property) in [
        (json!({"subject": "a\r\nBcc: x@example.com"}), "subject"),
        (json!({"from": [{"name": "a\nb", "email": "a@b"}]}), "from"),
        (json!({"to": [{"name": null, "email": "a@b\r\n"}]}), "to"),
        (json!({"references": ["a\0"]}), "references"),
        (json!({"header:X": " a\r\nBcc: x"}), "header:X"),
        (json!({"header:X": " a\n b"}), "header:X"),
        (json!({"header:X": " a\r\n \r\n b"}), "header:X"),
        (json!({"header:X": " a\r\n\r\n b"}), "header:X"),
        (json!({"header:X:asText:all": ["a", "b\r\n c"]}), "header:X:asText:all"),
        (json!({"header:X:asAddresses": [{"email": "a\r@b"}]}), "header:X:asAddresses"),
        (json!({"attachments": [{"blobId": "B", "name": "a\nb"}]}), "attachments"),
        (json!({"attachments": [{"blobId": "B", "type": "a/b\r\nc"}]}), "attachments"),
    ] {
        let (names, why) = created(changes.clone()).expect_err(&changes.to_string());
        assert_eq!(names, [property], "{changes}: {why}");
    }
}

#[test]
fn only_keywords_and_mailboxes_are_changed() {
    let update = |patch: Value| EmailUpdate::new(PatchObject::new(object(patch)).unwrap());
    let changed =
        update(json!({"keywords/$seen": true, "mailboxIds": {"F1": true}, "subject": "a", "header:X": " x"}))
            .unwrap();
    assert!(changed.keywords.is_some() && changed.mailbox_ids.is_some() && changed.has_unchanged());
    let current = Email::from_json(json!({"subject": "a", "header:X": " x", "size": 5})).unwrap();
    assert!(changed.conflicts(&current).is_empty());
    let current = Email::from_json(json!({"subject": "b", "header:X": " y"})).unwrap();
    assert_eq!(changed.conflicts(&current), ["subject", "header:X"]);
    assert!(!update(json!({"keywords": null})).unwrap().has_unchanged());
    for (patch, error) in [
        (json!({"from/0/name": "a"}), SetErrorType::InvalidPatch),
        (json!({"colour": 1}), SetErrorType::InvalidProperties),
        (json!({"size": "1"}), SetErrorType::InvalidProperties),
        (json!({"mailboxIds/F1": 1}), SetErrorType::InvalidProperties),
    ] {
        assert_eq!(update(patch.clone()).unwrap_err().error, error, "{patch}");
    }
}

#[test]
fn imports_and_copies_need_a_mailbox() {
    let import = |import| EmailImport::new(object(import));
    assert!(import(json!({"blobId": "B", "mailboxIds": {"#m": true}})).is_ok());
    for (wrong, property) in [
        (json!({"blobId": "B", "mailboxIds": {}}), "mailboxIds"),
        (json!({"blobId": "B"}), "mailboxIds"),
        (json!({"mailboxIds": {"F1": true}}), "blobId"),
        (json!({"blobId": "B", "mailboxIds": {"F1": true}, "keywords": null}), "keywords"),
        (json!({"blobId": "B", "mailboxIds": {"F1": true}, "subject": "s"}), "subject"),
    ] {
        let error = import(wrong.clone()).unwrap_err();
        assert_eq!(error.detail, SetErrorDetail::Properties(vec![property.into()]), "{wrong}");
    }
    let copy = |copy| EmailCopy::new(object(copy));
    assert!(copy(json!({"id": "M1", "mailboxIds": {"F1": true}, "keywords": {}})).is_ok());
    let error = copy(json!({"id": "M1", "mailboxIds": {"F1": true}, "subject": "s"})).unwrap_err();
    assert_eq!(error.detail, SetErrorDetail::Properties(vec!["subject".into()]));
}

#[test]
fn a_query_is_read_strictly() {
    let query = |arguments: Value| {
        let mut all = object(json!({"accountId": "A"}));
        all.extend(object(arguments));
        EmailQuery::from_arguments(all)
    };
    for (arguments, error, why) in [
        (
            json!({"filter": {"header": []}}),
            MethodErrorType::InvalidArguments,
            "filter.header: expected an array of the name",
        ),
        (json!({"filter": {"header": ["a", "b", "c"]}}), MethodErrorType::InvalidArguments, "filter.header:"),
        (json!({"filter": {"header": ["a:b"]}}), MethodErrorType::InvalidArguments, "filter.header:"),
        (
            json!({"filter": {"before": "2014-10-30T14:12:00+08:00"}}),
            MethodErrorType::InvalidArguments,
            "filter.before: expected a date in UTC",
        ),
        (
            json!({"filter": {"hasKeyword": "a b"}}),
            MethodErrorType::InvalidArguments,
            "filter.hasKeyword: expected a keyword",
        ),
        (
            json!({"sort": [{"property": "hasKeyword"}]}),
            MethodErrorType::InvalidArguments,
            "sort[0].keyword: missing",
        ),
        (
            json!({"sort": [{"property": "size", "keyword": "a"}]}),
            MethodErrorType::InvalidArguments,
            "sort[0].keyword: unknown name",
        ),
    ] {
        let wrong = query(arguments.clone()).unwrap_err();
        assert_eq!(wrong.error, error, "{arguments}");
        let description = wrong.description.unwrap();
        assert!(description.starts_with(why), "{description}");
    }
    for property in EmailSortKey::PROPERTIES {
        let sort = json!([{"property": property, "keyword": "k"}, {"property": property}]);
        let taken = (0..2).any(|which| query(json!({"sort": [sort[which]]})).is_ok());
        assert!(taken, "{property}");
    }
}

#[test]
fn filters_are_bounded() {
    let query =
        |filter: Value| EmailQuery::from_arguments(object(json!({"accountId": "A", "filter": filter})));
    let nested =
        |depth| (1..depth).fold(json!({}), |filter, _| json!({"operator": "NOT", "conditions": [filter]}));
    assert!(query(nested(JMAP_FILTER_DEPTH)).is_ok());
    assert_eq!(query(nested(JMAP_FILTER_DEPTH + 1)).unwrap_err().error, MethodErrorType::UnsupportedFilter);
    let wide = |count| json!({"operator": "OR", "conditions": vec![json!({}); count - 1]});
    assert!(query(wide(JMAP_FILTER_CONDITIONS)).is_ok());
    assert_eq!(
        query(wide(JMAP_FILTER_CONDITIONS + 1)).unwrap_err().error,
        MethodErrorType::UnsupportedFilter
    );
    let sort = |count| {
        let sort = vec![json!({"property": "size"}); count];
        EmailQuery::from_arguments(object(json!({"accountId": "A", "sort": sort})))
    };
    assert!(sort(JMAP_COMPARATORS).is_ok());
    assert_eq!(sort(JMAP_COMPARATORS + 1).unwrap_err().error, MethodErrorType::UnsupportedSort);
}

#[test]
fn header_properties_and_parts_are_bounded() {
    let names = |count: usize| -> Vec<String> { (0..count).map(|n| format!("header:X-{n}")).collect() };
    for argument in ["properties", "bodyProperties"] {
        let get = |count| EmailGet::from_arguments(object(json!({"accountId": "A", argument: names(count)})));
        assert!(get(JMAP_HEADER_PROPERTIES).is_ok());
        let error = get(JMAP_HEADER_PROPERTIES + 1).unwrap_err().description.unwrap();
        assert_eq!(error, format!("{argument}: more than {JMAP_HEADER_PROPERTIES} header properties"));
    }
    let email = |count| {
        let headers: Map<String, Value> = names(count).into_iter().map(|name| (name, json!(" x"))).collect();
        created(Value::Object(headers))
    };
    assert!(email(JMAP_HEADER_PROPERTIES).is_ok());
    assert!(email(JMAP_HEADER_PROPERTIES + 1).unwrap_err().1.contains("at most 100 header properties"));
    let parts = |count: usize| created(json!({"attachments": vec![json!({"blobId": "B"}); count - 1]}));
    assert!(parts(MIME_PARTS).is_ok());
    assert_eq!(parts(MIME_PARTS + 1).unwrap_err().0, ["bodyStructure"]);
    let blobs = |count: usize| {
        EmailParse::from_arguments(object(json!({"accountId": "A", "blobIds": vec!["B"; count]})))
    };
    assert!(blobs(JMAP_GET_OBJECTS).is_ok());
    assert_eq!(blobs(JMAP_GET_OBJECTS + 1).unwrap_err().error, MethodErrorType::RequestTooLarge);
}
