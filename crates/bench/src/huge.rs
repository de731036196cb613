//! One message of a gigabyte through LMTP, APPEND, FETCH and export, made and hashed on the fly.
//!
//! Neither this client nor the server may hold it: the client keeps a megabyte, the server's peak resident set is
//! read from the kernel and compared with a limit.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use ring::digest;
use sealpost_base::{Clock, Random, SeededRandom, SystemClock};

use crate::imap::Imap;
use crate::lmtp::Lmtp;
use crate::mail::base64;
use crate::server::{Server, Target};

const ACCOUNT: &str = "huge@localhost";
const PIECE_BYTES: u64 = 1 << 20;

/// A message with one base64 attachment, in pieces of about a megabyte. The same every time.
struct Huge {
    random: SeededRandom,
    pieces: u64,
    next: u64,
}

impl Huge {
    fn new(mib: u64) -> Self {
        Huge { random: SeededRandom::new(9), pieces: mib.max(1), next: 0 }
    }

    /// Its size and SHA-256.
    fn measure(mib: u64) -> (u64, digest::Digest) {
        let (mut size, mut hash) = (0, digest::Context::new(&digest::SHA256));
        for piece in Huge::new(mib) {
            size += piece.len() as u64;
            hash.update(&piece);
        }
        (size, hash.finish())
    }
}

impl Iterator for Huge {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let nth = self.next;
        self.next += 1;
        if nth == 0 {
            let head = "From: Big <big@bench.example>\r\nTo: huge@localhost\r\nSubject: a large attachment\r\n\
                        Date: Tue, 14 Oct 2025 12:21:05 +0200\r\nMessage-ID: <huge@bench.example>\r\n\
                        MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"=_huge\"\r\n\r\n\
                        --=_huge\r\nContent-Type: text/plain\r\n\r\nSee the attachment.\r\n\r\n\
                        --=_huge\r\nContent-Type: video/mp4; name=\"film.mp4\"\r\nContent-Transfer-Encoding: base64\r\n\
                        Content-Disposition: attachment; filename=\"film.mp4\"\r\n\r\n";
            return Some(head.into());
        }
        if nth <= self.pieces {
            let lines = usize::try_from(PIECE_BYTES / 78 + 1).unwrap_or(1);
            let mut raw = vec![0; lines * 57];
            self.random.fill(&mut raw);
            return Some(base64(&raw).into_bytes());
        }
        (nth == self.pieces + 1).then(|| b"--=_huge--\r\n".to_vec())
    }
}

/// Hashes the last `size` of the bytes it is given: a server puts its own fields above a delivered message.
struct Tail {
    skip: u64,
    hash: digest::Context,
}

impl Tail {
    fn new(total: u64, size: u64) -> Self {
        Tail { skip: total.saturating_sub(size), hash: digest::Context::new(&digest::SHA256) }
    }

    fn push(&mut self, bytes: &[u8]) {
        let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(bytes.len());
        self.skip -= skipped as u64;
        self.hash.update(&bytes[skipped..]);
    }

    fn check(self, expected: &digest::Digest) -> Result<()> {
        ensure!(
            self.hash.finish().as_ref() == expected.as_ref(),
            "the bytes that came back are not those sent"
        );
        Ok(())
    }
}

struct Step<'a> {
    server: &'a Server,
    clock: &'a SystemClock,
    limit: u64,
    exceeded: Vec<String>,
}

impl Step<'_> {
    /// Runs one step and reports its time, rate and the server's peak.
    async fn run<T>(&mut self, name: &str, size: u64, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.server.tree.reset_peak();
        let (start, cpu) = (self.clock.monotonic(), self.server.tree.cpu_seconds());
        let value = work.await.with_context(|| name.to_owned())?;
        let took = self.clock.monotonic() - start;
        let cpu = self.server.tree.cpu_seconds() - cpu;
        let peak = self.server.tree.peak_bytes();
        let rate = size as f64 / took.as_secs_f64() / 1e6;
        println!(
            "huge: {name}: {:.2} s, {rate:.0} MB/s, CPU {cpu:.2} s, peak {} MiB",
            took.as_secs_f64(),
            peak >> 20
        );
        if peak > self.limit {
            self.exceeded.push(format!("{name}: peak {} MiB", peak >> 20));
        }
        Ok(value)
    }
}

