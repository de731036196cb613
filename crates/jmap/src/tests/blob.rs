//! Blobs: what is uploaded and what is asked for.

use sealpost_base::limits::*;
use serde_json::{Map, Value, json};

use crate::GivenId;
use crate::blob::*;
use crate::error::{MethodErrorType, SetErrorDetail};

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(members) = value else { panic!("no object: {value}") };
    members
}

#[test]
fn an_upload_is_made_of_sources() {
    let data = json!([{"data:asText": "ö"}, {"data:asBase64": "gYE="}, {"blobId": "#b4", "offset": 3, "length": null}]);
    let upload = UploadObject::new(object(json!({"data": data, "type": "a/b"}))).unwrap();
    assert_eq!(upload.data[0], DataSource::Bytes("ö".into()));
    assert_eq!(upload.data[1], DataSource::Bytes(vec![0x81, 0x81]));
    let id = GivenId::from("#b4".to_owned());
    assert_eq!(upload.data[2], DataSource::Blob { id, offset: 3, length: None });
    assert!(UploadObject::new(object(json!({"data": []}))).unwrap().data.is_empty());
    for (wrong, why) in [
        (json!({}), "data: missing; expected an array"),
        (
            json!({"data": [{}]}),
            "data[0]: expected an object with data:asText, data:asBase64 or blobId, and one of them",
        ),
        (json!({"data": [{"data:asText": "a", "blobId": "b"}]}), "data[0]: expected an object with"),
        (json!({"data": [{"data:asText": "a", "offset": 1}]}), "data[0].offset: unknown name"),
        (json!({"data": [{"data:asBase64": "gYE"}]}), "data[0].data:asBase64: not base64"),
        (json!({"data": [{"data:asBase64": "g Y="}]}), "data[0].data:asBase64: not base64"),
        (json!({"data": [{"blobId": "b", "offset": -1}]}), "data[0].offset: expected an integer"),
        (json!({"data": [], "name": "a"}), "name: unknown name"),
    ] {
        let error = UploadObject::new(object(wrong.clone())).unwrap_err();
        assert!(error.description.as_ref().unwrap().starts_with(why), "{wrong}: {error:?}");
        let name = if wrong.get("name").is_some() { "name" } else { "data" };
        assert_eq!(error.detail, SetErrorDetail::Properties(vec![name.into()]));
    }
}

#[test]
fn blob_methods_are_bounded() {
    let upload =
        |count: usize| UploadObject::new(object(json!({"data": vec![json!({"data:asText": ""}); count]})));
    assert!(upload(JMAP_DATA_SOURCES).is_ok());
    assert!(upload(JMAP_DATA_SOURCES + 1).is_err());
    let create = |count: usize| {
        let create: Map<String, Value> = (0..count).map(|n| (format!("k{n}"), json!({"data": []}))).collect();
        BlobUpload::from_arguments(object(json!({"accountId": "A", "create": create})))
    };
    assert!(create(JMAP_SET_OBJECTS).is_ok());
    assert_eq!(create(JMAP_SET_OBJECTS + 1).unwrap_err().error, MethodErrorType::RequestTooLarge);
    let lookup = |count: usize| {
        let arguments = json!({"accountId": "A", "typeNames": ["Email", "Email"], "ids": vec!["b"; count]});
        BlobLookup::from_arguments(object(arguments))
    };
    assert_eq!(lookup(JMAP_GET_OBJECTS).unwrap().type_names, [LookupType::Email]);
    assert_eq!(lookup(JMAP_GET_OBJECTS + 1).unwrap_err().error, MethodErrorType::RequestTooLarge);
    let copy = |count: usize| {
        let arguments = json!({"accountId": "A", "fromAccountId": "B", "blobIds": vec!["b"; count]});
        BlobCopy::from_arguments(object(arguments))
    };
    assert!(copy(JMAP_GET_OBJECTS).is_ok());
    assert_eq!(copy(JMAP_GET_OBJECTS + 1).unwrap_err().error, MethodErrorType::RequestTooLarge);
}

#[test]
fn blob_properties_are_read() {
    let get = |properties: Value| {
        BlobGet::from_arguments(object(json!({"accountId": "A", "ids": ["b"], "properties": properties})))
    };
    let names = json!(["id", "data", "data:asText", "data:asBase64", "digest:sha-256", "size"]);
    assert_eq!(serde_json::to_value(get(names.clone()).unwrap()).unwrap()["properties"], names);
    for wrong in ["digest:", "digest:SHA", "data:", "name", "digest:a b"] {
        let error = get(json!([wrong])).unwrap_err().description.unwrap();
        assert!(error.starts_with("properties[0]: expected data, data:asText"), "{error}");
    }
    let error = BlobGet::from_arguments(object(json!({"accountId": "A"}))).unwrap_err();
    assert!(error.description.unwrap().starts_with("ids: missing"));
    let lookup = json!({"accountId": "A", "typeNames": ["Calendar"], "ids": []});
    let error = BlobLookup::from_arguments(object(lookup)).unwrap_err();
    assert_eq!(error.error, MethodErrorType::UnknownDataType);
}
