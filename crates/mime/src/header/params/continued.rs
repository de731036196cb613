//! Values split into sections, and values with a charset (RFC 2231).

use super::{Parameter, is_token};
use crate::decode::charset;

/// The form of the values that [`joined`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Charset and percent encoding stay: text of seven bits, as IMAP4rev1 needs it.
    Encoded,
    /// UTF-8 (RFC 9051 §7.5.2).
    Decoded,
}

/// The parameters with the sections of RFC 2231 joined (§6: servers SHOULD do so), each at the
/// place of its first section. A value with a charset keeps the `*` after its name, which marks it.
/// A missing section ends a value; sections after such a gap, and duplicate ones, are left as
/// written.
pub fn joined(params: &[Parameter], form: Form) -> Vec<Parameter> {
    let mut found: Vec<Parameter> = Vec::with_capacity(params.len());
    let mut taken = vec![false; params.len()];
    for (at, param) in params.iter().enumerate() {
        if taken[at] {
            continue;
        }
        let name = param.name.split_once('*').map(|(name, _)| name);
        let sections = name.map_or_else(Vec::new, |name| sections(params, name));
        let here = sections.iter().any(|section| section.at == at);
        match name.filter(|_| here) {
            Some(name) => {
                sections.iter().for_each(|section| taken[section.at] = true);
                let star = if sections.iter().any(|section| section.percent) { "*" } else { "" };
                let value = match form {
                    Form::Encoded => encoded_value(&sections),
                    Form::Decoded => decoded_value(&sections),
                };
                found.push(Parameter::new(format!("{name}{star}"), value));
            }
            None => found.push(param.clone()),
        }
    }
    found
}

/// One section of a split value (RFC 2231 §3).
struct Section<'a> {
    number: usize,
    /// It is percent-encoded (§4).
    percent: bool,
    value: &'a str,
    /// Its index among the parameters.
    at: usize,
}

/// `name*`, or `name*0`, `name*1`, … in order (RFC 2231 §3, §4), as far as none is missing.
fn sections<'a>(params: &'a [Parameter], name: &str) -> Vec<Section<'a>> {
    let section = |at: usize, param: &'a Parameter| {
        let rest = param.name.strip_prefix(name)?.strip_prefix('*')?;
        let (digits, percent) = match rest.strip_suffix('*') {
            Some(digits) => (digits, true),
            None => (rest, rest.is_empty()),
        };
        let number = match digits {
            "" => 0,
            _ if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
            _ => return None,
        };
        Some(Section { number, percent, value: &param.value, at })
    };
    let mut sections: Vec<Section> =
        params.iter().enumerate().filter_map(|(at, param)| section(at, param)).collect();
    sections.sort_by_key(|section| section.number);
    sections.dedup_by_key(|section| section.number);
    // A gap ends the value: later sections would be in the wrong place.
    let whole =
        sections.iter().enumerate().take_while(|(expected, section)| section.number == *expected).count();
    sections.truncate(whole);
    sections
}

/// The value of `name*`, or of its pieces; `None` if there is none.
pub(super) fn extended(params: &[Parameter], name: &str) -> Option<String> {
    let sections = sections(params, name);
    (!sections.is_empty()).then(|| decoded_value(&sections))
}

fn decoded_value(sections: &[Section]) -> String {
    let mut charset = None;
    let mut bytes = Vec::new();
    for Section { number, percent, value, .. } in sections {
        let mut value = *value;
        if *number == 0 && *percent {
            // charset'language'value
            let mut pieces = value.splitn(3, '\'');
            if let (Some(label), Some(_), Some(rest)) = (pieces.next(), pieces.next(), pieces.next()) {
                charset = Some(label).filter(|label| !label.is_empty());
                value = rest;
            }
        }
        if *percent { percent_decode(value, &mut bytes) } else { bytes.extend(value.as_bytes()) }
    }
    charset::decode(charset, &bytes)
}

/// The concatenated values. If one is percent-encoded, all are.
fn encoded_value(sections: &[Section]) -> String {
    let percent = sections.iter().any(|section| section.percent);
    let mut out = String::new();
    if percent && sections.first().is_some_and(|first| !first.percent) {
        // No charset and no language.
        out.push_str("''");
    }
    for section in sections {
        if section.percent || !percent {
            out.push_str(section.value);
        } else {
            percent_encode(section.value, &mut out);
        }
    }
    out
}

