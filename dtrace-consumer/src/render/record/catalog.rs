//! The descriptions that a kernel has sent, compared with the programs of this run.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use dtrace_abi::action::Action;
use dtrace_abi::record::RecordDesc;

use crate::escape;
use crate::render::data::error::{RenderError, Result};
use crate::render::data::format::{Format, FormatError};
use crate::render::record::compiled::Compiled;
use crate::render::record::description::{
    AggDescription, Descriptions, Eprobe, KnownDatum, KnownProbe,
};

/// The meaning of records by the kernel's numbers. Each description is requested once: a kernel never reuses a number.
#[derive(Debug, Default)]
pub(in crate::render) struct Catalog {
    /// The programs that this run compiled: they decide what records mean. `None` if another run compiled the programs: then the
    /// kernel's descriptions decide.
    compiled: Option<Compiled>,
    eprobes: BTreeMap<u32, Rc<KnownProbe>>,
    aggregations: HashMap<u32, Rc<AggDescription>>,
    /// Formats, and types that `print` shows, of programs of another run.
    texts: HashMap<u16, Rc<Text>>,
}

/// A text from a program of another run.
#[derive(Debug)]
struct Text {
    /// The text with escaped control characters.
    shown: Rc<str>,
    format: std::result::Result<Rc<Format>, FormatError>,
}

impl Catalog {
    /// Creates a catalog of these programs; `None` if another run compiled the programs.
    pub fn new(compiled: Option<Compiled>) -> Self {
        Self { compiled, ..Self::default() }
    }

    pub fn eprobe(&mut self, from: &mut dyn Descriptions, epid: u32) -> Result<Rc<KnownProbe>> {
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

    /// Converts the kernel's description of an enabled probe whose program another run compiled.
    fn others(&mut self, from: &mut dyn Descriptions, told: Eprobe) -> Result<KnownProbe> {
        let Eprobe { probe, error, size, records } = told;
        let datum = |desc: RecordDesc| -> Result<KnownDatum> {
            let text = self.text(from, desc.format);
            let text = text.as_deref();
            let action = Action::from_number(desc.action);
            let mut datum = KnownDatum {
                desc,
                format: None,
                printed: None,
                permit: None,
                variable: None,
                name: None,
                builtin: None,
            };
            match (action, text) {
                (Some(action), Some(text)) if action.is_printf_like() => {
                    datum.format = Some(text.format.clone()?);
                }
                (Some(Action::DifExpr), Some(text)) => datum.printed = Some(text.shown.clone()),
                // The kernel has no format of this number.
                (Some(Action::DifExpr), None) if desc.format != 0 => {
                    datum.printed = Some("".into())
                }
                _ => {}
            }
            Ok(datum)
        };
        let data: Result<Vec<KnownDatum>> = records.into_iter().map(datum).collect();
        Ok(KnownProbe { probe, error, size, data: data?.into(), origins: None })
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

    /// Returns a text from a program of another run by its number; the number 0 means no text.
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

    /// Returns whether the programs of this run, not the kernel's descriptions, decide what records mean.
    pub const fn is_own(&self) -> bool {
        self.compiled.is_some()
    }

    /// Returns the first aggregation of a variable.
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
