//! SystemTap notes of this very program, beside those that the crate `probe` leaves for the same probes.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::process::Command;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};

sdt_provider! {
    ours {
        fn nothing();
        fn exec_success(path: &core::ffi::CStr, pid: i32, bytes: u64);
        fn costly(n: u64);
    }
}
sdt_provider!(open);

static EVALUATED: AtomicU64 = AtomicU64::new(0);

#[inline(never)]
fn costly(n: u64) -> u64 {
    EVALUATED.fetch_add(1, Ordering::Relaxed);
    n * 2
}

#[inline(never)]
fn fire(n: u64) {
    sdt_probe!(ours::nothing);
    sdt_probe!(ours::exec_success, c"/bin/ls", -1, n);
    sdt_probe!(ours::costly, costly(n));
    sdt_probe!(open::hit, n as u8);
    // A second site of one probe.
    sdt_probe!(open::hit, n as u8 + 1);
}

#[inline(never)]
fn twin(n: u64) {
    probe::probe!(twin, nothing);
    probe::probe!(twin, exec_success, c"/bin/ls".as_ptr(), -1, n);
    probe::probe!(twin, costly, n * 2);
}

/// The program compares the address of this symbol with that in the file, to find the address at which it was loaded.
#[unsafe(no_mangle)]
#[used]
#[allow(non_upper_case_globals)]
static stap_test_mark: u64 = 0;

