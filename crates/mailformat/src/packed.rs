//! Compressed files, decompressed as they are read: gzip, bzip2, xz and zstd.
//!
//! Memory is bounded, and so is the output: some bytes can be compressed to a thousandth, so a file
//! that grows more than mail does is refused ([`Limit`]). Successive streams in a file are one, as
//! with `gzip` and the others, also with zeros between and after them, which tapes and block
//! devices add. Truncation or damage is an error where it is met, never an end. Other data after a
//! complete stream is left out and reported ([`Behind`]), as with `gzip -d`.

use std::io::{self, BufRead, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sealpost_base::limits;

/// Bytes of a compressed file that are read at a time.
const BUFFER_BYTES: usize = 64 * 1024;
/// zstd's `--long`, and the needs of all its levels: windows of 128 MiB.
const ZSTD_WINDOW_LOG: u32 = limits::IMPORT_UNPACKING_BYTES.ilog2();

/// The compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// RFC 1952.
    Gzip,
    /// bzip2.
    Bzip2,
    /// xz.
    Xz,
    /// RFC 8878.
    Zstd,
}

/// The limit for the output of a compressed file: so many bytes, or if that is more, so many times
/// the bytes that were read.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// Bytes.
    pub bytes: u64,
    /// Output bytes for each byte read.
    pub ratio: u64,
}

impl Default for Limit {
    fn default() -> Self {
        Limit { bytes: limits::IMPORT_UNPACKED_BYTES, ratio: limits::IMPORT_UNPACKED_RATIO }
    }
}

impl Compression {
    /// The compression of a file that begins with `head`.
    pub fn of(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, 8, ..] => Some(Compression::Gzip),
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31 | 0x17, ..] => Some(Compression::Bzip2),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Compression::Xz),
            // A frame, or a skippable one, which parallel compressors put first (RFC 8878 §3.1.2).
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// The compression that a file name's extension indicates.
    pub fn of_extension(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "gz" => Some(Compression::Gzip),
            "bz2" => Some(Compression::Bzip2),
            "xz" => Some(Compression::Xz),
            "zst" => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// The format's name.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Bzip2 => "bzip2",
            Compression::Xz => "xz",
            Compression::Zstd => "zstd",
        }
    }

    /// Decompresses `packed` as it is read.
    ///
    /// # Errors
    /// If there is no memory for a decompressor.
    pub fn unpack(self, packed: impl Read + Send + 'static, limit: Limit) -> io::Result<Unpacked> {
        let reading = Arc::<Reading>::default();
        let packed = Ahead::new(Counted { inner: Box::new(packed), reading: reading.clone() });
        let stream = Some(Stream::begin(self, packed)?);
        let inner = Streams { compression: self, stream, reading: reading.clone() };
        Ok(Unpacked { inner, reading, limit, given: 0 })
    }
}

/// The compressed input.
type Packed = Ahead<Counted>;

/// One compressed stream.
enum Stream {
    Gzip(Box<flate2::bufread::GzDecoder<Packed>>),
    Bzip2(bzip2::bufread::BzDecoder<Packed>),
    Xz(Box<lzma_rust2::XzReader<Packed>>),
    Zstd(zstd::Decoder<'static, Packed>),
}

impl Stream {
    fn begin(compression: Compression, packed: Packed) -> io::Result<Self> {
        Ok(match compression {
            Compression::Gzip => Stream::Gzip(Box::new(flate2::bufread::GzDecoder::new(packed))),
            Compression::Bzip2 => Stream::Bzip2(bzip2::bufread::BzDecoder::new(packed)),
            Compression::Xz => {
                let memory = u32::try_from(limits::IMPORT_UNPACKING_BYTES / 1024).unwrap_or(u32::MAX);
                Stream::Xz(Box::new(lzma_rust2::XzReader::new_mem_limit(packed, false, memory)))
            }
            Compression::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(packed)?.single_frame();
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                Stream::Zstd(decoder)
            }
        })
    }

