//! ENVELOPE, BODY and BODYSTRUCTURE (RFC 3501 §7.4.2), from the stored structure.

use sealpost_imap::write::Writer;
use sealpost_mime::Parameter;
use sealpost_mime::header::params::{self, joined};
use sealpost_mime::structure::{
    StoredAddress, StoredDisposition, StoredEnvelope, StoredKind, StoredParameter, StoredPart,
};

/// `envelope`
pub(super) fn envelope(out: &mut Writer, envelope: &StoredEnvelope<'_>) {
    out.open();
    out.nstring(envelope.date).space().nstring(envelope.subject);
    let lists =
        [&envelope.from, &envelope.sender, &envelope.reply_to, &envelope.to, &envelope.cc, &envelope.bcc];
    for list in lists {
        out.space();
        addresses(out, list);
    }
    out.space().nstring(envelope.in_reply_to);
    out.space().nstring(envelope.message_id).close();
}

/// `"(" 1*address ")" / nil`: no spaces between addresses.
fn addresses(out: &mut Writer, list: &[StoredAddress<'_>]) {
    if list.is_empty() {
        out.nil();
        return;
    }
    out.open();
    for address in list {
        out.open().nstring(address.name).space().nstring(address.adl);
        out.space().nstring(address.mailbox).space().nstring(address.host).close();
    }
    out.close();
}

/// The form of a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    /// BODYSTRUCTURE instead of BODY.
    pub(super) extended: bool,
    /// The form of joined parameter values (RFC 2231 §6).
    pub(super) parameters: params::Form,
}

/// `body`: BODYSTRUCTURE or BODY of the next part, with its children.
pub(super) fn body<'p, 'a: 'p>(
    out: &mut Writer,
    parts: &mut impl Iterator<Item = &'p StoredPart<'a>>,
    form: Form,
) {
    let Some(part) = parts.next() else { return };
    out.open();
    match &part.kind {
        StoredKind::Multipart(count @ 1..) => {
            // `1*body SP media-subtype`: no spaces between the parts.
            for _ in 0..*count {
                body(out, parts, form);
            }
            out.space().string(part.subtype);
            if form.extended {
                out.space();
                parameters(out, &part.params, form);
                tail(out, part, form);
            }
        }
        StoredKind::Message(inner_envelope) if part.is("message", "rfc822") => {
            fields(out, "message", "rfc822", part, form);
            out.space();
            envelope(out, inner_envelope);
            out.space();
            body(out, parts, form);
            out.space().number(part.lines);
            single_tail(out, part, form);
        }
        _ => {
            // A part that was not parsed (nested too deep, or malformed) must not have a type whose grammar
            // requires contents: RFC 3501 §9, `body-type-mpart` and `body-type-msg`.
            let opaque = part.media_type == "multipart" || part.is("message", "rfc822");
            let (media_type, subtype) =
                if opaque { ("application", "octet-stream") } else { (part.media_type, part.subtype) };
            fields(out, media_type, subtype, part, form);
            if media_type == "text" {
                out.space().number(part.lines);
            }
            single_tail(out, part, form);
            if matches!(part.kind, StoredKind::Message(_)) {
                skip(parts);
            }
        }
    }
    out.close();
}

/// Skips the next part with its children.
fn skip<'p, 'a: 'p>(parts: &mut impl Iterator<Item = &'p StoredPart<'a>>) {
    let mut left = 1usize;
    while left > 0 {
        let Some(part) = parts.next() else { return };
        left = left - 1
            + match part.kind {
                StoredKind::Leaf => 0,
                StoredKind::Multipart(count) => count as usize,
                StoredKind::Message(_) => 1,
            };
    }
}

/// Media type and `body-fields`.
fn fields(out: &mut Writer, media_type: &str, subtype: &str, part: &StoredPart<'_>, form: Form) {
    out.string(media_type).space().string(subtype).space();
    parameters(out, &part.params, form);
    out.space().nstring(part.content_id).space().nstring(part.description);
    out.space().string(part.encoding).space().number(part.size());
}

/// `body-ext-1part`
fn single_tail(out: &mut Writer, part: &StoredPart<'_>, form: Form) {
    if form.extended {
        out.space().nstring(part.md5);
        tail(out, part, form);
    }
}

/// The end of both kinds of extension data: disposition, language, location.
fn tail(out: &mut Writer, part: &StoredPart<'_>, form: Form) {
    out.space();
    disposition(out, part.disposition.as_ref(), form);
    out.space();
    match &*part.language {
        [] => out.nil(),
        [one] => out.string(one),
        several => out.list(several, |w, language| {
            w.string(language);
        }),
    };
    out.space().nstring(part.location);
}

fn disposition(out: &mut Writer, disposition: Option<&StoredDisposition<'_>>, form: Form) {
    let Some(disposition) = disposition else {
        out.nil();
        return;
    };
    out.open().string(disposition.kind).space();
    parameters(out, &disposition.params, form);
    out.close();
}

/// `body-fld-param`
fn parameters(out: &mut Writer, params: &[StoredParameter<'_>], form: Form) {
    if params.is_empty() {
        out.nil();
    } else if params.iter().any(|param| param.name.contains('*')) {
        let params: Vec<Parameter> =
            params.iter().map(|param| Parameter::new(param.name, param.value)).collect();
        out.list(&joined(&params, form.parameters), |w, param| {
            w.string(&param.name).space().string(&param.value);
        });
    } else {
        out.list(params, |w, param| {
            w.string(param.name).space().string(param.value);
        });
    }
}
