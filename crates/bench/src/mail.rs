//! Generated mail that looks like real clients' mail: trace headers, `multipart/alternative`,
//! base64 attachments.
//!
//! The same seed gives the same bytes. Sizes come out within a few per cent of what was asked for.

pub mod correspondence;

use sealpost_base::{Random, SeededRandom};

use crate::words;

/// A word in the text of few generated messages: one in a hundred of [`mailbox_100`].
pub const RARE_WORD: &str = words::RARE;
/// A word that no generated mail contains.
pub const ABSENT_WORD: &str = "quokkaphone";

/// Sizes of 100 mails of a real inbox, in bytes, in order of arrival: 23.6 MB, the largest 6.4 MB.
const REAL_INBOX: [u32; 100] = [
    1197, 669, 2446863, 17570, 32629, 20966, 17060, 6813, 1536, 33864, 32553, 184932, 16344, 6302, 14536,
    5255, 11538, 20549, 21465, 10962, 33754, 3383940, 3007, 695324, 2006073, 21523, 23653, 19581, 17413,
    26122, 23941, 47047, 25577, 36454, 44704, 39364, 59164, 41804, 49847, 19590, 60376, 17741, 44138, 32797,
    45838, 28181, 42271, 24861, 20822, 31220, 3281, 17277, 43718, 40722, 289419, 525746, 29273, 35086, 20106,
    22782, 5808, 62307, 3321, 71315, 6578, 10878, 37947, 21278, 3957, 3987, 4102, 4233, 4194, 4065, 3927,
    3886, 4352, 3933, 4104, 4794, 4804, 49034, 6361558, 124050, 137595, 19489, 28247, 84954, 14315, 1391,
    4127, 3884, 1280, 5502023, 2487, 83298, 911, 1607, 737, 2615,
];

/// Which of [`mailbox_100`] holds [`RARE_WORD`].
const RARE_MAIL: usize = 44;

/// 100 mails, 23 MB in total, up to 6 MB each, distributed like a real inbox.
pub fn mailbox_100(seed: u64) -> Vec<Vec<u8>> {
    REAL_INBOX
        .iter()
        .enumerate()
        .map(|(nth, size)| {
            let seed = seed.wrapping_mul(1000) + nth as u64;
            if nth == RARE_MAIL { build(seed, *size as usize, true) } else { message(seed, *size as usize) }
        })
        .collect()
}

/// One mail of about `size` bytes. Every line ends with CRLF.
pub fn message(seed: u64, size: usize) -> Vec<u8> {
    build(seed, size, false)
}

fn build(seed: u64, size: usize, rare: bool) -> Vec<u8> {
    let mut writer =
        Writer { random: SeededRandom::new(seed), words: words::list(), out: Vec::with_capacity(size + 512) };
    writer.headers(seed, size);
    match size {
        0..3_000 => writer.plain(size, rare),
        3_000..100_000 => writer.alternative(size, rare),
        _ => writer.mixed(size, rare),
    }
    writer.out
}

struct Writer {
    random: SeededRandom,
    words: Vec<&'static str>,
    out: Vec<u8>,
}

