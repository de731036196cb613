//! One message of a gigabyte through LMTP, APPEND, FETCH and export, generated and hashed on the
//! fly.
//!
//! Neither this client nor the server may hold it in memory: the client keeps a megabyte, the
//! server's peak resident set is read from the kernel and compared with a limit.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use ring::digest;
use sealpost_base::{Clock, Random, SeededRandom, SystemClock};
use sealpost_bench::mail::base64;
use sealpost_bench::process::{Every, Sampler};

use crate::imap::{Imap, exists, login};
use crate::lmtp::Lmtp;
use crate::server::{STOP_TIMEOUT, Server, Target};

const ACCOUNT: &str = "huge@localhost";
const PIECE_BYTES: u64 = 1 << 20;

/// A message with one base64 attachment, in pieces of about a megabyte. Deterministic.
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

/// Hashes the last `size` bytes: a server adds its own fields above a delivered message.
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

/// One completed step.
#[derive(Debug, Clone)]
pub struct Done {
    /// Its name.
    pub name: String,
    /// How long it took.
    pub seconds: f64,
    /// CPU seconds of the server.
    pub cpu_seconds: f64,
    /// The server's memory before, in bytes; 0 for a separate process.
    pub begin_bytes: u64,
    /// The highest meanwhile, in bytes.
    pub peak_bytes: u64,
}

struct Steps {
    sampler: Sampler,
    clock: SystemClock,
    size: u64,
    done: Vec<Done>,
}

impl Steps {
    /// Runs one step and reports its time, rate and the server's memory.
    async fn run<T>(&mut self, name: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let (value, seconds, used) = self.sampler.measured(&self.clock, work).await;
        let value = value.with_context(|| name.to_owned())?;
        let (begin_bytes, peak_bytes, cpu_seconds) = (used.begin_bytes, used.peak_bytes, used.cpu_seconds);
        let rate = self.size as f64 / seconds / 1e6;
        let mib = peak_bytes >> 20;
        println!("huge: {name}: {seconds:.2} s, {rate:.0} MB/s, CPU {cpu_seconds:.2} s, peak {mib} MiB");
        self.done.push(Done { name: name.to_owned(), seconds, cpu_seconds, begin_bytes, peak_bytes });
        Ok(value)
    }
}

/// Runs all steps with a message of about `mib` MiB; fails if bytes differ or the peak is above `limit_mib`.
pub async fn main(target: Target, mib: u64, limit_mib: u64, dir: &Path) -> Result<()> {
    let done = measure(&target, mib, dir).await?;
    let exceeded = done.iter().filter(|step| step.peak_bytes > limit_mib << 20);
    let exceeded: Vec<String> =
        exceeded.map(|step| format!("{}: peak {} MiB", step.name, step.peak_bytes >> 20)).collect();
    ensure!(exceeded.is_empty(), "over the limit of {limit_mib} MiB: {}", exceeded.join("; "));
    Ok(())
}

/// Runs all steps with a message of about `mib` MiB; fails if bytes differ.
pub async fn measure(target: &Target, mib: u64, dir: &Path) -> Result<Vec<Done>> {
    let (size, hash) = Huge::measure(mib);
    let data = dir.join("data");
    let server = target.start(&data, &[ACCOUNT.to_owned()]).await?;
    let mut imap = login(&server, ACCOUNT).await?;
    warm_up(&server, &mut imap).await?;
    let often = Every { usage: Duration::from_millis(20), memory: Duration::from_millis(20) };
    let clock = SystemClock::new();
    let sampler = Sampler::start(server.tree, often, clock.clone());
    let mut steps = Steps { sampler, clock, size, done: Vec::new() };
    steps.run("LMTP", deliver(Lmtp::connect(server.lmtp).await?, mib)).await?;
    if let Some(smtp) = server.smtp {
        steps.run("SMTP", deliver(Lmtp::connect_smtp(smtp).await?, mib)).await?;
    }
    steps.run("APPEND", append(&mut imap, mib, size)).await?;
    let appended = exists(&imap.ok("SELECT INBOX").await?)?;
    for (message, name) in [(1, "FETCH BODY[] of the delivery"), (appended, "FETCH BODY[] of the append")] {
        let total = rfc822_size(&mut imap, message).await?;
        let mut tail = Tail::new(total, size);
        let command = format!("FETCH {message} BODY.PEEK[]");
        let tally = steps.run(name, imap.each_literal_byte(&command, |bytes| tail.push(bytes))).await?;
        ensure!(
            tally.literal_bytes == total,
            "RFC822.SIZE is {total}, BODY[] has {} bytes",
            tally.literal_bytes
        );
        tail.check(&hash).context(name)?;
    }
    let middle = format!("FETCH {appended} (BODYSTRUCTURE BODY.PEEK[2]<{}.65536>)", size / 2);
    let tally = steps.run("FETCH of 64 KiB in the middle", imap.count(&middle)).await?;
    ensure!(tally.literal_bytes == 65_536, "a partial of {} bytes", tally.literal_bytes);
    steps.run("COPY", async { imap.ok("COPY 1:* Archive").await }).await?;
    let mut done = steps.done;
    server.stop(STOP_TIMEOUT).await?;
    if let Target::Sealpost(sealpost) = &target {
        done.push(export(sealpost, &data, dir, size, &hash)?);
    }
    println!("huge: all of {mib} MiB came back as sent");
    Ok(done)
}

/// A message of a megabyte in the same way, so that one-time setup of the server does not count as
/// the cost of a large message.
async fn warm_up(server: &Server, imap: &mut Imap) -> Result<()> {
    let (size, _) = Huge::measure(1);
    deliver(Lmtp::connect(server.lmtp).await?, 1).await?;
    append(imap, 1, size).await?;
    imap.ok("SELECT INBOX").await?;
    imap.count("FETCH 1:* BODY.PEEK[]").await?;
    imap.ok("STORE 1:* +FLAGS.SILENT (\\Deleted)").await?;
    imap.ok("EXPUNGE").await?;
    Ok(())
}

async fn deliver(mut lmtp: Lmtp, mib: u64) -> Result<()> {
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

/// Exports to a Maildir in a separate process and hashes the files there.
fn export(
    sealpost: &crate::server::Sealpost,
    data: &Path,
    dir: &Path,
    size: u64,
    hash: &digest::Digest,
) -> Result<Done> {
    let clock = SystemClock::new();
    let (output, peak) = sealpost.export(data, ACCOUNT, &dir.join("export"))?;
    let seconds = clock.monotonic().as_secs_f64();
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
    let peak_bytes = peak.unwrap_or(0) << 20;
    println!("huge: export: {} files in {seconds:.2} s, peak {} MiB", files.len(), peak_bytes >> 20);
    Ok(Done { name: "export to a Maildir".into(), seconds, cpu_seconds: 0.0, begin_bytes: 0, peak_bytes })
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
