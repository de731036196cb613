//! The Gregorian calendar, also for days before it was in use.

/// Days of a month; 0 if it is none.
pub(super) fn days_in(month: u32, year: i64) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar (Howard Hinnant's `days_from_civil`).
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a number of days since 1970-01-01; the inverse of [`days_from_civil`].
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = (if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 }) as u32;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

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
