//! Random false answers to a consumer, the same in every run. `SDT_LIES=N` adds N, from other seeds.

/// The number of inputs with declarations.
const DECLARATIONS: u64 = 60;

/// The number of inputs with false answers.
const LIES: u64 = 400;

#[test]
fn lies_have_no_effect() {
    // Without false answers, each program is traced correctly.
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

/// Random types, inlines, translators, control lines and clauses of a module. All other answers are true.
#[test]
fn declarations_have_no_effect() {
    for seed in 0..DECLARATIONS {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut input = vec![0; random.usize(12..120)];
        random.fill(&mut input);
        // The output format is random. There are no false answers.
        input[0] = 0;
        input[2..4].fill(0);
        let result = std::panic::catch_unwind(|| sdt_fuzz::consumer::run(&input));
        assert!(result.is_ok(), "seed {seed} fails: {input:x?}; see above");
    }
}
