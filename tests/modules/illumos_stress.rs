//! illumos's krtld accepts the firing sites of every level of optimisation.

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::check;
use cargo_sdt::internal::module::{BuildError, Module};
use cargo_sdt::internal::platform::Os;
use harness::{stress, workspace};

#[test]
fn sites_are_good_at_every_level_of_optimisation() {
    for build in stress::builds() {
        let file = build.build().unwrap_or_else(|error| panic!("{build}: {error}"));
        let image = std::fs::read(&file).unwrap();
        let summary = check::illumos_module(&image, check::Against::default())
            .expect("it was checked when it was built");
        assert_eq!(summary.probes, stress::expected(), "{build}");
        // Each has an is-enabled site and a probe site.
        assert!(summary.sites >= 2 * summary.probes.len(), "{build}: {summary}");
    }
}

/// Builds the module with a feature that makes it bad.
fn refused(feature: &str) -> BuildError {
    let module = Module {
        package: "illumos-stress".into(),
        os: Os::Illumos,
        features: vec![feature.into()],
        ..workspace::example(Arch::X86_64)
    };
    let folder = workspace::build_dir().join("kmod/x86_64/illumos");
    std::fs::create_dir_all(&folder).unwrap();
    let output = folder.join(format!("refused-{feature}"));
    module.build(Some(&output)).expect_err("it must not be built")
}

#[test]
fn probes_that_krtld_would_make_one_of_are_refused() {
    let merged = refused("merged").to_string();
    let expected = "symbol __dtrace_probe_stress__merged: krtld would merge two probes into one: ";
    assert!(merged.contains(expected), "{merged}");
    for probe in ["stress::merged(uint64_t)", "sdt::stress-merged(uint64_t, _Bool)"] {
        assert!(merged.contains(probe), "{merged}");
    }
    let arguments = refused("arguments").to_string();
    let expected = "symbol __dtrace_probe_stress__hit: stress::hit has `uint32_t` as arg0 at one site, and `uint64_t` at \
                    another; krtld makes one probe of both";
    assert!(arguments.contains(expected), "{arguments}");
    let long = refused("long-name").to_string();
    let message = "so the name of the probe begins with the name of the provider and `-`";
    assert_eq!(long.matches(message).count(), 2, "{long}");
}
