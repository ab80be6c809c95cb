//! The programs of a consumer: clauses, formats, and the memory that these need when they run.

use crate::base::arena::Bundle;
use crate::machine::{Declarations, Memory};
use crate::run::clause::{Aggregation, Clause, Target};
use crate::run::make::Needs;

/// The accepted programs of a consumer.
#[derive(Debug)]
pub(crate) struct Programs {
    /// The allocations of clauses.
    pub(super) kept: Bundle,
    /// The allocations of variables, strings, and tables of declarations.
    pub(super) space: Bundle,
    pub(crate) memory: &'static Memory<'static>,
    pub(super) declarations: Declarations<'static>,
    /// The clauses of the last program, which link to those of earlier programs.
    pub(super) clauses: Option<&'static Sent>,
    pub(super) formats: Option<&'static Format>,
    /// The numbers of the last format and the last aggregation.
    pub(super) last_format: u16,
    pub(super) last_aggregation: u32,
    pub(crate) needs: Needs,
}

/// The clauses of one program.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) clauses: &'static [Clause],
    pub(super) before: Option<&'static Self>,
}

#[derive(Debug)]
pub(super) struct Format {
    pub(super) number: u16,
    pub(super) text: &'static [u8],
    pub(super) before: Option<&'static Self>,
}

/// A description that readers of buffers need.
#[derive(Clone, Copy, Debug)]
pub(super) enum Note {
    Clause(&'static Clause),
    Aggregation(&'static Clause, &'static Aggregation),
    Format(u16, &'static [u8]),
}

impl Programs {
    /// Returns the text of a format.
    pub(crate) fn format(&self, number: u16) -> Option<&'static [u8]> {
        let mut formats = core::iter::successors(self.formats, |format| format.before);
        formats.find(|format| format.number == number).map(|format| format.text)
    }

    /// Returns all clauses.
    fn clauses(&self) -> impl Iterator<Item = &'static Clause> + use<> {
        let sent = core::iter::successors(self.clauses, |sent| sent.before);
        sent.flat_map(|sent| sent.clauses)
    }

    /// Returns all aggregations and their clauses.
    fn aggregations(
        &self,
    ) -> impl Iterator<Item = (&'static Clause, &'static Aggregation)> + use<> {
        self.clauses().flat_map(|clause| {
            clause.actions.iter().filter_map(move |act| match &act.target {
                Target::Value(found) => Some((clause, found)),
                _ => None,
            })
        })
    }

    /// Returns the aggregation with this number, and its clause.
    pub(crate) fn aggregation(&self, id: u32) -> Option<(&'static Clause, &'static Aggregation)> {
        self.aggregations().find(|(_, found)| found.id == id)
    }

    /// Returns all descriptions that readers of buffers need.
    pub(super) fn notes(&self) -> impl Iterator<Item = Note> + use<> {
        let clauses = self.clauses().map(Note::Clause);
        let aggregations = self.aggregations().map(|(clause, of)| Note::Aggregation(clause, of));
        let formats = core::iter::successors(self.formats, |format| format.before);
        let formats = formats.map(|format| Note::Format(format.number, format.text));
        clauses.chain(aggregations).chain(formats)
    }
}
