//! Days of the Gregorian calendar.

/// Days from the first of January 1970 to a day from 2000 on. Months and days count from 1.
pub fn days(year: u64, month: u64, day: u64) -> u64 {
    // Years that begin in March have the day that comes and goes at their end.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = year * 365 + year / 4 - year / 100 + year / 400;
    // March to July and August to December have the same lengths, 153 days each.
    before + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::days;

    #[test]
    fn days_are_those_of_the_calendar() {
        // date -d DAY +%s, by 86 400.
        assert_eq!(days(2000, 1, 1), 10_957);
        assert_eq!(days(2000, 2, 29), 11_016);
        assert_eq!(days(2000, 3, 1), 11_017);
        assert_eq!(days(2024, 12, 31), 20_088);
        assert_eq!(days(2026, 11, 22), 20_779);
    }
}
