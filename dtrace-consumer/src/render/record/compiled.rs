//! The meaning of records, from the clauses that this run compiled and enabled.
//!
//! A kernel numbers enabled probes, aggregations and formats, and describes each. In a run that compiled its own programs
//! these descriptions decide nothing. The statement number in a description (`uarg`, assigned by [`Compiled::add`]) selects
//! the compiled clause, and the layout is computed from the clause as a kernel computes it: actions, sizes, offsets and
//! arguments (`dtrace_ecb_action_add`, `dtrace_ecb_resize`). A description that differs is a [`Contradiction`].
//!
//! The check runs once for each description, not for each record.

use std::collections::HashMap;
use std::rc::Rc;

use dtrace_abi::action::{Action, LibAction, UstackArg};
use dtrace_abi::aggregation::{Llquantize, Lquantize, QUANTIZE_BUCKETS};
use dtrace_abi::dif::{Builtin, DifType, Instr, Opcode, TypeKind};
use dtrace_abi::option::OptionId;
use dtrace_abi::record::{RecordDesc, RecordHeader};
use dtrace_abi::spec::Spec;
use dtrace_compiler::options::Options;
use dtrace_compiler::program::{Act, Ecb, Program};
use dtrace_compiler::surroundings::Description;

use crate::render::data::bits::until_zero;
use crate::render::data::error::{Contradiction, RenderError, Result};
use crate::render::data::format::Format;
use crate::render::record::description::{AggDescription, Eprobe, KnownDatum, KnownProbe};
use crate::render::record::effect::Permit;
use crate::render::record::origin::Origins;

/// A compiled clause with the layout of its records.
#[derive(Debug)]
struct Clause {
    /// The probes that it matches.
    description: Description,
    probe: Option<Spec>,
    /// Whether it is the library's own clause for faults.
    error: bool,
    /// Bytes of a record.
    size: usize,
    data: Rc<[KnownDatum]>,
    origins: Rc<Origins>,
}

impl Clause {
    fn is_for(&self, probe: &Description) -> bool {
        let Description { id, provider, module, function, name } = probe;
        // A probe that disappeared has a number and no names.
        let is_gone = [provider, module, function, name].iter().all(|part| part.is_empty());
        match self.description.id {
            0 => {
                let names = [provider, module, function, name].map(String::as_bytes);
                is_gone || self.probe.as_ref().is_some_and(|spec| spec.matches(names))
            }
            own => own == *id,
        }
    }
}

/// All clauses of a run.
#[derive(Debug, Default)]
pub struct Compiled {
    clauses: Vec<Clause>,
    /// The clause of each statement.
    statements: HashMap<u64, usize>,
    /// The aggregation of each aggregating statement.
    aggregations: HashMap<u64, Rc<AggDescription>>,
    /// The number of the last statement.
    last: u64,
}