    /// The rest of the file.
    fn into_packed(self) -> Packed {
        match self {
            Stream::Gzip(decoder) => decoder.into_inner(),
            Stream::Bzip2(decoder) => decoder.into_inner(),
            Stream::Xz(decoder) => decoder.into_inner(),
            Stream::Zstd(decoder) => decoder.finish(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Gzip(decoder) => decoder.read(buffer),
            Stream::Bzip2(decoder) => decoder.read(buffer),
            Stream::Xz(decoder) => decoder.read(buffer),
            Stream::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

/// All streams of a file.
struct Streams {
    compression: Compression,
    /// `None` at the end.
    stream: Option<Stream>,
    reading: Arc<Reading>,
}

impl Read for Streams {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(mut stream) = self.stream.take() {
            let n = stream.read(buffer)?;
            if n > 0 || buffer.is_empty() {
                self.stream = Some(stream);
                return Ok(n);
            }
            let mut packed = stream.into_packed();
            packed.skip_zeros()?;
            let follows = packed.look(SIGNATURE_BYTES)?;
            if Compression::of(follows) == Some(self.compression) {
                self.stream = Some(Stream::begin(self.compression, packed)?);
            } else if !follows.is_empty() {
                self.reading.left_out.store(true, Ordering::Relaxed);
            }
        }
        Ok(0)
    }
}

/// Enough to recognize a compression.
const SIGNATURE_BYTES: usize = 6;

/// A reader with lookahead.
struct Ahead<R> {
    inner: R,
    buffer: Box<[u8]>,
    at: usize,
    end: usize,
}

impl<R: Read> Ahead<R> {
    fn new(inner: R) -> Self {
        Ahead { inner, buffer: vec![0; BUFFER_BYTES].into(), at: 0, end: 0 }
    }

    /// The next bytes: `bytes` of them, unless the file ends before.
    fn look(&mut self, bytes: usize) -> io::Result<&[u8]> {
        while self.end - self.at < bytes {
            self.buffer.copy_within(self.at..self.end, 0);
            (self.at, self.end) = (0, self.end - self.at);
            match self.inner.read(&mut self.buffer[self.end..])? {
                0 => break,
                n => self.end += n,
            }
        }
        Ok(&self.buffer[self.at..self.end])
    }

    fn skip_zeros(&mut self) -> io::Result<()> {
        loop {
            let ahead = self.fill_buf()?;
            let zeros = ahead.iter().take_while(|byte| **byte == 0).count();
            let is_over = zeros < ahead.len() || ahead.is_empty();
            self.consume(zeros);
            if is_over {
                return Ok(());
            }
        }
    }
}

impl<R: Read> BufRead for Ahead<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.end {
            (self.at, self.end) = (0, self.inner.read(&mut self.buffer)?);
        }
        Ok(&self.buffer[self.at..self.end])
    }

    fn consume(&mut self, bytes: usize) {
        self.at = self.end.min(self.at + bytes);
    }
}

impl<R: Read> Read for Ahead<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.fill_buf()?.read(buffer)?;
        self.consume(n);
        Ok(n)
    }
}

/// The state of reading the compressed file.
#[derive(Default)]
struct Reading {
    bytes: AtomicU64,
    /// The file could not be read: that is not damage.
    failed: AtomicBool,
    /// Other data follows the compressed streams.
    left_out: AtomicBool,
}

/// Reports, once a file was read, whether something of it was left out.
#[derive(Clone, Default)]
pub struct Behind(Option<(Compression, Arc<Reading>)>);

impl Behind {
    /// The report, if something was.
    pub fn says(&self) -> Option<String> {
        let (compression, _) =
            self.0.as_ref().filter(|(_, reading)| reading.left_out.load(Ordering::Relaxed))?;
        let name = compression.name();
        Some(format!(
            "what stands behind its {name} data is not {name} and was left out; all before it was read"
        ))
    }
}

/// Counts the bytes that are read.
struct Counted {
    inner: Box<dyn Read + Send>,
    reading: Arc<Reading>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.inner.read(buffer) {
                Ok(n) => {
                    self.reading.bytes.fetch_add(n as u64, Ordering::Relaxed);
                    return Ok(n);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    self.reading.failed.store(true, Ordering::Relaxed);
                    return Err(e);
                }
            }
        }
    }
}

/// The decompressed bytes of a file.
pub struct Unpacked {
    inner: Streams,
    reading: Arc<Reading>,
    limit: Limit,
    given: u64,
}

impl Unpacked {
    /// Reports whether something of the file was left out.
    pub fn behind(&self) -> Behind {
        Behind(Some((self.inner.compression, self.reading.clone())))
    }

