//! The data of a record as one text, and as values by name.

use crate::render::aggregate::label::LabelValue;
use crate::render::data::argument::Argument;
use crate::render::data::error::Result;
use crate::render::data::view::View;
use crate::render::sink::Datum;

/// The data of the current record.
#[derive(Debug, Default)]
pub(in crate::render) struct Recorded {
    text: Vec<u8>,
    /// Values that have a name, in the order of their recording. Of several with one name, the first counts.
    named: Vec<(String, LabelValue)>,
    /// The kernel's variables, such as `tid`.
    variables: Vec<(&'static str, LabelValue)>,
}

impl Recorded {
    /// Discards all data, for the next record.
    pub fn clear(&mut self) {
        self.text.clear();
        self.named.clear();
        self.variables.clear();
    }

    /// Returns whether nothing was recorded.
    #[cfg(feature = "otlp")]
    pub const fn is_empty(&self) -> bool {
        self.text.is_empty() && self.named.is_empty()
    }

    /// Returns the text without blanks at its end.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.text).trim_end().to_owned()
    }

    /// Returns the values that have a name.
    pub fn named(&self) -> &[(String, LabelValue)] {
        &self.named
    }

    /// Returns the value with a name.
    pub fn value(&self, name: &str) -> Option<&LabelValue> {
        self.named.iter().find(|(of, _)| of == name).map(|(_, value)| value)
    }

    /// Returns the values of the kernel's variables.
    pub fn variables(&self) -> &[(&'static str, LabelValue)] {
        &self.variables
    }

    /// Returns the value of one of the kernel's variables.
    pub fn variable(&self, name: &str) -> Option<&LabelValue> {
        self.variables.iter().find(|(of, _)| *of == name).map(|(_, value)| value)
    }

    fn name(&mut self, argument: &Argument<'_>, view: &View<'_>) {
        if let Some(name) = argument.name
            && self.value(name).is_none()
        {
            self.named.push((name.to_owned(), LabelValue::of(argument, view)));
        }
        if let Some(name) = argument.variable
            && self.variable(name).is_none()
        {
            self.variables.push((name, LabelValue::of(argument, view)));
        }
    }

    /// Adds a datum.
    ///
    /// # Errors
    /// The data do not match their format.
    pub fn add(&mut self, datum: &Datum<'_>, view: &View<'_>) -> Result {
        let text = match datum {
            Datum::Printf(format, arguments) => {
                arguments.iter().for_each(|argument| self.name(argument, view));
                return format.show(&mut self.text, view, arguments, &[]);
            }
            Datum::Value(value) => {
                self.name(value, view);
                LabelValue::of(value, view).to_string()
            }
            Datum::Place(place) => place.names(view).join("\n"),
            _ => return Ok(()),
        };
        if !self.text.is_empty() {
            self.text.push(b' ');
        }
        self.text.extend_from_slice(text.as_bytes());
        Ok(())
    }
}
