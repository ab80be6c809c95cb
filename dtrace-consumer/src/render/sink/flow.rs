//! `-F`: which records are entries and returns, and how far they are indented (`dt_flowindent`,
//! dt_consume.c).

use dtrace_compiler::surroundings::Description;

/// Whether a record is an entry or a return of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// Neither entry nor return.
    #[default]
    None,
    /// The first record of an entry.
    Entry,
    /// The last record of a return.
    Return,
}

impl Flow {
    /// Returns the flow by the probe's name: `entry` or `return`, or a name that ends in `-entry` or `-return`.
    pub(in crate::render) fn of(probe: &Description) -> Self {
        let ends = |word| {
            let before = probe.name.strip_suffix(word);
            before.is_some_and(|before| before.is_empty() || before.ends_with('-'))
        };
        match (ends("entry"), ends("return")) {
            (true, _) => Self::Entry,
            (_, true) => Self::Return,
            _ => Self::None,
        }
    }

    /// Returns the text before the function.
    pub(in crate::render) fn prefix(self, probe: &Description) -> &'static str {
        match (self, probe.provider.as_str()) {
            (Self::None, _) => "| ",
            (Self::Entry, "syscall") => " => ",
            (Self::Entry, _) => " -> ",
            (Self::Return, "syscall") => " <= ",
            (Self::Return, _) => " <- ",
        }
    }
}

/// The columns of indentation for each entry.
pub(in crate::render) const STEP: usize = 2;

/// The current depth of entries and returns.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::render) struct Depth {
    /// The indentation in columns.
    pub indent: usize,
}

impl Depth {
    /// Updates the indentation before a record is shown: a return ends a level.
    pub fn before(&mut self, flow: Flow) {
        if flow == Flow::Return {
            self.indent = self.indent.saturating_sub(STEP);
        }
    }

    /// Updates the indentation after a record was shown: an entry begins a level.
    pub fn after(&mut self, flow: Flow) {
        if flow == Flow::Entry {
            self.indent =
                self.indent.saturating_add(STEP).min(crate::render::data::cprintf::COLUMNS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `format!` panics for a width above `u16::MAX`.
    #[test]
    fn entries_without_a_return_can_be_shown() {
        let mut depth = Depth::default();
        (0..40_000).for_each(|_| depth.after(Flow::Entry));
        let indent = depth.indent;
        assert_eq!(format!("{:indent$}", "").len(), indent);
    }

    #[test]
    fn names() {
        let of = |name: &str| Flow::of(&Description { name: name.into(), ..Default::default() });
        assert_eq!((of("entry"), of("method-entry")), (Flow::Entry, Flow::Entry));
        assert_eq!((of("return"), of("carpentry")), (Flow::Return, Flow::None));
        assert_eq!(of("exec-success"), Flow::None);
    }
}
