//! What the compiler makes of firing sites at every level of optimisation is what illumos's krtld takes.

mod stress;

use xtask::check;

#[test]
fn sites_are_good_at_every_level_of_optimisation() {
    for (level, lto) in stress::levels() {
        let file = stress::build(level, lto)
            .unwrap_or_else(|error| panic!("O{level}, LTO {lto}: {error}"));
        let image = std::fs::read(&file).unwrap();
        let summary = check::illumos::module(&image).expect("it was checked when it was built");
        assert_eq!(summary.probes, stress::expected(), "O{level}, LTO {lto}");
        // Each has a twin and a landing.
        assert!(summary.sites >= 2 * summary.probes.len(), "O{level}, LTO {lto}: {summary}");
    }
}
