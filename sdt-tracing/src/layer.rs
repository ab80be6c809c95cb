//! The layer, and the filter that lets events and spans pass while a probe is enabled.

use sdt_core::{sdt_enabled, sdt_probe};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Metadata, Subscriber};
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::layer::{Context, Filter, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::fields::Text;
use crate::probes::tracing;

/// Returns a layer that fires the probes of the provider `tracing`, and does nothing while none of them is enabled.
///
/// Add it to the program's subscriber beside its other layers. It passes all levels; filters of other layers do not affect it.
pub fn layer<S>() -> Filtered<Probes, WhileEnabled, S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    Probes(()).with_filter(WhileEnabled(()))
}

/// Fires the probes. [`layer`] makes it.
#[derive(Debug)]
pub struct Probes(());

/// Passes events while the probe `event` is enabled, and spans while any probe is. [`layer`] makes it.
#[derive(Debug)]
pub struct WhileEnabled(());

impl<S> Filter<S> for WhileEnabled {
    fn enabled(&self, metadata: &Metadata<'_>, _context: &Context<'_, S>) -> bool {
        // The probe `event` shows the span of each event.
        if metadata.is_span() { sdt_enabled!(tracing::*) } else { sdt_enabled!(tracing::event) }
    }
}

impl<S> Layer<S> for Probes
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        let span = context.event_span(event).map_or(0, |span| span.id().into_u64());
        let (level, target) = (metadata.level().as_str(), metadata.target());
        Text::with(
            |visitor| event.record(visitor),
            |message, fields| sdt_probe!(tracing::event, level, target, message, fields, span),
        );
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if !sdt_enabled!(tracing::span_start) {
            return;
        }
        let metadata = attributes.metadata();
        let parent = context.span(id).and_then(|span| span.parent());
        let parent = parent.map_or(0, |span| span.id().into_u64());
        let (level, target, name) = (metadata.level().as_str(), metadata.target(), metadata.name());
        Text::with(
            |visitor| attributes.record(visitor),
            |_, fields| {
                sdt_probe!(tracing::span_start, id.into_u64(), parent, level, target, name, fields);
            },
        );
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _context: Context<'_, S>) {
        if !sdt_enabled!(tracing::span_record) {
            return;
        }
        Text::with(
            |visitor| values.record(visitor),
            |_, fields| sdt_probe!(tracing::span_record, id.into_u64(), fields),
        );
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if let Some(metadata) = context.metadata(id) {
            let (target, name) = (metadata.target(), metadata.name());
            sdt_probe!(tracing::span_enter, id.into_u64(), target, name);
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        if let Some(metadata) = context.metadata(id) {
            let (target, name) = (metadata.target(), metadata.name());
            sdt_probe!(tracing::span_exit, id.into_u64(), target, name);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(metadata) = context.metadata(&id) {
            let (target, name) = (metadata.target(), metadata.name());
            sdt_probe!(tracing::span_done, id.into_u64(), target, name);
        }
    }
}
