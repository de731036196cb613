//! The stored header fields of one message or part, collected while its lines arrive.

use sealpost_base::limits;

use crate::envelope::{Address, Envelope};
use crate::header::{self, address, date, params};
use crate::structure::{Disposition, Parameter};

/// Bytes that one stored value costs beyond its text, so that a million empty ones are not free.
const VALUE_OVERHEAD: usize = 128;

/// The budget for parsed values, for all parts of a message together (`limits::STRUCTURE_BYTES`).
#[derive(Debug)]
pub(super) struct ValueBudget {
    left: usize,
    /// A limit was reached.
    pub(super) limited: bool,
}

impl Default for ValueBudget {
    fn default() -> Self {
        ValueBudget { left: limits::STRUCTURE_BYTES, limited: false }
    }
}

impl ValueBudget {
    /// Takes `bytes` of the budget; false if they exceed it: the value is then dropped.
    fn take(&mut self, bytes: usize) -> bool {
        match self.left.checked_sub(bytes + VALUE_OVERHEAD) {
            Some(left) => {
                self.left = left;
                true
            }
            None => {
                self.limited = true;
                false
            }
        }
    }

    fn keep(&mut self, mut value: String) -> Option<String> {
        // It may have been cut out of a whole field.
        value.shrink_to_fit();
        self.take(value.len()).then_some(value)
    }

    fn keep_params(&mut self, mut params: Vec<Parameter>) -> Vec<Parameter> {
        params.retain(|p| self.take(p.name.len() + p.value.len()));
        params.iter_mut().for_each(|p| p.value.shrink_to_fit());
        params.shrink_to_fit();
        params
    }

    /// `times`: how often they will be stored in the end.
    fn keep_addresses(&mut self, (found, more): (Vec<Address>, bool), to: &mut Vec<Address>, times: usize) {
        self.limited |= more;
        to.reserve_exact(found.len().min(limits::ENVELOPE_ADDRESSES - to.len()));
        for address in found {
            if to.len() >= limits::ENVELOPE_ADDRESSES {
                self.limited = true;
                return;
            }
            let fields = [&address.name, &address.adl, &address.mailbox, &address.host];
            let bytes: usize = fields.iter().map(|f| f.as_ref().map_or(0, String::len)).sum();
            if self.take(times * (bytes + VALUE_OVERHEAD) - VALUE_OVERHEAD) {
                to.push(address);
            }
        }
        to.shrink_to_fit();
    }
}

/// The Content- fields of a part. Of a repeated field the first counts.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// `Some(None)`: there is a Content-Type, but an unparsable one.
    pub(super) media: Option<Option<(String, String, Vec<Parameter>)>>,
    pub(super) id: Option<String>,
    pub(super) description: Option<String>,
    pub(super) encoding: Option<String>,
    pub(super) md5: Option<String>,
    pub(super) disposition: Option<Disposition>,
    pub(super) language: Vec<String>,
    pub(super) location: Option<String>,
}

impl Content {
    /// Takes one field, whose name starts with `content-`.
    pub(super) fn field(&mut self, name: &[u8], raw: &[u8], room: &mut ValueBudget) {
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
        let text = || Some(header::unfold(raw)).filter(|value| !value.is_empty());
        let first = |slot: &mut Option<String>, value: Option<String>, room: &mut ValueBudget| {
            if slot.is_none() {
                *slot = value.and_then(|value| room.keep(value));
            }
        };
        if is("content-type") {
            if self.media.is_none() {
                self.media = Some(self.media_type(raw, room));
            }
        } else if is("content-transfer-encoding") {
            first(&mut self.encoding, params::token(&header::unfold(raw)), room);
        } else if is("content-disposition") {
            if self.disposition.is_none()
                && let Some((kind, params)) = params::disposition(&header::unfold(raw))
                && room.take(kind.len())
            {
                self.disposition = Some(Disposition { kind, params: room.keep_params(params) });
            }
        } else if is("content-id") {
            first(&mut self.id, text(), room);
        } else if is("content-description") {
            first(&mut self.description, text(), room);
        } else if is("content-md5") {
            first(&mut self.md5, text(), room);
        } else if is("content-location") {
            // RFC 2557 §4.2: white space inside a folded URI is not part of it.
            first(&mut self.location, text().map(|v| v.split_whitespace().collect()), room);
        } else if is("content-language") && self.language.is_empty() {
            // RFC 3282 §2: a list of tags; comments are allowed and rare.
            let value = text().unwrap_or_default();
            let tags = value.split([',', ' ', '\t']).filter(|tag| !tag.is_empty() && !tag.starts_with('('));
            let tags = tags.take(limits::MIME_PARAMETERS).map(str::to_owned);
            self.language = tags.filter_map(|tag| room.keep(tag)).collect();
        }
    }

