//! Days by the year and by the week, which some programs write in header fields.

use sealpost_base::calendar::days_from_civil;

/// Days since 1970-01-01 of a day of the year, from 1 on; `None` if the year has no such day.
pub(super) fn of_year(year: i64, day: u32) -> Option<i64> {
    let days = days_from_civil(year, 1, 1) + i64::from(day) - 1;
    (day > 0 && days < days_from_civil(year + 1, 1, 1)).then_some(days)
}

/// Days since 1970-01-01 of a day of a week, both from 1 on; `None` if the year has no such week (ISO 8601).
pub(super) fn of_week(year: i64, week: u32, weekday: u32) -> Option<i64> {
    // The first week has January 4th in it, and weeks begin on Monday; 1970-01-01 was a Thursday.
    let monday = |year: i64| {
        let fourth = days_from_civil(year, 1, 4);
        fourth - (fourth + 3).rem_euclid(7)
    };
    let start = monday(year) + (i64::from(week) - 1) * 7;
    let is_there = week > 0 && start < monday(year + 1) && (1..=7).contains(&weekday);
    is_there.then(|| start + i64::from(weekday) - 1)
}
