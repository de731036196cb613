//! Round trips with another implementation, arbitrary cuts, bombs, stream ends, and memory.

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZStatus};
use proptest::prelude::*;

use super::*;

fn budget() -> Budget {
    Budget::new(64 * 1024 * 1024)
}

fn deflater(budget: Budget) -> Deflater {
    Deflater::new(&Compressions::of(&budget), budget)
}

/// Less than a compressor takes, so that everything is stored.
fn small_budget() -> Budget {
    let budget = budget();
    let mut held = Vec::new();
    while let Some(permit) = budget.try_acquire(usize::MAX) {
        held.push(permit);
    }
    std::mem::forget(held);
    budget
}

fn send(deflater: &mut Deflater, mut text: &[u8], room: usize) -> Vec<u8> {
    let (mut sent, mut packed) = (Vec::new(), vec![0; room]);
    while !text.is_empty() {
        let (taken, written) = deflater.push(text, &mut packed);
        assert!(taken + written > 0);
        text = &text[taken..];
        sent.extend_from_slice(&packed[..written]);
    }
    loop {
        let written = deflater.flush(&mut packed);
        if written == 0 {
            return sent;
        }
        sent.extend_from_slice(&packed[..written]);
    }
}

/// The text that a client reads, whether the stream has ended, and the length of the remaining input.
fn read(state: &mut InflateState, mut packed: &[u8]) -> (Vec<u8>, bool, usize) {
    let (mut text, mut room) = (Vec::new(), vec![0; 100_000]);
    loop {
        let result = inflate(state, packed, &mut room, MZFlush::Sync);
        packed = &packed[result.bytes_consumed..];
        text.extend_from_slice(&room[..result.bytes_written]);
        match result.status {
            Ok(MZStatus::StreamEnd) => return (text, true, packed.len()),
            _ if result.bytes_written == 0 && (packed.is_empty() || result.bytes_consumed == 0) => {
                assert!(packed.is_empty(), "{:?}", result.status);
                return (text, false, 0);
            }
            _ => {}
        }
    }
}

fn numbered(lines: usize) -> Vec<u8> {
    (0..lines).flat_map(|n| format!("* {n} FETCH (FLAGS (\\Seen) UID {})\r\n", n * 7).into_bytes()).collect()
}

#[test]
fn a_flush_shows_everything_whatever_the_compressor_does() {
    for room in [64, 1000, 16 * 1024] {
        let mut deflater = deflater(budget());
        let mut client = InflateState::new(DataFormat::Raw);
        for n in [1, 2, 3000, 1, 40_000, 5, 6, 1] {
            let text = numbered(n);
            let sent = send(&mut deflater, &text, room);
            assert_eq!(read(&mut client, &sent), (text, false, 0), "{n} lines, {room} bytes of room");
            if n % 2 == 1 {
                deflater.rest();
                assert!(deflater.rests());
            }
        }
        let mut last = [0; 16];
        let written = deflater.finish(&mut last);
        let (text, ended, left) = read(&mut client, &[&last[..written], b"* OK plain"].concat());
        assert!(text.is_empty() && ended && left == 10);
    }
}

#[test]
fn without_memory_blocks_are_stored_and_decode_the_same() {
    let budget = budget();
    let mut deflater = deflater(budget.clone());
    let mut client = InflateState::new(DataFormat::Raw);
    let text = numbered(10_000);
    let sent = send(&mut deflater, &text, 16 * 1024);
    assert!(sent.len() < text.len() / 4, "{} of {}", sent.len(), text.len());
    assert_eq!(budget.in_use(), COMPRESSOR_BYTES);
    assert_eq!(read(&mut client, &sent), (text.clone(), false, 0));
    deflater.rest();
    assert_eq!(budget.in_use(), 0);

    let mut held = Vec::new();
    while let Some(permit) = budget.try_acquire(usize::MAX) {
        held.push(permit);
    }
    let sent = send(&mut deflater, &text, 16 * 1024);
    assert!(sent.len() > text.len());
    assert_eq!(read(&mut client, &sent), (text.clone(), false, 0));
    drop(held);
    let sent = send(&mut deflater, &text, 16 * 1024);
    assert!(sent.len() < text.len() / 4);
    assert_eq!(read(&mut client, &sent), (text, false, 0));
}

