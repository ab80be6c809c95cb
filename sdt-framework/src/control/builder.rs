//! Assembles the actions of a clause: checks them, and assigns each an offset in the record.

use dtrace_abi::action::{Action, UstackArg};
use dtrace_abi::dif::{DifType, TypeKind};
use dtrace_abi::record::{RecordDesc, RecordHeader};

use super::options::{Frames, Options};
use super::refused::Malformed;
use crate::machine::aggregation::Function;
use crate::machine::{Program, Simple};
use crate::run::clause::{Aggregation, ClauseAction, Layout, Target};

/// The greatest size of a record in bytes.
const LONGEST: u32 = 1 << 24;

/// An action that is about to be added to a clause.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) kind: Action,
    pub(crate) program: Option<Program<'static>>,
    /// The number of preceding actions that are the keys of this action.
    pub(crate) keys: u32,
    pub(crate) arg: u64,
    pub(crate) uarg: u64,
    pub(crate) format: u16,
}

/// Assembles the actions of a clause (`dtrace_ecb_action_add`, `dtrace_ecb_resize`).
#[derive(Debug)]
pub(crate) struct Builder<'o> {
    options: &'o Options,
    frames: Frames,
    /// The index of the first action that can still become a key of an aggregation.
    open: usize,
    committed: bool,
    size: u32,
    tuple: usize,
    speculates: bool,
    /// Whether the clause calls `speculation()`, `commit()` or `discard()`.
    asks: bool,
}

const HEADER: u32 = RecordHeader::SIZE as u32;

impl<'o> Builder<'o> {
    pub(crate) fn new(options: &'o Options) -> Self {
        Self {
            options,
            frames: options.frames(),
            open: 0,
            committed: false,
            size: HEADER,
            tuple: 0,
            speculates: false,
            asks: false,
        }
    }

    /// Creates an action that follows those in `acts`. `aggregations` is the number of the last aggregation.
    pub(crate) fn add(
        &mut self,
        acts: &mut [ClauseAction],
        draft: Draft,
        aggregations: &mut u32,
    ) -> Result<ClauseAction, Malformed> {
        let Draft { kind, program, arg, uarg, format, .. } = draft;
        self.asks |= program.as_ref().is_some_and(Program::asks_for_speculation)
            || matches!(kind, Action::Commit | Action::Discard);
        if kind.is_destructive() && !self.options.destructive() {
            return Err(Malformed::Destructive(kind));
        }
        if kind.is_aggregation() {
            return self.aggregate(acts, draft, aggregations);
        }
        let (size, arg) = self.size(kind, program.as_ref(), arg)?;
        if size > LONGEST {
            return Err(Malformed::Long(size));
        }
        if self.committed && (size != 0 || matches!(kind, Action::Speculate | Action::Commit)) {
            return Err(Malformed::Commit);
        }
        self.committed |= kind == Action::Commit;
        if kind == Action::Speculate {
            if acts.iter().any(|act| act.record.size != 0) || self.speculates {
                return Err(Malformed::Speculate);
            }
            self.speculates = true;
        }
        let record = RecordDesc {
            action: kind.number(),
            size,
            arg,
            uarg,
            format,
            alignment: alignment(size),
            ..RecordDesc::EMPTY
        };
        let simple = program.as_ref().and_then(Program::simple);
        Ok(ClauseAction { kind, program, simple, target: Target::Record, record, field: None })
    }

    /// Returns the size of an action's datum in bytes, and its argument with the values of options.
    fn size(
        &self,
        kind: Action,
        program: Option<&Program<'static>>,
        arg: u64,
    ) -> Result<(u32, u64), Malformed> {
        let lacking = Malformed::NoProgram(kind);
        let returns = program.map(Program::returns);
        let number = |bytes: u32| match returns {
            Some(ty) if ty.size == bytes && !ty.is_by_ref() => Ok(()),
            Some(_) => Err(Malformed::Type(kind)),
            None => Err(lacking),
        };
        Ok(match kind {
            Action::DifExpr
            | Action::Printf
            | Action::Printa
            | Action::System
            | Action::Freopen
            | Action::LibAct
            | Action::Tracemem
            | Action::TracememDynsize
            | Action::Printm => {
                let ty: DifType = returns.ok_or(lacking)?;
                if ty.size != 0 || ty.kind != TypeKind::String.number() {
                    (ty.size, arg)
                } else if ty.is_by_ref() {
                    (self.options.string(), arg)
                } else {
                    return Err(Malformed::Type(kind));
                }
            }
            Action::Exit => {
                number(4)?;
                (4, arg)
            }
            Action::Stack => {
                let frames = if arg == 0 { self.frames.stack.into() } else { arg };
                (bytes_of(frames)?, frames)
            }
            Action::Ustack | Action::Jstack => {
                let UstackArg { mut frames, mut string_size } = UstackArg::decode(arg);
                if kind == Action::Jstack {
                    string_size = if string_size == 0 { self.frames.names } else { string_size };
                    frames = if frames == 0 { self.frames.jstack } else { frames };
                } else if frames == 0 {
                    frames = self.frames.ustack;
                }
                let words = bytes_of(u64::from(frames) + 1)?;
                let size = words.checked_add(string_size).ok_or(Malformed::Long(string_size))?;
                let arg = UstackArg { frames, string_size }.encode();
                (size.checked_next_multiple_of(8).ok_or(Malformed::Long(size))?, arg)
            }
            Action::Sym | Action::Mod => {
                number(8)?;
                (8, arg)
            }
            Action::Usym | Action::Umod | Action::Uaddr => {
                number(8)?;
                (16, arg)
            }
            Action::Chill
            | Action::Discard
            | Action::Raise
            | Action::Commit
            | Action::Speculate => {
                returns.ok_or(lacking)?;
                (0, arg)
            }
            Action::Stop | Action::Breakpoint | Action::Panic => (0, arg),
            _ => return Err(Malformed::Action(kind.number().into())),
        })
    }