    fn media_type(&self, raw: &[u8], room: &mut ValueBudget) -> Option<(String, String, Vec<Parameter>)> {
        let (media_type, subtype, params) = params::content_type(&header::unfold(raw))?;
        room.take(media_type.len() + subtype.len()).then_some(())?;
        Some((media_type, subtype, room.keep_params(params)))
    }
}

/// Takes one field of a message header into its envelope. Of a repeated field the first counts;
/// repeated address fields are joined, so that no address is hidden.
pub(super) fn envelope(envelope: &mut Envelope, name: &[u8], raw: &[u8], room: &mut ValueBudget) {
    let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
    let texts: [(&str, &mut Option<String>); 5] = [
        ("date", &mut envelope.date),
        ("subject", &mut envelope.subject),
        ("in-reply-to", &mut envelope.in_reply_to),
        ("message-id", &mut envelope.message_id),
        ("references", &mut envelope.references),
    ];
    for (wanted, slot) in texts {
        if is(wanted) {
            if slot.is_none() {
                *slot = room.keep(header::unfold(raw));
                if wanted == "date"
                    && let Some(date) = slot.as_deref().and_then(date::parse)
                {
                    (envelope.sent_date, envelope.sent_zone) = (Some(date.seconds), date.zone);
                }
            }
            return;
        }
    }
    let lists: [(&str, &mut Vec<Address>); 6] = [
        ("from", &mut envelope.from),
        ("sender", &mut envelope.sender),
        ("reply-to", &mut envelope.reply_to),
        ("to", &mut envelope.to),
        ("cc", &mut envelope.cc),
        ("bcc", &mut envelope.bcc),
    ];
    for (wanted, list) in lists {
        if is(wanted) {
            // Those of From are also used for Sender and Reply-To ([`complete`]).
            let times = if wanted == "from" { 3 } else { 1 };
            room.keep_addresses(address::parse_list(&header::unfold(raw)), list, times);
            return;
        }
    }
}

/// The addresses of an address field as in its envelope, if some were written with a comment, a
/// space or a quote in them: a search looks for `mailbox@host` in the envelope (RFC 3501 §6.4.4),
/// and would not find it in the field's own text.
pub(super) fn plain_addresses(name: &[u8], raw: &[u8]) -> Option<String> {
    let named = ["from", "sender", "reply-to", "to", "cc", "bcc"];
    if !named.iter().any(|wanted| name.eq_ignore_ascii_case(wanted.as_bytes())) || !is_broken_up(raw) {
        return None;
    }
    let value = header::unfold(raw);
    let (addresses, _) = address::parse_list(&value);
    let plain =
        addresses.iter().filter_map(|a| Some(format!("{}@{}", a.mailbox.as_ref()?, a.host.as_ref()?)));
    let plain: Vec<String> = plain.filter(|address| !value.contains(address.as_str())).collect();
    (!plain.is_empty()).then(|| plain.join(", "))
}

/// Whether an `@` of the field is next to characters that its address does not have.
fn is_broken_up(raw: &[u8]) -> bool {
    let stray = |byte: Option<&u8>| byte.is_some_and(|b| b" \t\r\n()\"".contains(b));
    memchr::memchr_iter(b'@', raw)
        .any(|at| stray(at.checked_sub(1).and_then(|before| raw.get(before))) || stray(raw.get(at + 1)))
}

/// Completes an envelope at the end of its header: "If the Sender or Reply-To lines are absent in
/// the header, or are present but empty, the server sets the corresponding member of the envelope
/// to be the same value as the from member" (RFC 3501 §7.4.2). Their budget was taken with From.
pub(super) fn complete(envelope: &mut Envelope) {
    if envelope.sender.is_empty() {
        envelope.sender = envelope.from.clone();
    }
    if envelope.reply_to.is_empty() {
        envelope.reply_to = envelope.from.clone();
    }
}
