//! What `check` says of objects beside a log that are none of it: at the paths of entries, and in
//! the folder of manifests.

use sealpost_base::{Position, Result};
use sealpost_journal::{Journal, Survey, UnfitObject};

use super::report::Finding;

/// Positions that a log lacks, although later entries refer to earlier ones: the account is not
/// opened.
#[derive(Default)]
pub struct Gaps(Vec<(Position, Position)>);

impl Gaps {
    /// From a position up to the one before another.
    pub fn add(&mut self, from: Position, to: Position) {
        self.0.push((from, to));
    }

    fn has(&self, position: Position) -> bool {
        self.0.iter().any(|(from, to)| (*from..*to).contains(&position))
    }
}

/// What there is at the paths of entries and is none.
pub fn entries(survey: &Survey, gaps: &Gaps) -> Vec<Finding> {
    survey.unfit.iter().map(|unfit| Finding::object(&unfit.path, description(survey, gaps, unfit))).collect()
}

fn description(survey: &Survey, gaps: &Gaps, unfit: &UnfitObject) -> String {
    let UnfitObject { position, is_damaged, why, .. } = unfit;
    let what = match is_damaged {
        true => format!("log entry {position} is damaged ({why})"),
        false => format!("not a log entry ({why})"),
    };
    if survey.is_far(*position) {
        return format!(
            "not a log entry ({why}), and far beyond the end of the log, which is at {}: it is never read; \
             \"sealpost account repair --remove-noise\" removes it",
            survey.end()
        );
    }
    match is_damaged {
        true if *position > survey.end() => format!(
            "{what}; it is the last one: nothing is appended after it, and mail for the account is deferred. \
             A backup may have it; \"sealpost account repair\" gives it up"
        ),
        false if *position > survey.end() => format!("{what}: the log continues after it"),
        _ if gaps.has(*position) => format!(
            "{what}, and others follow the entry that was there: the account is not opened until that entry is \
             restored (a backup may have it) or \"sealpost account repair\" gives it up"
        ),
        true => format!("{what}; the log continues without it"),
        false => format!("{what}; it is skipped"),
    }
}

/// What there is in the folder of manifests and counts for nothing. Needs no key of the account.
///
/// # Errors
/// What the store says.
pub async fn marks(journal: &Journal) -> Result<Vec<Finding>> {
    let unfit = journal.survey_marks().await?;
    let description = |why: &str| {
        format!(
            "this object is not a checkpoint's manifest or a mark that this server wrote ({why}); it is skipped; \
             \"sealpost account repair --remove-noise\" removes it"
        )
    };
    Ok(unfit.into_iter().map(|(path, why)| Finding::object(path, description(&why))).collect())
}
