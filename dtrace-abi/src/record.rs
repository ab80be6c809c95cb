//! What a kernel tells of its records: where each datum of an enabling stands, and what it is.

layout! {
    /// A datum of a record (`dtrace_recdesc_t`).
    pub struct RecordDesc {
        /// The [`Action`](crate::action::Action) that left it.
        action: u16,
        /// Not used.
        pad: u16,
        /// Its size in bytes.
        size: u32,
        /// Where it begins in the record.
        offset: u32,
        /// What its offset is a multiple of.
        alignment: u16,
        /// Number of its format, or 0.
        format: u16,
        /// The action's argument.
        arg: u64,
        /// The consumer's own argument.
        uarg: u64,
    }
}

impl RecordDesc {
    /// An empty datum: what an array of them is filled with.
    pub const EMPTY: Self =
        Self { action: 0, pad: 0, size: 0, offset: 0, alignment: 1, format: 0, arg: 0, uarg: 0 };
}

layout! {
    /// What an enabled probe is, before the descriptions of its data (`dtrace_eprobedesc_t` without
    /// its last field).
    pub struct EprobeDesc {
        /// Number of the enabled probe.
        epid: u32,
        /// Number of the probe.
        probe: u32,
        /// The consumer's own argument.
        uarg: u64,
        /// Bytes of one record.
        size: u32,
        /// How many descriptions follow.
        records: u32,
    }
}

layout! {
    /// What an aggregation is, before the descriptions of its data (`dtrace_aggdesc_t` without its
    /// last field).
    pub struct AggDesc {
        /// Address of the consumer's copy of the name.
        name: u64,
        /// Number of the aggregation's variable.
        variable: i64,
        /// Flags of the consumer's.
        flags: u32,
        /// Number of the aggregation.
        id: u32,
        /// Number of the enabled probe.
        epid: u32,
        /// Bytes of one element.
        size: u32,
        /// How many descriptions follow.
        records: u32,
        /// Zero.
        pad: u32,
    }
}

layout! {
    /// What stands before each record in a buffer (`dtrace_rechdr_t`).
    pub struct RecordHeader {
        /// Number of the enabled probe.
        epid: u32,
        /// Upper half of the time in nanoseconds.
        time_high: u32,
        /// Lower half.
        time_low: u32,
    }
}

impl RecordHeader {
    /// The time of the record in nanoseconds.
    pub const fn time(&self) -> u64 {
        (self.time_high as u64) << 32 | self.time_low as u64
    }
}

layout! {
    /// What became of everybody's data (`dtrace_status_t`).
    pub struct Status {
        /// Dynamic variables that had no room.
        dynamic_drops: u64,
        /// Those for want of a chunk that was being rinsed.
        dynamic_drops_rinsing: u64,
        /// Those for want of a chunk that was dirty.
        dynamic_drops_dirty: u64,
        /// Records that a speculative buffer had no room for.
        speculation_drops: u64,
        /// Speculations refused because all buffers were being cleaned.
        speculations_busy: u64,
        /// Speculations refused because all buffers were taken.
        speculations_unavailable: u64,
        /// Errors in all.
        errors: u64,
        /// Buffers that are full, under the policy `fill`.
        filled: u64,
        /// Names of frames that had no room.
        stack_string_overflows: u64,
        /// Errors in clauses of `dtrace:::ERROR`.
        double_errors: u64,
        /// Not zero once the kernel has given this consumer up.
        killed: u8,
        /// Not zero once `exit` was met.
        exiting: u8,
        /// Zeroes.
        pad: [u8; 6],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_kernels() {
        assert_eq!(RecordDesc::SIZE, 32);
        assert_eq!(EprobeDesc::SIZE, 24);
        assert_eq!(AggDesc::SIZE, 40);
        assert_eq!(RecordHeader::SIZE, 12);
        assert_eq!(Status::SIZE, 88);
    }

    #[test]
    fn time_of_a_record() {
        let header = RecordHeader { epid: 1, time_high: 2, time_low: 3 };
        assert_eq!(header.time(), 0x2_0000_0003);
    }
}
