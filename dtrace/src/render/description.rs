//! What records are: of which probe, and what stands in them. By the programs of this run ([`Compiled`]), or, of what others
//! have enabled, by what a kernel tells.

use std::collections::HashMap;
use std::rc::Rc;

use dtrace_abi::action::Action;
use dtrace_abi::record::RecordDesc;
use dtrace_compiler::surroundings::Description;

use super::compiled::Compiled;
use super::effect::Permit;
use super::error::{RenderError, Result};
use super::format::{Format, FormatError};
use crate::escape;

/// An enabled probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Eprobe {
    /// The probe.
    pub probe: Description,
    /// Whether its records are those of the library's own `dtrace:::ERROR` clause (`DT_ECB_ERROR`).
    pub error: bool,
    /// Bytes of one record, its header included.
    pub size: usize,
    /// What stands in it; offsets count from its header.
    pub records: Vec<RecordDesc>,
}

/// One use of an aggregation: a statement that aggregates.
#[derive(Clone, Debug, PartialEq)]
pub struct AggDescription {
    /// Its number.
    pub id: u32,
    /// Number of the variable.
    pub variable: u32,
    /// Its name, without `@`.
    pub name: String,
    /// Number of the enabled probe.
    pub epid: u32,
    /// Bytes of one element, its header included.
    pub size: usize,
    /// The number of the variable, the keys, the value.
    pub records: Vec<RecordDesc>,
}

impl AggDescription {
    /// The value's description.
    pub fn value(&self) -> Option<&RecordDesc> {
        self.records.last()
    }

    /// The keys' descriptions.
    pub fn keys(&self) -> &[RecordDesc] {
        match &self.records[..] {
            [_, keys @ .., _] => keys,
            _ => &[],
        }
    }

    /// What it aggregates by.
    pub fn action(&self) -> Option<Action> {
        Action::from_number(self.value()?.action).filter(|action| action.is_aggregation())
    }
}

/// Where descriptions come from: a kernel, most often.
pub trait Descriptions {
    /// An enabled probe (`DTRACEIOC_EPROBE`, `DTRACEIOC_PROBES`).
    fn eprobe(&mut self, epid: u32) -> Option<Eprobe>;
    /// An aggregation (`DTRACEIOC_AGGDESC`).
    fn aggregation(&mut self, id: u32) -> Option<AggDescription>;
    /// A format, or the type of what `print` shows (`DTRACEIOC_FORMAT`).
    fn format(&mut self, number: u16) -> Option<Vec<u8>>;
}

/// Descriptions that are all there.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Enabled probes.
    pub eprobes: HashMap<u32, Eprobe>,
    /// Aggregations.
    pub aggregations: HashMap<u32, AggDescription>,
    /// Formats.
    pub formats: HashMap<u16, Vec<u8>>,
}

impl Descriptions for Tables {
    fn eprobe(&mut self, epid: u32) -> Option<Eprobe> {
        self.eprobes.get(&epid).cloned()
    }

    fn aggregation(&mut self, id: u32) -> Option<AggDescription> {
        self.aggregations.get(&id).cloned()
    }

    fn format(&mut self, number: u16) -> Option<Vec<u8>> {
        self.formats.get(&number).cloned()
    }
}

/// A datum of a record, and what it means.
#[derive(Clone, Debug)]
pub(super) struct Datum {
    /// Its action and place.
    pub desc: RecordDesc,
    /// The format, of actions that have one.
    pub format: Option<Rc<Format>>,
    /// The name of the type that `print` shows.
    pub printed: Option<Rc<str>>,
    /// What its action may have done on this machine.
    pub permit: Option<Permit>,
    /// The aggregation that its action names, if the compiler says which.
    pub variable: Option<u32>,
}

/// An enabled probe whose records are known.
#[derive(Debug)]
pub(super) struct Known {
    /// The probe.
    pub probe: Description,
    /// Whether its records are those of the library's own clause for faults.
    pub error: bool,
    /// Bytes of one record, its header included.
    pub size: usize,
    /// What stands in it.
    pub data: Rc<[Datum]>,
}

