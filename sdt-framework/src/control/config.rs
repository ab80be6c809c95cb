//! The limits of a framework.

use core::fmt;

/// The limits of a framework. [Their tables](Self::tables) use memory permanently; the rest is for buffers and retained
/// enablings, and is reused.
///
/// On a 64-bit machine, a provider takes 216 bytes, a probe 113, an ECB 56, a consumer 56, and a CPU 128 and 8 for
/// each consumer. An open consumer takes up to 800 more, and a retained enabling up to 512. A buffer takes 256 bytes in
/// addition to its own size. Tests check these numbers.
///
/// The bytes of a probe include 33 for its names, on average over all probes. A name takes 14 bytes and its own, rounded up to
/// 8, and is stored once for all probes that have it. If the names need more than this, they take it from the rest of the memory
/// until their probes are destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Providers that can be registered at once.
    pub providers: usize,
    /// Probes that can exist at once.
    pub probes: usize,
    /// Enablings of single probes that can exist at once.
    pub ecbs: usize,
    /// Consumers that can be open at once.
    pub consumers: usize,
    /// Bytes of one CPU's buffer for a consumer that does not set the option `bufsize`.
    pub buffer: usize,
}

impl Config {
    /// Limits for a small kernel: 32 providers, 1024 probes, 2048 ECBs, 8 consumers, 64 kB for each CPU and consumer.
    pub const DEFAULT: Self =
        Self { providers: 32, probes: 1024, ecbs: 2048, consumers: 8, buffer: 64 * 1024 };

    /// Checks that each number, except `buffer`, is at least 1 and less than 2^31.
    ///
    /// # Errors
    /// [`InitError::BadCount`].
    pub fn check(&self) -> Result<(), InitError> {
        let counts = [
            ("providers", self.providers),
            ("probes", self.probes),
            ("ecbs", self.ecbs),
            ("consumers", self.consumers),
        ];
        // Ids and links are 32 bits wide.
        match counts.into_iter().find(|(_, count)| *count == 0 || *count as u64 >= 1 << 31) {
            Some((field, count)) => Err(InitError::BadCount { field, count }),
            None => Ok(()),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The reason why a framework did not accept the memory. The framework is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InitError {
    /// The framework has memory already.
    Ready,
    /// The memory does not suffice for the tables.
    TooSmall {
        /// The size of the tables in bytes.
        needed: usize,
        /// Bytes that were given.
        given: usize,
    },
    /// A field of the [`Config`] is 0, or 2^31 or more.
    BadCount {
        /// The name of the field.
        field: &'static str,
        /// Its value.
        count: usize,
    },
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("init was called already: the framework has its memory"),
            Self::TooSmall { needed, given } => write!(
                f,
                "{given} bytes of memory are too few: the tables alone need {needed}; give more, \
                 or configure fewer probes"
            ),
            Self::BadCount { field, count } => {
                write!(
                    f,
                    "{field} of the configuration is {count}, and must be from 1 to 2147483647"
                )
            }
        }
    }
}

impl core::error::Error for InitError {}
