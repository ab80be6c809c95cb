//! The programs of a consumer: their clauses, and what these need when they run.

use crate::base::arena::Bundle;
use crate::machine::{Declarations, Memory};
use crate::run::clause::{Aggregation, Clause, Target};
use crate::run::make::Needs;

/// Programs that were taken.
#[derive(Debug)]
pub(crate) struct Programs {
    /// Clauses and all that belongs to them.
    pub(super) kept: Bundle,
    /// The memory of variables and strings, and the tables of their declarations.
    pub(super) space: Bundle,
    pub(crate) memory: &'static Memory<'static>,
    pub(super) declarations: Declarations<'static>,
    /// All clauses of a program, and those of the programs before it.
    pub(super) clauses: Option<&'static Sent>,
    pub(super) formats: Option<&'static Format>,
    /// The numbers that were last given to a format and an aggregation.
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

/// What has to be known to read what programs leave behind.
#[derive(Clone, Copy, Debug)]
pub(super) enum Note {
    Clause(&'static Clause),
    Aggregation(&'static Clause, &'static Aggregation),
    Format(u16, &'static [u8]),
}

impl Programs {
    /// The text of a format.
    pub(crate) fn format(&self, number: u16) -> Option<&'static [u8]> {
        let mut formats = core::iter::successors(self.formats, |format| format.before);
        formats.find(|format| format.number == number).map(|format| format.text)
    }

    /// All clauses.
    fn clauses(&self) -> impl Iterator<Item = &'static Clause> + use<> {
        let sent = core::iter::successors(self.clauses, |sent| sent.before);
        sent.flat_map(|sent| sent.clauses)
    }

    /// All aggregations, with the clauses that they are in.
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

    /// The aggregation with a number, and the clause that it is in.
    pub(crate) fn aggregation(&self, id: u32) -> Option<(&'static Clause, &'static Aggregation)> {
        self.aggregations().find(|(_, found)| found.id == id)
    }

    /// All that has to be known to read what they leave behind.
    pub(super) fn notes(&self) -> impl Iterator<Item = Note> + use<> {
        let clauses = self.clauses().map(Note::Clause);
        let aggregations = self.aggregations().map(|(clause, of)| Note::Aggregation(clause, of));
        let formats = core::iter::successors(self.formats, |format| format.before);
        let formats = formats.map(|format| Note::Format(format.number, format.text));
        clauses.chain(aggregations).chain(formats)
    }
}
