//! Random programs through both interpreters, without libFuzzer.

#[test]
fn both_interpreters_say_the_same() {
    let mut random = fastrand::Rng::with_seed(0x6469_665f_6469_6666);
    let mut failed = Vec::new();
    for _ in 0..4000 {
        let length = random.usize(..1200);
        let input: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        if std::panic::catch_unwind(|| sdt_fuzz::dif::run(&input)).is_err() {
            failed.push(input);
        }
    }
    assert!(
        failed.is_empty(),
        "{} inputs fail; see above; the first: {:?}",
        failed.len(),
        failed[0]
    );
}
