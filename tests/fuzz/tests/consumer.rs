//! Random lies to a consumer, every time the same. `SDT_LIES=N` makes as many more of them, from other seeds.

/// Lies that are told.
const LIES: u64 = 400;

#[test]
fn lies_have_no_effect() {
    // Without any, each program is traced as it is.
    for scenario in 0..sdt_fuzz::consumer::scenarios() {
        sdt_fuzz::consumer::run(&[scenario]);
    }
    let more = std::env::var("SDT_LIES").map_or(0, |more| more.parse().expect("a number"));
    for seed in 0..LIES + more {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut input = vec![0; random.usize(1..400)];
        random.fill(&mut input);
        let result = std::panic::catch_unwind(|| sdt_fuzz::consumer::run(&input));
        assert!(result.is_ok(), "seed {seed} fails: {input:x?}; see above");
    }
}
