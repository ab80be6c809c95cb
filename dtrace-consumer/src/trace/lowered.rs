//! Messages about buffers that are smaller than requested.

use dtrace_abi::option::{OptionId, UNSET};
use dtrace_compiler::options::Options;

/// The options for sizes of buffers, as messages name them.
const BUFFERS: [(OptionId, &str); 4] = [
    (OptionId::Bufsize, "buffer size"),
    (OptionId::Aggsize, "aggregation size"),
    (OptionId::Specsize, "speculation size"),
    (OptionId::Dynvarsize, "dynamic variable size"),
];
/// A difference of less than this many bytes is not reported.
const WORD: i64 = 8;

/// Returns a number of bytes in the largest unit of which it is a multiple.
fn amount(bytes: i64) -> String {
    let units = [(60, 'e'), (50, 'p'), (40, 't'), (30, 'g'), (20, 'm'), (10, 'k')];
    let unit = units.into_iter().find(|(shift, _)| bytes >> shift != 0);
    match unit.filter(|(shift, _)| bytes & ((1_i64 << shift) - 1) == 0) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => format!("{bytes} bytes"),
    }
}

/// Returns a message for each buffer that is smaller than the user requested, with its size (`go`, dtrace.c). dtrace(1) reports its
/// own defaults, too. `made` requests the numbers of options and the sizes that the kernel has made of them.
pub(super) fn messages<E>(
    options: &Options,
    made: impl FnOnce() -> Result<Vec<(u32, i64)>, E>,
) -> Result<Vec<String>, E> {
    let defaults = Options::default();
    let requested = BUFFERS.map(|(id, name)| {
        let value = Some(options.get(id)).filter(|value| *value != UNSET);
        (id, name, value.filter(|value| defaults.number(id) != Some(*value)))
    });
    if requested.iter().all(|(.., value)| value.is_none()) {
        return Ok(Vec::new());
    }
    let made = made()?;
    let lowered = requested.into_iter().filter_map(|(id, name, value)| {
        let (_, size) = made.iter().find(|(option, _)| *option == id.number())?;
        (*size > 0 && *size < value? - WORD).then(|| format!("{name} lowered to {}", amount(*size)))
    });
    Ok(lowered.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_as_dtrace_prints_them() {
        for (bytes, text) in [
            (65536, "64k"),
            (4 << 20, "4m"),
            (3 << 19, "1572864 bytes"),
            (1 << 30, "1g"),
            (1000, "1000 bytes"),
            (2048, "2k"),
        ] {
            assert_eq!(amount(bytes), text);
        }
    }
}
