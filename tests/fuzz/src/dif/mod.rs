//! DIF: programs that the validator accepts run on the machine and on the test oracle, a second interpreter. Both must give the
//! same results.

pub(crate) mod generate;
mod oracle;
mod single;
pub(crate) mod world;

use arbitrary::{Arbitrary, Unstructured};
use dtrace_abi::Platform;
use dtrace_abi::dif::{Opcode, Subr};
use dtrace_abi::dof::Dof;
use dtrace_abi::limits::DIFO_INSTRUCTIONS;
use sdt_framework::testing::{Access, Difo, Program, Slot, Source};

use generate::Case;
pub use oracle::Done;
use oracle::Oracle;
use world::Room;

/// Programs made of the input: several, one after the other, on the same memory.
///
/// # Panics
/// See [`done`].
pub fn run(input: &[u8]) {
    done(input);
}

/// Runs the target, and returns the effects of the programs.
///
/// # Panics
/// If the results of the two interpreters differ, or a fault is outside the program.
pub fn done(input: &[u8]) -> Done {
    let unstructured = Unstructured::new(input);
    let Ok(case) = Case::arbitrary_take_rest(unstructured) else { return Done::default() };
    let rules = Rules { rights: case.rights(), destructive: case.destructive() };
    both(case.programs(), &rules, case.is_valid(), |number| case.cleans(number))
}

/// Every instruction that computes, loads, stores or calls, with all combinations of some values, and every variable.
///
/// # Panics
/// See [`done`].
pub fn singles() -> impl Iterator<Item = Done> {
    let rules = Rules { rights: Access::ALL, destructive: true };
    single::programs().map(move |program| both(vec![program], &rules, false, |_| false))
}

/// The rights of programs.
struct Rules {
    rights: Access,
    destructive: bool,
}

/// Runs programs on both interpreters, one after the other on the same memory. The validator must accept all programs if `valid`
/// is set.
fn both(
    programs: Vec<generate::Source>,
    rules: &Rules,
    valid: bool,
    cleans: impl Fn(u32) -> bool,
) -> Done {
    let mut room = Room::default();
    let world = world::World::default();
    room.with(|memory, declarations, machine| {
        let mut oracle = Oracle::new(&world, rules.rights);
        for (number, source) in (1..).zip(programs) {
            let source = Difo {
                code: &source.code,
                integers: &source.integers,
                strings: &source.strings,
                variables: &source.variables,
                returns: source.returns,
            };
            let mut slots = vec![Slot::EMPTY; source.code.len()];
            let program = Program::new(&source, declarations, rules.destructive, &mut slots);
            let program = match program {
                Ok(program) => program,
                Err(error) => {
                    assert!(!valid, "{error}: {}", listing(&source));
                    continue;
                }
            };
            oracle.begin(number, &source);
            let expected = oracle.run(&source);
            let mut firing = machine.firing(&world, memory, rules.rights);
            firing.begin(number);
            let ours = firing.run(&program);
            if oracle.is_undefined() {
                break;
            }
            assert_eq!(ours, expected, "{}", listing(&source));
            assert_eq!(firing.dropped(), oracle.dropped(), "{}", listing(&source));
            assert_eq!(machine.scratch(), oracle.scratch(), "{}", listing(&source));
            if cleans(number) {
                memory.dynamic.clean(|| ());
            }
        }
        oracle.done()
    })
}

/// Any bytes as a DOF: every DIFO in it that passes runs.
///
/// # Panics
/// If a fault is outside the program.
pub fn run_dof(input: &[u8]) {
    let Ok(dof) = Dof::parse(input) else { return };
    let mut room = Room::default();
    let world = world::World::default();
    room.with(|memory, declarations, machine| {
        for section in 0..dof.section_count() {
            let Ok(difo) = dof.difo(section) else { continue };
            let length = difo.instructions().len();
            assert!(length as u64 <= DIFO_INSTRUCTIONS);
            let mut slots = vec![Slot::EMPTY; length];
            let Ok(program) = Program::new(&difo, declarations, true, &mut slots) else { continue };
            let mut firing = machine.firing(&world, memory, sdt_framework::testing::Access::ALL);
            firing.begin(1);
            match firing.run(&program) {
                Ok(value) if difo.returns().is_by_ref() => {
                    let mut bytes = vec![0; (difo.returns().size as usize).min(4096)];
                    let _ = firing.fetch(value, &mut bytes);
                    let _ = firing.fetch_string(value, &mut bytes);
                }
                Ok(_) => {}
                Err(failure) => assert!((failure.offset as usize) < 4 * length),
            }
        }
    });
}

/// Returns a program as readable text.
fn listing(source: &Difo<'_>) -> String {
    let mut text = format!("integers {:x?}\n", source.integers);
    for (index, instr) in source.code.iter().enumerate() {
        let name = instr.opcode().map_or("?", |opcode| opcode.name());
        let subr = match instr.opcode() {
            Some(Opcode::Call) => Subr::from_number(instr.operand(), Platform::Freebsd),
            _ => None,
        };
        text += &format!(
            "{index:>3} {name:<8} r1 {} r2 {} rd {} operand {:#x} {}\n",
            instr.r1(),
            instr.r2(),
            instr.rd(),
            instr.operand(),
            subr.map_or("", Subr::name),
        );
    }
    text
}
