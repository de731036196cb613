//! A signature field, parsed (RFC 6376 §3.5) and found to be in order (§6.1.1).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealpost_base::limits;

use super::{Algorithm, Fault};
use crate::canonical::Canonicalization;
use crate::tag_list::{TagList, colon_list, trim, without_space};

/// The tags of a signature field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// `a=`
    pub algorithm: Algorithm,
    /// `b=`, as bytes.
    pub signature: Vec<u8>,
    /// `bh=`, as bytes.
    pub body_hash: Vec<u8>,
    /// The first half of `c=`.
    pub header_canonicalization: Canonicalization,
    /// The second half of `c=`.
    pub body_canonicalization: Canonicalization,
    /// `d=`, in lower case: the domain that takes responsibility.
    pub domain: String,
    /// `s=`, in lower case.
    pub selector: String,
    /// The domain of `i=`, in lower case: `domain` or one below it.
    pub identity_domain: String,
    /// `h=`: the names of the signed fields, in order.
    pub signed_fields: Vec<String>,
    /// `l=`: how many bytes of the canonical body are signed.
    pub body_length: Option<u64>,
    /// `t=`, in seconds since 1970.
    pub timestamp: Option<u64>,
    /// `x=`, in seconds since 1970.
    pub expiry: Option<u64>,
}

impl Signature {
    /// Parses the value of a signature field.
    ///
    /// # Errors
    /// The first fault, in the order of RFC 6376 §6.1.1.
    pub fn parse(value: &[u8]) -> Result<Self, Fault> {
        let text = std::str::from_utf8(value).map_err(|_| Fault::SignatureSyntax)?;
        let tags = TagList::parse(text).ok_or(Fault::SignatureSyntax)?;
        let required = |name| tags.value(name).ok_or(Fault::MissingTag);
        if required("v")? != "1" {
            return Err(Fault::Version);
        }
        let (header_canonicalization, body_canonicalization) = canonicalizations(tags.value("c"))?;
        let domain = domain_name(required("d")?)?;
        let signature = Signature {
            algorithm: Algorithm::named(required("a")?).ok_or(Fault::Algorithm)?,
            signature: base64(required("b")?)?,
            body_hash: base64(required("bh")?)?,
            header_canonicalization,
            body_canonicalization,
            selector: domain_name(required("s")?)?,
            identity_domain: identity_domain(tags.value("i"), &domain)?,
            signed_fields: signed_fields(required("h")?)?,
            body_length: tags.value("l").map(|text| number(text, 76)).transpose()?,
            timestamp: tags.value("t").map(|text| number(text, 12)).transpose()?,
            expiry: tags.value("x").map(|text| number(text, 12)).transpose()?,
            domain,
        };
        // RFC 6376 §3.5: x= has to be after t=.
        if let (Some(begin), Some(end)) = (signature.timestamp, signature.expiry)
            && end <= begin
        {
            return Err(Fault::SignatureSyntax);
        }
        let by_dns = |list| colon_list(list).any(|method| method.eq_ignore_ascii_case("dns/txt"));
        if !tags.value("q").is_none_or(by_dns) {
            return Err(Fault::QueryMethod);
        }
        Ok(signature)
    }

    /// The name of the TXT records that hold the key (RFC 6376 §3.6.2.1).
    pub fn key_name(&self) -> String {
        format!("{}._domainkey.{}", self.selector, self.domain)
    }
}

/// `value` without the value of `b=`, as it is signed (RFC 6376 §3.5); all other bytes stay.
pub(super) fn without_signature(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    for (at, spec) in value.split(|byte| *byte == b';').enumerate() {
        if at > 0 {
            out.push(b';');
        }
        let equals = memchr::memchr(b'=', spec);
        match equals {
            Some(equals) if spec[..equals].trim_ascii() == b"b" => out.extend_from_slice(&spec[..=equals]),
            _ => out.extend_from_slice(spec),
        }
    }
    out
}

fn canonicalizations(value: Option<&str>) -> Result<(Canonicalization, Canonicalization), Fault> {
    let Some(value) = value else { return Ok(Default::default()) };
    let (header, body) = value.split_once('/').unwrap_or((value, "simple"));
    let named = |name| Canonicalization::named(trim(name)).ok_or(Fault::SignatureSyntax);
    Ok((named(header)?, named(body)?))
}

fn signed_fields(value: &str) -> Result<Vec<String>, Fault> {
    let fields: Vec<String> = colon_list(value).map(str::to_owned).collect();
    let is_name = |name: &String| !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic());
    if fields.len() > limits::DKIM_SIGNED_FIELDS || !fields.iter().all(is_name) {
        return Err(Fault::SignatureSyntax);
    }
    if !fields.iter().any(|name| name.eq_ignore_ascii_case("from")) {
        return Err(Fault::FromNotSigned);
    }
    Ok(fields)
}

