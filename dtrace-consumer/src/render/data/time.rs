//! Formats timestamps as date and time: the conversions `%Y` and `%T` of `printf`.

use jiff::Timestamp;
use jiff::tz::TimeZone;

const SECOND: i64 = 1_000_000_000;

/// Formats nanoseconds since 1970 by a pattern of strftime(3). Cuts off fractions of seconds.
fn shown(nanoseconds: u64, zone: &TimeZone, pattern: &str) -> String {
    // Every 64-bit number of nanoseconds is a valid time.
    let time = Timestamp::from_second(nanoseconds as i64 / SECOND).unwrap_or(Timestamp::UNIX_EPOCH);
    time.to_zoned(zone.clone()).strftime(pattern).to_string()
}

/// Returns a time as `%Y`: `1973 Dec  3 17:20:00`, the form of adb(1).
pub(in crate::render) fn plain(nanoseconds: u64, zone: &TimeZone) -> String {
    shown(nanoseconds, zone, "%Y %b %e %H:%M:%S")
}

/// Returns a time as `%T`: `Mon, 03 Dec 1973 17:20:00 UTC`, the form of RFC 822.
pub(in crate::render) fn rfc822(nanoseconds: u64, zone: &TimeZone) -> String {
    shown(nanoseconds, zone, "%a, %d %b %Y %H:%M:%S %Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let at = 1_000_000_000_123_456_789;
        assert_eq!(plain(at, &TimeZone::UTC), "2001 Sep  9 01:46:40");
        assert_eq!(rfc822(at, &TimeZone::UTC), "Sun, 09 Sep 2001 01:46:40 UTC");
        assert_eq!(plain(-1_000_000_000_i64 as u64, &TimeZone::UTC), "1969 Dec 31 23:59:59");
        for extreme in [i64::MIN, i64::MAX] {
            assert!(plain(extreme as u64, &TimeZone::UTC).len() == 20);
        }
    }
}
