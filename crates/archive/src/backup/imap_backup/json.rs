//! The `.imap` file:
//! `{"version":3,"uid_validity":1,"messages":[{"uid":1,"offset":0,"length":9,"flags":["Seen"]}]}`.
//!
//! Written and read as a stream: at most one message is held. Version 2 has `"uids":[1,2]` instead
//! of messages.

use std::fmt;
use std::io::{self, Read, Write};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::backup::Flags;

/// One message as the file has it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Entry {
    /// Its UID.
    pub uid: u32,
    /// Its first byte in the mbox.
    pub offset: u64,
    /// Its bytes there, the `From` line and the empty line after it included.
    pub length: u64,
    /// Its flags, system flags without backslash.
    #[serde(default)]
    pub flags: Vec<String>,
}

/// The header of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonHeader {
    /// 2 or 3.
    pub version: u32,
    /// UIDVALIDITY of the folder.
    pub uid_validity: u32,
}

/// Writes a file, message by message.
pub struct Writer<W> {
    out: W,
    any: bool,
}

impl<W: Write> Writer<W> {
    /// Begins it.
    pub fn new(mut out: W, uid_validity: u32) -> io::Result<Self> {
        write!(out, "{{\"version\":3,\"uid_validity\":{uid_validity},\"messages\":[")?;
        Ok(Writer { out, any: false })
    }

    /// The next message.
    pub fn message(&mut self, uid: u32, offset: u64, length: u64, flags: &Flags) -> io::Result<()> {
        if std::mem::replace(&mut self.any, true) {
            self.out.write_all(b",")?;
        }
        write!(self.out, "{{\"uid\":{uid},\"offset\":{offset},\"length\":{length},\"flags\":[")?;
        for (at, name) in flags.names().enumerate() {
            if at > 0 {
                self.out.write_all(b",")?;
            }
            serde_json::to_writer(&mut self.out, name.trim_start_matches('\\'))?;
        }
        self.out.write_all(b"]}")
    }

    /// Ends it.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(b"]}")?;
        Ok(self.out)
    }
}

/// The flags with these names in a file.
pub fn flags(names: &[String]) -> Flags {
    let system = |name: &str| {
        Flags::SYSTEM.iter().map(|(_, flag)| *flag).find(|flag| flag[1..].eq_ignore_ascii_case(name))
    };
    let names = names.iter().filter(|name| !name.eq_ignore_ascii_case("Recent"));
    Flags::from_names(names.map(|name| system(name).unwrap_or(name)))
}

/// Reads a file, and passes each message to `each`; with version 2, only its UID.
///
/// # Errors
/// If it is not such a file, is truncated, or cannot be read. `each` may have been called by then.
pub fn read(file: impl Read, mut each: impl FnMut(Entry)) -> Result<JsonHeader, serde_json::Error> {
    let mut deserializer =
        serde_json::Deserializer::from_reader(io::BufReader::with_capacity(64 * 1024, file));
    let head = deserializer.deserialize_map(File { each: &mut each })?;
    deserializer.end()?;
    Ok(head)
}

/// The header of a file, without its messages.
pub fn head(file: impl Read) -> Option<JsonHeader> {
    let mut start = Vec::new();
    file.take(1024).read_to_end(&mut start).ok()?;
    let start = String::from_utf8_lossy(&start);
    let number = |key: &str| {
        let (_, after) = start.split_once(&format!("\"{key}\""))?;
        let after = after.trim_start().strip_prefix(':')?.trim_start();
        after.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let head = JsonHeader { version: number("version")?, uid_validity: number("uid_validity")? };
    (matches!(head.version, 2 | 3) && head.uid_validity > 0).then_some(head)
}

struct File<'a> {
    each: &'a mut dyn FnMut(Entry),
}