impl Compiled {
    /// Returns the number of the last statement; the next program counts from there.
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// Adds a program that a kernel enabled with these options. Its statements are numbered from [`last`](Self::last) on;
    /// `names` returns the name of an aggregation by its variable.
    pub fn add<'n>(
        &mut self,
        program: &Program,
        options: &Options,
        names: &impl Fn(u32) -> Option<&'n str>,
    ) {
        self.last = self.clauses(program, options, self.last, false, names);
    }

    /// Adds the library's own clause for faults, with statements numbered from `before` on.
    pub(crate) fn add_faults(&mut self, program: &Program, options: &Options, before: u64) {
        self.clauses(program, options, before, true, &|_| None);
    }

    fn clauses<'n>(
        &mut self,
        program: &Program,
        options: &Options,
        before: u64,
        error: bool,
        names: &impl Fn(u32) -> Option<&'n str>,
    ) -> u64 {
        let mut last = before;
        let source: Rc<[u8]> = program.source.as_slice().into();
        for ecb in &program.ecbs {
            let layout = Layout::of(ecb, options, last, names);
            for statement in last + 1..=last + ecb.statements.len() as u64 {
                self.statements.insert(statement, self.clauses.len());
            }
            last += ecb.statements.len() as u64;
            let of = &ecb.probe;
            let names = [&of.provider, &of.module, &of.function, &of.name];
            self.clauses.push(Clause {
                description: of.clone(),
                probe: Spec::of_fields(names.map(|name| name.as_bytes())).ok(),
                error,
                size: layout.size as usize,
                data: layout.data.into(),
                origins: Rc::new(Origins::of(ecb, &source)),
            });
            let own = layout.aggregations.into_iter();
            self.aggregations.extend(own.map(|(statement, of)| (statement, Rc::new(of))));
        }
        last
    }

    /// Returns the records of an enabled probe, or how the kernel's description contradicts the program.
    pub(in crate::render) fn eprobe(&self, epid: u32, told: Eprobe) -> Result<KnownProbe> {
        let Eprobe { probe, size, records, .. } = told;
        let clause = match records.first() {
            Some(first) => self.statements.get(&first.uarg).map(|index| &self.clauses[*index]),
            // Without data there is no statement number, and nothing to show.
            None => self.clauses.iter().find(|clause| {
                clause.data.is_empty() && clause.size == size && clause.is_for(&probe)
            }),
        };
        let clause = clause.ok_or(Contradiction::Clause { epid })?;
        if !clause.is_for(&probe) {
            let Description { provider, module, function, name, .. } = &probe;
            let probe = format!("{provider}:{module}:{function}:{name}");
            return Err(Contradiction::Probe { epid, probe }.into());
        }
        let own = clause.data.iter().map(|datum| &datum.desc);
        if clause.size != size || !is_same(own, &records) {
            return Err(Contradiction::Record { epid }.into());
        }
        let (data, origins) = (clause.data.clone(), Some(clause.origins.clone()));
        Ok(KnownProbe { probe, error: clause.error, size, data, origins })
    }

    /// Returns an aggregation, or an error if the kernel's description contradicts the program. Kernels number aggregations from
    /// 1.
    pub(in crate::render) fn aggregation(
        &self,
        told: &AggDescription,
    ) -> Result<Rc<AggDescription>> {
        let id = told.id;
        let own = told.value().and_then(|value| self.aggregations.get(&value.uarg));
        let own = own.filter(|own| {
            (1..=self.aggregations.len()).contains(&(id as usize))
                && (own.variable, own.size) == (told.variable, told.size)
                && is_same(own.records.iter(), &told.records)
        });
        let own = own.ok_or(RenderError::from(Contradiction::Aggregation(id)))?;
        Ok(Rc::new(AggDescription { id, epid: told.epid, ..AggDescription::clone(own) }))
    }

    /// Returns the first aggregation of a variable.
    pub(in crate::render) fn of_variable(&self, variable: u32) -> Option<Rc<AggDescription>> {
        let all = self.aggregations.iter().filter(|(_, of)| of.variable == variable);
        all.min_by_key(|(statement, _)| **statement).map(|(_, of)| of.clone())
    }
}

/// Returns whether descriptions are equal. A kernel chooses the numbers of formats, but not whether there is a format.
fn is_same<'a>(own: impl ExactSizeIterator<Item = &'a RecordDesc>, told: &[RecordDesc]) -> bool {
    own.len() == told.len()
        && own.zip(told).all(|(own, told)| {
            let format = u16::from(told.format != 0);
            *own == RecordDesc { format, pad: own.pad, ..*told }
        })
}

/// Bytes that a record begins with.
const HEADER: u32 = RecordHeader::SIZE as u32;

/// The layout that a kernel gives to the records of a clause.
struct Layout<'o> {
    options: &'o Options,
    /// The data of a record so far, and the keys of the next aggregation.
    data: Vec<KnownDatum>,
    size: u32,
    /// The aggregations, each with the number of its statement.
    aggregations: Vec<(u64, AggDescription)>,
}

