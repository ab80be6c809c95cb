//! Random damage to a dump, every time the same.

#[test]
fn damaged_dumps_are_survived() {
    // An undamaged dump is shown completely.
    sdt_fuzz::dump::run(&[]);
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut input = vec![0; random.usize(1..400)];
        random.fill(&mut input);
        let result = std::panic::catch_unwind(|| sdt_fuzz::dump::run(&input));
        assert!(result.is_ok(), "seed {seed} fails; see above");
    }
}
