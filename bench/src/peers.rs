//! User-land interpreters of BPF, with programs equivalent to the D programs.

use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::Arc;

use solana_sbpf::assembler;
use solana_sbpf::ebpf::MM_INPUT_START;
use solana_sbpf::elf::Executable;
use solana_sbpf::memory_region::{MemoryMapping, MemoryRegion};
use solana_sbpf::program::{BuiltinProgram, SBPFVersion};
use solana_sbpf::verifier::RequisiteVerifier;
use solana_sbpf::vm::{CallFrame, Config, ContextObject, EbpfVm, ExecutionMode};

/// A BPF program.
#[derive(Clone, Copy)]
pub struct Text(&'static str);

/// Whether the process is number 42.
pub const PREDICATE: Text = Text("ldxdw r2, [r1+0]\nmov64 r0, 0\njne r2, 42, +1\nmov64 r0, 1\nexit");

/// Records three numbers.
pub const THREE_VALUES: Text = Text(
    "ldxdw r2, [r1+8]\nstxdw [r1+64], r2\nldxdw r2, [r1+16]\nstxdw [r1+72], r2\n\
     ldxdw r2, [r1+0]\nstxdw [r1+80], r2\nmov64 r0, 0\nexit",
);

/// `(arg0 + arg1) * 3 - (arg2 ^ arg3) + (arg4 << 2) + arg0 / 7 + arg1 % 5`.
pub const ARITHMETIC: Text = Text(
    "ldxdw r0, [r1+8]\nldxdw r2, [r1+16]\nadd64 r0, r2\nmul64 r0, 3\n\
     ldxdw r2, [r1+24]\nldxdw r3, [r1+32]\nxor64 r2, r3\nsub64 r0, r2\n\
     ldxdw r2, [r1+40]\nlsh64 r2, 2\nadd64 r0, r2\n\
     ldxdw r2, [r1+8]\ndiv64 r2, 7\nadd64 r0, r2\n\
     ldxdw r2, [r1+16]\nmod64 r2, 5\nadd64 r0, r2\nexit",
);

/// The input of a program: pid and the arguments, and room for a record.
fn memory() -> Vec<u8> {
    let mut memory: Vec<u8> =
        [1000u64, 11, 22, 33, 44, 55].iter().flat_map(|n| n.to_le_bytes()).collect();
    memory.resize(96, 0);
    memory
}

/// Runs a program this number of times with the crate rbpf.
pub fn rbpf(Text(text): Text, calls: u64) -> u64 {
    let program = rbpf::assembler::assemble(text).expect("the benchmark's own program");
    let vm = rbpf::EbpfVmRaw::new(Some(&program)).expect("the benchmark's own program");
    let mut memory = memory();
    let mut sum = 0;
    for _ in 0..calls {
        sum ^= vm.execute_program(black_box(&mut memory)).expect("nothing faults");
    }
    sum
}

/// The context for the crate solana-sbpf: nothing is metered here.
struct Context(MemoryMapping);

impl ContextObject for Context {
    fn consume(&mut self, _: u64) {}

    fn get_remaining(&self) -> u64 {
        u64::MAX
    }

    fn active_mapping_ptr(&mut self) -> NonNull<MemoryMapping> {
        NonNull::from(&mut self.0)
    }
}

/// Runs a program this number of times with the crate solana-sbpf.
pub fn sbpf(Text(text): Text, calls: u64) -> u64 {
    let version = SBPFVersion::V0;
    let config = Config {
        enable_instruction_meter: false,
        enabled_sbpf_versions: version..=version,
        ..Config::default()
    };
    let loader = Arc::new(BuiltinProgram::new_loader(config.clone()));
    let program = assembler::assemble::<Context>(text, Arc::clone(&loader));
    let program: Executable<Context> = program.expect("the benchmark's own program");
    program.verify::<RequisiteVerifier>().expect("the benchmark's own program");
    let mut memory = memory();
    let region = MemoryRegion::new(&raw mut *memory, MM_INPUT_START);
    // SAFETY: the memory stays until the last run is over, and any bytes may be in it.
    let mapping = unsafe { MemoryMapping::new(vec![region], &config, version) };
    let mut context = Context(mapping.expect("one region"));
    let mut frames = vec![CallFrame::default(); config.max_call_depth];
    let mut vm = EbpfVm::new(loader, version, &mut context, config.stack_size());
    vm.registers[1] = MM_INPUT_START;
    let registers = vm.registers;
    let mut sum = 0;
    for _ in 0..calls {
        vm.registers = black_box(registers);
        let mut mode = ExecutionMode::Interpreted;
        let (_, result) = vm.execute_program(&program, &mut mode, &mut frames);
        sum ^= Result::from(result).expect("nothing faults");
    }
    sum
}
