//! Options that a consumer sends to the kernel: their numbers, names and values.

use core::ops::RangeInclusive;

use crate::limits::{FRAMES, STRING};

numbered! {
    /// An option that a consumer sends to the kernel with its program (`DTRACEOPT_*`). The names are those of `-x`
    /// (dt_options.c).
    pub enum OptionId: u32 {
        Bufsize = 0, "bufsize";
        Bufpolicy = 1, "bufpolicy";
        Dynvarsize = 2, "dynvarsize";
        Aggsize = 3, "aggsize";
        Specsize = 4, "specsize";
        Nspec = 5, "nspec";
        Strsize = 6, "strsize";
        Cleanrate = 7, "cleanrate";
        Cpu = 8, "cpu";
        Bufresize = 9, "bufresize";
        Grabanon = 10, "grabanon";
        Flowindent = 11, "flowindent";
        Quiet = 12, "quiet";
        Stackframes = 13, "stackframes";
        Ustackframes = 14, "ustackframes";
        Aggrate = 15, "aggrate";
        Switchrate = 16, "switchrate";
        Statusrate = 17, "statusrate";
        Destructive = 18, "destructive";
        Stackindent = 19, "stackindent";
        Rawbytes = 20, "rawbytes";
        Jstackframes = 21, "jstackframes";
        Jstackstrsize = 22, "jstackstrsize";
        Aggsortkey = 23, "aggsortkey";
        Aggsortrev = 24, "aggsortrev";
        Aggsortpos = 25, "aggsortpos";
        Aggsortkeypos = 26, "aggsortkeypos";
        Temporal = 27, "temporal";
        Agghist = 28, "agghist";
        Aggpack = 29, "aggpack";
        Aggzoom = 30, "aggzoom";
        Zone = 31, "zone";
    }
}

impl OptionId {
    /// Returns the values that the framework accepts. The greatest value of `cpu` also depends on the machine.
    pub const fn values(self) -> RangeInclusive<i64> {
        match self {
            Self::Bufpolicy => 0..=BufPolicy::ALL.len() as i64 - 1,
            Self::Bufresize => 0..=BufResize::ALL.len() as i64 - 1,
            Self::Strsize | Self::Jstackstrsize => 0..=STRING as i64,
            Self::Stackframes | Self::Ustackframes | Self::Jstackframes => 0..=FRAMES as i64,
            _ => 0..=i64::MAX,
        }
    }
}

/// The value of an option that was not set (`DTRACEOPT_UNSET`).
pub const UNSET: i64 = -2;

numbered! {
    /// Values of `bufpolicy` (`DTRACEOPT_BUFPOLICY_*`).
    pub enum BufPolicy: u32 {
        Ring = 0, "ring";
        Fill = 1, "fill";
        Switch = 2, "switch";
    }
}

numbered! {
    /// Values of `bufresize` (`DTRACEOPT_BUFRESIZE_*`).
    pub enum BufResize: u32 {
        Auto = 0, "auto";
        Manual = 1, "manual";
    }
}
