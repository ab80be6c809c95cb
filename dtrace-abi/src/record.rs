//! A kernel's descriptions of its records: the position and the kind of each datum of an enabling.

layout! {
    /// A datum of a record (`dtrace_recdesc_t`).
    pub struct RecordDesc {
        /// The [`Action`](crate::action::Action) that recorded it.
        action: u16,
        /// Unused.
        pad: u16,
        /// Its size in bytes.
        size: u32,
        /// Its offset in the record.
        offset: u32,
        /// The alignment of its offset.
        alignment: u16,
        /// Number of its format, or 0.
        format: u16,
        /// The action's argument.
        arg: u64,
        /// A number that the consumer chose and gets back.
        uarg: u64,
    }
}

impl RecordDesc {
    /// An empty datum, the initial element of arrays.
    pub const EMPTY: Self =
        Self { action: 0, pad: 0, size: 0, offset: 0, alignment: 1, format: 0, arg: 0, uarg: 0 };
}

layout! {
    /// An enabled probe, without the descriptions of its data (`dtrace_eprobedesc_t` without its last field).
    pub struct EprobeDesc {
        /// Number of the enabled probe.
        epid: u32,
        /// Number of the probe.
        probe: u32,
        /// A number that the consumer chose and gets back.
        uarg: u64,
        /// The size of one record in bytes.
        size: u32,
        /// The number of descriptions that follow.
        records: u32,
    }
}

layout! {
    /// An aggregation, without the descriptions of its data (`dtrace_aggdesc_t` without its last field).
    pub struct AggDesc {
        /// Address of the consumer's copy of the name.
        name: u64,
        /// Number of the aggregation's variable.
        variable: i64,
        /// Flags of the consumer.
        flags: u32,
        /// Number of the aggregation.
        id: u32,
        /// Number of the enabled probe.
        epid: u32,
        /// The size of one element in bytes.
        size: u32,
        /// The number of descriptions that follow.
        records: u32,
        /// Zero.
        pad: u32,
    }
}

layout! {
    /// The header of each record in a buffer (`dtrace_rechdr_t`).
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
    /// Returns the time of the record in nanoseconds.
    pub const fn time(&self) -> u64 {
        (self.time_high as u64) << 32 | self.time_low as u64
    }
}

layout! {
    /// The counters of drops and errors of a consumer (`dtrace_status_t`).
    pub struct Status {
        /// Drops of dynamic variables.
        dynamic_drops: u64,
        /// Drops of dynamic variables because free chunks were being rinsed.
        dynamic_drops_rinsing: u64,
        /// Drops of dynamic variables because free chunks were dirty.
        dynamic_drops_dirty: u64,
        /// Drops of speculative records.
        speculation_drops: u64,
        /// Requests for a speculation that failed because all buffers were being committed or discarded.
        speculations_busy: u64,
        /// Requests for a speculation that failed because all buffers were in use.
        speculations_unavailable: u64,
        /// The number of errors.
        errors: u64,
        /// The number of full buffers with policy `fill`.
        filled: u64,
        /// Names of stack frames that were dropped because their buffer was full.
        stack_string_overflows: u64,
        /// Errors in clauses of `dtrace:::ERROR`.
        double_errors: u64,
        /// Not zero if the kernel has aborted this consumer.
        killed: u8,
        /// Not zero after `exit`.
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
