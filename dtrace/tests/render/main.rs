//! What is shown of records that are written down, not traced; those of programs are in `tests/oracle`.

mod any;
mod golden;
mod made;
mod pictures;
mod printed;
mod structured;
