//! Entry points for fuzz targets and corpus replay: the readers of ids and messages from outside.

use sealpost_jmap::email::{HeaderForm, HeaderProperty};
use sealpost_mime::Scanner;
use sealpost_mime::structure::StoredStructure;
use sealpost_mime::text::NoText;

use crate::blob::BlobName;
use crate::email::show;

/// Reads a blob id. Each blob has one id.
pub fn blob_id(id: &[u8]) {
    let Ok(text) = std::str::from_utf8(id) else { return };
    if let Some(name) = BlobName::parse(text) {
        assert_eq!(name.to_string(), text);
        if let Some(part) = name.part(&[1, 2]).and_then(|part| part.id()) {
            assert!(BlobName::parse(part.as_str()).is_some());
        }
    }
}

/// Shows a message as an email: every header field in every form, all parts, all texts.
pub fn email(message: &[u8]) {
    let mut scanner = Scanner::with_sink(NoText);
    scanner.push(message);
    let (structure, _) = scanner.finish();
    let stored = StoredStructure::of(&structure);
    let header = usize::try_from(structure.root.header.end).unwrap_or(usize::MAX);
    let header = &message[..header.min(message.len())];
    for (name, _) in sealpost_mime::header::fields(header).take(64) {
        for form in HeaderForm::ALL {
            let name = String::from_utf8_lossy(name);
            if let Some(property) = HeaderProperty::new(&name, *form, true) {
                show::header(header, &property);
            }
        }
    }
    show::body(message, &stored);
}
