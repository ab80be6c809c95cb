//! The module that stresses code generation, built in many ways.

use std::collections::BTreeSet;
use std::path::PathBuf;

use xtask::build::{BuildError, Module};
use xtask::platform::Os;
use xtask::workspace::{self, Arch};

/// As in `profile.release.opt-level`.
const LEVELS: [&str; 6] = ["0", "1", "2", "3", "\"s\"", "\"z\""];

/// As in `profile.release.lto`.
const LTO: [&str; 3] = ["\"off\"", "\"thin\"", "\"fat\""];

/// All levels of optimisation, with each kind of LTO.
pub fn levels() -> impl Iterator<Item = (&'static str, &'static str)> {
    LEVELS.into_iter().flat_map(|level| LTO.map(|lto| (level, lto)))
}

/// The stress module, at a level of optimisation.
pub fn build(level: &str, lto: &str) -> Result<PathBuf, BuildError> {
    let module = Module {
        package: "illumos-stress".into(),
        os: Os::Illumos,
        config: vec![
            format!("profile.release.opt-level={level}"),
            format!("profile.release.lto={lto}"),
            // What is not inlined of core is all the same: built once for each kind of LTO.
            "profile.release.package.\"*\".opt-level=2".into(),
        ],
        ..Module::example(Arch::X86_64)
    };
    let name = format!("sdt_stress-O{level}-lto-{lto}").replace('"', "");
    let folder = workspace::build_dir().join("kmod/x86_64/illumos/stress").join(name);
    std::fs::create_dir_all(&folder).expect("the folder is ours");
    // The file's name is the module's.
    module.build(Some(&folder.join("sdt_stress")))
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
    let names = counted.chain(places.map(String::from)).map(|name| format!("sdt:::{name}"));
    names.chain(["io:::start".into()]).collect()
}