    fn aggregate(
        &mut self,
        acts: &mut [ClauseAction],
        draft: Draft,
        aggregations: &mut u32,
    ) -> Result<ClauseAction, Malformed> {
        let Draft { kind, program, keys: count, arg, uarg, format } = draft;
        if self.committed || self.speculates {
            return Err(Malformed::Speculative(kind));
        }
        let function = Function::new(kind, arg).map_err(|_| Malformed::Aggregation(kind))?;
        let count = count as usize;
        let first = acts.len().checked_sub(count).filter(|first| *first >= self.open && count > 0);
        let first = first.ok_or(Malformed::Keys)?;
        let tuple = acts.get_mut(first..).ok_or(Malformed::Keys)?;
        *aggregations = aggregations.checked_add(1).ok_or(Malformed::Keys)?;
        let id = *aggregations;
        let increments = tuple.last().is_some_and(|last| {
            last.kind == Action::DifExpr && last.program.is_some_and(|of| of.returns().size == 0)
        });
        // The number of the aggregation comes first.
        let mut end = size_of::<u32>() as u32;
        let mut begins = Some(id);
        let mut variable = 0;
        for act in tuple {
            if begins.is_some() {
                variable = match act.simple {
                    Some(Simple::Constant(value)) => value as u32,
                    _ => 0,
                };
            }
            act.target = Target::Key(begins.take());
            let offset = end.next_multiple_of(act.record.alignment.into());
            act.put_at(offset);
            end = offset.checked_add(act.record.size).ok_or(Malformed::Long(offset))?;
            if end > LONGEST {
                return Err(Malformed::Long(end));
            }
        }
        let offset = end.next_multiple_of(8);
        let keys = offset as usize / 8;
        self.tuple = self.tuple.max(keys);
        self.open = acts.len() + 1;
        let record = RecordDesc {
            action: kind.number(),
            size: function.words() as u32 * 8,
            offset,
            alignment: 8,
            arg,
            uarg,
            format,
            ..RecordDesc::EMPTY
        };
        let aggregation =
            Aggregation { id, variable, function, keys, first, data: count + 1, increments };
        let simple = program.as_ref().map_or(Some(Simple::Constant(0)), Program::simple);
        Ok(ClauseAction {
            kind,
            program,
            simple,
            target: Target::Value(aggregation),
            record,
            field: None,
        })
    }

    /// Gives each action its offset in the record, after all actions were added.
    pub(crate) fn finish(mut self, acts: &mut [ClauseAction]) -> Result<Layout, Malformed> {
        for act in acts.iter_mut().filter(|act| matches!(act.target, Target::Record)) {
            let offset = self.size.next_multiple_of(act.record.alignment.into());
            act.put_at(offset);
            self.size = offset.checked_add(act.record.size).ok_or(Malformed::Long(offset))?;
            if self.size > LONGEST {
                return Err(Malformed::Long(self.size));
            }
        }
        let speculates_only = self.speculates && acts.len() == 1;
        let size = match self.size {
            // No action stores data, so no record is written.
            HEADER if !acts.is_empty() && !speculates_only => 0,
            size => size.next_multiple_of(4),
        };
        let speculates = self.speculates || self.asks;
        Ok(Layout::new(size, self.tuple as u32, speculates))
    }
}

fn bytes_of(words: u64) -> Result<u32, Malformed> {
    u32::try_from(words.saturating_mul(8)).map_err(|_| Malformed::Long(u32::MAX))
}

/// Returns the alignment of a datum of this size.
fn alignment(size: u32) -> u16 {
    match size.trailing_zeros() {
        _ if size == 0 => 1,
        log @ 0..=2 => 1 << log,
        _ => 8,
    }
}