impl Writer {
    fn line(&mut self, line: &str) {
        self.out.extend_from_slice(line.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    fn headers(&mut self, seed: u64, size: usize) {
        let hour = self.random.below(24);
        let subject: String =
            words::sentence(&self.random, &self.words).chars().filter(char::is_ascii).take(60).collect();
        self.line("From: =?utf-8?Q?J=C3=BCrgen_M=C3=BCller?= <juergen.mueller@sender.example>");
        self.line("To: \"Reader, Ruth\" <ruth@reader.example>, Team <team@reader.example>");
        if size > 1_200 {
            for hop in 0..3 {
                self.line(&format!(
                    "Received: from relay{hop}.sender.example (relay{hop}.sender.example [192.0.2.{hop}])"
                ));
                self.line(&format!(
                    "\tby mx{hop}.reader.example (Postfix) with ESMTPS id {:012X}",
                    self.random.below(1 << 48)
                ));
                self.line(&format!(
                    "\tfor <ruth@reader.example>; Tue, 14 Oct 2025 {hour:02}:2{hop}:07 +0200 (CEST)"
                ));
            }
            self.line("DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=sender.example; s=mail;");
            let mut signature = vec![0; 192];
            self.random.fill(&mut signature);
            self.line("\th=From:To:Subject:Date; b=");
            for line in base64(&signature).split_inclusive("\r\n") {
                self.line(&format!("\t{}", line.trim_end()));
            }
            self.line("Cc: Ada <ada@reader.example>, Bob Example <bob@reader.example>");
            self.line(&format!("References: <{:x}@sender.example>", seed ^ 0x5a5a));
            self.line(&format!("In-Reply-To: <{:x}@sender.example>", seed ^ 0x5a5a));
            self.line("X-Mailer: Example Mail 12.4 (2131)");
        }
        self.line(&format!("Subject: {subject}"));
        self.line(&format!("Date: Tue, 14 Oct 2025 {hour:02}:21:05 +0200"));
        self.line(&format!("Message-ID: <{seed:x}.{:x}@sender.example>", self.random.next_u64()));
        self.line("MIME-Version: 1.0");
    }

    /// Words in lines of about 72 columns, with a quoted reply here and there.
    fn text(&mut self, bytes: usize, rare: bool) {
        let end = self.out.len() + bytes;
        if rare {
            self.line(&format!("The {} ink was ordered on Monday.", words::RARE));
        }
        while self.out.len() < end {
            let prefix = if self.random.below(6) == 0 { "> " } else { "" };
            for _ in 0..1 + self.random.below(5) {
                let sentence = words::sentence(&self.random, &self.words);
                self.line(&format!("{prefix}{sentence}"));
            }
            self.line("");
        }
    }

    fn html(&mut self, bytes: usize, rare: bool) {
        let end = self.out.len() + bytes;
        self.line(
            "<html><head><style>p { margin: 0 0 12px; font-family: Arial, sans-serif; }</style></head><body>",
        );
        if rare {
            self.line(&format!("<p>The {} ink was ordered on Monday.</p>", words::RARE));
        }
        while self.out.len() < end {
            let sentence = words::sentence(&self.random, &self.words);
            let link = self.random.below(1 << 40);
            self.line(&format!("<p style=\"color:#333333;font-size:14px;line-height:20px\">{sentence}"));
            self.line(&format!(
                "<a href=\"https://www.sender.example/track?id={link:x}&amp;u=7\">more</a></p>"
            ));
        }
        self.line("</body></html>");
    }

    fn plain(&mut self, size: usize, rare: bool) {
        self.line("Content-Type: text/plain; charset=utf-8");
        self.line("Content-Transfer-Encoding: 8bit");
        self.line("");
        let bytes = size.saturating_sub(self.out.len());
        self.text(bytes, rare);
    }

    fn alternative(&mut self, size: usize, rare: bool) {
        let boundary = format!("=_alt_{:016x}", self.random.next_u64());
        self.line(&format!("Content-Type: multipart/alternative;\r\n boundary=\"{boundary}\""));
        self.line("");
        let bytes = size.saturating_sub(self.out.len() + 300);
        self.line(&format!("--{boundary}"));
        self.line("Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n");
        self.text(bytes / 4, rare);
        self.line(&format!("--{boundary}"));
        self.line("Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n");
        self.html(bytes - bytes / 4, rare);
        self.line(&format!("--{boundary}--"));
    }

    fn mixed(&mut self, size: usize, rare: bool) {
        let boundary = format!("=_mix_{:016x}", self.random.next_u64());
        self.line(&format!("Content-Type: multipart/mixed;\r\n boundary=\"{boundary}\""));
        self.line("");
        self.line("This is a multi-part message in MIME format.");
        self.line(&format!("--{boundary}"));
        let text = 6_000 + usize::try_from(self.random.below(20_000)).unwrap_or(0);
        self.alternative(self.out.len() + text, rare);
        let parts = 1 + self.random.below(3);
        let each = size.saturating_sub(self.out.len()) / usize::try_from(parts).unwrap_or(1);
        for nth in 0..parts {
            self.line(&format!("--{boundary}"));
            self.attachment(nth, each.saturating_sub(220));
        }
        self.line(&format!("--{boundary}--"));
    }

    /// A photo or an archive does not compress; a table of numbers does.
    fn attachment(&mut self, nth: u64, encoded_bytes: usize) {
        let raw = encoded_bytes / 78 * 57 + 1;
        let compressible = self.random.below(3) == 0;
        let (kind, name) = match (compressible, self.random.below(2)) {
            (true, _) => ("application/octet-stream", format!("measurements-{nth}.csv")),
            (false, 0) => ("image/jpeg", format!("IMG_{nth:04}.jpg")),
            (false, _) => ("application/pdf", format!("report {nth}.pdf")),
        };
        self.line(&format!("Content-Type: {kind}; name=\"{name}\""));
        self.line("Content-Transfer-Encoding: base64");
        self.line(&format!("Content-Disposition: attachment; filename=\"{name}\""));
        self.line("");
        let mut bytes = Vec::with_capacity(raw + 64);
        if compressible {
            while bytes.len() < raw {
                let (row, value) = (bytes.len() / 40, self.random.below(10_000));
                bytes.extend_from_slice(format!("{row};2025-10-14T12:00:00Z;{value};ok\r\n").as_bytes());
            }
            bytes.truncate(raw);
        } else {
            bytes.resize(raw, 0);
            self.random.fill(&mut bytes);
        }
        self.out.extend_from_slice(base64(&bytes).as_bytes());
    }
}

/// Base64 in lines of 76 characters, each ended by CRLF (RFC 2045 §6.8).
pub fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len() / 57 * 78 + 80);
    for line in bytes.chunks(57) {
        for group in line.chunks(3) {
            let word = group
                .iter()
                .enumerate()
                .fold(0u32, |word, (n, byte)| word | u32::from(*byte) << (16 - 8 * n));
            for n in 0..4 {
                let letter = ALPHABET[(word >> (18 - 6 * n) & 63) as usize];
                out.push(if n <= group.len() { char::from(letter) } else { '=' });
            }
        }
        out.push_str("\r\n");
    }
    out
}

