//! ENVELOPE, BODY and BODYSTRUCTURE (RFC 3501 §7.4.2), from what the scanner stored.

use sealpost_imap::write::Writer;
use sealpost_mime::header::params::{self, joined};
use sealpost_mime::{Address, Disposition, Envelope, Parameter, Part, PartKind};

/// `envelope`
pub(super) fn envelope(out: &mut Writer, envelope: &Envelope) {
    out.open();
    out.nstring(envelope.date.as_deref()).space().nstring(envelope.subject.as_deref());
    let lists =
        [&envelope.from, &envelope.sender, &envelope.reply_to, &envelope.to, &envelope.cc, &envelope.bcc];
    for list in lists {
        out.space();
        addresses(out, list);
    }
    out.space().nstring(envelope.in_reply_to.as_deref());
    out.space().nstring(envelope.message_id.as_deref()).close();
}

/// `"(" 1*address ")" / nil`: addresses follow each other without a space.
fn addresses(out: &mut Writer, list: &[Address]) {
    if list.is_empty() {
        out.nil();
        return;
    }
    out.open();
    for address in list {
        out.open().nstring(address.name.as_deref()).space().nstring(address.adl.as_deref());
        out.space().nstring(address.mailbox.as_deref()).space().nstring(address.host.as_deref()).close();
    }
    out.close();
}

/// How a structure is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    /// BODYSTRUCTURE, else BODY.
    pub(super) extended: bool,
    /// How the values of parameters are told that were put together (RFC 2231 §6).
    pub(super) parameters: params::Form,
}

/// `body`: BODYSTRUCTURE or BODY.
pub(super) fn body(out: &mut Writer, part: &Part, form: Form) {
    out.open();
    match &part.kind {
        PartKind::Multipart(parts) if !parts.is_empty() => {
            // `1*body SP media-subtype`: the parts follow each other without a space.
            for child in parts {
                body(out, child, form);
            }
            out.space().string(&part.subtype);
            if form.extended {
                out.space();
                parameters(out, &part.params, form);
                tail(out, part, form);
            }
        }
        PartKind::Message(inner_envelope, inner) if part.is("message", "rfc822") => {
            fields(out, "message", "rfc822", part, form);
            out.space();
            envelope(out, inner_envelope);
            out.space();
            body(out, inner, form);
            out.space().number(part.lines);
            single_tail(out, part, form);
        }
        _ => {
            // What is not looked into (nested too deep, or malformed) must not have a type whose
            // grammar promises what is inside: RFC 3501 §9, `body-type-mpart` and `body-type-msg`.
            let opaque = part.media_type == "multipart" || part.is("message", "rfc822");
            let (media_type, subtype) =
                if opaque { ("application", "octet-stream") } else { (&*part.media_type, &*part.subtype) };
            fields(out, media_type, subtype, part, form);
            if media_type == "text" {
                out.space().number(part.lines);
            }
            single_tail(out, part, form);
        }
    }
    out.close();
}

/// Media type and `body-fields`.
fn fields(out: &mut Writer, media_type: &str, subtype: &str, part: &Part, form: Form) {
    out.string(media_type).space().string(subtype).space();
    parameters(out, &part.params, form);
    out.space().nstring(part.content_id.as_deref()).space().nstring(part.description.as_deref());
    out.space().string(&part.encoding).space().number(part.size());
}

/// `body-ext-1part`
fn single_tail(out: &mut Writer, part: &Part, form: Form) {
    if form.extended {
        out.space().nstring(part.md5.as_deref());
        tail(out, part, form);
    }
}

/// What both kinds of extension data end with: disposition, language, location.
fn tail(out: &mut Writer, part: &Part, form: Form) {
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
    out.space().nstring(part.location.as_deref());
}

fn disposition(out: &mut Writer, disposition: Option<&Disposition>, form: Form) {
    let Some(disposition) = disposition else {
        out.nil();
        return;
    };
    out.open().string(&disposition.kind).space();
    parameters(out, &disposition.params, form);
    out.close();
}

/// `body-fld-param`
fn parameters(out: &mut Writer, params: &[Parameter], form: Form) {
    let write = |w: &mut Writer, param: &Parameter| {
        w.string(&param.name).space().string(&param.value);
    };
    if params.is_empty() {
        out.nil();
    } else if params.iter().any(|param| param.name.contains('*')) {
        out.list(&joined(params, form.parameters), write);
    } else {
        out.list(params, write);
    }
}
