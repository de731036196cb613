//! Shows a message in memory as an email, for fuzz targets.

use std::collections::BTreeSet;

use sealpost_base::limits::JMAP_BODY_VALUE_BYTES;
use sealpost_jmap::email::HeaderProperty;
use sealpost_mime::structure::StoredStructure;

use super::body_tree::{BodyLists, BodyPart};
use super::body_value::BodyText;
use super::header_forms::{HeaderRoom, headers, property};

/// Reads a header property, and all fields, as JSON.
pub(crate) fn header(header: &[u8], wanted: &HeaderProperty) {
    let mut room = HeaderRoom::default();
    let value = property(header, wanted, &mut room);
    serde_json::to_string(&value).expect("it is JSON");
    serde_json::to_string(&headers(header, &mut room)).expect("it is JSON");
}

/// Reads all parts and texts.
pub(crate) fn body(message: &[u8], structure: &StoredStructure<'_>) {
    let root = BodyPart::tree(structure).expect("a message has a part");
    let lists = BodyLists::of(&root);
    let mut ids = BTreeSet::new();
    root.walk(&mut |part| {
        if let Some(id) = part.part_id() {
            assert!(ids.insert(id), "each part has a name of its own");
        }
    });
    // Each part is in at least one list.
    let shown = lists.text.iter().chain(&lists.html).chain(&lists.attachments);
    assert_eq!(shown.filter_map(|part| part.part_id()).collect::<BTreeSet<_>>(), ids);
    root.walk(&mut |part| {
        let body = part.stored.body();
        let range = usize::try_from(body.start).ok().zip(usize::try_from(body.end).ok());
        let Some(bytes) = range.and_then(|(start, end)| message.get(start..end)) else { return };
        for most in [10, JMAP_BODY_VALUE_BYTES] {
            let mut text = BodyText::new(part.stored, most);
            bytes.chunks(1000).for_each(|piece| text.push(piece));
            assert!(text.finish().value.len() <= most);
        }
    });
}
