//! Any bytes are a message, cut anywhere it is the same message, and its structure keeps its promises.

use sealpost_mime::decode::TransferDecoder;
use sealpost_mime::header::HeaderFilter;
use sealpost_mime::text::CappedText;
use sealpost_mime::{Part, PartKind, Scanner, Structure, Text};

/// The first byte chooses how the rest, the message, is cut.
pub fn fuzz_mime_scanner(data: &[u8]) {
    let Some((&cut, message)) = data.split_first() else { return };
    let (structure, text) = scan(message, message.len().max(1));
    let pieces = scan(message, usize::from(cut % 64) + 1);
    assert_eq!(pieces, (structure.clone(), text.clone()), "cuts do not matter");
    check(message, &structure);
    assert_eq!(Structure::decode(&structure.encode()).expect("what was stored"), structure);
    assert_eq!(Text::decode(&text.encode()).expect("what was stored"), text);
    filter(message, &structure, usize::from(cut));
    structure.root.walk(&mut |part| {
        part.filename();
    });
}

fn scan(message: &[u8], size: usize) -> (Structure, Text) {
    let mut scanner = Scanner::with_sink(CappedText::new(4096));
    message.chunks(size).for_each(|chunk| scanner.push(chunk));
    let (structure, sink) = scanner.finish();
    (structure, sink.into_text())
}

fn check(message: &[u8], structure: &Structure) {
    assert_eq!(
        (structure.size, structure.lines),
        (message.len() as u64, lines(message, 0, message.len() as u64))
    );
    assert_eq!((structure.root.header.start, structure.root.body.end), (0, structure.size));
    assert!(structure.preview.as_ref().expect("a scanned message has one").chars().count() <= 200);
    check_part(message, &structure.root);
}

/// The ranges of the part are ranges of `bytes`.
fn check_part(bytes: &[u8], part: &Part) {
    assert!(part.header.start <= part.header.end && part.header.end <= part.body.start);
    assert_eq!(part.lines, lines(bytes, part.body.start, part.body.end));
    let inside: Vec<&Part> = match &part.kind {
        PartKind::Leaf => vec![],
        PartKind::Multipart(parts) => parts.iter().collect(),
        PartKind::Message(_, inside) => vec![inside],
    };
    assert!(inside.is_empty() == matches!(part.kind, PartKind::Leaf));
    if part.layer().is_some() {
        let mut decoder = TransferDecoder::new(part.transfer_encoding());
        let mut decoded = Vec::new();
        decoder.push(&bytes[part.body.start as usize..part.body.end as usize], &mut decoded);
        decoder.finish(&mut decoded);
        assert_eq!((inside[0].header.start, inside[0].body.end), (0, decoded.len() as u64));
        return check_part(&decoded, inside[0]);
    }
    let mut from = part.body.start;
    for child in inside {
        assert!(from <= child.header.start && child.body.end <= part.body.end);
        from = child.body.end;
        check_part(bytes, child);
    }
}

fn lines(bytes: &[u8], from: u64, to: u64) -> u64 {
    bytes[from as usize..to as usize].iter().filter(|b| **b == b'\n').count() as u64
}

/// The fields kept by a filter and by its opposite make up the header.
fn filter(message: &[u8], structure: &Structure, size: usize) {
    let header = &message[..structure.root.header.end as usize];
    let names = ["subject", "content-type", "x"];
    let mut kept = [Vec::new(), Vec::new()];
    for (filter, kept) in [HeaderFilter::only(names), HeaderFilter::without(names)].into_iter().zip(&mut kept)
    {
        let mut filter = filter;
        let mut out = |bytes: &[u8]| kept.extend_from_slice(bytes);
        header.chunks(size + 1).for_each(|chunk| filter.push(chunk, &mut out));
        filter.finish(&mut out);
    }
    assert!(kept.iter().all(|kept| kept.len() <= header.len()));
    // The empty line is in both.
    let both = kept[0].len() + kept[1].len();
    assert!((header.len()..=header.len() + 2).contains(&both), "{both} {}", header.len());
}
