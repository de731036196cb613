//! A single message in a separate file (`.eml`, and each file of a Maildir).

use std::fs::Metadata;
use std::io::Read;
use std::path::Path;
use std::time::UNIX_EPOCH;

use sealpost_base::{Error, Result, Timestamp};
use sealpost_files::io_error;

use crate::input::Input;
use crate::lines::{LineEnds, ToCrlf};
use crate::packed::Behind;
use crate::recognize::{NotMail, before_header, signature};

use crate::{Meta, Source};

const PIECE_BYTES: usize = 64 * 1024;

/// The modification time of a file.
pub(crate) fn modified(metadata: &Metadata) -> Option<Timestamp> {
    let since = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok().map(Timestamp)
}

/// What a file with one message contains besides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Nothing: the file is the message, byte for byte.
    Exact,
    /// Perhaps a byte order mark, or a line of an mbox.
    Loose,
}

/// The pieces of one message file, unpacked, with the line ends of the wire.
pub(crate) struct MessageFile {
    name: String,
    reader: Box<dyn Read + Send>,
    behind: Behind,
    framing: Framing,
    buffer: Box<[u8]>,
    started: bool,
    to_crlf: Option<ToCrlf>,
    out: Vec<u8>,
}

impl MessageFile {
    /// Opens a file that is a message by its place: it is one unless it is empty or known to be
    /// something else.
    pub fn open(path: &Path) -> Result<(Self, Metadata)> {
        let open = || {
            let metadata = std::fs::metadata(path)?;
            Ok((Input::open(path)?, metadata))
        };
        let (input, metadata) = open().map_err(|e| io_error(path, e))?;
        let name = path.display().to_string();
        let empty = || input.head().is_empty().then_some(NotMail::Empty);
        if let Some(other) = signature(input.head()).or_else(empty).filter(|_| input.failure().is_none()) {
            return Err(Error::invalid(format!("{name}: {other}")));
        }
        Ok((Self::of(input, name, Framing::Exact), metadata))
    }

    /// The message in `input`, called `name` in messages to the user.
    pub fn of(input: Input, name: String, framing: Framing) -> Self {
        MessageFile {
            name,
            behind: input.behind(),
            reader: Box::new(input.into_reader()),
            framing,
            buffer: vec![0; PIECE_BYTES].into_boxed_slice(),
            started: false,
            to_crlf: None,
            out: Vec::new(),
        }
    }

    /// Checks that nothing was left out.
    ///
    /// # Errors
    /// `Invalid` if something of it was left out.
    pub fn end(self) -> Result<()> {
        left_out(&self.name, &self.behind)
    }

    pub fn next_chunk(&mut self) -> Result<Option<&[u8]>> {
        let mut filled = 0;
        while filled < self.buffer.len() {
            match self.reader.read(&mut self.buffer[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(io_error(&self.name, e)),
            }
        }
        let mut piece = &self.buffer[..filled];
        if !std::mem::replace(&mut self.started, true) {
            if self.framing == Framing::Loose {
                piece = &piece[before_header(piece)..];
            }
            if LineEnds::of_first_line(piece) == LineEnds::Lf {
                self.to_crlf = Some(ToCrlf::default());
            }
        }
        if piece.is_empty() {
            return Ok(None);
        }
        let Some(convert) = &mut self.to_crlf else { return Ok(Some(piece)) };
        self.out.clear();
        convert.push(piece, &mut self.out);
        Ok(Some(&self.out))
    }
}

/// Reports that parts of a file of this name were left out, if so.
///
/// # Errors
/// That, as `Invalid`.
pub(crate) fn left_out(name: &str, behind: &Behind) -> Result<()> {
    behind.says().map_or(Ok(()), |says| Err(Error::invalid(format!("{name}: {says}"))))
}

/// One message in one file.
pub struct EmlReader {
    name: String,
    modified: Option<Timestamp>,
    bytes: u64,
    input: Option<Input>,
    file: Option<MessageFile>,
    done: u64,
}

impl EmlReader {
    /// Reads the message in `input`, which is called `name` in messages to the user, has this size
    /// and modification time.
    pub(crate) fn new(input: Input, name: String, bytes: u64, modified: Option<Timestamp>) -> Self {
        EmlReader { name, modified, bytes, input: Some(input), file: None, done: 0 }
    }
}

impl Source for EmlReader {
    fn next_message(&mut self) -> Result<Option<Meta>> {
        self.file.take().map_or(Ok(()), MessageFile::end)?;
        let Some(input) = self.input.take() else { return Ok(None) };
        self.file = Some(MessageFile::of(input, self.name.clone(), Framing::Loose));
        self.done = self.bytes;
        Ok(Some(Meta { modified: self.modified, place: self.name.clone(), ..Meta::default() }))
    }

    fn next_chunk(&mut self) -> Result<Option<&[u8]>> {
        match &mut self.file {
            Some(file) => file.next_chunk(),
            None => Ok(None),
        }
    }

    fn bytes_done(&self) -> u64 {
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &'static [u8]) -> Vec<u8> {
        let input = Input::of(bytes).unwrap();
        let mut reader = EmlReader::new(input, "x.eml".to_owned(), bytes.len() as u64, Some(Timestamp(7)));
        assert_eq!(reader.next_message().unwrap().unwrap().modified, Some(Timestamp(7)));
        let message = reader.next_chunk().unwrap().unwrap().to_vec();
        assert!(reader.next_chunk().unwrap().is_none());
        assert!(reader.next_message().unwrap().is_none());
        message
    }

    #[test]
    fn crlf_is_kept_and_lf_converted() {
        assert_eq!(read(b"A: b\r\n\r\nx\ny"), b"A: b\r\n\r\nx\ny");
        assert_eq!(read(b"A: b\n\nx"), b"A: b\r\n\r\nx");
    }

    #[test]
    fn byte_order_marks_and_envelope_lines_are_left_out() {
        for file in [
            &b"From a@b.c Thu Jan  1 00:00:10 1970\nA: b\r\n\r\nFrom x\r\n"[..],
            b"From - \r\n>From a@b\r\nA: b\r\n\r\nFrom x\r\n",
            b"\xef\xbb\xbfA: b\n\nFrom x\n",
        ] {
            assert_eq!(read(file), b"A: b\r\n\r\nFrom x\r\n");
        }
        assert_eq!(read(b"From here on\nit rained\n"), b"From here on\r\nit rained\r\n");
    }
}
