//! Hits that the kernel could not record, and their message.

/// Hits of a kernel that are neither records nor drops, because the kernel could not record them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unrecorded {
    reentered: u64,
    stray: u64,
}

impl Unrecorded {
    /// Returns the numbers of hits since the kernel started.
    pub(super) const fn of(status: &dtrace_protocol::Status) -> Self {
        Self { reentered: status.reentered, stray: status.stray }
    }

    /// Returns a message for each kind of hits that were counted since `before`. `is_process` is whether the kernel is a process.
    pub(super) fn messages(self, before: Self, is_process: bool) -> impl Iterator<Item = String> {
        let reentered = self.reentered.saturating_sub(before.reentered);
        let stray = self.stray.saturating_sub(before.stray);
        let why_stray = match is_process {
            true => {
                "no slot was free for two seconds (more: Options::slots), the stack was too small, or the recording of \
                 another hit called the function"
            }
            false => "the framework has no buffers for the CPU, or the host rejected the hit",
        };
        let kinds = [(reentered, "the CPU was recording another hit"), (stray, why_stray)];
        kinds.into_iter().filter(|(count, _)| *count > 0).map(|(count, why)| {
            let hits = if count == 1 { "hit was" } else { "hits were" };
            format!("{count} {hits} not recorded: {why}\n")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hits_of_this_run_are_reported() {
        let before = Unrecorded { reentered: 5, stray: 7 };
        let messages = |now: Unrecorded| now.messages(before, true).collect::<Vec<_>>();
        assert!(messages(before).is_empty());
        // The kernel has started again.
        assert!(messages(Unrecorded::default()).is_empty());
        let now = Unrecorded { reentered: 6, stray: 9 };
        let [one, two] = &messages(now)[..] else { panic!("{:?}", messages(now)) };
        assert!(one.starts_with("1 hit was not recorded: the CPU"), "{one}");
        assert!(two.starts_with("2 hits were not recorded: no slot was free"), "{two}");
        let of_kernel: Vec<_> = now.messages(before, false).collect();
        assert!(of_kernel[1].contains("no buffers for the CPU"), "{of_kernel:?}");
    }
}
