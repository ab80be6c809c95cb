//! The embedded example on its board.

/// What it prints: hits while nobody looks leave nothing, all others are there, in order.
const EXPECTED: &str = "   ID   PROVIDER            MODULE                          FUNCTION NAME
    1      clock          firmware                              none tick
    2     sensor          firmware                              none reading
dtrace: description 'sensor:::' matched 1 probe
CPU     ID                    FUNCTION:NAME
  0      2                     none:reading 1000 -2500
  0      2                     none:reading 1008 -500
  0      2                     none:reading 1016 1500
  0      2                     none:reading 1024 3500
dtrace: description 'clock:::tick' matched 1 probe
CPU     ID                    FUNCTION:NAME
";

#[test]
fn probes_fire_from_flash() {
    let output = harness::embedded::output().unwrap();
    let ticks = output.strip_prefix(EXPECTED).unwrap_or_else(|| panic!("{output}"));
    // How many there are depends on the emulator's speed; there are some, and they are counted.
    let ticks: Vec<u32> = ticks
        .lines()
        .filter(|line| !line.starts_with("dtrace: "))
        .map(|line| {
            let tick = line.strip_prefix("  0      1                        none:tick ");
            tick.and_then(|tick| tick.parse().ok()).unwrap_or_else(|| panic!("{output}"))
        })
        .collect();
    assert!(ticks.len() >= 4 && ticks.is_sorted_by(|one, next| one + 1 == *next), "{output}");
}
