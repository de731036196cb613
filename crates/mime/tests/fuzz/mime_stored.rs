//! Damaged stored bytes are refused or read, without other effects.

use sealpost_mime::{Outline, Structure, Text};

/// Reads the bytes as a structure and as a text; readable ones are written and read again as the
/// same.
pub fn fuzz_mime_stored(data: &[u8]) {
    if let Ok(structure) = Structure::decode(data) {
        let again = Structure::decode(&structure.encode()).expect("what was stored");
        assert_eq!(again, structure);
        let _ = structure.part(&[1, 1, 2]);
        assert_eq!(Outline::decode(data).expect("it has an outline"), structure.outline());
    }
    if let Ok(outline) = Outline::decode(data) {
        let _ = outline.part_within(&[1, 1, 2]);
    }
    if let Ok(text) = Text::decode(data) {
        assert_eq!(Text::decode(&text.encode()).expect("what was stored"), text);
    }
}