fn identity_domain(value: Option<&str>, domain: &str) -> Result<String, Fault> {
    let Some(value) = value else { return Ok(domain.to_owned()) };
    let (_, identity) = value.rsplit_once('@').ok_or(Fault::SignatureSyntax)?;
    let identity = domain_name(identity)?;
    let is_below =
        identity.strip_suffix(domain).is_some_and(|above| above.is_empty() || above.ends_with('.'));
    if is_below { Ok(identity) } else { Err(Fault::DomainMismatch) }
}

/// A domain or selector, in lower case: labels of letters, digits, hyphens and underscores.
fn domain_name(value: &str) -> Result<String, Fault> {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    let value = without_space(value);
    if value.len() <= 253 && value.split('.').all(is_label) {
        Ok(value.to_ascii_lowercase())
    } else {
        Err(Fault::SignatureSyntax)
    }
}

/// A number of at most `digits` digits; one that does not fit counts as the greatest.
fn number(value: &str, digits: usize) -> Result<u64, Fault> {
    if value.is_empty() || value.len() > digits || !value.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Fault::SignatureSyntax);
    }
    Ok(value.parse().unwrap_or(u64::MAX))
}

fn base64(value: &str) -> Result<Vec<u8>, Fault> {
    let bytes = STANDARD.decode(without_space(value)).map_err(|_| Fault::SignatureSyntax)?;
    if bytes.is_empty() { Err(Fault::SignatureSyntax) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "v=1; a=rsa-sha256; d=Example.NET; s=Brisbane; c=simple; q=dns/txt; i=@eng.example.net; \
                        t=1117574938; x=1118006938; h=from:to:subject:date; z=From:foo@eng.example.net|To:joe; \
                        bh=MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=; b=dzdVyOfAKCdLXdJOc9G2q8LoXSlEniSb av+y";

    fn with(tag: &str, value: &str) -> Result<Signature, Fault> {
        let mut tags: Vec<String> = GOOD
            .split("; ")
            .filter(|spec| !spec.starts_with(&format!("{tag}=")))
            .map(str::to_owned)
            .collect();
        if !value.is_empty() {
            tags.push(format!("{tag}={value}"));
        }
        Signature::parse(tags.join("; ").as_bytes())
    }

    #[test]
    fn all_tags_are_read() {
        let signature = Signature::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(signature.key_name(), "brisbane._domainkey.example.net");
        assert_eq!(signature.identity_domain, "eng.example.net");
        assert_eq!(signature.signed_fields, ["from", "to", "subject", "date"]);
        assert_eq!(signature.body_hash, b"12345678901234567890123456789012");
        assert_eq!(signature.header_canonicalization, Canonicalization::Simple);
        assert_eq!((signature.timestamp, signature.expiry), (Some(1_117_574_938), Some(1_118_006_938)));
        assert_eq!(signature.signature.len(), 27);
    }

    #[test]
    fn faults_are_distinguished() {
        for (tag, value, fault) in [
            ("v", "", Fault::MissingTag),
            ("v", "2", Fault::Version),
            ("a", "rsa-sha1", Fault::Algorithm),
            ("a", "", Fault::MissingTag),
            ("b", "", Fault::MissingTag),
            ("b", "x", Fault::SignatureSyntax),
            ("bh", "====", Fault::SignatureSyntax),
            ("c", "relaxed/strict", Fault::SignatureSyntax),
            ("d", "example..net", Fault::SignatureSyntax),
            ("d", "ng.example.net", Fault::DomainMismatch),
            ("h", "to:subject", Fault::FromNotSigned),
            ("h", "from::to", Fault::SignatureSyntax),
            ("i", "eng.example.net", Fault::SignatureSyntax),
            ("i", "@engexample.net", Fault::DomainMismatch),
            ("l", "-1", Fault::SignatureSyntax),
            ("q", "http", Fault::QueryMethod),
            ("s", "", Fault::MissingTag),
            ("t", "1234567890123", Fault::SignatureSyntax),
            ("x", "1117574938", Fault::SignatureSyntax),
        ] {
            assert_eq!(with(tag, value), Err(fault), "{tag}={value}");
        }
        assert_eq!(with("l", &"9".repeat(76)).unwrap().body_length, Some(u64::MAX));
        assert!(with("q", "http : DNS/txt").is_ok());
        assert_eq!(with("c", "relaxed").unwrap().body_canonicalization, Canonicalization::Simple);
        let names = vec!["from"; limits::DKIM_SIGNED_FIELDS + 1].join(":");
        assert_eq!(with("h", &names), Err(Fault::SignatureSyntax));
    }

    #[test]
    fn only_the_tag_b_is_emptied() {
        assert_eq!(without_signature(b" v=1; bh=xb=; b = abc\r\n def ; t=b=1"), b" v=1; bh=xb=; b =; t=b=1");
        assert_eq!(without_signature(b"a=1;\r\n\tb=abc\r\n"), b"a=1;\r\n\tb=");
    }
}
