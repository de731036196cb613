//! The envelope of a submission: sender and recipients for SMTP (RFC 8621 §7).

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::object::object;
use crate::read::{Fields, FromJson, Mismatch};

/// An address with its parameters for MAIL FROM or RCPT TO.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EnvelopeAddress {
    /// The address: of one line, else it is for the session to judge. Empty is the null sender.
    pub email: String,
    /// Parameters, decoded, by keyword; null for those without a value.
    pub parameters: Option<BTreeMap<String, Option<String>>>,
}

impl FromJson for EnvelopeAddress {
    fn expected() -> String {
        "an object with email and parameters".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let Value::Object(members) = value else { return Err(Mismatch::new(Self::expected(), &value)) };
        let mut fields = Fields::from(members);
        let email: String = fields.required("email")?;
        let parameters: Option<BTreeMap<String, Option<String>>> = fields.optional("parameters")?;
        fields.finish()?;
        if email.contains(char::is_control) {
            return Err(Mismatch::because("an address has no control characters").within("email"));
        }
        for name in parameters.iter().flat_map(BTreeMap::keys) {
            if !is_keyword(name) {
                let why = "a parameter is named by letters, digits and hyphens (RFC 5321 §4.1.2)";
                return Err(Mismatch::because(why).within(name).within("parameters"));
            }
        }
        Ok(EnvelopeAddress { email, parameters })
    }
}

/// esmtp-keyword = (ALPHA / DIGIT) *(ALPHA / DIGIT / "-")
fn is_keyword(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('-')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

object! {
    /// Sender and recipients.
    pub struct Envelope {
        /// Where reports go.
        mail_from: EnvelopeAddress = "mailFrom" [required],
        /// Who gets the message.
        rcpt_to: Vec<EnvelopeAddress> = "rcptTo" [required],
    }
}
