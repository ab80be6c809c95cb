//! What the compiler makes of firing sites at every level of optimisation is what illumos's krtld takes.

use cargo_sdt::check;
use harness::stress;

#[test]
fn sites_are_good_at_every_level_of_optimisation() {
    for build in stress::builds() {
        let file = build.build().unwrap_or_else(|error| panic!("{build}: {error}"));
        let image = std::fs::read(&file).unwrap();
        let summary = check::illumos::module(&image).expect("it was checked when it was built");
        assert_eq!(summary.probes, stress::expected(), "{build}");
        // Each has an is-enabled site and a probe site.
        assert!(summary.sites >= 2 * summary.probes.len(), "{build}: {summary}");
    }
}
