//! The messages of an mbox by its `From` lines: version 2 of the JSON has no positions.

use std::fs::File;
use std::io::{BufReader, Read, Result, Seek, SeekFrom};

/// (offset, length) of every message in `mbox`, or `None` if it does not begin with one.
///
/// # Errors
/// If the mbox cannot be read.
pub fn segments(mbox: &mut File) -> Result<Option<Vec<(u64, u64)>>> {
    mbox.seek(SeekFrom::Start(0))?;
    let mut input = BufReader::with_capacity(64 * 1024, mbox);
    let mut begins = Vec::new();
    // Bytes of `From ` at the beginning of the line; `None`: it begins otherwise.
    let mut matched = Some(0);
    let (mut at, mut line, mut piece) = (0u64, 0u64, vec![0; 64 * 1024]);
    loop {
        let n = input.read(&mut piece)?;
        if n == 0 {
            break;
        }
        for byte in &piece[..n] {
            if let Some(so_far) = matched {
                matched = (*byte == b"From "[so_far]).then_some(so_far + 1);
                if matched == Some(5) {
                    begins.push(line);
                    matched = None;
                }
            }
            at += 1;
            if *byte == b'\n' {
                (matched, line) = (Some(0), at);
            }
        }
    }
    if begins.first().is_some_and(|first| *first != 0) || (begins.is_empty() && at > 0) {
        return Ok(None);
    }
    let ends = begins.iter().copied().skip(1).chain([at]);
    Ok(Some(begins.iter().zip(ends).map(|(begins, ends)| (*begins, ends - begins)).collect()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn by_from_lines() {
        for (text, expected) in [
            ("From a\nx\n\nFrom b\n>From c\n From d\nFromage\n\n", Some(vec![(0, 10), (10, 32)])),
            ("", Some(vec![])),
            ("x\nFrom a\n", None),
            ("x", None),
        ] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            assert_eq!(segments(&mut file).unwrap(), expected, "{text}");
        }
    }
}
