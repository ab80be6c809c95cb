//! Random programs of a consumer beside another consumer, the same in every run, without libFuzzer. `SDT_ISOLATION=N` adds N,
//! from other seeds.

/// Programs of every run.
const PROGRAMS: u64 = 1500;

#[test]
fn a_consumer_reads_nothing_of_another_one() {
    let more: u64 =
        std::env::var("SDT_ISOLATION").map_or(0, |more| more.parse().expect("a number"));
    let mut recorded = 0;
    for seed in (0..PROGRAMS).chain((0..more).map(|seed| more << 32 | seed)) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut input = vec![0; random.usize(64..2048)];
        random.fill(&mut input);
        let result = std::panic::catch_unwind(|| sdt_fuzz::isolation::bytes_read(&input));
        let bytes = result.unwrap_or_else(|_| panic!("seed {seed} fails; see above"));
        recorded += u64::from(bytes > 0);
    }
    println!("{recorded} of {} programs have recorded something", PROGRAMS + more);
    assert!(recorded > PROGRAMS / 10, "{recorded} programs have recorded something");
}
