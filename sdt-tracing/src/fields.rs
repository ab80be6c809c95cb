//! The fields of a span or event as text.

use std::cell::Cell;
use std::fmt::{self, Write as _};

use serde::ser::{SerializeMap, Serializer as _};
use tracing_core::field::{Field, Visit};
use tracing_serde::SerdeMapVisitor;

/// The field that holds the text of an event.
const MESSAGE: &str = "message";

/// Buffers that grew beyond this size, in bytes, are freed after use.
const KEPT: usize = 64 << 10;

thread_local! {
    /// The buffers of this thread. They are taken while in use, so an event inside the `Debug` of a field gets new ones.
    static BUFFERS: Cell<Text> = const { Cell::new(Text { message: String::new(), json: Vec::new() }) };
}

/// The message, and all other fields as a JSON object.
#[derive(Debug, Default)]
pub(crate) struct Text {
    message: String,
    json: Vec<u8>,
}

impl Text {
    /// Calls `use_it` with the message and the fields that `record` passes to its visitor.
    pub(crate) fn with(record: impl FnOnce(&mut dyn Visit), use_it: impl FnOnce(&str, &str)) {
        // While the thread ends, its thread-local variables may have been dropped already.
        let mut text = BUFFERS.try_with(Cell::take).unwrap_or_default();
        text.message.clear();
        text.json.clear();
        text.fill(record);
        use_it(&text.message, std::str::from_utf8(&text.json).unwrap_or_default());
        if text.message.capacity() <= KEPT && text.json.capacity() <= KEPT {
            let _ = BUFFERS.try_with(|buffers| buffers.set(text));
        }
    }

    fn fill(&mut self, record: impl FnOnce(&mut dyn Visit)) {
        let mut serializer = serde_json::Serializer::new(&mut self.json);
        let Ok(map) = serializer.serialize_map(None) else { return };
        let mut fields = Fields { message: &mut self.message, others: SerdeMapVisitor::new(map) };
        record(&mut fields);
        // Writing to a `Vec` does not fail.
        let _ = fields.others.finish();
    }
}

/// Separates the message from the other fields.
struct Fields<'a, S: SerializeMap> {
    message: &'a mut String,
    others: SerdeMapVisitor<S>,
}

impl<S: SerializeMap> Visit for Fields<'_, S> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == MESSAGE {
            // Fails only if `value` does; then the text ends there.
            let _ = write!(self.message, "{value:?}");
        } else {
            self.others.record_debug(field, value);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == MESSAGE {
            self.message.push_str(value);
        } else {
            self.others.record_str(field, value);
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.others.record_f64(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.others.record_i64(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.others.record_u64(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.others.record_bool(field, value);
    }
}
