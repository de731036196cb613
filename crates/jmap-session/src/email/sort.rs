//! Converts JMAP sort orders to search orders (RFC 8621 §4.4.2).

use sealpost_jmap::MethodError;
use sealpost_jmap::email::EmailSortKey as JmapKey;
use sealpost_jmap::standard::Comparator;
use sealpost_search::emails::{EmailComparator, EmailSortKey, KeywordOf};

use super::filter::keyword_of;
use crate::collation::collation;

/// The order of a query. Without comparators: by time of receipt, newest first.
///
/// # Errors
/// `unsupportedSort` for a collation that the Session object does not list.
pub(super) fn sort_of(sort: &[Comparator<JmapKey>]) -> Result<Vec<EmailComparator>, MethodError> {
    if sort.is_empty() {
        return Ok(vec![EmailComparator { key: EmailSortKey::Received, descending: true }]);
    }
    sort.iter()
        .map(|comparator| {
            let by = || collation(comparator.collation.as_deref());
            let key = match &comparator.key {
                JmapKey::ReceivedAt => EmailSortKey::Received,
                JmapKey::Size => EmailSortKey::Size,
                JmapKey::SentAt => EmailSortKey::Sent,
                JmapKey::From => EmailSortKey::From(by()?),
                JmapKey::To => EmailSortKey::To(by()?),
                JmapKey::Subject => EmailSortKey::Subject(by()?),
                JmapKey::HasKeyword(keyword) => EmailSortKey::Keyword(KeywordOf::Email, keyword_of(keyword)),
                JmapKey::AllInThreadHaveKeyword(keyword) => {
                    EmailSortKey::Keyword(KeywordOf::AllInThread, keyword_of(keyword))
                }
                JmapKey::SomeInThreadHaveKeyword(keyword) => {
                    EmailSortKey::Keyword(KeywordOf::SomeInThread, keyword_of(keyword))
                }
            };
            Ok(EmailComparator { key, descending: !comparator.is_ascending })
        })
        .collect()
}
