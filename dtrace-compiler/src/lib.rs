//! D, the language of DTrace: from source to DIF and DOF.
//!
//! # What this is
//!
//! A compiler as a library, for consumers: compiles a program to the DOF that a kernel accepts, with libdtrace's
//! messages and listings.
//!
//! ```
//! use dtrace_abi::{Platform, stability::Attribute};
//! use dtrace_compiler::surroundings::*;
//! use dtrace_compiler::{Compiler, Source, disasm::Listing, dof, options::Options};
//!
//! struct Machine;
//!
//! impl Surroundings for Machine {
//!     fn probes(&self, description: &Description) -> Matches {
//!         if description.name != "BEGIN" {
//!             return Matches::None;
//!         }
//!         let attributes = ProviderAttributes::all(Attribute::DEFAULT);
//!         let module = String::new();
//!         Matches::One(ProbeInfo::new(module, attributes, Vec::new()))
//!     }
//! }
//!
//! let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
//! let program = compiler.compile(Source::file(b"BEGIN { trace(6 * 7); }"), &Machine).unwrap();
//! let difo = program.ecbs[0].actions[0].difo.as_ref().unwrap();
//! let listing = Listing { difo, platform: Platform::Freebsd, name: "0x0" };
//! assert!(listing.to_string().starts_with(
//!     "\nDIFO 0x0 returns D type (integer) (size 4)\n\
//!      OFF OPCODE      INSTRUCTION\n\
//!      00: 25000001    setx DT_INTEGER[0], %r1\t\t! 0x2a\n\
//!      01: 23000001    ret  %r1\n"
//! ));
//! let image = dof::program(&program, compiler.options()).unwrap();
//! assert!(image.starts_with(b"\x7fDOF"));
//!
//! let error = compiler.compile(Source::file(b"END { }"), &Machine).unwrap_err();
//! assert_eq!(
//!     error.with_tag(),
//!     "[D_PDESC_ZERO] line 1: probe description :::END does not match any probes"
//! );
//! ```
//!
//! # What it is not
//!
//! It sends no request to a kernel and reads no file: the caller describes the probes and types by implementing
//! [`Surroundings`](surroundings::Surroundings). It runs no program (`sdt-framework` or a real kernel does), and prints only
//! listings (`dtrace_consumer::render` prints records). The C preprocessor, translators that the kernel applies, and sections that
//! describe a program's own probes are not supported here.
//!
//! # Where to read on
//!
//! Start at [`Compiler::compile`]; [`surroundings`] is the only interface to the outside. To change the language, begin
//! with the table of stages below; for how the parts fit, `docs/architecture.md` of the project.
//!
//! # Stages of compilation
//!
//! | stage | from | to | libdtrace's file |
//! |---|---|---|---|
//! | `lex` | bytes | tokens, in the vocabulary that the parser selects | dt_lex.l |
//! | `parse` | tokens | the tree of `syntax` | dt_grammar.y |
//! | `sema` | the tree | nodes with types, identifiers and stability, or an error | dt_parser.c, dt_decl.c, dt_ident.c, dt_xlator.c, dt_pragma.c |
//! | `compile` | nodes | clauses and their actions ([`program`]) | dt_cc.c, dt_printf.c |
//! | `codegen` | an expression's nodes | a DIFO: code, integers, strings, variables | dt_cg.c, dt_as.c, dt_regset.c |
//! | [`disasm`] | a DIFO | the listing of `dtrace -S` | dt_dis.c |
//! | [`dof`] | a program | the file that a kernel accepts | dt_dof.c |
//!
//! [`surroundings`] is the one interface to the system on which a program runs: probes with the types of their arguments, types
//! and symbols of modules, macro variables. [`types`] holds the types of programs and of that system. [`options`] has the table of
//! all options of `dtrace -x`.
//!
//! # Differences from libdtrace
//!
//! Errors have libdtrace's tags and wording. Registers, instructions and the order of the tables are libdtrace's too,
//! so that listings are equal to the byte; `tests/data/oracle` contains programs with the output of a real dtrace(1),
//! and `tests/oracle.rs` compares them all. Differences on purpose:
//!
//! - A refused program leaves the compiler unchanged.
//! - Trees deeper than the parser allows are refused with an error, where libdtrace overflows its stack.
//! - A constant that is shifted by 64 bits or more is shifted by the count modulo 64, like a register of the machine.
//!   In libdtrace, C does not define the result.
//! - A pragma in the last line takes effect even if the line does not end with a newline.
//! - Types with more than 800 levels of pointers, arrays and structs are refused, as are chains of more than 256
//!   inlines, and a struct that contains itself.
//! - Types that are larger than 2^48 bytes are refused, where libdtrace's sizes wrap.
//! - If registers do not suffice, keys and arguments without side effects are pushed onto the tuple stack one by one.
//! - Beyond its language: `//` comments, members without a name, inlines with parameters that are called with `( )`, types and
//!   constants that every kernel has, without a declaration (`sema/conventional.d`), and the assignment of 0 to dynamic variables
//!   that are structs.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

pub mod declared;
pub mod disasm;
pub mod dof;
pub mod libraries;
pub mod options;
pub mod program;
pub mod surroundings;
pub mod types;

mod arguments;
mod codegen;
mod compile;
mod compiler;
mod error;
mod lex;
mod parse;
mod place;
mod sema;
mod stack;
mod suggest;
mod syntax;
mod text;
mod version;

pub use arguments::name_of;
pub use compile::Specifies;
pub use compiler::{Aggregation, Compiler, Source};
pub use error::Error;
pub use place::Place;
pub use suggest::{closest, did_you_mean};
pub use version::Version;