    fn failed(&self, error: io::Error) -> io::Error {
        if self.reading.failed.load(Ordering::Relaxed) {
            return error;
        }
        let name = self.inner.compression.name();
        let says = match error.kind() {
            ErrorKind::OutOfMemory => format!(
                "unpacking its {name} data takes more than {} MiB of memory: decompress it first",
                limits::IMPORT_UNPACKING_BYTES >> 20
            ),
            ErrorKind::UnexpectedEof => format!("its {name} data ends early: the file is cut off"),
            _ if error.to_string().contains("much memory") => format!(
                "unpacking its {name} data takes more than {} MiB of memory: decompress it first",
                limits::IMPORT_UNPACKING_BYTES >> 20
            ),
            _ => format!("its {name} data is damaged, or cut off"),
        };
        io::Error::new(ErrorKind::InvalidData, says)
    }
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer).map_err(|e| self.failed(e))?;
        self.given += n as u64;
        let most = self.limit.bytes.max(self.reading.bytes.load(Ordering::Relaxed) * self.limit.ratio);
        if self.given > most {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                format!(
                    "it unpacks to more than {} MiB and {} times its size, which no mail does; decompress it first if that is right",
                    most >> 20,
                    self.limit.ratio
                ),
            ));
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const ALL: [Compression; 4] = [Compression::Gzip, Compression::Bzip2, Compression::Xz, Compression::Zstd];

    fn packed(compression: Compression, plain: &[u8]) -> Vec<u8> {
        match compression {
            Compression::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Bzip2 => {
                let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Xz => {
                let options = lzma_rust2::XzOptions::with_preset(0);
                let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Zstd => {
                let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
                encoder.include_checksum(true).unwrap();
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
        }
    }

    fn unpacked(compression: Compression, packed: Vec<u8>, limit: Limit) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        compression.unpack(io::Cursor::new(packed), limit)?.read_to_end(&mut out)?;
        Ok(out)
    }

    fn text() -> Vec<u8> {
        (0..3000).flat_map(|n: u32| format!("Subject: {n}\n{}\n", n * n).into_bytes()).collect()
    }

    #[test]
    fn streams_that_follow_each_other_are_one_file() {
        for compression in ALL {
            let one = packed(compression, &text());
            assert_eq!(Compression::of(&one), Some(compression));
            let all = [&one[..], &packed(compression, b""), &packed(compression, b"end")].concat();
            let out = unpacked(compression, all, Limit::default()).unwrap();
            assert!(out == [&text()[..], b"end"].concat(), "{compression:?}");
        }
    }

    #[test]
    fn a_stream_truncated_anywhere_is_an_error() {
        for compression in ALL {
            let whole = packed(compression, &text()[..400]);
            for length in 1..whole.len() {
                let out = unpacked(compression, whole[..length].to_vec(), Limit::default());
                assert!(out.is_err(), "{compression:?} cut to {length} of {}", whole.len());
            }
        }
    }

    #[test]
    fn a_damaged_stream_is_an_error() {
        for compression in ALL {
            let whole = packed(compression, &text());
            let mut damaged = whole.clone();
            damaged[whole.len() / 2] ^= 0x10;
            assert!(unpacked(compression, damaged, Limit::default()).is_err(), "{compression:?}");
        }
    }

    /// Tapes and block devices fill the last block with zeros.
    #[test]
    fn bytes_after_and_between_streams_do_not_affect_them() {
        let zeros = [&[0][..], &[0; 511], &[0; 3 * BUFFER_BYTES]];
        for compression in ALL {
            let (one, two) = (packed(compression, &text()), packed(compression, b"end"));
            for zeros in zeros {
                for (behind, says) in
                    [(&b""[..], false), (b"and more", true), (b"B", true), (b"\x1f\x8b", true)]
                {
                    let file = [&one[..], zeros, &two, zeros, behind].concat();
                    let mut unpacked = compression.unpack(io::Cursor::new(file), Limit::default()).unwrap();
                    let mut out = Vec::new();
                    unpacked.read_to_end(&mut out).unwrap();
                    assert!(out == [&text()[..], b"end"].concat(), "{compression:?}");
                    assert_eq!(unpacked.behind().says().is_some(), says, "{compression:?}");
                }
            }
            let cut = [&one[..], &[0; 7], &two[..two.len() - 1]].concat();
            assert!(self::unpacked(compression, cut, Limit::default()).is_err(), "{compression:?}");
        }
    }

    #[test]
    fn a_bomb_is_refused_however_small_it_is() {
        let limit = Limit { bytes: 1 << 20, ratio: 20 };
        for compression in ALL {
            let bomb = packed(compression, &vec![0; 64 << 20]);
            let error = unpacked(compression, bomb, limit).unwrap_err();
            assert!(error.to_string().contains("unpacks to more than"), "{compression:?}: {error}");
            let small = packed(compression, &vec![0; 1 << 20]);
            assert_eq!(unpacked(compression, small, limit).unwrap().len(), 1 << 20, "{compression:?}");
        }
    }

    /// A header that asks for a window of 256 MiB, and one that asks for a dictionary of 1.5 GiB.
    #[test]
    fn memory_is_bounded_whatever_a_header_asks_for() {
        // RFC 8878 §3.1.1: magic, descriptor, a window of 2^28 bytes, one raw block.
        let mut large_window = vec![0x28, 0xb5, 0x2f, 0xfd, 0, (28 - 10) << 3, 11 << 3 | 1, 0, 0];
        large_window.extend_from_slice(b"Subject: x\n");
        let mut large_dictionary = packed(Compression::Xz, b"Subject: x\n");
        // The block header after that of the stream: its size, flags, the filter, one byte of
        // properties, the dictionary's size; then its CRC.
        large_dictionary[16] = 37;
        let header = large_dictionary[12..20].to_vec();
        large_dictionary[20..24].copy_from_slice(&crc32(&header).to_le_bytes());
        for (compression, file) in [(Compression::Zstd, large_window), (Compression::Xz, large_dictionary)] {
            let error = unpacked(compression, file, Limit::default()).unwrap_err();
            assert!(error.to_string().contains("MiB of memory"), "{compression:?}: {error}");
        }
    }

    fn crc32(bytes: &[u8]) -> u32 {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        crc.sum()
    }

    /// A read error is not damage.
    #[test]
    fn errors_of_the_disk_are_reported_unchanged() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk fails"))
            }
        }
        for compression in ALL {
            let head = packed(compression, &text());
            let file = io::Cursor::new(head[..head.len() / 2].to_vec()).chain(Fails);
            let mut out = Vec::new();
            let error =
                compression.unpack(file, Limit::default()).unwrap().read_to_end(&mut out).unwrap_err();
            assert!(error.to_string().contains("the disk fails"), "{compression:?}: {error}");
        }
    }
}
