//! The parts of a message's body, and the lists of those that clients display (RFC 8621 §4.1.4).

use sealpost_mime::structure::{StoredKind, StoredPart, StoredStructure};

/// A part with its children. A message inside a message is a part without children.
pub(crate) struct BodyPart<'a> {
    pub(crate) stored: &'a StoredPart<'a>,
    /// Its section number; empty if the message itself is a multipart.
    pub(crate) path: Vec<u32>,
    pub(super) parts: Vec<BodyPart<'a>>,
}

/// The three lists of RFC 8621 §4.1.4: `textBody`, `htmlBody`, `attachments`.
#[derive(Default)]
pub(crate) struct BodyLists<'t, 'a> {
    pub(crate) text: Vec<&'t BodyPart<'a>>,
    pub(crate) html: Vec<&'t BodyPart<'a>>,
    pub(super) attachments: Vec<&'t BodyPart<'a>>,
}

impl<'a> BodyPart<'a> {
    /// The body of a message. `None` if its structure has no parts, which the scanner never makes.
    pub(crate) fn tree(structure: &'a StoredStructure<'a>) -> Option<Self> {
        let mut left = structure.parts.iter();
        let mut root = Self::next(&mut left, Vec::new())?;
        if !root.is_multipart() {
            // "Every message has at least one part number" (RFC 9051 §6.4.5).
            root.path.push(1);
        }
        Some(root)
    }

    fn next(left: &mut std::slice::Iter<'a, StoredPart<'a>>, path: Vec<u32>) -> Option<Self> {
        let stored = left.next()?;
        let mut parts = Vec::new();
        match stored.kind {
            StoredKind::Leaf => {}
            StoredKind::Multipart(count) => {
                for number in 1..=count {
                    parts.push(Self::next(left, [&path[..], &[number]].concat())?);
                }
            }
            // Parts of a nested message do not belong to this message.
            StoredKind::Message(_) => drop(Self::next(left, Vec::new())?),
        }
        Some(BodyPart { stored, path, parts })
    }

    /// Its `partId`; `None` for a multipart.
    pub(super) fn part_id(&self) -> Option<String> {
        let numbers: Vec<String> = self.path.iter().map(u32::to_string).collect();
        (!self.is_multipart()).then(|| numbers.join("."))
    }

    /// Calls `each` for this part and all parts below it, depth first.
    pub(super) fn walk<'t>(&'t self, each: &mut impl FnMut(&'t BodyPart<'a>)) {
        each(self);
        self.parts.iter().for_each(|part| part.walk(each));
    }

    pub(super) fn is_multipart(&self) -> bool {
        matches!(self.stored.kind, StoredKind::Multipart(_))
    }

    pub(crate) fn is_text(&self) -> bool {
        self.stored.media_type == "text"
    }

    fn is_media(&self) -> bool {
        matches!(self.stored.media_type, "image" | "audio" | "video")
    }

    fn is_disposed(&self, kind: &str) -> bool {
        self.stored.disposition.as_ref().is_some_and(|disposition| disposition.kind == kind)
    }

    /// Whether the part is displayed with the body, at this index in a multipart of that subtype.
    fn is_inline(&self, index: usize, multipart: &str) -> bool {
        let is_type = self.stored.is("text", "plain") || self.stored.is("text", "html") || self.is_media();
        // In a multipart/related only the first part is displayed. A later text part with a file name is an
        // attachment.
        let is_body =
            index == 0 || multipart != "related" && (self.is_media() || self.stored.filename().is_none());
        is_type && !self.is_disposed("attachment") && is_body
    }
}

impl<'t, 'a> BodyLists<'t, 'a> {
    /// Sorts the parts by the algorithm of RFC 8621 §4.1.4.
    pub(crate) fn of(root: &'t BodyPart<'a>) -> Self {
        let BodyLists { mut text, mut html, mut attachments } = BodyLists::default();
        let lists = Open { text: Some(&mut text), html: Some(&mut html), attachments: &mut attachments };
        sort(std::slice::from_ref(root), "mixed", false, lists);
        BodyLists { text, html, attachments }
    }

