//! What is shown of records.
//!
//! `kernel` is the least kernel that there can be: it runs simple programs, and leaves the records and
//! aggregations that a kernel would leave. `oracle` compares what is made of them with what a real
//! dtrace(1) printed.

mod any;
mod golden;
mod kernel;
mod machine;
mod made;
mod oracle;
mod pictures;
mod printed;
mod structured;
