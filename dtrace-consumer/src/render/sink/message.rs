//! Messages on standard error: faults of clauses, and drops (dt_handle.c).

use dtrace_abi::fault::Fault;
use dtrace_abi::record::Status;
use dtrace_compiler::surroundings::Description;

use crate::render::record::origin::Origin;

/// A fault of a clause, or an action that cannot be performed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeError<'a> {
    /// Number of the enabled probe.
    pub epid: u32,
    /// The probe.
    pub probe: &'a Description,
    /// The CPU that it fired on.
    pub cpu: u32,
    /// The error.
    pub what: ErrorKind,
    /// The place of the failed expression in a program of this run.
    pub origin: Option<Origin>,
}

/// The kinds of errors of a clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A fault in the kernel.
    Fault {
        /// The number of the fault.
        fault: u64,
        /// The number of the action, counted from 1; 0 is the predicate.
        action: i32,
        /// Offset of the instruction in bytes; -1 if it is unknown.
        offset: i32,
        /// The address of the access.
        address: u64,
    },
    /// An error of an action that the consumer performs, as text.
    Library(String),
}

impl std::fmt::Display for ProbeError<'_> {
    /// A line, with its newline.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Description { id, provider, module, function, name } = self.probe;
        let epid = self.epid;
        write!(
            f,
            "error on enabled probe ID {epid} (ID {id}: {provider}:{module}:{function}:{name}): "
        )?;
        let (fault, action, offset, address) = match &self.what {
            ErrorKind::Library(text) => return writeln!(f, "{text}"),
            ErrorKind::Fault { fault, action, offset, address } => (fault, action, offset, address),
        };
        let fault = u16::try_from(*fault).ok().and_then(Fault::from_number);
        let fault = fault.unwrap_or(Fault::Unknown);
        f.write_str(fault.name())?;
        if let Fault::BadAddress | Fault::BadAlignment | Fault::BadStack = fault {
            write!(f, " ({address:#x})")?;
        }
        match action {
            0 => write!(f, " in predicate")?,
            _ => write!(f, " in action #{action}")?,
        }
        if *offset != -1 {
            write!(f, " at DIF offset {offset}")?;
        }
        writeln!(f)
    }
}

/// The kinds of drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropKind {
    /// Records of a CPU.
    Principal(u32),
    /// Elements of aggregations of a CPU.
    Aggregation(u32),
    /// Dynamic variables.
    Dynamic,
    /// Dynamic variables for which only chunks in the rinsing list were left.
    DynamicRinsing,
    /// Dynamic variables for which only chunks in the dirty list were left.
    DynamicDirty,
    /// Records of speculations.
    Speculation,
    /// Speculations, because all buffers were being committed or discarded.
    SpeculationBusy,
    /// Speculations, because all buffers were in use.
    SpeculationUnavailable,
    /// Names of frames.
    StackStringOverflow,
    /// Errors in clauses of `dtrace:::ERROR`.
    DoubleError,
}

/// A number of drops since the last report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drops {
    /// The kind.
    pub kind: DropKind,
    /// The number.
    pub count: u64,
    /// The number since the run began; 0 for kinds that are counted by CPU.
    pub total: u64,
}

impl Drops {
    /// Returns the tag, the name of the kind, and the text after the name.
    fn words(&self) -> (&'static str, &'static str, String) {
        let of = |cpu: u32| format!(" on CPU {cpu}");
        match self.kind {
            DropKind::Principal(cpu) => ("DTRACEDROP_PRINCIPAL", "drop", of(cpu)),
            DropKind::Aggregation(cpu) => ("DTRACEDROP_AGGREGATION", "aggregation drop", of(cpu)),
            DropKind::Dynamic => ("DTRACEDROP_DYNAMIC", "dynamic variable drop", String::new()),
            DropKind::DynamicRinsing => (
                "DTRACEDROP_DYNRINSE",
                "dynamic variable drop",
                " with non-empty rinsing list".into(),
            ),
            DropKind::DynamicDirty => (
                "DTRACEDROP_DYNDIRTY",
                "dynamic variable drop",
                " with non-empty dirty list".into(),
            ),
            DropKind::Speculation => ("DTRACEDROP_SPEC", "speculative drop", String::new()),
            DropKind::SpeculationBusy => (
                "DTRACEDROP_SPECBUSY",
                "failed speculation",
                " (available buffer(s) still busy)".into(),
            ),
            DropKind::SpeculationUnavailable => (
                "DTRACEDROP_SPECUNAVAIL",
                "failed speculation",
                " (no speculative buffer available)".into(),
            ),
            DropKind::StackStringOverflow => (
                "DTRACEDROP_STKSTROVERFLOW",
                "jstack()/ustack() string table overflow",
                String::new(),
            ),
            DropKind::DoubleError => {
                ("DTRACEDROP_DBLERROR", "error", " in ERROR probe enabling".into())
            }
        }
    }

