//! Bytes of real modules changed at random, outside of their code. What the check passes, the stand-in kernel's loaders
//! load, or refuse as the real ones would; nothing of it may be what a real kernel would have panicked by.

use std::fmt;
use std::ops::Range;

use stand_in_freebsd::loader::Machine;

use crate::edit::{FREEBSD, ILLUMOS};
use crate::{krtld, loader};

/// A module whose bytes are changed.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// What it is called in messages.
    pub name: &'static str,
    kind: Kind,
    whole: &'static [u8],
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    FreeBsd(Machine),
    Illumos,
}

/// All modules that `cargo xtask kmod` has built among those that are fuzzed.
pub fn subjects() -> Vec<Subject> {
    let freebsd = ["FreeBSD, x86_64", "FreeBSD, aarch64", "FreeBSD, riscv64"];
    let freebsd = freebsd.into_iter().zip(FREEBSD);
    let freebsd = freebsd.map(|(name, &(machine, whole))| Subject {
        name,
        kind: Kind::FreeBsd(machine),
        whole,
    });
    let illumos = ["illumos", "illumos, own provider", "illumos, companion", "illumos, in C"];
    let illumos = illumos.into_iter().zip(ILLUMOS);
    freebsd
        .chain(illumos.map(|(name, &(_, whole))| Subject { name, kind: Kind::Illumos, whole }))
        .collect()
}

/// What became of the changed modules.
#[derive(Debug, Default)]
pub struct Tally {
    /// How many there were.
    pub flips: usize,
    /// Those that the check passed.
    pub passed: usize,
    /// Of these, those that were loaded; the others were refused.
    pub loaded: usize,
    /// Those that a real kernel would have panicked by, if the check had not been.
    pub dangerous: usize,
    /// Those that it would have panicked by though the check passed them.
    pub panics: Vec<Panic>,
}

/// One byte that makes a kernel panic.
#[derive(Debug)]
pub struct Panic {
    /// Where in the file.
    pub offset: usize,
    /// What it was.
    pub from: u8,
    /// What it became.
    pub to: u8,
    /// What would have been the end.
    pub said: String,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { flips, passed, loaded, dangerous, panics } = self;
        let panics = panics.len();
        write!(
            f,
            "{flips} flips: {dangerous} would have panicked; {passed} passed the check, of which {loaded} were loaded and {panics} would have panicked"
        )
    }
}

/// Changes a byte of a module, `flips` times, each time another one of the whole module.
///
/// # Panics
/// When the module as it is is not passed and loaded.
pub fn run(subject: Subject, seed: u64, flips: usize) -> Tally {
    let Subject { whole, kind, name } = subject;
    assert_eq!(loads(kind, whole), Ok(()), "{name}");
    assert!(passes(kind, whole), "{name}");
    let code = code(whole);
    let mut random = Random(seed);
    let mut tally = Tally::default();
    while tally.flips < flips {
        let offset = random.below(whole.len());
        let (from, to) = (whole[offset], random.below(256) as u8);
        if from == to || code.iter().any(|code| code.contains(&offset)) {
            continue;
        }
        tally.flips += 1;
        let mut file = whole.to_vec();
        file[offset] = to;
        let loaded = loads(kind, &file);
        let panic = matches!(&loaded, Err((_, true)));
        tally.dangerous += usize::from(panic);
        if !passes(kind, &file) {
            continue;
        }
        tally.passed += 1;
        tally.loaded += usize::from(loaded.is_ok());
        if let Err((said, true)) = loaded {
            tally.panics.push(Panic { offset, from, to, said });
        }
    }
    tally
}

fn passes(kind: Kind, file: &[u8]) -> bool {
    match kind {
        Kind::FreeBsd(_) => cargo_sdt::check::module(file).is_ok(),
        Kind::Illumos => cargo_sdt::check::illumos::module(file).is_ok(),
    }
}

/// Loads a module into a kernel of its own. If that refuses it: why, and whether the real one would have panicked.
fn loads(kind: Kind, file: &[u8]) -> Result<(), (String, bool)> {
    match kind {
        Kind::FreeBsd(machine) => loader::load_alone(machine, file)
            .map_err(|refusal| (refusal.to_string(), refusal.would_have_panicked())),
        Kind::Illumos => krtld::load_alone(file)
            .map_err(|refusal| (refusal.to_string(), refusal.would_have_panicked())),
    }
}

/// Where the code of a file is.
fn code(file: &[u8]) -> Vec<Range<usize>> {
    const EXECUTABLE: u64 = 4;
    const NOBITS: u64 = 8;
    let number = |at: usize, width: usize| {
        file[at..at + width].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    };
    let (table, count) = (number(0x28, 8) as usize, number(0x3c, 2) as usize);
    let headers = (0..count).map(|index| table + index * 64);
    let code = headers
        .filter(|&at| number(at + 8, 8) & EXECUTABLE != 0 && number(at + 4, 4) != NOBITS)
        .map(|at| number(at + 24, 8) as usize..(number(at + 24, 8) + number(at + 32, 8)) as usize);
    code.collect()
}

/// Numbers that are the same each time: splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % limit as u64) as usize
    }
}
