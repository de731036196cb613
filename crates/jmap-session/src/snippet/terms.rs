//! The words of a filter that snippets mark.

use sealpost_jmap::email::{EmailCondition, words};
use sealpost_jmap::standard::{Filter, Operator};
use sealpost_mime::fold;

/// The words and phrases to find, case-folded; negated ones are left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) subject: Vec<String>,
    pub(super) body: Vec<String>,
}

impl Terms {
    pub(super) fn of(filter: Option<&Filter<EmailCondition>>) -> Self {
        let mut terms = Terms::default();
        if let Some(filter) = filter {
            terms.add(filter);
        }
        for list in [&mut terms.subject, &mut terms.body] {
            list.sort();
            list.dedup();
        }
        terms
    }

    fn add(&mut self, filter: &Filter<EmailCondition>) {
        match filter {
            Filter::Operator { operator: Operator::Not, .. } => {}
            Filter::Operator { conditions, .. } => {
                conditions.iter().for_each(|condition| self.add(condition));
            }
            Filter::Condition(condition) => {
                let header = condition.header.as_ref();
                let header = header.filter(|header| header.name.eq_ignore_ascii_case("subject"));
                let in_subject = [&condition.text, &condition.subject].into_iter().flatten();
                let in_subject = in_subject.chain(header.and_then(|header| header.text.as_ref()));
                self.subject.extend(in_subject.flat_map(|text| folded(text)));
                let in_body = [&condition.text, &condition.body].into_iter().flatten();
                self.body.extend(in_body.flat_map(|text| folded(text)));
            }
        }
    }
}

fn folded(text: &str) -> impl Iterator<Item = String> {
    words(text).into_iter().map(|word| fold(&word).trim().to_owned()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    fn terms(filter: Value) -> Terms {
        let arguments = json!({ "accountId": "a", "emailIds": [], "filter": filter });
        let Value::Object(arguments): Value = arguments else { return Terms::default() };
        let arguments: Map<String, Value> = arguments;
        let request = sealpost_jmap::snippet::SnippetGet::from_arguments(arguments).unwrap();
        Terms::of(request.filter.as_ref())
    }

    #[test]
    fn words_that_must_not_be_there_are_left_out() {
        let filter = json!({ "operator": "AND", "conditions": [
            { "text": "CAFÉ 'two words'", "from": "someone" },
            { "subject": "plan", "header": ["Subject", "b"] },
            { "operator": "OR", "conditions": [{ "body": "plan" }, { "body": "PLAN" }] },
            { "operator": "NOT", "conditions": [{ "text": "never" }] },
        ] });
        let found = terms(filter);
        assert_eq!(found.subject, ["b", "cafe\u{301}", "plan", "two words"]);
        assert_eq!(found.body, ["cafe\u{301}", "plan", "two words"]);
        assert_eq!(terms(json!(null)), Terms::default());
    }
}
