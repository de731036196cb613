//! [`VacationSettings`]: what a vacation response says, and when (RFC 8621 §8).

use minicbor::{Decode, Encode};
use sealpost_base::{Error, Result, Timestamp, limits};
use zeroize::Zeroizing;

/// What is answered to mail while the owner is away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct VacationSettings {
    /// Whether anything is answered.
    #[n(0)]
    pub is_enabled: bool,
    /// Mail since then; `None`: at once.
    #[n(1)]
    pub from: Option<Timestamp>,
    /// Mail before then; `None`: for ever.
    #[n(2)]
    pub to: Option<Timestamp>,
    /// The subject; `None`: that of the message, behind `Auto:`.
    #[n(3)]
    pub subject: Option<String>,
    /// The plain text.
    #[n(4)]
    pub text: Option<String>,
    /// The HTML.
    #[n(5)]
    pub html: Option<String>,
    /// The number of the change that began this vacation: senders get a reply in each. Set by
    /// [`super::Vacations::change`].
    #[n(6)]
    #[cbor(default)]
    pub round: u64,
}

/// Which texts of the settings are too long.
type TextLimit = (&'static str, usize, fn(&VacationSettings) -> Option<&String>);

/// The limits, by the names of RFC 8621.
const LIMITS: [TextLimit; 3] = [
    ("subject", limits::VACATION_SUBJECT_BYTES, |settings| settings.subject.as_ref()),
    ("textBody", limits::VACATION_TEXT_BYTES, |settings| settings.text.as_ref()),
    ("htmlBody", limits::VACATION_TEXT_BYTES, |settings| settings.html.as_ref()),
];

impl VacationSettings {
    /// Whether mail that arrives at that time is answered.
    pub fn is_active(&self, now: Timestamp) -> bool {
        // RFC 8621 §8: on or after `fromDate`, before `toDate`.
        self.is_enabled && self.from.is_none_or(|from| from <= now) && self.to.is_none_or(|to| now < to)
    }

    /// What cannot be of these settings: a property of RFC 8621, and why.
    pub fn wrong(&self) -> Option<(&'static str, String)> {
        let too_long = LIMITS.iter().find_map(|(name, most, text)| {
            let is_too_long = text(self).is_some_and(|text| text.len() > *most);
            is_too_long.then(|| (*name, format!("{name} has more than {most} bytes")))
        });
        let is_line = |text: &String| !text.contains(char::is_control);
        let subject = || {
            let is_wrong = self.subject.as_ref().is_some_and(|subject| !is_line(subject));
            is_wrong.then(|| ("subject", "the subject has a control character".to_owned()))
        };
        let dates = || {
            let is_wrong = self.from.zip(self.to).is_some_and(|(from, to)| to <= from);
            is_wrong.then(|| ("toDate", "toDate is not after fromDate".to_owned()))
        };
        too_long.or_else(subject).or_else(dates)
    }

    pub(super) fn check(&self) -> Result<()> {
        self.wrong().map_or(Ok(()), |(_, why)| Err(Error::invalid(why)))
    }

    /// A vacation that is switched on, or moved to another date, is a new one: senders who got a reply
    /// in the one before get another. A corrected text does not begin a new one.
    pub(super) fn begin_round(&mut self, before: &VacationSettings, number: u64) {
        let begins = self.is_enabled && (!before.is_enabled || self.from != before.from);
        self.round = if begins { number } else { before.round };
    }

    pub(super) fn encode(&self) -> Result<Zeroizing<Vec<u8>>> {
        // Large enough for any: what grows is not wiped where it was.
        let texts: usize = LIMITS.iter().filter_map(|(_, _, text)| text(self)).map(String::len).sum();
        let mut plain = Zeroizing::new(Vec::with_capacity(texts + 256));
        minicbor::encode(self, &mut *plain)
            .map_err(|_| Error::internal("a vacation response cannot be encoded"))?;
        Ok(plain)
    }

    pub(super) fn decode(plain: &[u8]) -> Result<Self> {
        minicbor::decode(plain)
            .map_err(|e| Error::corrupt("a vacation response cannot be read").with_source(e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_active_between_its_dates() {
        let at = Timestamp;
        for (is_enabled, from, to, now, is_active) in [
            (true, None, None, 5, true),
            (false, None, None, 5, false),
            (true, Some(5), None, 4, false),
            (true, Some(5), None, 5, true),
            (true, None, Some(6), 5, true),
            (true, None, Some(5), 5, false),
            (true, Some(4), Some(6), 5, true),
        ] {
            let (from, to) = (from.map(at), to.map(at));
            let settings = VacationSettings { is_enabled, from, to, ..VacationSettings::default() };
            assert_eq!(settings.is_active(at(now)), is_active, "{settings:?} at {now}");
        }
    }

    #[test]
    fn long_texts_and_wrong_dates_are_refused() {
        let of = |bytes: usize| Some("x".repeat(bytes));
        let fits = VacationSettings {
            subject: of(limits::VACATION_SUBJECT_BYTES),
            text: of(limits::VACATION_TEXT_BYTES),
            html: of(limits::VACATION_TEXT_BYTES),
            from: Some(Timestamp(1)),
            to: Some(Timestamp(2)),
            ..VacationSettings::default()
        };
        assert_eq!(fits.wrong(), None);
        assert!(fits.encode().unwrap().len() < limits::MAIL_NOTE_BYTES / 2);
        assert_eq!(VacationSettings::decode(&fits.encode().unwrap()).unwrap(), fits);
        let wrong = |settings: VacationSettings| settings.wrong().unwrap().0;
        let more = |most: usize| of(most + 1);
        assert_eq!(
            wrong(VacationSettings { subject: more(limits::VACATION_SUBJECT_BYTES), ..fits.clone() }),
            "subject"
        );
        assert_eq!(
            wrong(VacationSettings { subject: Some("a\r\nBcc: b".to_owned()), ..fits.clone() }),
            "subject"
        );
        assert_eq!(
            wrong(VacationSettings { text: more(limits::VACATION_TEXT_BYTES), ..fits.clone() }),
            "textBody"
        );
        assert_eq!(
            wrong(VacationSettings { html: more(limits::VACATION_TEXT_BYTES), ..fits.clone() }),
            "htmlBody"
        );
        assert_eq!(wrong(VacationSettings { to: Some(Timestamp(1)), ..fits }), "toDate");
    }
}
