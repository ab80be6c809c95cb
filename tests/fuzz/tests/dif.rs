//! Random programs through both interpreters, without libFuzzer.

use dtrace_abi::dif::{Builtin, Opcode, Subr, VAR_OTHER_MIN};
use sdt_fuzz::dif::{self, Done};

/// The programs execute every instruction, subroutine and variable.
#[test]
fn both_interpreters_say_the_same() {
    let mut random = fastrand::Rng::with_seed(0x6469_665f_6469_6666);
    let mut failed = Vec::new();
    let mut all = Done::default();
    let mut add = |done: Done| {
        all.opcodes.extend(done.opcodes);
        all.subrs.extend(done.subrs);
        all.variables.extend(done.variables);
    };
    dif::singles().for_each(&mut add);
    for _ in 0..4000 {
        let length = random.usize(..1200);
        let input: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        match std::panic::catch_unwind(|| dif::done(&input)) {
            Ok(done) => add(done),
            Err(_) => failed.push(input),
        }
    }
    assert!(
        failed.is_empty(),
        "{} inputs fail; see above; the first: {:?}",
        failed.len(),
        failed[0]
    );
    // From `rldsb` on they are the kernel's own, or libdtrace's; `ldta` is of an array that no kernel has.
    let opcodes = Opcode::ALL.iter().filter(|op| **op < Opcode::Rldsb && **op != Opcode::Ldta);
    let opcodes = opcodes.filter(|op| !all.opcodes.contains(op)).map(|op| op.name());
    let subrs = Subr::ALL.iter().map(|subr| subr.name()).filter(|name| !all.subrs.contains(name));
    // Array variables are read by another instruction.
    let variables = Builtin::ALL.iter().filter(|it| it.number() >= VAR_OTHER_MIN);
    let variables = variables.filter(|it| !all.variables.contains(&it.number()));
    let missing: Vec<_> = opcodes.chain(subrs).chain(variables.map(|it| it.name())).collect();
    // Refused subroutines, those that this kernel does not have, and those that sdt-framework's tests/dif compares with a real one.
    let refused = ["msgdsize", "msgsize", "ddi_pathname", "getf"];
    let elsewhere = ["json"];
    let unknown = ["rw_iswriter", "ucaller", "jailname"];
    let not_here = [&refused[..], &unknown, &elsewhere].concat();
    let is_missing = |name: &&str| !not_here.contains(name);
    assert_eq!(missing.into_iter().filter(is_missing).collect::<Vec<_>>(), [""; 0]);
}
