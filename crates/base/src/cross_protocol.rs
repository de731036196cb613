//! Detects lines that a browser sends and a mail client does not: HTTP request lines and header fields.
//!
//! A web page can make a browser send a request to any port. A network attacker can redirect an HTTPS request
//! to a mail port whose certificate matches (cross-protocol attacks, "ALPACA"). A mail server that replies
//! `500` and continues then runs the request's body, which the page chose, as commands of the browser's user.
//! So the first such line ends the session: the server reads no later input, and echoes nothing of the line.
//!
//! Only the first [`LOOKED_AT`] bytes of a line count, so the result does not depend on how much of it has
//! arrived.

/// HTTP methods (RFC 9110 §9.3, RFC 5789), and the start of HTTP/2 (RFC 9113 §3.4). None is a command of SMTP
/// or LMTP.
const METHODS: [&[u8]; 10] =
    [b"GET", b"POST", b"HEAD", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH", b"PRI"];

/// Bytes of a line that are checked.
pub const LOOKED_AT: usize = 64;

/// Whether the line begins with an HTTP method as a separate word.
pub fn begins_with_method(line: &[u8]) -> bool {
    METHODS.iter().any(|method| first_word(line).eq_ignore_ascii_case(method))
}

/// Whether the line begins with a method and a request target: a path, a URL, a host with its port, or `*`
/// (RFC 9112 §3.2). For protocols whose lines may begin with any word: none of their commands is followed by
/// text that looks like a target.
pub fn is_request_line(line: &[u8]) -> bool {
    let target = line.splitn(3, |byte| *byte == b' ').nth(1).unwrap_or_default();
    let target = &target[..target.len().min(LOOKED_AT)];
    begins_with_method(line) && target.iter().any(|byte| matches!(byte, b'/' | b'*' | b':' | b'.'))
}

/// Whether the line begins with the name of a header field and a colon (RFC 9112 §5, RFC 5322 §2.2).
pub fn is_header_field(line: &[u8]) -> bool {
    let line = &line[..line.len().min(LOOKED_AT)];
    let name = line.iter().position(|byte| *byte == b':').unwrap_or(0);
    name > 0 && line[..name].iter().all(u8::is_ascii_graphic)
}

fn first_word(line: &[u8]) -> &[u8] {
    let line = &line[..line.len().min(LOOKED_AT)];
    let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
    &line[..end.unwrap_or(line.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_lines_differ_from_commands() {
        for line in [
            "GET / HTTP/1.1",
            "post /cgi HTTP/1.1",
            "CONNECT mail.example:25 HTTP/1.1",
            "OPTIONS * HTTP/1.1",
            "PRI * HTTP/2.0",
            "GET http://mail.example/ HTTP/1.1",
        ] {
            assert!(begins_with_method(line.as_bytes()) && is_request_line(line.as_bytes()), "{line}");
        }
        for line in ["GET", "PUT\r\n", "GET NOOP", "delete select inbox/HTTP"] {
            assert!(begins_with_method(line.as_bytes()) && !is_request_line(line.as_bytes()), "{line}");
        }
        for line in ["", " GET / HTTP/1.1", "GETS /", "HELO get", "MAIL FROM:<get@x>", "a1 LIST \"\" *"] {
            assert!(!begins_with_method(line.as_bytes()) && !is_request_line(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn header_fields_differ_from_commands() {
        for line in ["Host: mail.example", "Content-Type:text/plain", "X:", "Cookie: a=b; c=d"] {
            assert!(is_header_field(line.as_bytes()), "{line}");
        }
        for line in ["", ":", "MAIL FROM:<a@b>", "RCPT TO: <a@b>", "NOOP a:b", "H\u{e9}: x", "\tfolded: x"] {
            assert!(!is_header_field(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn a_long_line_is_judged_by_its_beginning() {
        let path = "a".repeat(5000);
        assert!(is_request_line(format!("GET /{path} HTTP/1.1").as_bytes()));
        assert!(!is_request_line(format!("GET {path}/").as_bytes()));
        assert!(!is_header_field(format!("{path}: x").as_bytes()));
    }
}
