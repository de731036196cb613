//! The memory of a structure: it grows with the sender's input, so holders of one reserve that
//! much.

use crate::Parameter;
use crate::envelope::{Address, Envelope};
use crate::structure::{Part, PartKind, Structure};

impl Structure {
    /// The approximate memory in bytes. At least as much as the encoded form.
    pub fn weight(&self) -> usize {
        let mut weight = size_of::<Structure>() + self.envelope.weight() + text(&self.preview);
        self.root.walk(&mut |part| weight += part.own_weight());
        weight
    }
}

impl Part {
    /// Without the contents.
    fn own_weight(&self) -> usize {
        let texts = [&self.content_id, &self.description, &self.md5, &self.location];
        let disposition = self.disposition.as_ref();
        let nested = match &self.kind {
            PartKind::Message(envelope, _) => envelope.weight(),
            PartKind::Leaf | PartKind::Multipart(_) => 0,
        };
        size_of::<Part>()
            + self.media_type.len()
            + self.subtype.len()
            + self.encoding.len()
            + parameters(&self.params)
            + texts.into_iter().map(text).sum::<usize>()
            + disposition.map_or(0, |found| found.kind.len() + parameters(&found.params))
            + self.language.iter().map(|tag| size_of::<String>() + tag.len()).sum::<usize>()
            + nested
    }
}

impl Envelope {
    fn weight(&self) -> usize {
        let texts = [&self.date, &self.subject, &self.in_reply_to, &self.message_id, &self.references];
        let lists = [&self.from, &self.sender, &self.reply_to, &self.to, &self.cc, &self.bcc];
        let addresses = lists.into_iter().flatten().map(Address::weight);
        size_of::<Envelope>() + texts.into_iter().map(text).sum::<usize>() + addresses.sum::<usize>()
    }
}

impl Address {
    fn weight(&self) -> usize {
        let texts = [&self.name, &self.adl, &self.mailbox, &self.host];
        size_of::<Address>() + texts.into_iter().map(text).sum::<usize>()
    }
}

fn text(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::len)
}

fn parameters(params: &[Parameter]) -> usize {
    params.iter().map(|param| size_of::<Parameter>() + param.name.len() + param.value.len()).sum()
}

#[cfg(test)]
mod tests {
    use crate::Scanner;

    #[test]
    fn every_part_and_field_adds_to_the_weight() {
        let weight = |message: String| {
            let mut scanner = Scanner::new();
            scanner.push(message.as_bytes());
            scanner.finish().0.weight()
        };
        let plain = weight("Subject: x\r\n\r\n".to_owned());
        assert!(plain < 2048, "{plain}");
        let long = "a".repeat(20_000);
        assert!(weight(format!("Subject: {long}\r\n\r\n")) >= 10_000);
        assert!(weight(format!("Content-Description: {long}\r\n\r\n")) >= 10_000);
        let parts = "--b\r\n\r\nx\r\n".repeat(500);
        let many = weight(format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{parts}--b--\r\n"));
        assert!(many >= 500 * size_of::<crate::Part>(), "{many}");
    }
}