/// Base64 in one line, as SASL has it (RFC 4648 §4).
pub fn base64_line(bytes: &[u8]) -> String {
    base64(bytes).replace("\r\n", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mailbox_has_the_stated_shape() {
        let mails = mailbox_100(1);
        let total: usize = mails.iter().map(Vec::len).sum();
        assert_eq!(mails.len(), 100);
        assert!((22_500_000..25_500_000).contains(&total), "{total}");
        assert_eq!(mails, mailbox_100(1));
        let rare = mails.iter().filter(|mail| memchr::memmem::find(mail, RARE_WORD.as_bytes()).is_some());
        assert_eq!(rare.count(), 1);
        for mail in &mails {
            assert!(mail.ends_with(b"\r\n"));
            assert_eq!(
                memchr::memchr_iter(b'\n', mail).count(),
                memchr::memmem::find_iter(mail, "\r\n").count()
            );
        }
    }

    #[test]
    fn message_sizes_are_near_the_requested_size() {
        for size in [5_000, 25_000, 1_000_000] {
            let length = message(3, size).len();
            assert!(length.abs_diff(size) < size / 8, "{length} for {size}");
        }
    }

    #[test]
    fn base64_pads() {
        assert_eq!(base64(b"a"), "YQ==\r\n");
        assert_eq!(base64(b"ab"), "YWI=\r\n");
        assert_eq!(base64(b"abc"), "YWJj\r\n");
    }
}