/// Everything but `attribute-char` (RFC 2231 §7) becomes `%` and two digits.
fn percent_encode(value: &str, out: &mut String) {
    for byte in value.bytes() {
        if byte.is_ascii() && is_token(byte) && !matches!(byte, b'*' | b'\'' | b'%') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

fn percent_decode(value: &str, out: &mut Vec<u8>) {
    let mut bytes = value.as_bytes();
    while let Some((&byte, rest)) = bytes.split_first() {
        bytes = rest;
        let digit = |i: usize| rest.get(i).and_then(|b| (*b as char).to_digit(16));
        if byte == b'%'
            && let (Some(high), Some(low)) = (digit(0), digit(1))
        {
            out.push((high << 4 | low) as u8);
            bytes = &rest[2..];
        } else {
            out.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use sealpost_base::limits;

    use super::*;
    use crate::header::params::content_type;

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    fn join(value: &str, form: Form) -> Vec<(String, String)> {
        let params = content_type(value).unwrap().2;
        joined(&params, form).into_iter().map(|p| (p.name, p.value)).collect()
    }

    #[test]
    fn continuations_are_joined_as_imap4rev2_wants_them() {
        let join = |value: &str| join(value, Form::Decoded);
        assert_eq!(
            join("a/b; x=1; baz*1=b; y=2; baz*0=a; baz*2=c"),
            [pair("x", "1"), pair("baz", "abc"), pair("y", "2")]
        );
        assert_eq!(join("a/b; foo*0*=iso-8859-1''Gr%FC; foo*1*=%DFe"), [pair("foo*", "Grüße")]);
        assert_eq!(join("a/b; name=x; name*=utf-8'de'%C3%BC"), [pair("name", "x"), pair("name*", "ü")]);
        assert_eq!(join("a/b; foo*1=b; foo*2=c"), [pair("foo*1", "b"), pair("foo*2", "c")]);
        assert_eq!(
            join("a/b; foo*0=a; foo*2=c; food*0=d"),
            [pair("foo", "a"), pair("foo*2", "c"), pair("food", "d")]
        );
    }

    #[test]
    fn encoded_values_stay_encoded_when_they_are_joined() {
        let join = |value: &str| join(value, Form::Encoded);
        for (value, expected) in [
            ("a/b; name*0=long; name*1=er.pdf", &[pair("name", "longer.pdf")][..]),
            ("a/b; n*0*=utf-8''one%20; n*1*=two.pdf", &[pair("n*", "utf-8''one%20two.pdf")]),
            ("a/b; n*1=b.pdf; n*0=a; x=y", &[pair("n", "ab.pdf"), pair("x", "y")]),
            ("a/b; n*0=\"a \\\"b\"; n*1=\"c; d.pdf\"", &[pair("n", "a \"bc; d.pdf")]),
            ("a/b; n*0*=utf-8''%C3%BC; n*1=b.pdf", &[pair("n*", "utf-8''%C3%BCb.pdf")]),
            ("a/b; n*0*=utf-8''a; n*1=\"100% (b)\"", &[pair("n*", "utf-8''a100%25%20%28b%29")]),
            ("a/b; n*0=a; n*1*=%20b", &[pair("n*", "''a%20b")]),
            ("a/b; n*=utf-8''one%20two.pdf", &[pair("n*", "utf-8''one%20two.pdf")]),
            ("a/b; n=plain; n*0=a; n*1=b", &[pair("n", "plain"), pair("n", "ab")]),
            ("a/b; n*0=a; n*2=c", &[pair("n", "a"), pair("n*2", "c")]),
            ("a/b; n*1=b", &[pair("n*1", "b")]),
            ("a/b; n*0=a; n*0=x; n*1=b", &[pair("n", "ab"), pair("n*0", "x")]),
            ("a/b; n*0=a; n*+1=b; n*x=c", &[pair("n", "a"), pair("n*+1", "b"), pair("n*x", "c")]),
            ("a/b; n*0=a; n*99999999999999999999=b", &[pair("n", "a"), pair("n*99999999999999999999", "b")]),
        ] {
            assert_eq!(join(value), expected, "{value}");
        }
        let many: String = (0..limits::MIME_PARAMETERS + 50).rev().map(|n| format!("; n*{n}=x")).collect();
        let found = join(&format!("a/b{many}"));
        assert!(found.len() <= limits::MIME_PARAMETERS);
    }
}
