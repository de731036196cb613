//! Dot segments (RFC 3986 §5.2.4), which relative IMAP URLs may have (RFC 5092 §7).

use std::borrow::Cow;

/// The path without `.` and `..`; parameters are segments like others. `path` begins with `/`.
pub(super) fn resolved(path: &str) -> Cow<'_, str> {
    if !path.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Cow::Borrowed(path);
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    Cow::Owned(format!("/{}", kept.join("/")))
}
