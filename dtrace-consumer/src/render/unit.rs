//! Units of aggregated values.

use std::fmt;
use std::str::FromStr;

/// The unit of the values of an aggregation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A unit that has no multiples.
    Other(String),
}

impl FromStr for Unit {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "s" => Self::Seconds,
            "B" => Self::Bytes,
            _ => Self::from_word(text).unwrap_or_else(|| Self::Other(text.to_owned())),
        })
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "µs",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Bytes => "B",
            Self::Other(name) => name,
        })
    }
}

impl Unit {
    fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "ns" | "nsec" | "nsecs" | "nanoseconds" => Self::Nanoseconds,
            "us" | "µs" | "usec" | "usecs" | "microseconds" => Self::Microseconds,
            "ms" | "msec" | "msecs" | "milliseconds" => Self::Milliseconds,
            "sec" | "secs" | "seconds" => Self::Seconds,
            "bytes" => Self::Bytes,
            _ => return None,
        })
    }

    /// Returns the unit that the name of an aggregation ends with: `@ns`, `@latency_us`, `@sent_bytes`.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::from_word(name.rsplit('_').next()?)
    }

    /// Returns the factor to the smallest unit of the same kind, and the units of this kind by their factors.
    #[cfg(feature = "pictures")]
    const fn scale(&self) -> Option<(f64, &'static [(f64, &'static str)])> {
        const TIME: &[(f64, &str)] = &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
        const SIZE: &[(f64, &str)] = &[
            (1_099_511_627_776.0, "TiB"),
            (1_073_741_824.0, "GiB"),
            (1_048_576.0, "MiB"),
            (1024.0, "KiB"),
            (1.0, "B"),
        ];
        Some(match self {
            Self::Nanoseconds => (1.0, TIME),
            Self::Microseconds => (1e3, TIME),
            Self::Milliseconds => (1e6, TIME),
            Self::Seconds => (1e9, TIME),
            Self::Bytes => (1.0, SIZE),
            Self::Other(_) => return None,
        })
    }

    /// Returns a value with three significant digits in a multiple of the unit: `4.19 ms`.
    #[cfg(feature = "pictures")]
    fn rounded(&self, value: i64) -> Option<String> {
        let (factor, units) = self.scale()?;
        let smallest = value as f64 * factor;
        let (one, name) = units
            .iter()
            .find(|(one, _)| smallest.abs() >= *one)
            .or_else(|| units.iter().find(|(one, _)| *one == factor))?;
        let amount = smallest / one;
        let digits = if amount.abs() < 10.0 { 2 } else { usize::from(amount.abs() < 100.0) };
        let amount = format!("{amount:.digits$}");
        let amount = match amount.contains('.') {
            true => amount.trim_end_matches('0').trim_end_matches('.'),
            false => &amount,
        };
        Some(format!("{amount} {name}"))
    }

    /// Returns a label for each value: rounded, in multiples of the unit, unless two labels would be equal.
    #[cfg(feature = "pictures")]
    pub(in crate::render) fn labels(unit: Option<&Self>, values: &[i64]) -> Vec<String> {
        let rounded: Option<Vec<String>> =
            unit.and_then(|unit| values.iter().map(|value| unit.rounded(*value)).collect());
        let exact = || values.iter().map(i64::to_string).collect();
        let is_distinct = |labels: &Vec<String>| labels.windows(2).all(|two| two[0] != two[1]);
        rounded.filter(is_distinct).unwrap_or_else(exact)
    }

    /// Returns whether [`labels`](Self::labels) name the unit themselves.
    #[cfg(feature = "pictures")]
    pub(in crate::render) fn is_in(labels: &[String]) -> bool {
        labels.iter().any(|label| label.contains(' '))
    }
}

/// The units of the aggregations of a run: by name, and of all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Units {
    named: Vec<(String, Unit)>,
    others: Option<Unit>,
}

impl Units {
    /// Adds `UNIT` for all aggregations, or `AGGREGATION=UNIT` for one, with or without its `@`.
    pub fn add(&mut self, text: &str) {
        let Some((name, unit)) = text.split_once('=') else {
            self.others = text.parse().ok();
            return;
        };
        let Ok(unit) = unit.parse();
        self.named.push((name.trim_start_matches('@').to_owned(), unit));
    }

    /// Returns the unit of an aggregation: the one that was added last for its name, or the one that its name ends with, or the
    /// one for all.
    pub fn of(&self, name: &str) -> Option<Unit> {
        // The compiler's name of the aggregation without a name.
        let name = if name == "_" { "" } else { name };
        let named = self.named.iter().rfind(|(of, _)| of == name).map(|(_, unit)| unit.clone());
        named.or_else(|| Unit::of_name(name)).or_else(|| self.others.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_options() {
        let mut units = Units::default();
        for text in ["ms", "@sizes=B", "=us", "depth=frames"] {
            units.add(text);
        }
        let of = |name: &str| units.of(name).map(|unit| unit.to_string());
        for (name, unit) in [
            ("latency", "ms"),
            ("latency_ns", "ns"),
            ("nsecs", "ns"),
            ("sizes", "B"),
            ("_", "µs"),
            ("depth", "frames"),
        ] {
            assert_eq!(of(name).as_deref(), Some(unit), "{name}");
        }
        assert_eq!(Units::default().of("columns"), None);
        // A name with one letter says nothing about its unit.
        assert_eq!(Units::default().of("s"), None);
    }

    #[cfg(feature = "pictures")]
    #[test]
    fn labels_are_short_and_distinct() {
        let labels = |unit: Unit, values: &[i64]| Unit::labels(Some(&unit), values).join("|");
        let powers = [0, 1, 512, 1024, 4_194_304, 134_217_728, 4_294_967_296];
        assert_eq!(
            labels(Unit::Nanoseconds, &powers),
            "0 ns|1 ns|512 ns|1.02 µs|4.19 ms|134 ms|4.29 s"
        );
        assert_eq!(labels(Unit::Milliseconds, &[0, 2, 50, 1000]), "0 ms|2 ms|50 ms|1 s");
        assert_eq!(labels(Unit::Bytes, &[-1024, 1536, 1 << 40]), "-1 KiB|1.5 KiB|1 TiB");
        assert_eq!(labels(Unit::Nanoseconds, &[1_000_000, 1_000_002]), "1000000|1000002");
        assert_eq!(labels(Unit::Other("frames".into()), &[1024]), "1024");
    }
}