/// All output, and the input after the end.
fn receive(inflater: &mut Inflater, packed: &[u8], piece: usize) -> Result<Vec<u8>, Corrupt> {
    let mut out = BytesMut::new();
    for piece in packed.chunks(piece) {
        inflater.input().extend_from_slice(piece);
        loop {
            let before = out.len();
            match inflater.inflate(&mut out)? {
                Inflated::Some => assert!(out.len() > before && out.len() - before <= WINDOW_BYTES),
                Inflated::Nothing => break,
                Inflated::Ended => return Ok(out.to_vec()),
            }
        }
        inflater.rest();
    }
    Ok(out.to_vec())
}

#[test]
fn the_window_survives_rests() {
    // Random letters, so that references reach only to earlier text, across the whole window.
    let mut state = 1u32;
    let mut letters = |n: usize| -> Vec<u8> {
        let next = || {
            state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            b'a' + (state >> 16) as u8 % 26
        };
        std::iter::repeat_with(next).take(n).collect()
    };
    let block = letters(31_000);
    let text = [&block[..], &block[..], &letters(500), &block[..], &letters(70_000)[..]].concat();
    for level in [1, 6, 9] {
        let packed = compress_to_vec(&text, level);
        for piece in [1, 7, 1000, packed.len()] {
            let mut inflater = Inflater::new(BytesMut::new());
            let mut out = BytesMut::new();
            for piece in packed.chunks(piece) {
                inflater.input().extend_from_slice(piece);
                while inflater.inflate(&mut out) == Ok(Inflated::Some) {}
                inflater.rest();
            }
            assert!(out == text, "level {level}, {piece} bytes at a time");
        }
    }
}

#[test]
fn a_bomb_is_decompressed_in_pieces_on_demand() {
    let packed = compress_to_vec(&vec![b'x'; 64 * 1024 * 1024], 9);
    assert!(packed.len() < 100_000);
    let mut inflater = Inflater::new(BytesMut::from(&packed[..]));
    let mut out = BytesMut::new();
    for _ in 0..100 {
        out.clear();
        assert_eq!(inflater.inflate(&mut out), Ok(Inflated::Some));
        assert!(out.len() <= WINDOW_BYTES && out.capacity() <= 2 * WINDOW_BYTES);
    }
    assert!(inflater.held() <= INFLATER_BYTES + packed.len() + 1024);
}

#[test]
fn an_idle_client_costs_its_window_and_no_tables() {
    let mut deflater = deflater(budget());
    let mut inflater = Inflater::new(BytesMut::new());
    for n in 0..10 {
        let command = format!("{n} FETCH {n} (FLAGS BODY.PEEK[HEADER.FIELDS (SUBJECT)])\r\n");
        let packed = send(&mut deflater, command.as_bytes(), 1000);
        assert_eq!(receive(&mut inflater, &packed, 1000).unwrap(), command.as_bytes());
    }
    assert!(inflater.held() < 2000, "{} bytes", inflater.held());
    let packed = send(&mut deflater, &numbered(10_000), 1000);
    receive(&mut inflater, &packed, 1000).unwrap();
    assert!(inflater.held() < WINDOW_BYTES + 1000, "{} bytes", inflater.held());
    assert!(INFLATER_BYTES >= WINDOW_BYTES + size_of::<DecompressorOxide>() + size_of::<Inflater>());
}

#[test]
fn input_after_a_flush_or_last_block_is_plain() {
    let command = b"1 UNAUTHENTICATE\r\n";
    for store in [false, true] {
        for last in [&b""[..], &[0x03, 0x00], &[0x01, 0x00, 0x00, 0xff, 0xff]] {
            for piece in [1, 2, 1000] {
                let mut deflater = deflater(if store { small_budget() } else { budget() });
                let mut packed = send(&mut deflater, command, 1000);
                if !packed.ends_with(&[0, 0, 0xff, 0xff]) {
                    // Stored, or by chance at a byte border: a client that ends here flushes.
                    packed.extend_from_slice(&[0, 0, 0, 0xff, 0xff]);
                }
                packed.extend_from_slice(last);
                packed.extend_from_slice(b"2 LOGIN a b\r\n");
                let mut inflater = Inflater::new(BytesMut::new());
                let (mut out, mut ended) = (BytesMut::new(), false);
                let mut plain = Vec::new();
                for piece in packed.chunks(piece) {
                    if ended {
                        plain.extend_from_slice(piece);
                        continue;
                    }
                    inflater.input().extend_from_slice(piece);
                    loop {
                        match inflater.inflate(&mut out).unwrap() {
                            Inflated::Some if out.ends_with(b"\r\n") => inflater.end(),
                            Inflated::Some => {}
                            Inflated::Nothing => break,
                            Inflated::Ended => {
                                ended = true;
                                plain.extend_from_slice(inflater.input());
                                break;
                            }
                        }
                    }
                }
                assert_eq!(&out[..], command);
                assert_eq!(plain, b"2 LOGIN a b\r\n", "{store} {last:?} {piece}");
            }
        }
    }
}

