//! A kernel's console: its commands, and its output.

mod common;

use std::fmt::{self, Write};

use common::{SMALL, Small, Threads, small};
use sdt_core::ops::{Privileges, ProbeId, ProviderAttr};
use sdt_core::runtime::{Provider, Slot, arg};
use sdt_framework::ConsumerError;
use sdt_framework::console::{Console, ConsoleError};

/// Creates a framework that is never freed, with the probes `lamp:::on`, which has arguments of each kind, and `lamp:::off`.
fn lamp() -> (&'static Small, ProbeId, ProbeId) {
    Threads::bind(0);
    let dtrace: &Small = Box::leak(small());
    let slots: &[Slot] = Box::leak(Box::new([const { Slot::new() }; 2]));
    let lamp: &Provider = Box::leak(Box::new(Provider::new(slots)));
    let (attr, privileges) = (&ProviderAttr::SDT, Privileges::USER);
    // SAFETY: the program of the tests is never unloaded.
    unsafe { lamp.open_with(dtrace, c"house", c"lamp", attr, privileges) }.unwrap();
    let kinds = [arg::<i32>(), arg::<u64>(), arg::<&std::ffi::CStr>(), arg::<i64>(), arg::<bool>()];
    lamp.add(c"switch", c"on", &kinds).unwrap();
    lamp.add(c"none", c"off", &[]).unwrap();
    let [mut on, mut off] = [None; 2];
    dtrace.for_each_probe(&common::spec("lamp:::on"), |probe| on = Some(probe.id())).unwrap();
    dtrace.for_each_probe(&common::spec("lamp:::off"), |probe| off = Some(probe.id())).unwrap();
    (dtrace, on.unwrap(), off.unwrap())
}

const LIST: &str = "   ID   PROVIDER            MODULE                          FUNCTION NAME\n";
const HEADING: &str = "CPU     ID                    FUNCTION:NAME\n";

/// Returns the output of one line.
fn typed(console: &mut Console<'_>, line: &str) -> Result<String, ConsoleError> {
    let mut out = String::new();
    console.command(line, &mut out).map(|()| out)
}

#[test]
fn probes_are_listed_as_dtrace_does() {
    let (dtrace, ..) = lamp();
    let mut console = Console::<2048>::new(dtrace);
    let on = "    1       lamp             house                            switch on\n";
    let off = "    2       lamp             house                              none off\n";
    assert_eq!(typed(&mut console, "-l").unwrap(), [LIST, on, off].concat());
    for line in ["-l -n on", "-l -n 'lamp:::on'", "-n on -l", "-l -f switch", " -l  -n \"on\" "] {
        assert_eq!(typed(&mut console, line).unwrap(), [LIST, on].concat(), "{line}");
    }
    let both = [LIST, off, on].concat();
    assert_eq!(typed(&mut console, "-l -n off -n on").unwrap(), both);
}

#[test]
fn hits_are_printed_with_their_arguments() {
    let (dtrace, on, off) = lamp();
    let mut console = Console::<2048>::new(dtrace);
    let args = [-7_i64 as u64, 7, 0x1000, u64::MAX, 1, 0];
    dtrace.probe(on, &args);
    let mut out = typed(&mut console, "-n lamp:::").unwrap();
    let matched = "dtrace: description 'lamp:::' matched 2 probes\n";
    assert_eq!(out, [matched, HEADING].concat());
    out.clear();

    dtrace.probe(on, &args);
    dtrace.probe(off, &args);
    assert!(console.print(&mut out).unwrap());
    assert!(!console.print(&mut out).unwrap(), "everything has been printed");
    let hit = "  0      1                        switch:on -7 7 0x1000 -1 1\n";
    let other = "  0      2                         none:off\n";
    assert_eq!(out, [hit, other].concat());
    out.clear();

    // The remaining records are printed at the end, and later hits are not recorded.
    dtrace.probe(off, &args);
    assert_eq!(typed(&mut console, "stop").unwrap(), other);
    dtrace.probe(off, &args);
    assert!(!console.print(&mut out).unwrap());
    assert_eq!(typed(&mut console, "stop").unwrap(), "", "nothing is left to stop");
    assert_eq!(typed(&mut console, "-n off").unwrap().lines().count(), 2, "it begins again");
}

#[test]
fn what_does_not_fit_is_told() {
    let (dtrace, _, off) = lamp();
    let mut console = Console::<2048>::new(dtrace);
    typed(&mut console, "-n off").unwrap();
    (0..11).for_each(|_| dtrace.probe(off, &[0; 6]));
    let mut out = String::new();
    console.print(&mut out).unwrap();
    assert_eq!(out.matches("none:off").count(), 8);
    assert!(out.ends_with("dtrace: 3 drops on CPU 0\n"), "{out}");
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    let (dtrace, _, off) = lamp();
    let mut console = Console::<2048>::new(dtrace);
    for line in ["", "  ", "help", "-n", "-l -x on", "stop now", "-n off on"] {
        assert_eq!(typed(&mut console, line), Err(ConsoleError::Usage), "{line:?}");
    }
    let nothing = ConsoleError::NoMatch { description: 2 };
    assert_eq!(typed(&mut console, "-n off -n dark"), Err(nothing));
    assert!(matches!(typed(&mut console, "-P a:b"), Err(ConsoleError::Spec(_))));
    dtrace.probe(off, &[0; 6]);
    assert!(!console.print(&mut String::new()).unwrap(), "nothing has been enabled");

    let others: Vec<_> = (0..SMALL.consumers).map(|_| dtrace.open().unwrap()).collect();
    let full = ConsumerError::TooManyConsumers { max: SMALL.consumers };
    assert_eq!(typed(&mut console, "-n off"), Err(ConsoleError::Refused(full)));
    others.into_iter().for_each(|other| dtrace.close(other).unwrap());
    typed(&mut console, "-n off").unwrap();
}

/// A console whose driver has a probe.
struct Driver(&'static Small, ProbeId, String);

impl Write for Driver {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.probe(self.1, &[0; 6]);
        self.2.push_str(text);
        Ok(())
    }
}

#[test]
fn printing_may_fire_what_it_prints() {
    let (dtrace, _, off) = lamp();
    let mut console = Console::<2048>::new(dtrace);
    let mut out = Driver(dtrace, off, String::new());
    console.command("-n off", &mut out).unwrap();
    for _ in 0..3 {
        out.2.clear();
        assert!(console.print(&mut out).unwrap());
        let lines = out.2.matches("none:off\n").count();
        assert!((1..=8).contains(&lines), "each comes to its end: {}", out.2);
    }
    console.command("stop", &mut out).unwrap();
}

/// A console that returns an error for each write.
struct Gone;

impl Write for Gone {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Err(fmt::Error)
    }
}

#[test]
fn a_console_that_fails_does_not_stay_enabled() {
    let (dtrace, _, off) = lamp();
    let mut console = Console::<2048>::new(dtrace);
    assert_eq!(console.command("-l", &mut Gone), Err(ConsoleError::Write(fmt::Error)));
    typed(&mut console, "-n off").unwrap();
    dtrace.probe(off, &[0; 6]);
    assert_eq!(console.stop(&mut Gone), Err(ConsoleError::Write(fmt::Error)));
    let open: Vec<_> = (0..SMALL.consumers).map(|_| dtrace.open().unwrap()).collect();
    assert_eq!(open.len(), SMALL.consumers, "the console's own is closed");
}