/// What records mean, by the numbers that a kernel has given. Each is asked for once: numbers are never given to something
/// else.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    /// The programs that this run compiled, which decide; `None` if what is shown was enabled by others, whose descriptions
    /// are all that there is.
    compiled: Option<Compiled>,
    eprobes: HashMap<u32, Rc<Known>>,
    aggregations: HashMap<u32, Rc<AggDescription>>,
    /// Formats of others, and types of what they `print`; the text, escaped, and what it is as a format.
    texts: HashMap<u16, Rc<Text>>,
}

/// A text that others made.
#[derive(Debug)]
struct Text {
    /// What a terminal would obey is no part of it.
    shown: Rc<str>,
    format: std::result::Result<Rc<Format>, FormatError>,
}

impl Catalog {
    /// Of these programs, or of others.
    pub fn new(compiled: Option<Compiled>) -> Self {
        Self { compiled, ..Self::default() }
    }

    pub fn eprobe(&mut self, from: &mut dyn Descriptions, epid: u32) -> Result<Rc<Known>> {
        if let Some(eprobe) = self.eprobes.get(&epid) {
            return Ok(eprobe.clone());
        }
        let told = from.eprobe(epid).ok_or(RenderError::Epid(epid))?;
        let known = match &self.compiled {
            Some(compiled) => compiled.eprobe(epid, told)?,
            None => self.others(from, told)?,
        };
        let known = Rc::new(known);
        self.eprobes.insert(epid, known.clone());
        Ok(known)
    }

    /// An enabled probe of a program that was not compiled here, as it is described.
    fn others(&mut self, from: &mut dyn Descriptions, told: Eprobe) -> Result<Known> {
        let Eprobe { probe, error, size, records } = told;
        let datum = |desc: RecordDesc| -> Result<Datum> {
            let text = self.text(from, desc.format);
            let text = text.as_deref();
            let action = Action::from_number(desc.action);
            let mut datum =
                Datum { desc, format: None, printed: None, permit: None, variable: None };
            match (action, text) {
                (Some(action), Some(text)) if action.is_printf_like() => {
                    datum.format = Some(text.format.clone()?);
                }
                (Some(Action::DifExpr), Some(text)) => datum.printed = Some(text.shown.clone()),
                // The number of a format that there is not.
                (Some(Action::DifExpr), None) if desc.format != 0 => {
                    datum.printed = Some("".into())
                }
                _ => {}
            }
            Ok(datum)
        };
        let data: Result<Vec<Datum>> = records.into_iter().map(datum).collect();
        Ok(Known { probe, error, size, data: data?.into() })
    }

    pub fn aggregation(
        &mut self,
        from: &mut dyn Descriptions,
        id: u32,
    ) -> Result<Rc<AggDescription>> {
        if let Some(aggregation) = self.aggregations.get(&id) {
            return Ok(aggregation.clone());
        }
        let found = from.aggregation(id).filter(|found| found.action().is_some());
        let found = found.ok_or(RenderError::Aggregation(id))?;
        let found = match &self.compiled {
            Some(compiled) => compiled.aggregation(&found)?,
            None => Rc::new(found),
        };
        self.aggregations.insert(id, found.clone());
        Ok(found)
    }

    /// A text of others; none has the number 0.
    fn text(&mut self, from: &mut dyn Descriptions, number: u16) -> Option<Rc<Text>> {
        if number == 0 {
            return None;
        }
        if let Some(known) = self.texts.get(&number) {
            return Some(known.clone());
        }
        let bytes = from.format(number)?;
        let shown = String::from_utf8_lossy(&bytes);
        let shown = escape::lines(&shown);
        let format = Format::parse(shown.as_bytes()).map(Rc::new);
        let text = Rc::new(Text { shown: (*shown).into(), format });
        self.texts.insert(number, text.clone());
        Some(text)
    }

    /// Whether the programs of this run decide.
    pub const fn is_own(&self) -> bool {
        self.compiled.is_some()
    }

    /// The first aggregation of a variable's.
    pub fn of_variable(
        &mut self,
        from: &mut dyn Descriptions,
        variable: u32,
    ) -> Option<Rc<AggDescription>> {
        match &self.compiled {
            Some(compiled) => compiled.of_variable(variable),
            // Kernels count from 1 on.
            None => (1..=u32::MAX)
                .map_while(|id| self.aggregation(from, id).ok())
                .find(|aggregation| aggregation.variable == variable),
        }
    }
}