#[test]
fn a_corrupt_stream_is_an_error() {
    let mut out = BytesMut::new();
    let plain = &b"2 NOOP\r\n2 NOOP\r\n2 NOOP\r\n"[..];
    let mut inflater = Inflater::new(BytesMut::from(plain));
    let mut ended = false;
    for _ in 0..10 {
        ended |= inflater.inflate(&mut out) == Err(Corrupt);
    }
    assert!(ended || out.len() < 1000);
    // An unsolicited last block.
    let mut inflater = Inflater::new(BytesMut::from(&compress_to_vec(b"1 NOOP\r\n", 6)[..]));
    assert_eq!(inflater.inflate(&mut out), Ok(Inflated::Some));
    assert_eq!(inflater.inflate(&mut out), Err(Corrupt));
    // Further bytes after the end.
    let mut deflater = deflater(budget());
    let packed = [send(&mut deflater, b"a\r\n", 100), send(&mut deflater, b"b\r\n", 100)].concat();
    let mut inflater = Inflater::new(BytesMut::from(&packed[..]));
    assert_eq!(inflater.inflate(&mut out), Ok(Inflated::Some));
    inflater.end();
    assert!(matches!(inflater.inflate(&mut out), Err(Corrupt) | Ok(Inflated::Ended)));
}

#[test]
fn short_output_gets_no_compressor_and_their_number_is_bounded() {
    let budget = budget();
    let compressions = Compressions::of(&budget);
    let mut deflaters: Vec<_> = (0..100).map(|_| Deflater::new(&compressions, budget.clone())).collect();
    for deflater in &mut deflaters {
        send(deflater, b"1 OK NOOP completed\r\n", 1000);
        assert!(deflater.rests());
    }
    let text = numbered(1000);
    let most = budget.common() / limits::IMAP_COMPRESSORS_SHARE / COMPRESSOR_BYTES;
    let compressed = deflaters
        .iter_mut()
        .filter_map(|deflater| (send(deflater, &text, 1000).len() < text.len()).then_some(()));
    assert_eq!(compressed.count(), most);
    assert_eq!(budget.in_use(), most * COMPRESSOR_BYTES);
    deflaters[0].rest();
    assert!(send(&mut deflaters[99], &text, 1000).len() < text.len());
    drop(deflaters);
    assert_eq!(budget.in_use(), 0);
    let little = Budget::new(1024 * 1024);
    assert!(send(&mut deflater(little), &text, 1000).len() > text.len());
}

#[tokio::test]
async fn compressed_connections_are_bounded() {
    let budget = budget();
    let compressions = Compressions::of(&budget);
    let mut admitted = Vec::new();
    while let Some(compression) = compressions.admit(&budget).await {
        admitted.push(compression);
    }
    assert_eq!(admitted.len(), 16 * 1024 * 1024 / INFLATER_BYTES);
    assert!(budget.in_use() <= budget.common() / limits::IMAP_COMPRESSED_SHARE);
    admitted.pop();
    assert!(compressions.admit(&budget).await.is_some());
    drop(admitted);
    assert_eq!(budget.in_use(), 0);
    let little = Budget::new(1024 * 1024);
    assert!(Compressions::of(&little).admit(&little).await.is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_expanded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), piece in 1usize..50) {
        let mut inflater = Inflater::new(BytesMut::new());
        let _ = receive(&mut inflater, &bytes, piece);
    }

    #[test]
    fn sent_texts_are_received(
        texts in prop::collection::vec((prop::collection::vec(prop_oneof![Just(b'x'), any::<u8>()], 0..3000), any::<bool>()), 1..8),
        room in 16usize..3000,
        piece in 1usize..500,
    ) {
        let mut deflater = deflater(budget());
        let mut inflater = Inflater::new(BytesMut::new());
        for (text, rest) in texts {
            let packed = send(&mut deflater, &text, room);
            prop_assert_eq!(receive(&mut inflater, &packed, piece), Ok(text));
            if rest {
                deflater.rest();
            }
        }
    }
}
