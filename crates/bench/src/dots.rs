//! Dots at the beginnings of lines, which end a message in SMTP and LMTP (RFC 5321 §4.5.2).

/// Appends `message` with the dots at the beginnings of its lines doubled.
pub fn dot(message: &[u8], out: &mut Vec<u8>) {
    for line in message.split_inclusive(|b| *b == b'\n') {
        if line.starts_with(b".") {
            out.push(b'.');
        }
        out.extend_from_slice(line);
    }
}