impl<'o> Layout<'o> {
    /// Computes the layout of a clause with statements numbered from `before` on.
    fn of<'n>(
        ecb: &Ecb,
        options: &'o Options,
        before: u64,
        names: &impl Fn(u32) -> Option<&'n str>,
    ) -> Self {
        let mut layout = Self { options, data: Vec::new(), size: HEADER, aggregations: Vec::new() };
        let destructive = options.is_set(OptionId::Destructive);
        let mut acts = ecb.actions.iter();
        for (statement, number) in ecb.statements.iter().zip(before + 1..) {
            // The DOF cannot hold an empty format, so the statement has none.
            let text = statement.text.as_deref().filter(|text| !text.is_empty());
            // The DOF's string ends at the first zero.
            let format = text.and_then(|text| Format::parse(until_zero(text)).ok()).map(Rc::new);
            let printed: Option<Rc<str>> =
                text.map(|text| String::from_utf8_lossy(until_zero(text)).into());
            for act in acts.by_ref().take(statement.actions) {
                if act.kind.is_aggregation() {
                    layout.aggregate(act, number, names);
                    continue;
                }
                let (size, arg) = layout.size(act);
                let desc = RecordDesc {
                    action: act.kind.number(),
                    size,
                    alignment: alignment(size),
                    format: text.is_some().into(),
                    arg: if text.is_some() { 0 } else { arg },
                    uarg: number,
                    ..RecordDesc::EMPTY
                };
                layout.data.push(KnownDatum {
                    desc,
                    format: format.clone().filter(|_| act.kind.is_printf_like()),
                    printed: printed.clone().filter(|_| act.kind == Action::DifExpr),
                    permit: Permit::new(act, destructive),
                    variable: variable(act)
                        .filter(|_| !follows_variable(&layout.data, number, act)),
                    name: act.name.as_deref().map(Rc::from),
                    builtin: builtin(act),
                });
            }
        }
        for datum in &mut layout.data {
            let desc = &mut datum.desc;
            desc.offset = layout.size.next_multiple_of(desc.alignment.into());
            layout.size = desc.offset.saturating_add(desc.size);
        }
        let speculates_only = ecb.actions.len() == 1 && ecb.actions[0].kind == Action::Speculate;
        layout.size = match layout.size {
            HEADER if !ecb.actions.is_empty() && !speculates_only => 0,
            size => size.checked_next_multiple_of(4).unwrap_or(u32::MAX),
        };
        layout
    }

    /// Takes the keys before an aggregating action and lays out its tuple.
    fn aggregate<'n>(
        &mut self,
        act: &Act,
        statement: u64,
        name_of: &impl Fn(u32) -> Option<&'n str>,
    ) {
        let first = self.data.len().saturating_sub(act.keys as usize);
        let keys = self.data.split_off(first);
        let variable = keys.first().and_then(|key| key.variable).unwrap_or(0);
        let mut end = size_of::<u32>() as u32;
        let mut records = Vec::with_capacity(keys.len() + 1);
        let (mut names, mut variables) = (Vec::new(), Vec::new());
        for KnownDatum { mut desc, name, builtin, .. } in keys {
            desc.offset = end.next_multiple_of(desc.alignment.into());
            end = desc.offset.saturating_add(desc.size);
            // The increment of a quantization records nothing.
            if desc.size != 0 {
                records.push(desc);
                names.push(name);
                variables.push(builtin);
            }
        }
        let offset = end.checked_next_multiple_of(8).unwrap_or(end);
        let size = words(act).saturating_mul(8);
        records.push(RecordDesc {
            action: act.kind.number(),
            size,
            offset,
            alignment: 8,
            arg: act.arg,
            uarg: statement,
            ..RecordDesc::EMPTY
        });
        // The first datum is the number of the variable, not a key.
        names.drain(..names.len().min(1));
        variables.drain(..variables.len().min(1));
        let name = name_of(variable).unwrap_or_default().to_owned();
        let size = offset.saturating_add(size) as usize;
        let description =
            AggDescription { id: 0, variable, name, epid: 0, size, records, names, variables };
        self.aggregations.push((statement, description));
    }

    /// Returns the value of an option in the type that a kernel uses; 0 if the option has no value.
    fn option(&self, id: OptionId) -> u32 {
        self.options.number(id).unwrap_or_default() as u32
    }

    /// Returns the size of an action's datum in bytes, and its argument with the defaults of the options.
    fn size(&self, act: &Act) -> (u32, u64) {
        let bytes_of = |words: u64| u32::try_from(words.saturating_mul(8)).unwrap_or(u32::MAX);
        let returns = act.difo.as_ref().map(|difo| difo.returns);
        match act.kind {
            Action::DifExpr
            | Action::Printf
            | Action::Printa
            | Action::System
            | Action::Freopen
            | Action::LibAct
            | Action::Tracemem
            | Action::TracememDynsize
            | Action::Printm => {
                let string = |ty: &DifType| ty.size == 0 && ty.kind == TypeKind::String.number();
                let size = returns.map_or(0, |ty| match string(&ty) {
                    true => self.option(OptionId::Strsize),
                    false => ty.size,
                });
                (size, act.arg)
            }
            Action::Exit => (4, act.arg),
            Action::Stack => {
                let usual = self.option(OptionId::Stackframes).into();
                let frames = if act.arg == 0 { usual } else { act.arg };
                (bytes_of(frames), frames)
            }
            Action::Ustack | Action::Jstack => {
                let UstackArg { mut frames, mut string_size } = UstackArg::decode(act.arg);
                if act.kind == Action::Jstack {
                    if string_size == 0 {
                        string_size = self.option(OptionId::Jstackstrsize);
                    }
                    if frames == 0 {
                        frames = self.option(OptionId::Jstackframes);
                    }
                } else if frames == 0 {
                    frames = self.option(OptionId::Ustackframes);
                }
                let size = bytes_of(u64::from(frames) + 1).saturating_add(string_size);
                let arg = UstackArg { frames, string_size }.encode();
                (size.checked_next_multiple_of(8).unwrap_or(u32::MAX), arg)
            }
            Action::Sym | Action::Mod => (8, act.arg),
            Action::Usym | Action::Umod | Action::Uaddr => (16, act.arg),
            _ => (0, act.arg),
        }
    }
}

