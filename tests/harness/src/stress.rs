//! The module that stresses code generation, built in many ways.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::module::{BuildError, Module};
use cargo_sdt::internal::platform::Os;
use cargo_sdt::internal::toolchain::profile_flags;

use crate::{setup, workspace};

/// The value of `profile.release.opt-level`.
const LEVELS: [&str; 6] = ["0", "1", "2", "3", "\"s\"", "\"z\""];

/// The value of rustc's `-Clto`.
const LTO: [&str; 3] = ["off", "thin", "fat"];
/// The packages that are compiled at a build's level: those with sites, and the one that hands over their arguments.
const WITH_SITES: [&str; 3] = ["illumos-stress", "illumos-execsw-hook", "sdt-core"];
/// The standard library of a module. It is the same for all builds.
const STANDARD: [&str; 2] = ["core", "compiler_builtins"];

/// A way of building the module.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// One of [`LEVELS`].
    pub level: &'static str,
    /// One of [`LTO`].
    pub lto: &'static str,
    /// Whether every function has a frame pointer.
    pub frame_pointers: bool,
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, lto, frame_pointers } = *self;
        let text = format!("O{}-lto-{lto}", level.replace('"', ""));
        write!(f, "{text}{}", if frame_pointers { "" } else { "-no-frame-pointers" })
    }
}

/// All levels of optimisation, and one without frame pointers. With everything, each level with each kind of LTO, and
/// some of them without frame pointers.
pub fn builds() -> Vec<Build> {
    let with = |(level, lto)| Build { level, lto, frame_pointers: true };
    let without = |(level, lto)| Build { level, lto, frame_pointers: false };
    let all = LEVELS.into_iter().flat_map(|level| LTO.map(|lto| (level, lto)));
    let some = [("0", LTO[0]), ("2", LTO[1]), ("\"z\"", LTO[2])];
    let usual = |of: &Build| crate::everything() || of.lto == LTO[1];
    all.map(with).chain(some.map(without)).filter(usual).collect()
}

impl Build {
    /// Builds the module, and returns its path.
    ///
    /// # Errors
    /// Those of [`Module::build`].
    pub fn build(&self) -> Result<PathBuf, BuildError> {
        let folder = workspace::build_dir().join("kmod/x86_64/illumos/stress");
        let own = folder.join(format!("sdt_stress-{self}"));
        std::fs::create_dir_all(&own).expect("the folder is ours");
        let module = Module {
            package: "illumos-stress".into(),
            os: Os::Illumos,
            raw_symbols: true,
            config: self.settings()?,
            target_file: Some(frame_pointers_by_option(&folder)),
            ..workspace::example(Arch::X86_64)
        };
        // The file's name is the module's.
        module.build(Some(&own.join("sdt_stress")))
    }

    /// Settings of cargo's with which it compiles macros and the standard library once for all builds: as settings of the profile,
    /// the level and the kind of LTO would concern them, too.
    fn settings(&self) -> Result<Vec<String>, BuildError> {
        let package = |name: &str| format!("profile.release.package.{name}");
        let frames = ["-Cforce-frame-pointers=yes".to_owned()];
        let bitcode = ["-Cembed-bitcode=yes".to_owned()];
        let standard = [&frames[..], &bitcode].concat();
        let own = if self.frame_pointers { &standard[..] } else { &bitcode };
        let mut settings = vec![profile_flags("profile.release", own)];
        settings.extend(STANDARD.map(|name| profile_flags(&package(name), &standard)));
        // The options of a package replace those of the profile.
        let project = setup::toolchain(Arch::X86_64)?.project_flags();
        let lto = [format!("-Clto={}", self.lto)];
        let program = [&project[..], own, &lto].concat();
        settings.push(profile_flags(&package("illumos-stress"), &program));
        settings.push(profile_flags(&package("sdt-core"), own));
        settings
            .extend(WITH_SITES.map(|name| format!("{}.opt-level={}", package(name), self.level)));
        Ok(settings)
    }
}

/// illumos's target, with frame pointers only if an option of rustc asks for them. No option of rustc removes those of a target.
fn frame_pointers_by_option(folder: &Path) -> PathBuf {
    let target = workspace::root().join("targets/x86_64-illumos-kmod.json");
    let (with, without) = ("\"frame-pointer\": \"always\"", "\"frame-pointer\": \"may-omit\"");
    let text = std::fs::read_to_string(target).unwrap();
    assert!(text.contains(with));
    let file = folder.join("x86_64-illumos-kmod-frame-pointers-by-option.json");
    let other = text.replace(with, without);
    // Cargo rebuilds everything if the file is newer.
    if std::fs::read_to_string(&file).ok().as_ref() != Some(&other) {
        std::fs::write(&file, other).unwrap();
    }
    file
}

/// All probes of the module that any of the builds has, as the check names them.
pub fn expected() -> BTreeSet<String> {
    let counted =
        (0..=10).map(|n| format!("cheap-{n}")).chain((1..=10).map(|n| format!("costly-{n}")));
    let places = [
        "asked",
        "before-tail-call",
        "borrowed",
        "branch",
        "chosen-0",
        "chosen-1",
        "chosen-2",
        "closure",
        "diverging",
        "evaluated",
        "evaluations",
        "generic",
        "inlined",
        "looped",
        "method",
        "sized",
        "tail",
        "tail-of-six",
    ];
    let names =
        counted.chain(places.map(String::from)).map(|name| format!("sdt:::sdt_stress-{name}"));
    names.chain(["io:::start".into()]).collect()
}