impl<'de> Visitor<'de> for File<'_> {
    type Value = JsonHeader;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the metadata of a folder")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonHeader, A::Error> {
        use serde::de::Error as _;
        let (mut version, mut uid_validity, mut listed) = (None, None, false);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "version" => version = Some(map.next_value::<u32>()?),
                "uid_validity" => uid_validity = Some(map.next_value::<u32>()?),
                "messages" if !listed => {
                    listed = true;
                    map.next_value_seed(Messages { each: self.each })?;
                }
                "uids" if !listed => {
                    listed = true;
                    map.next_value_seed(Uids { each: self.each })?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        match (version, uid_validity) {
            (Some(version @ (2 | 3)), Some(uid_validity)) if listed && uid_validity > 0 => {
                Ok(JsonHeader { version, uid_validity })
            }
            _ => Err(A::Error::custom("version, uid_validity or messages are missing")),
        }
    }
}

struct Messages<'a> {
    each: &'a mut dyn FnMut(Entry),
}

struct Uids<'a> {
    each: &'a mut dyn FnMut(Entry),
}

impl<'de> DeserializeSeed<'de> for Messages<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Messages<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(entry) = seq.next_element::<Entry>()? {
            (self.each)(entry);
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Uids<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Uids<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UIDs")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(uid) = seq.next_element::<u32>()? {
            (self.each)(Entry { uid, offset: 0, length: 0, flags: Vec::new() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all(text: &str) -> Option<(JsonHeader, Vec<Entry>)> {
        let mut entries = Vec::new();
        let head = read(text.as_bytes(), |entry| entries.push(entry)).ok()?;
        Some((head, entries))
    }

    #[test]
    fn byte_for_byte() {
        let mut writer = Writer::new(Vec::new(), 1_606_316_666).unwrap();
        writer.message(1, 0, 3736, &Flags::from_names(["\\Seen", "\\Recent", "$a", "\\X"])).unwrap();
        writer.message(4, 3736, 10, &Flags::default()).unwrap();
        let text = String::from_utf8(writer.finish().unwrap()).unwrap();
        let expected = concat!(
            r#"{"version":3,"uid_validity":1606316666,"messages":["#,
            r#"{"uid":1,"offset":0,"length":3736,"flags":["Seen","$a","X"]},{"uid":4,"offset":3736,"length":10,"flags":[]}]}"#
        );
        assert_eq!(text, expected);
        let (found, entries) = read_all(&text).unwrap();
        assert_eq!(found, JsonHeader { version: 3, uid_validity: 1_606_316_666 });
        assert_eq!(head(text.as_bytes()), Some(found));
        assert_eq!((entries.len(), entries[1].offset), (2, 3736));
        assert_eq!(flags(&entries[0].flags), Flags::from_names(["\\Seen", "$a", "X"]));
        for cut in 0..text.len() {
            assert!(read_all(&text[..cut]).is_none(), "{cut}");
        }
    }

    #[test]
    fn older_and_odd_files() {
        let (head, entries) = read_all(r#"{"version":2,"uid_validity":7,"uids":[3,9]}"#).unwrap();
        assert_eq!((head.version, entries.len(), entries[1].uid), (2, 2, 9));
        for text in [
            "",
            "{}",
            "[]",
            r#"{"version":3,"uid_validity":7}"#,
            r#"{"version":1,"uid_validity":7,"messages":[]}"#,
            r#"{"version":3,"uid_validity":0,"messages":[]}"#,
            r#"{"version":3,"uid_validity":7,"messages":[{"uid":-1}]}"#,
            r#"{"version":3,"uid_validity":7,"messages":[]} x"#,
        ] {
            assert!(read_all(text).is_none(), "{text}");
        }
        assert!(read_all(r#" {"x":[{}], "messages":[], "uid_validity":7 ,"version":3} "#).is_some());
    }

    proptest! {
        #[test]
        fn any_text_is_read_to_an_end(text in "[\\[\\]{}\":,0-9a-z_ ]{0,80}") {
            let _ = read_all(&text);
            let _ = head(text.as_bytes());
        }
    }
}
