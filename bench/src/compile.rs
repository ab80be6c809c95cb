//! Measures the compile time of declarations and sites, and their size in a module: generates crates with many of them,
//! and runs cargo on them.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use object::{Object as _, ObjectSection as _, SectionFlags, elf};

use crate::table::Table;

/// A crate of functions, each with its own probe or without one.
#[derive(Clone, Copy)]
struct Crate {
    functions: usize,
    probed: bool,
}

impl Crate {
    fn source(self) -> String {
        let mut source = "#![no_std]\n".to_owned();
        if self.probed {
            source += "sdt_core::sdt_provider! {\n    many {\n";
            for i in 0..self.functions {
                _ = writeln!(source, "        fn probe_{i}(first: u32, second: u64);");
            }
            source += "    }\n}\n";
        }
        for i in 0..self.functions {
            let site = format!("sdt_core::sdt_probe!(many::probe_{i}, first, second);");
            let site = if self.probed { site.as_str() } else { "" };
            _ = writeln!(
                source,
                "#[inline(never)] pub fn function_{i}(first: u32, second: u64) -> u64 \
                 {{ {site} u64::from(first) ^ second ^ {i} }}"
            );
        }
        source
    }
}

/// The folder in which each crate is generated.
struct Workplace {
    folder: PathBuf,
}

impl Workplace {
    fn new() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
        let folder = root.join("target/bench/compile");
        fs::create_dir_all(folder.join("src"))?;
        let core = root.join("sdt-core");
        let manifest = format!(
            "[package]\nname = \"many-probes\"\nedition = \"2024\"\n[workspace]\n\
             [dependencies]\nsdt-core = {{ path = {core:?} }}\n"
        );
        fs::write(folder.join("Cargo.toml"), manifest)?;
        // Uses the same versions of all dependencies.
        fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
        Ok(Self { folder })
    }

    /// Runs cargo after all dependencies were built. Returns the user time of all its processes, the shortest of
    /// several runs.
    fn time(&self, of: Crate, command: &[&str], rounds: u32) -> Result<Duration> {
        self.cargo(Crate { functions: 1, probed: true }, command)?;
        let mut shortest = Duration::MAX;
        for _ in 0..rounds {
            let before = children_time();
            self.cargo(of, command)?;
            shortest = shortest.min(children_time() - before);
        }
        Ok(shortest)
    }

    fn cargo(&self, of: Crate, command: &[&str]) -> Result<()> {
        fs::write(self.folder.join("src/lib.rs"), of.source())?;
        let mut cargo = Command::new("cargo");
        // The flags of the benchmark itself are not those of the measured builds.
        cargo.env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("RUSTFLAGS");
        cargo.args(command).args(["--quiet", "--target-dir", "target"]).current_dir(&self.folder);
        ensure!(cargo.status().context("running cargo")?.success(), "{cargo:?} failed");
        Ok(())
    }

    /// Returns the loaded bytes of the last build: code, and everything else.
    fn bytes(&self) -> Result<[u64; 2]> {
        let library = fs::read(self.folder.join("target/release/libmany_probes.rlib"))?;
        let archive = object::read::archive::ArchiveFile::parse(&*library)?;
        let mut bytes = [0; 2];
        for member in archive.members() {
            let member = member?;
            if !member.name().ends_with(b".o") {
                continue;
            }
            let file = object::File::parse(member.data(&*library)?)?;
            for section in file.sections() {
                let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
                if sh_flags.contains(elf::SHF_ALLOC) {
                    let is_data = !sh_flags.contains(elf::SHF_EXECINSTR);
                    bytes[usize::from(is_data)] += section.size();
                }
            }
        }
        Ok(bytes)
    }
}

/// User time of all processes that this one has waited for.
fn children_time() -> Duration {
    // SAFETY: zeros are a `rusage`, and this one is written to.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        assert_eq!(libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage), 0);
        usage
    };
    let (seconds, microseconds) = (usage.ru_utime.tv_sec as u64, usage.ru_utime.tv_usec as u64);
    Duration::from_secs(seconds) + Duration::from_micros(microseconds)
}

/// Measures crates of some sizes.
///
/// # Errors
/// The crate cannot be generated or built.
pub fn table(quick: bool) -> Result<String> {
    let place = Workplace::new()?;
    let (sizes, rounds): (&[usize], _) =
        if quick { (&[300], 1) } else { (&[300, 1_000, 2_000], 3) };
    let mut table = Table::new(&[
        "compiling", "check", "without", "release", "without", "a probe: code", "data",
    ]);
    for &functions in sizes {
        let (mut row, mut bytes) = (Vec::new(), Vec::new());
        for command in [&["check"][..], &["build", "--release"]] {
            for probed in [true, false] {
                let time = place.time(Crate { functions, probed }, command, rounds)?;
                row.push(format!("{:.2} s", time.as_secs_f64()));
                if command.len() > 1 {
                    bytes.push(place.bytes()?);
                }
            }
        }
        for (with, without) in bytes[0].iter().zip(bytes[1]) {
            row.push(format!("{} B", with.saturating_sub(without) / functions as u64));
        }
        row.insert(0, format!("{functions} probes, a site each"));
        table.row(row);
    }
    Ok(table.to_string())
}
