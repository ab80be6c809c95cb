//! What a kernel tells of its records: of which probe they are, and what stands in them.

use std::collections::HashMap;
use std::rc::Rc;

use dtrace_abi::action::Action;
use dtrace_abi::record::RecordDesc;
use dtrace_compiler::surroundings::Description;

use super::error::{RenderError, Result};
use super::format::Format;

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

/// Descriptions that were asked for are kept: numbers are never given to something else.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    eprobes: HashMap<u32, Rc<Eprobe>>,
    aggregations: HashMap<u32, Rc<AggDescription>>,
    formats: HashMap<u16, Rc<Format>>,
    texts: HashMap<u16, Rc<[u8]>>,
}

impl Catalog {
    pub fn eprobe(&mut self, from: &mut dyn Descriptions, epid: u32) -> Result<Rc<Eprobe>> {
        if let Some(eprobe) = self.eprobes.get(&epid) {
            return Ok(eprobe.clone());
        }
        let eprobe = Rc::new(from.eprobe(epid).ok_or(RenderError::Epid(epid))?);
        self.eprobes.insert(epid, eprobe.clone());
        Ok(eprobe)
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
        let found = Rc::new(found.ok_or(RenderError::Aggregation(id))?);
        self.aggregations.insert(id, found.clone());
        Ok(found)
    }

    /// A format; none has the number 0.
    pub fn format(
        &mut self,
        from: &mut dyn Descriptions,
        number: u16,
    ) -> Result<Option<Rc<Format>>> {
        if let Some(format) = self.formats.get(&number) {
            return Ok(Some(format.clone()));
        }
        let Some(text) = self.text(from, number) else { return Ok(None) };
        let format = Rc::new(Format::parse(&text)?);
        self.formats.insert(number, format.clone());
        Ok(Some(format))
    }

    /// A format's text.
    pub fn text(&mut self, from: &mut dyn Descriptions, number: u16) -> Option<Rc<[u8]>> {
        if number == 0 {
            return None;
        }
        if let Some(text) = self.texts.get(&number) {
            return Some(text.clone());
        }
        let text: Rc<[u8]> = from.format(number)?.into();
        self.texts.insert(number, text.clone());
        Some(text)
    }

    /// The first aggregation of a variable's, counting from 1 on as kernels do.
    pub fn of_variable(
        &mut self,
        from: &mut dyn Descriptions,
        variable: u32,
    ) -> Option<Rc<AggDescription>> {
        (1..=u32::MAX)
            .map_while(|id| self.aggregation(from, id).ok())
            .find(|aggregation| aggregation.variable == variable)
    }
}
