//! Finds the real positions of messages in an mbox with bytes that its JSON does not list.
//!
//! imap-backup appends to the mbox, and lists the next message where the last listed one ends. A
//! killed run leaves orphans: messages in the mbox that the JSON does not list. The next run's
//! messages come after them, but are listed as if there were none. Counted from the beginning,
//! messages before the orphans are where the JSON says; counted from the end, those after them are
//! where their lengths say. If both ways seem to fit (messages of one length), orphans are
//! recognized by their contents: copies of messages that were fetched again. Doubtful messages are
//! not taken.

use std::fs::File;
use std::io::{Read, Result, Seek, SeekFrom};

use crate::backup::digest::{Digest, Digesting};

/// Finds the positions in `mbox` of the messages that the JSON lists at (offset, length): `None`
/// where that is unknown.
///
/// # Errors
/// If the mbox cannot be read.
pub fn align(mbox: &mut File, listed: &[(u64, u64)]) -> Result<Vec<Option<u64>>> {
    let end = mbox.metadata()?.len();
    let said = listed.last().map_or(Some(0), |(offset, length)| offset.checked_add(*length));
    let mut real = Vec::with_capacity(listed.len());
    for (offset, length) in listed {
        real.push(is_message(mbox, *offset, *length, end)?.then_some(*offset));
    }
    let forward = real.iter().take_while(|at| at.is_some()).count();
    let extra = said.and_then(|said| end.checked_sub(said)).unwrap_or(0);
    if extra == 0 {
        return Ok(real);
    }
    // From the end: the positions of the last run's messages.
    let mut at = end;
    let mut backward = listed.len();
    let mut shifted = vec![None; listed.len()];
    for (number, (_, length)) in listed.iter().enumerate().rev() {
        let Some(begins) = at.checked_sub(*length) else { break };
        if !is_message(mbox, begins, *length, end)? {
            break;
        }
        (at, backward, shifted[number]) = (begins, number, Some(begins));
    }
    if forward < backward {
        // Orphans of several runs: the messages between them are in doubt.
        return Ok((0..listed.len()).map(|n| if n < forward { real[n] } else { shifted[n] }).collect());
    }
    // Messages from `backward` to `forward` fit both ways. Orphans equal the messages after them.
    let mut first_same = None;
    for number in backward..forward {
        let (there, here) = (listed[number].0, shifted[number].unwrap_or(0));
        if there != here && same(mbox, there, here, listed[number].1)? {
            first_same = Some(number);
            break;
        }
    }
    let turn = match first_same {
        Some(number) => number,
        None if forward == listed.len() => listed.len(),
        None => {
            let doubt = backward..forward;
            return Ok((0..listed.len())
                .map(|n| match n {
                    n if doubt.contains(&n) => None,
                    n if n < backward => real[n],
                    n => shifted[n],
                })
                .collect());
        }
    };
    Ok((0..listed.len()).map(|n| if n < turn { real[n] } else { shifted[n] }).collect())
}

/// Whether these bytes can be a message: they begin with a `From` line and end with an empty one.
fn is_message(mbox: &mut File, at: u64, length: u64, end: u64) -> Result<bool> {
    if length < 7 || at.checked_add(length).is_none_or(|ends| ends > end) {
        return Ok(false);
    }
    let (mut begins, mut ends) = ([0; 5], [0; 2]);
    mbox.seek(SeekFrom::Start(at))?;
    mbox.read_exact(&mut begins)?;
    mbox.seek(SeekFrom::Start(at + length - 2))?;
    mbox.read_exact(&mut ends)?;
    Ok(begins == *b"From " && ends == *b"\n\n")
}

fn same(mbox: &mut File, a: u64, b: u64, length: u64) -> Result<bool> {
    Ok(digest_of(mbox, a, length)? == digest_of(mbox, b, length)?)
}

fn digest_of(mbox: &mut File, at: u64, length: u64) -> Result<Digest> {
    mbox.seek(SeekFrom::Start(at))?;
    let mut digesting = Digesting::default();
    let mut rest = mbox.take(length);
    let mut piece = [0; 8192];
    loop {
        match rest.read(&mut piece)? {
            0 => return Ok(digesting.finish()),
            n => digesting.push(&piece[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn message(text: &str) -> String {
        format!("From a@b\nSubject: {text}\n\n")
    }

    /// Lays out runs (listed or not), and checks that what is listed is found.
    fn found(runs: &[(&[&str], bool, &str)]) -> Vec<bool> {
        let (mut file, mut mbox, mut listed, mut wanted, mut said) =
            (tempfile::tempfile().unwrap(), String::new(), Vec::new(), Vec::new(), 0);
        for (texts, is_listed, torn) in runs {
            for text in *texts {
                let message = message(text);
                if *is_listed {
                    listed.push((said, message.len() as u64));
                    wanted.push(mbox.len() as u64);
                    said += message.len() as u64;
                }
                mbox.push_str(&message);
            }
            mbox.push_str(torn);
        }
        file.write_all(mbox.as_bytes()).unwrap();
        let real = align(&mut file, &listed).unwrap();
        for ((real, wanted), (_, length)) in real.iter().zip(&wanted).zip(&listed) {
            let text = |at: u64| &mbox[at as usize..(at + length) as usize];
            assert!(real.is_none_or(|real| text(real) == text(*wanted)), "{real:?} {wanted}");
        }
        real.iter().map(Option::is_some).collect()
    }

    #[test]
    fn nothing_odd() {
        assert_eq!(found(&[(&["a", "bb"], true, "")]), [true, true]);
        assert_eq!(found(&[]), [false; 0]);
    }

    #[test]
    fn orphans_at_the_end() {
        assert_eq!(found(&[(&["a", "b"], true, ""), (&["c"], false, "From x\nSub")]), [true; 2]);
        assert_eq!(found(&[(&["a", "b"], true, ""), (&["c", "d"], false, "")]), [true; 2]);
        assert_eq!(found(&[(&["a", "b"], true, "From x\nSub")]), [true; 2]);
    }

    #[test]
    fn orphans_and_a_second_run() {
        // All of one length: the orphans are the first of what came again.
        let all = &["1", "2", "3", "4", "5"];
        assert_eq!(found(&[(&["1", "2", "3"], false, ""), (all, true, "")]), [true; 5]);
        assert_eq!(found(&[(&["1", "2", "3"], false, "From a@b\nSu"), (all, true, "")]), [true; 5]);
        assert_eq!(found(&[(&["x", "y"], true, ""), (&["1", "2"], false, ""), (all, true, "")]), [true; 7]);
        assert_eq!(found(&[(&["x", "yyy"], true, ""), (&["1"], false, "From"), (all, true, "")]), [true; 7]);
        let long = &["1", "22", "333", "4444"];
        assert_eq!(found(&[(&["0"], true, ""), (&["1", "22"], false, "Fr"), (long, true, "")]), [true; 5]);
    }

    #[test]
    fn doubtful_messages_are_not_adopted() {
        let runs: &[(&[&str], bool, &str)] = &[
            (&["0"], true, ""),
            (&["1", "22"], false, ""),
            (&["1", "22", "333"], true, ""),
            (&["4"], false, "From"),
            (&["4", "55"], true, ""),
        ];
        // The first two fit where their orphans are, which are the same.
        assert_eq!(found(runs), [true, true, true, false, true, true]);
    }
}