/// Returns the alignment of a datum of this size.
fn alignment(size: u32) -> u16 {
    match size.trailing_zeros() {
        _ if size == 0 => 1,
        log @ 0..=2 => 1 << log,
        _ => 8,
    }
}

/// Returns the size of an aggregation's value in words.
fn words(act: &Act) -> u32 {
    match act.kind {
        Action::Avg => 2,
        Action::Stddev => 4,
        Action::Quantize => QUANTIZE_BUCKETS as u32,
        Action::Lquantize => u32::from(Lquantize::decode(act.arg).levels) + 3,
        Action::Llquantize => llquantize_words(Llquantize::decode(act.arg)),
        _ => 1,
    }
}

/// Returns the size of an `llquantize` in words (`dtrace_aggregate_llquantize_bucket`).
fn llquantize_words(Llquantize { factor, low, high, steps }: Llquantize) -> u32 {
    let (factor, steps) = (i64::from(factor), i64::from(steps));
    let mut buckets = 1;
    let mut last = factor.checked_pow(low.into()).unwrap_or(i64::MAX);
    for _ in low..=high {
        let Some(this) = last.checked_mul(factor) else { break };
        let of_this = this.min(steps);
        if this.checked_mul(factor).is_none() {
            // The last magnitude that 64 bits hold takes all values above it.
            let width = this.checked_div(of_this).unwrap_or(1).max(1);
            buckets += (this - 1 - last) / width;
            break;
        }
        buckets += of_this - of_this.checked_div(factor).unwrap_or(0);
        last = this;
    }
    u32::try_from(buckets + 2).unwrap_or(u32::MAX)
}

/// Returns the variable of the aggregation that an action names, which is a constant.
fn variable(act: &Act) -> Option<u32> {
    let library = || u16::try_from(act.arg).ok().and_then(LibAction::from_number);
    let names_one = match act.kind {
        Action::Printa | Action::DifExpr => true,
        Action::LibAct => matches!(
            library(),
            Some(
                LibAction::Clear | LibAction::Normalize | LibAction::Denormalize | LibAction::Trunc
            )
        ),
        _ => false,
    };
    act.difo.as_ref().filter(|_| names_one)?.constant().map(|value| value as u32)
}

/// Returns the name of the kernel's variable that is the whole expression of an action.
fn builtin(act: &Act) -> Option<&'static str> {
    let [load, ret] = act.difo.as_ref()?.code[..] else { return None };
    let is_load = load.opcode() == Some(Opcode::Ldgs) && ret == Instr::ret(load.rd());
    let builtin = Builtin::from_number(load.operand()).filter(|_| is_load)?;
    // `id` and `epid` describe the probe, and arguments have names of their own.
    let is_of_probe = builtin == Builtin::Id || builtin == Builtin::Epid;
    Some(builtin.name()).filter(|name| !is_of_probe && !name.starts_with("arg"))
}

/// Returns whether this is the second action of a statement like `normalize`: the divisor, not the aggregation.
fn follows_variable(data: &[KnownDatum], statement: u64, act: &Act) -> bool {
    act.kind == Action::LibAct && data.last().is_some_and(|last| last.desc.uarg == statement)
}
