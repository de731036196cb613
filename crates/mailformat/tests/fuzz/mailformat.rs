//! Entry points for fuzzing the mail readers. They panic when something is wrong.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use sealpost_base::Timestamp;

use sealpost_mailformat::discover::discover;
use sealpost_mailformat::lines::LineEnds;
use sealpost_mailformat::mbox::{Envelope, MboxReader, MboxWriter, Options, Variant};
use sealpost_mailformat::{Meta, Source};

/// Bytes that are read of the decompressed contents of a file.
const UNPACKED_BYTES: usize = 4 * 1024 * 1024;

/// An mbox, whose first byte selects how it is read: it is read to its end, then written and read
/// again, with the same flags and bytes.
pub fn fuzz_mbox(data: &[u8]) {
    let Some((how, file)) = data.split_first() else { return };
    let variants = [None, Some(Variant::O), Some(Variant::Rd), Some(Variant::Cl), Some(Variant::Cl2)];
    let variant = variants[usize::from(*how) % variants.len()];
    let options = Options { variant, ignore_labels: how & 0x80 != 0, ignore_flags: how & 0x40 != 0 };
    let Ok(reader) = MboxReader::new(Cursor::new(file), "x", options) else { return };
    let messages: Vec<_> = all(reader).collect();
    for line_ends in [LineEnds::Exact, LineEnds::Lf] {
        let mut writer = MboxWriter::new(Vec::new(), line_ends);
        for (meta, message) in &messages {
            let flags = meta.flags.as_deref().unwrap_or_default();
            let sender = meta.sender.as_deref().unwrap_or_default();
            let envelope = Envelope { sender, received: Timestamp(0), flags };
            writer.begin(&envelope).expect("memory can be written to");
            message.chunks(7).for_each(|piece| writer.write(piece).expect("memory can be written to"));
            writer.end().expect("memory can be written to");
        }
        let file = writer.finish().expect("memory can be written to");
        let again = MboxReader::new(Cursor::new(file), "x", Options::default()).expect("it is an mbox");
        let again: Vec<_> = all(again).collect();
        assert_eq!(again.len(), messages.len(), "each is a message");
        for ((meta, message), (meta_again, again)) in messages.iter().zip(&again) {
            assert_eq!(meta_again.flags.as_ref(), Some(&meta.flags.clone().unwrap_or_default()), "the flags");
            let mut message = message.clone();
            if line_ends == LineEnds::Lf && !message.is_empty() && !message.ends_with(b"\n") {
                // A file of lines has no message that ends within one.
                let ends: &[u8] = if message.ends_with(b"\r") { b"\n" } else { b"\r\n" };
                message.extend_from_slice(ends);
            }
            let has_bare_lf = message
                .iter()
                .enumerate()
                .any(|(at, b)| *b == b'\n' && (at == 0 || message[at - 1] != b'\r'));
            if line_ends == LineEnds::Exact || !has_bare_lf {
                assert_eq!(*again, message, "byte for byte");
            }
        }
    }
}

/// A file of any name and contents, created in `directory`: it is recognized as mail or not, and
/// mail is read to its end.
pub fn fuzz_import(data: &[u8], directory: &Path) {
    let Some((name, content)) = data.split_first() else { return };
    let names = ["x", "x.eml", "x.mbox", "x.eml.gz", "cur/x"];
    let root = directory.join("files");
    let _ = fs::remove_dir_all(&root);
    let path = root.join(names[usize::from(*name) % names.len()]);
    let above = path.parent().unwrap_or(&root);
    fs::create_dir_all(above).expect("the directory can be written to");
    fs::write(&path, content).expect("the directory can be written to");
    for at in [&root, &path] {
        let discovery = discover(at).expect("it can be read");
        assert_eq!(
            discovery.found.len() + discovery.skipped.len() + discovery.failed.len(),
            1,
            "it is one thing"
        );
        for found in discovery.found {
            let Ok(mut source) = found.open(Options::default(), directory) else { continue };
            let mut bytes = 0;
            while let Ok(Some(_)) = source.next_message() {
                while let Ok(Some(chunk)) = source.next_chunk() {
                    assert!(!chunk.is_empty(), "a piece is never empty");
                    bytes += chunk.len();
                    if bytes > UNPACKED_BYTES {
                        return;
                    }
                }
            }
        }
    }
}

/// All messages of a source that does not fail.
fn all(mut source: impl Source) -> impl Iterator<Item = (Meta, Vec<u8>)> {
    std::iter::from_fn(move || {
        let meta = source.next_message().expect("memory can be read")?;
        let mut bytes = Vec::new();
        while let Some(chunk) = source.next_chunk().expect("memory can be read") {
            bytes.extend_from_slice(chunk);
        }
        Some((meta, bytes))
    })
}
