//! Converts JMAP filters to search filters (RFC 8621 §4.4.1).

use std::collections::HashMap;

use sealpost_base::limits::JMAP_FILTER_WORDS;
use sealpost_jmap::email::{EmailCondition, HeaderCondition, Keyword, words};
use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::standard::{Filter, Operator};
use sealpost_jmap::{GivenId, MethodError};
use sealpost_search::TextPart;
use sealpost_search::emails::{EmailFilter, EmailKeyword, KeywordOf, MailboxPlace};

use super::keywords::searched_as;
use crate::mailbox::place_of_id;
use crate::method::Failure;
use crate::scope::{Logs, Scope};

/// The filter of a query. `None` matches every email.
///
/// # Errors
/// `unsupportedFilter` if it has too many words.
pub(super) async fn filter_of(
    scope: &Scope<'_>,
    filter: Option<&Filter<EmailCondition>>,
) -> Result<EmailFilter, Failure> {
    let Some(filter) = filter else { return Ok(EmailFilter::Always(true)) };
    let mut ids = Vec::new();
    mailboxes_in(filter, &mut ids);
    let places = match ids.is_empty() {
        true => HashMap::new(),
        false => {
            let of = |logs: &Logs<'_>, given: &GivenId| {
                let place = place_of_id(logs, given.resolve(&scope.created)?)?;
                logs.is_readable(place.0).then(|| (given.clone(), place))
            };
            scope.look(|logs| ids.iter().filter_map(|given| of(logs, given)).collect()).await?
        }
    };
    let mut translator = Translator { places, left: JMAP_FILTER_WORDS };
    Ok(translator.filter(filter)?)
}

/// Collects the mailboxes that a filter names.
fn mailboxes_in<'f>(filter: &'f Filter<EmailCondition>, ids: &mut Vec<&'f GivenId>) {
    match filter {
        Filter::Operator { conditions, .. } => {
            conditions.iter().for_each(|condition| mailboxes_in(condition, ids));
        }
        Filter::Condition(condition) => {
            ids.extend(&condition.in_mailbox);
            ids.extend(condition.in_mailbox_other_than.iter().flatten());
        }
    }
}

struct Translator {
    /// The mailboxes that exist, by id.
    places: HashMap<GivenId, MailboxPlace>,
    /// How many more words the filter may have.
    left: usize,
}

impl Translator {
    fn filter(&mut self, filter: &Filter<EmailCondition>) -> Result<EmailFilter, MethodError> {
        match filter {
            Filter::Condition(condition) => self.condition(condition),
            Filter::Operator { operator, conditions } => {
                let each = conditions.iter().map(|condition| self.filter(condition));
                let each: Vec<EmailFilter> = each.collect::<Result<_, _>>()?;
                Ok(match operator {
                    Operator::And => EmailFilter::All(each),
                    Operator::Or => EmailFilter::Any(each),
                    Operator::Not => EmailFilter::Not(Box::new(EmailFilter::Any(each))),
                })
            }
        }
    }

    /// Converts a condition: all of its members must match.
    fn condition(&mut self, condition: &EmailCondition) -> Result<EmailFilter, MethodError> {
        let mut all = Vec::new();
        // A mailbox that does not exist matches no email.
        all.extend(condition.in_mailbox.as_ref().map(|id| {
            self.places.get(id).map_or(EmailFilter::Always(false), |place| EmailFilter::In(*place))
        }));
        all.extend(condition.in_mailbox_other_than.as_ref().map(|ids| {
            EmailFilter::InOtherThan(ids.iter().filter_map(|id| self.places.get(id).copied()).collect())
        }));
        all.extend(condition.before.map(|date| EmailFilter::ReceivedBefore(date.timestamp())));
        all.extend(condition.after.map(|date| EmailFilter::ReceivedSince(date.timestamp())));
        all.extend(condition.min_size.map(EmailFilter::SizeFrom));
        all.extend(condition.max_size.map(EmailFilter::SizeBelow));
        let keyword = |of, keyword: &Keyword| EmailFilter::Keyword(of, keyword_of(keyword));
        let no_keyword = |of, name: &Keyword| EmailFilter::Not(Box::new(keyword(of, name)));
        let EmailCondition { all_in_thread_have_keyword, some_in_thread_have_keyword, .. } = condition;
        let EmailCondition { none_in_thread_have_keyword, has_keyword, not_keyword, .. } = condition;
        all.extend(all_in_thread_have_keyword.iter().map(|name| keyword(KeywordOf::AllInThread, name)));
        all.extend(some_in_thread_have_keyword.iter().map(|name| keyword(KeywordOf::SomeInThread, name)));
        all.extend(none_in_thread_have_keyword.iter().map(|name| no_keyword(KeywordOf::SomeInThread, name)));
        all.extend(has_keyword.iter().map(|name| keyword(KeywordOf::Email, name)));
        all.extend(not_keyword.iter().map(|name| no_keyword(KeywordOf::Email, name)));
        all.extend(condition.has_attachment.map(|has| match has {
            true => EmailFilter::Attached,
            false => EmailFilter::Not(Box::new(EmailFilter::Attached)),
        }));
        let field = |name: &str| TextPart::Field(name.to_owned());
        for (text, part) in [
            (&condition.text, TextPart::Anywhere),
            (&condition.from, field("from")),
            (&condition.to, field("to")),
            (&condition.cc, field("cc")),
            (&condition.bcc, field("bcc")),
            (&condition.subject, field("subject")),
            (&condition.body, TextPart::Body),
        ] {
            if let Some(text) = text {
                all.extend(self.text(&part, text)?);
            }
        }
        if let Some(HeaderCondition { name, text }) = &condition.header {
            // An empty text matches any email that has the field.
            all.push(EmailFilter::Text(field(name), String::new()));
            all.extend(self.text(&field(name), text.as_deref().unwrap_or_default())?);
        }
        Ok(match all.len() {
            1 => all.remove(0),
            _ => EmailFilter::All(all),
        })
    }

    /// One filter for each word of a text.
    fn text(&mut self, part: &TextPart, text: &str) -> Result<Vec<EmailFilter>, MethodError> {
        let words = words(text);
        self.left = self.left.checked_sub(words.len()).ok_or_else(|| {
            let text = format!("filter has more than {JMAP_FILTER_WORDS} words");
            MethodError::from(MethodErrorType::UnsupportedFilter).describe(text)
        })?;
        Ok(words.into_iter().map(|word| EmailFilter::Text(part.clone(), word)).collect())
    }
}

/// Converts a keyword for the search.
pub(super) fn keyword_of(keyword: &Keyword) -> EmailKeyword {
    match searched_as(keyword) {
        Some(flag) => EmailKeyword::System(flag),
        None => EmailKeyword::Named(keyword.as_str().to_owned()),
    }
}
