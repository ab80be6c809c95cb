//! The embedded example on its board.

/// What it prints: hits while nobody looks leave nothing, all others are there, in order.
const EXPECTED: &str = "\
matched 2 probes
sensor reading 1000 = -2500
sensor reading 1008 = -500
sensor reading 1016 = 1500
sensor reading 1024 = 3500
clock ticks: seen
drops: 0
probe 2 is sensor:firmware:none:reading
";

#[test]
fn probes_fire_from_flash() {
    assert_eq!(harness::embedded::output().unwrap(), EXPECTED);
}