    /// Whether the message has a part to download: not text, and not shown inside the text as images of HTML
    /// are.
    pub(super) fn has_attachment(root: &BodyPart<'_>) -> bool {
        let mut embedded = Vec::new();
        root.walk(&mut |part| {
            if part.stored.is("multipart", "related") {
                let pictures = part.parts.iter().filter(|part| part.is_media());
                embedded
                    .extend(pictures.filter(|part| part.stored.content_id.is_some()).map(|part| &part.path));
            }
        });
        let lists = BodyLists::of(root);
        lists.attachments.iter().any(|part| {
            !part.is_disposed("inline") && (part.is_disposed("attachment") || !embedded.contains(&&part.path))
        })
    }
}

/// Whether a message with that structure has something attached, for searches.
pub(crate) fn is_attached(structure: &StoredStructure<'_>) -> bool {
    BodyPart::tree(structure).is_some_and(|root| BodyLists::has_attachment(&root))
}

/// The lists while parts are sorted into them.
struct Open<'l, 't, 'a> {
    text: Option<&'l mut Vec<&'t BodyPart<'a>>>,
    html: Option<&'l mut Vec<&'t BodyPart<'a>>>,
    attachments: &'l mut Vec<&'t BodyPart<'a>>,
}

fn sort<'t, 'a>(
    parts: &'t [BodyPart<'a>],
    multipart: &str,
    in_alternative: bool,
    mut lists: Open<'_, 't, 'a>,
) {
    let text_before = lists.text.as_ref().map(|text| text.len());
    let html_before = lists.html.as_ref().map(|html| html.len());
    for (index, part) in parts.iter().enumerate() {
        if part.is_multipart() {
            let inner = Open {
                text: lists.text.as_deref_mut(),
                html: lists.html.as_deref_mut(),
                attachments: lists.attachments,
            };
            let subtype = part.stored.subtype;
            sort(&part.parts, subtype, in_alternative || subtype == "alternative", inner);
        } else if !part.is_inline(index, multipart) {
            lists.attachments.push(part);
        } else if multipart == "alternative" {
            let list = match part.stored.subtype {
                "plain" if part.is_text() => lists.text.as_deref_mut(),
                "html" if part.is_text() => lists.html.as_deref_mut(),
                _ => None,
            };
            list.unwrap_or(lists.attachments).push(part);
        } else {
            if in_alternative && part.is_text() {
                // The whole multipart is one alternative; its subtype says which.
                if part.stored.subtype == "plain" {
                    lists.html = None;
                } else {
                    lists.text = None;
                }
            }
            let is_in_both = lists.text.is_some() && lists.html.is_some();
            let is_in_none = lists.text.is_none() && lists.html.is_none();
            lists.text.iter_mut().chain(&mut lists.html).for_each(|list| list.push(part));
            if is_in_none || !is_in_both && part.is_media() {
                lists.attachments.push(part);
            }
        }
    }
    if multipart == "alternative"
        && let (Some(text), Some(html)) = (lists.text, lists.html)
        && let (Some(text_before), Some(html_before)) = (text_before, html_before)
    {
        // A multipart with a single alternative displays it in both lists.
        if text.len() == text_before {
            text.extend_from_slice(&html[html_before..]);
        } else if html.len() == html_before {
            html.extend_from_slice(&text[text_before..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use sealpost_mime::text::NoText;
    use sealpost_mime::{Scanner, Structure};

    use super::*;

    fn structure(message: &str) -> Structure {
        let mut scanner = Scanner::with_sink(NoText);
        scanner.push(message.as_bytes());
        scanner.finish().0
    }

    /// Builds a multipart from its parts, each a type, a disposition and a description.
    fn multipart(subtype: &str, boundary: &str, parts: &[String]) -> String {
        let mut text = format!("Content-Type: multipart/{subtype}; boundary={boundary}\n\n");
        for part in parts {
            text.push_str(&format!("--{boundary}\n{part}\n"));
        }
        text + &format!("--{boundary}--\n")
    }

    fn part(name: &str, media_type: &str, rest: &str) -> String {
        format!("Content-Type: {media_type}\nContent-Description: {name}\n{rest}\n{name}")
    }

    fn lists(message: &str) -> [String; 3] {
        let structure = structure(message);
        let stored = StoredStructure::of(&structure);
        let tree = BodyPart::tree(&stored).unwrap();
        let lists = BodyLists::of(&tree);
        let names = |list: &[&BodyPart<'_>]| {
            list.iter().map(|part| part.stored.description.unwrap_or("?")).collect::<String>()
        };
        [names(&lists.text), names(&lists.html), names(&lists.attachments)]
    }

    fn has_attachment(message: &str) -> bool {
        let structure = structure(message);
        let stored = StoredStructure::of(&structure);
        BodyLists::has_attachment(&BodyPart::tree(&stored).unwrap())
    }

    /// The example of RFC 8621 §4.1.4.
    #[test]
    fn the_example_of_the_rfc() {
        let inline = "Content-Disposition: inline\n";
        let attachment = "Content-Disposition: attachment\n";
        let text = multipart(
            "mixed",
            "4",
            &[
                part("B", "text/plain", inline),
                part("C", "image/jpeg", inline),
                part("D", "text/plain", inline),
            ],
        );
        let html = multipart("related", "5", &[part("E", "text/html", ""), part("F", "image/jpeg", "")]);
        let message = multipart(
            "mixed",
            "1",
            &[
                part("A", "text/plain", inline),
                multipart(
                    "mixed",
                    "2",
                    &[
                        multipart("alternative", "3", &[text, html]),
                        part("G", "image/jpeg", attachment),
                        part("H", "application/x-excel", ""),
                        part("J", "message/rfc822", ""),
                    ],
                ),
                part("K", "text/plain", inline),
            ],
        );
        assert_eq!(lists(&message), ["ABCDK", "AEK", "CFGHJ"]);
        assert!(has_attachment(&message));
    }

    #[test]
    fn one_alternative_alone_is_shown_in_any_case() {
        let html = multipart("alternative", "1", &[part("A", "text/html", "")]);
        assert_eq!(lists(&html), ["A", "A", ""]);
        let text =
            multipart("alternative", "1", &[part("A", "text/plain", ""), part("B", "text/calendar", "")]);
        assert_eq!(lists(&text), ["A", "A", "B"]);
        assert_eq!(lists(&part("A", "text/html", "")), ["A", "A", ""]);
        assert_eq!(lists(&part("A", "application/pdf", "")), ["", "", "A"]);
    }

    #[test]
    fn a_part_of_no_alternative_is_an_attachment() {
        let both = multipart("mixed", "2", &[part("A", "text/plain", ""), part("B", "text/html", "")]);
        let other = part("C", "text/html", "");
        assert_eq!(lists(&multipart("alternative", "1", &[both, other])), ["A", "C", "B"]);
    }

    #[test]
    fn pictures_inside_of_html_are_no_attachments() {
        let picture = part("B", "image/png", "Content-ID: <1@x>\n");
        let related = multipart("related", "1", &[part("A", "text/html", ""), picture]);
        assert_eq!(lists(&related), ["A", "A", "B"]);
        assert!(!has_attachment(&related));
        let file = part("B", "image/png", "Content-ID: <1@x>\nContent-Disposition: attachment\n");
        assert!(has_attachment(&multipart("related", "1", &[part("A", "text/html", ""), file])));
        let text = part("B", "text/plain", "Content-Disposition: attachment; filename=a.txt\n");
        assert!(has_attachment(&multipart("mixed", "1", &[part("A", "text/plain", ""), text])));
    }

    #[test]
    fn parts_have_section_numbers() {
        let inner = multipart("mixed", "2", &[part("B", "text/plain", ""), part("C", "text/plain", "")]);
        let forwarded = format!("Content-Type: message/rfc822\n\n{}", part("D", "text/plain", ""));
        let structure = structure(&multipart("mixed", "1", &[part("A", "text/plain", ""), forwarded, inner]));
        let stored = StoredStructure::of(&structure);
        let mut ids = Vec::new();
        BodyPart::tree(&stored).unwrap().walk(&mut |part| ids.push(part.part_id()));
        let expected = [None, Some("1"), Some("2"), None, Some("3.1"), Some("3.2")];
        assert_eq!(ids, expected.map(|id| id.map(str::to_owned)));
    }
}
