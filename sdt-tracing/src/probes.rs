//! The provider `tracing`.

use sdt_core::sdt_provider;

sdt_provider! {
    /// Events and spans of the crate `tracing`.
    ///
    /// `fields` is a JSON object. A span's `id` is unique among the spans that exist at the same time.
    pub tracing {
        /// An event. `span` is the id of its span, or 0.
        fn event(level: &str, target: &str, message: &str, fields: &str, span: u64);
        /// A span was created. `parent` is the id of its parent, or 0.
        fn span_start(id: u64, parent: u64, level: &str, target: &str, name: &str, fields: &str);
        /// Fields were recorded in a span after its start.
        fn span_record(id: u64, fields: &str);
        /// A thread has entered a span. A span of an async task is entered at each poll.
        fn span_enter(id: u64, target: &str, name: &str);
        /// A thread has left a span.
        fn span_exit(id: u64, target: &str, name: &str);
        /// The last handle of a span was dropped.
        fn span_done(id: u64, target: &str, name: &str);
    }
}
