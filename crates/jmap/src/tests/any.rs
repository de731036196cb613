//! Values of every kind, by chance.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::email::{HeaderForm, HeaderProperty};
use crate::patch::PatchObject;
use crate::pointer::Pointer;
use crate::read::FromJson;
use crate::{GivenId, Request, json};

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "[\\x00-\\x7f]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-z~/0-9]{0,4}", inner, 0..6).prop_map(|members| json!(members)),
        ]
    })
}

fn object(members: BTreeMap<String, Value>) -> Map<String, Value> {
    members.into_iter().collect()
}

/// What RFC 8620 §5.3 says, step by step: each path is followed from the top.
fn naive_patch(object: &Value, patch: &BTreeMap<String, Value>) -> Option<Value> {
    let mut patched = object.clone();
    for (path, value) in patch {
        let (parents, last) = path.rsplit_once('/').unwrap_or(("", path));
        let parent =
            if parents.is_empty() && !path.starts_with('/') { String::new() } else { format!("/{parents}") };
        // Parents must exist before any patch, which none of the others makes or removes; and no path
        // leads into an array.
        let ends = parent.match_indices('/').map(|(at, _)| at).chain([parent.len()]);
        for end in ends {
            object.pointer(&parent[..end])?.as_object()?;
        }
        let members = patched.pointer_mut(&parent)?.as_object_mut()?;
        let last = last.replace("~1", "/").replace("~0", "~");
        if value.is_null() {
            members.remove(&last)
        } else {
            members.insert(last, value.clone())
        };
    }
    Some(patched)
}

proptest! {
    #[test]
    fn json_is_read_as_by_serde(value in any_json()) {
        prop_assert_eq!(json::parse(value.to_string().as_bytes()), Ok(value.clone()));
        let pretty = serde_json::to_vec_pretty(&value).unwrap();
        prop_assert_eq!(json::parse(&pretty), Ok(value));
    }

    #[test]
    fn any_bytes_are_json_only_if_serde_says_so(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(value) = json::parse(&bytes) {
            prop_assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), value);
        }
    }

    #[test]
    fn pointers_are_read_back(parts in prop::collection::vec("[a-z~/0-9]{0,5}", 1..6)) {
        let escaped: Vec<String> = parts.iter().map(|part| part.replace('~', "~0").replace('/', "~1")).collect();
        let pointer = Pointer::parse(&escaped.join("/")).unwrap();
        prop_assert_eq!(pointer.to_string(), escaped.join("/"));
        let read: Vec<&str> = pointer.parts().iter().map(|part| &**part).collect();
        prop_assert_eq!(read, parts);
    }

    #[test]
    fn patches_apply_as_a_naive_model_does(
        members in prop::collection::btree_map("[a-c]", any_json(), 0..4),
        inner in prop::collection::btree_map("[a-c1-2]", any_json(), 0..4),
        patch in prop::collection::btree_map("[a-c](/[a-c1-2]){0,2}", any_json(), 0..4),
    ) {
        let mut before = object(members);
        before.insert("a".into(), json!(inner));
        let Ok(read) = PatchObject::new(object(patch.clone())) else {
            // Refused only if one path begins another.
            let begins = |a: &String, b: &String| b.starts_with(&format!("{a}/"));
            prop_assert!(patch.keys().any(|a| patch.keys().any(|b| begins(a, b))));
            return Ok(());
        };
        let mut after = before.clone();
        let applied = read.apply(&mut after, &Map::new());
        match naive_patch(&Value::Object(before.clone()), &patch) {
            Some(expected) => {
                prop_assert!(applied.is_ok());
                prop_assert_eq!(Value::Object(after), expected);
            }
            None => {
                prop_assert!(applied.is_err());
                prop_assert_eq!(after, before);
            }
        }
    }

    #[test]
    fn any_json_is_a_request_or_a_problem(value in any_json(), arguments in any_json()) {
        prop_assert!(Request::parse(value.to_string().as_bytes()).is_err());
        let body = json!({"using": ["a"], "methodCalls": [["A/b", arguments, "c"]], "x": value});
        match Request::parse(body.to_string().as_bytes()) {
            Ok(request) => {
                let written = serde_json::to_vec(&request).unwrap();
                prop_assert_eq!(Request::parse(&written).unwrap(), request);
            }
            Err(_) => prop_assert!(!arguments.is_object()),
        }
    }

    #[test]
    fn header_properties_are_read_back(
        name in "[!-9;-~]{1,20}", form in prop::sample::select(HeaderForm::ALL), all: bool, says_form: bool,
    ) {
        let form_name = if says_form { format!(":{}", form.name()) } else { String::new() };
        let text = format!("header:{name}{form_name}{}", if all { ":all" } else { "" });
        match HeaderProperty::parse(&text) {
            Ok(property) => {
                prop_assert_eq!(property.to_string(), text);
                let expected = if says_form { form } else { HeaderForm::Raw };
                prop_assert_eq!((property.name, property.form, property.all), (name, expected, all));
            }
            Err(_) => prop_assert!(says_form && !form.is_allowed_for(&name)),
        }
    }

    #[test]
    fn given_ids_are_repeated_as_they_came(text in "\\PC{0,20}|#?[a-zA-Z0-9_-]{0,300}") {
        prop_assert_eq!(GivenId::from_json(json!(text)).unwrap().to_string(), text);
    }
}