    /// Returns the number of the kind (`dtrace_dropkind_t`, dtrace.h).
    pub const fn number(&self) -> u32 {
        match self.kind {
            DropKind::Principal(_) => 0,
            DropKind::Aggregation(_) => 1,
            DropKind::Dynamic => 2,
            DropKind::DynamicRinsing => 3,
            DropKind::DynamicDirty => 4,
            DropKind::Speculation => 5,
            DropKind::SpeculationBusy => 6,
            DropKind::SpeculationUnavailable => 7,
            DropKind::StackStringOverflow => 8,
            DropKind::DoubleError => 9,
        }
    }

    /// Returns a hint how to avoid such drops, which dtrace prints on a terminal only: dtrace(1) has no such line.
    pub const fn remedy(&self) -> Option<&'static str> {
        match self.kind {
            DropKind::Principal(_) => Some(
                "to lose fewer records: a larger buffer (-b 16m -x bufresize=manual), more frequent reads (-x switchrate=10hz), or an aggregation \
                 instead of a record for each hit",
            ),
            DropKind::Aggregation(_) => Some(
                "to lose fewer aggregations: a larger buffer (-x aggsize=16m), more frequent reads (-x aggrate=10hz), or fewer keys",
            ),
            DropKind::Dynamic | DropKind::DynamicRinsing | DropKind::DynamicDirty => Some(
                "to lose fewer variables: more memory (-x dynvarsize=16m), or assign 0 to variables that are no longer needed",
            ),
            DropKind::Speculation => {
                Some("to lose fewer speculative records: larger buffers (-x specsize=1m)")
            }
            DropKind::SpeculationBusy | DropKind::SpeculationUnavailable => {
                Some("to have more speculations at a time: -x nspec=16")
            }
            DropKind::StackStringOverflow => {
                Some("to record all names of frames: more room for them (-x jstackstrsize=4k)")
            }
            DropKind::DoubleError => None,
        }
    }

    /// Returns the tag, as `-x droptags` prints it.
    pub fn tag(&self) -> &'static str {
        self.words().0
    }

    /// Returns the drops between two statuses.
    pub fn between(old: &Status, new: &Status) -> Vec<Self> {
        use DropKind::*;
        let counts = [
            (Dynamic, old.dynamic_drops, new.dynamic_drops),
            (DynamicRinsing, old.dynamic_drops_rinsing, new.dynamic_drops_rinsing),
            (DynamicDirty, old.dynamic_drops_dirty, new.dynamic_drops_dirty),
            (Speculation, old.speculation_drops, new.speculation_drops),
            (SpeculationBusy, old.speculations_busy, new.speculations_busy),
            (SpeculationUnavailable, old.speculations_unavailable, new.speculations_unavailable),
            (StackStringOverflow, old.stack_string_overflows, new.stack_string_overflows),
            (DoubleError, old.double_errors, new.double_errors),
        ];
        let changed = counts.into_iter().filter(|(_, old, new)| old != new);
        let drops =
            changed.map(|(kind, old, total)| Self { kind, count: total.wrapping_sub(old), total });
        drops.collect()
    }
}

impl std::fmt::Display for Drops {
    /// A line, with its newline.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (_, what, behind) = self.words();
        let s = if self.count > 1 { "s" } else { "" };
        writeln!(f, "{} {what}{s}{behind}", self.count)
    }
}

#[cfg(test)]
mod tests {
    use dtrace_compiler::options::Options;

    use super::*;

    #[test]
    fn remedies_name_options_that_exist() {
        let kinds = [
            DropKind::Principal(0),
            DropKind::Aggregation(0),
            DropKind::Dynamic,
            DropKind::Speculation,
            DropKind::SpeculationBusy,
            DropKind::StackStringOverflow,
        ];
        for kind in kinds {
            let remedy = Drops { kind, count: 1, total: 0 }.remedy().unwrap();
            for option in remedy.split("-x ").skip(1) {
                let (name, value) = option.split_once('=').unwrap();
                let end = value.find([')', ',']).unwrap_or(value.len());
                let mut options = Options::default();
                options
                    .set(name, Some(&value[..end]))
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
    }

    #[test]
    fn drops() {
        let drops = |kind, count| Drops { kind, count, total: 0 }.to_string();
        assert_eq!(drops(DropKind::Principal(3), 1), "1 drop on CPU 3\n");
        assert_eq!(drops(DropKind::Aggregation(0), 2), "2 aggregation drops on CPU 0\n");
        assert_eq!(drops(DropKind::DoubleError, 1), "1 error in ERROR probe enabling\n");
        let bytes = [0; Status::SIZE];
        let mut old = bytes;
        old[0] = 1;
        let mut new = bytes;
        (new[0], new[40]) = (3, 1);
        let status = |bytes: &[u8]| {
            let mut reader = dtrace_abi::reader::Reader::new(bytes);
            Status::read(&mut reader).unwrap()
        };
        let between = Drops::between(&status(&old), &status(&new));
        let texts: Vec<String> = between.iter().map(Drops::to_string).collect();
        assert_eq!(
            texts,
            [
                "2 dynamic variable drops\n",
                "1 failed speculation (no speculative buffer available)\n"
            ]
        );
    }
}
