//! Measures the time of a function in rounds: each round is a number of calls.

use std::hint::black_box;
use std::time::Instant;

use crate::subjects::Subject;

/// Nanoseconds per call, over all rounds.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// The fastest round.
    pub min: f64,
    /// The median round.
    pub median: f64,
    /// The slowest round.
    pub max: f64,
}

/// Nanoseconds per call of one function in every round.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Measures one round of `calls` calls.
    pub fn measure(&mut self, subject: Subject, calls: u32) {
        let start = Instant::now();
        black_box((subject.repeat)(black_box(u64::from(calls))));
        self.0.push(start.elapsed().as_nanos() as f64 / f64::from(calls));
    }

    /// The spread; nothing if there was no round.
    pub fn spread(&self) -> Option<Spread> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Spread { min, median: sorted[sorted.len() / 2], max })
    }
}