/// Runs all steps with a message of about `mib` MiB; fails if bytes differ or the peak is above `limit_mib`.
pub async fn main(target: Target, mib: u64, limit_mib: u64, dir: &Path) -> Result<()> {
    let (size, hash) = Huge::measure(mib);
    let data = dir.join("data");
    let server = target.start(&data, &[ACCOUNT.to_owned()]).await?;
    let clock = SystemClock::new();
    let mut step = Step { server: &server, clock: &clock, limit: limit_mib << 20, exceeded: Vec::new() };
    let mut imap = server.login(ACCOUNT).await?;

    step.run("LMTP", size, deliver(&server, mib)).await?;
    step.run("APPEND", size, append(&mut imap, mib, size)).await?;
    imap.ok("SELECT INBOX").await?;
    for (message, name) in [(1, "FETCH BODY[] of the delivery"), (2, "FETCH BODY[] of the append")] {
        let total = rfc822_size(&mut imap, message).await?;
        let mut tail = Tail::new(total, size);
        let command = format!("FETCH {message} BODY.PEEK[]");
        let tally = step.run(name, size, imap.each_literal_byte(&command, |bytes| tail.push(bytes))).await?;
        ensure!(
            tally.literal_bytes == total,
            "RFC822.SIZE is {total}, BODY[] has {} bytes",
            tally.literal_bytes
        );
        tail.check(&hash).context(name)?;
    }
    let middle = format!("FETCH 2 (BODYSTRUCTURE BODY.PEEK[2]<{}.65536>)", size / 2);
    let tally = step.run("FETCH of 64 KiB in the middle", 65_536, imap.count(&middle)).await?;
    ensure!(tally.literal_bytes == 65_536, "a partial of {} bytes", tally.literal_bytes);
    step.run("COPY", size, async { imap.ok("COPY 1:2 Archive").await }).await?;
    let exceeded = std::mem::take(&mut step.exceeded);
    server.stop(Duration::from_secs(10)).await?;
    if let Target::Sealpost(sealpost) = &target {
        export(sealpost, &data, dir, size, &hash, limit_mib)?;
    }
    ensure!(exceeded.is_empty(), "over the limit of {limit_mib} MiB: {}", exceeded.join("; "));
    println!("huge: all of {mib} MiB came back as sent");
    Ok(())
}

async fn deliver(server: &Server, mib: u64) -> Result<()> {
    let mut lmtp = Lmtp::connect(server.lmtp).await?;
    lmtp.envelope(&[ACCOUNT]).await?;
    for piece in Huge::new(mib) {
        // No line of it starts with a dot: base64 has none.
        lmtp.send(&piece).await?;
    }
    lmtp.send(b".\r\n").await?;
    let answer = lmtp.answer().await?;
    ensure!(answer.is_ok(), "{}", answer.text);
    Ok(())
}

async fn append(imap: &mut Imap, mib: u64, size: u64) -> Result<()> {
    let tag = imap.append_begin("INBOX", "\\Seen", size).await?;
    for piece in Huge::new(mib) {
        imap.send(&piece).await?;
    }
    let reply = imap.append_end(&tag).await?;
    ensure!(reply.is_ok(), "{}", reply.status);
    Ok(())
}

async fn rfc822_size(imap: &mut Imap, message: u32) -> Result<u64> {
    let reply = imap.ok(&format!("FETCH {message} RFC822.SIZE")).await?;
    let text =
        reply.untagged.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect::<String>();
    let digits = text.split_once("RFC822.SIZE ").context("no RFC822.SIZE")?.1;
    Ok(digits.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default().parse()?)
}

/// Exports to a Maildir in a process of its own and hashes the files there.
fn export(
    sealpost: &crate::server::Sealpost,
    data: &Path,
    dir: &Path,
    size: u64,
    hash: &digest::Digest,
    limit_mib: u64,
) -> Result<()> {
    let (output, peak) = sealpost.export(data, ACCOUNT, &dir.join("export"))?;
    ensure!(output.status.success(), "export: {}", String::from_utf8_lossy(&output.stderr));
    let mut files = Vec::new();
    find_files(&dir.join("export"), size, &mut files)?;
    if files.len() < 2 {
        bail!("export wrote {} files of the size of the message", files.len());
    }
    for path in &files {
        let mut file = std::fs::File::open(path)?;
        let mut tail = Tail::new(file.metadata()?.len(), size);
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                count => tail.push(&buffer[..count]),
            }
        }
        tail.check(hash).with_context(|| path.display().to_string())?;
    }
    match peak {
        Some(peak) => println!("huge: export: {} files, peak {peak} MiB", files.len()),
        None => println!("huge: export: {} files", files.len()),
    }
    ensure!(peak.is_none_or(|peak| peak <= limit_mib), "export is over the limit of {limit_mib} MiB");
    Ok(())
}

fn find_files(dir: &Path, least: u64, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            find_files(&entry.path(), least, found)?;
        } else if metadata.len() >= least {
            found.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_message_every_time_and_tails_are_found() {
        let (size, hash) = Huge::measure(1);
        let mut tail = Tail::new(size + 5, size);
        tail.push(b"X: y\n");
        Huge::new(1).for_each(|piece| tail.push(&piece));
        assert!(tail.check(&hash).is_ok());
        assert!(size > 1 << 20);
    }
}