/// The contents of a note.
#[derive(Debug)]
struct Note {
    location: u64,
    base: u64,
    semaphore: u64,
    provider: String,
    name: String,
    args: Vec<String>,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The notes, by the layout of ELF's: three numbers, owner, description, each aligned to 4.
fn notes(file: &object::File<'_>) -> Vec<Note> {
    let section = file.section_by_name(".note.stapsdt").expect("there are notes");
    let mut rest = section.data().unwrap();
    let mut notes = Vec::new();
    while !rest.is_empty() {
        let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
        let (owner, length, kind) = (number(0), number(4), number(8));
        assert_eq!((&rest[12..12 + owner], kind), (&b"stapsdt\0"[..], 3));
        let start = 12 + owner.next_multiple_of(4);
        let desc = &rest[start..start + length];
        let mut texts = desc[24..].split(|byte| *byte == 0);
        let mut text = || String::from_utf8(texts.next().unwrap().to_vec()).unwrap();
        let (provider, name, args) = (text(), text(), text());
        let args = args.split_whitespace().map(str::to_owned).collect();
        let (location, base, semaphore) = (word(desc, 0), word(desc, 8), word(desc, 16));
        notes.push(Note { location, base, semaphore, provider, name, args });
        rest = &rest[start + length.next_multiple_of(4)..];
    }
    notes
}

#[test]
fn notes_are_as_others_leave_them() {
    fire(1);
    twin(1);
    assert_eq!(EVALUATED.load(Ordering::Relaxed), 0, "no tracer wants them");
    let exe = std::fs::read("/proc/self/exe").unwrap();
    let file = object::File::parse(&*exe).unwrap();
    let notes = notes(&file);
    // The linker keeps the definition of one of them, if any; it does not retain the others.
    let base = file.section_by_name(".stapsdt.base").map_or(0, |section| section.address());
    let of = |provider: &str, name: &str| {
        let found = notes.iter().filter(|note| note.provider == provider && note.name == name);
        found.collect::<Vec<_>>()
    };
    for (name, count) in [("nothing", 0), ("exec_success", 3), ("costly", 1)] {
        let (mut ours, theirs) = (of("ours", name), of("twin", name));
        // Without optimisation there is a note for each possible number of words of the arguments; only one of them is executed.
        ours.retain(|note| !cfg!(debug_assertions) || note.args.len() == count);
        assert_eq!((ours.len(), theirs.len()), (1, 1), "{name}");
        assert_eq!((ours[0].args.len(), theirs[0].args.len()), (count, count), "{name}");
        for arg in ours[0].args.iter().chain(&theirs[0].args) {
            assert!(arg.starts_with("-8@"), "{arg}");
        }
        assert!(ours[0].args.iter().all(|arg| arg.starts_with("-8@%r")), "{ours:?}");
        assert_eq!((ours[0].base, theirs[0].base), (base, base));
        // Both are a nop in the text, and have a semaphore.
        for note in [ours[0], theirs[0]] {
            let text = file.section_by_name(".text").unwrap();
            let at = note.location.checked_sub(text.address()).expect("in the text") as usize;
            assert_eq!(text.data().unwrap()[at], 0x90, "{note:?}");
        }
        assert_ne!(ours[0].semaphore, 0);
    }
    let mut hits = of("open", "hit");
    hits.retain(|note| !cfg!(debug_assertions) || note.args.len() == 1);
    assert_eq!(hits.len(), 2, "a note for each site");
    assert_eq!(hits[0].semaphore, hits[1].semaphore, "and one semaphore");
    assert_ne!(hits[0].location, hits[1].location);

    // Increments the semaphore, like a tracer. Programs are not loaded at the address of the link.
    let costly = of("ours", "costly")[0];
    let linked = file.symbols().find(|symbol| symbol.name() == Ok("stap_test_mark")).unwrap();
    let mark = (&raw const stap_test_mark).addr();
    let moved = mark.wrapping_sub(linked.address() as usize);
    let semaphore = std::ptr::with_exposed_provenance::<AtomicU16>(
        (costly.semaphore as usize).wrapping_add(moved),
    );
    // SAFETY: the probe's semaphore.
    let semaphore = unsafe { &*semaphore };
    assert!(!sdt_enabled!(ours::costly) && !sdt_enabled!(ours::*));
    semaphore.fetch_add(1, Ordering::Relaxed);
    fire(2);
    assert_eq!(EVALUATED.load(Ordering::Relaxed), 1);
    assert!(sdt_enabled!(ours::costly) && sdt_enabled!(ours::*) && !sdt_enabled!(ours::nothing));
    semaphore.fetch_sub(1, Ordering::Relaxed);
    fire(3);
    assert_eq!(EVALUATED.load(Ordering::Relaxed), 1);
}

/// Returns the output of a system program about this program; nothing if the system program does not exist.
fn said_by(program: &str, args: &[&str]) -> Option<String> {
    let output = match Command::new(program).args(args).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        output => output.unwrap(),
    };
    let [shown, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{program}: {said}");
    Some(shown)
}

/// readelf(1) reads our notes like those of the crate `probe`: only the provider and the locations of the words differ.
#[test]
fn readelf_says_the_same_of_both() {
    fire(1);
    twin(1);
    let exe = std::env::current_exe().unwrap();
    let Some(text) = said_by("readelf", &["--wide", "-n", exe.to_str().unwrap()]) else { return };
    // `stapsdt   0x...   NT_STAPSDT (SystemTap probe descriptors)   Provider: ours`, and three lines more.
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let value = |line: &str, key: &str| {
        line.strip_prefix(key).unwrap_or_else(|| panic!("{key}: {line}")).trim().to_owned()
    };
    let mut counts = BTreeMap::<(String, String), BTreeSet<usize>>::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((kind, provider)) = line.split_once("Provider: ") else { continue };
        assert!(kind.contains("NT_STAPSDT"), "{line}");
        assert!(lines[at + 2].starts_with("Location: 0x"), "{}", lines[at + 2]);
        let (provider, name) = (provider.to_owned(), value(lines[at + 1], "Name:"));
        let words = value(lines[at + 3], "Arguments:");
        assert!(words.split_whitespace().all(|word| word.contains('@')), "{words}");
        counts.entry((provider, name)).or_default().insert(words.split_whitespace().count());
    }
    let of = |provider: &str, name: &str| {
        let counts = counts.get(&(provider.to_owned(), name.to_owned()));
        counts.unwrap_or_else(|| panic!("{provider}:{name}: {text}"))
    };
    for (name, count) in [("nothing", 0), ("exec_success", 3), ("costly", 1)] {
        assert_eq!(*of("twin", name), BTreeSet::from([count]), "{name}");
        // Without optimisation there are more: see above.
        assert!(of("ours", name).contains(&count), "{name}");
        assert!(cfg!(debug_assertions) || of("ours", name).len() == 1, "{name}");
    }
}

/// bpftrace(8) lists our notes and those of the crate `probe`. It needs root.
#[test]
fn bpftrace_lists_both() {
    fire(1);
    twin(1);
    // SAFETY: the function only returns a number.
    if unsafe { geteuid() } != 0 {
        return;
    }
    let exe = std::env::current_exe().unwrap();
    let all = format!("usdt:{}:*", exe.display());
    let Some(text) = said_by("bpftrace", &["-l", &all]) else { return };
    for probe in ["ours:nothing", "ours:exec_success", "ours:costly", "open:hit", "twin:costly"] {
        let line = format!("usdt:{}:{probe}", exe.display());
        assert!(text.lines().any(|listed| listed == line), "{line}: {text}");
    }
}

// SAFETY: this is the declaration of POSIX.
unsafe extern "C" {
    fn geteuid() -> u32;
}
