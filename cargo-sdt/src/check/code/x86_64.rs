//! x86-64: the kernel does not save the SSE, MMX or x87 state for itself (`-mno-mmx -mno-sse -msoft-float` of
//! `sys/conf/kern.mk`).

use iced_x86::{
    CpuidFeature, Decoder, DecoderOptions, Formatter, GasFormatter, Instruction,
    InstructionInfoFactory, Mnemonic, Register,
};

use super::Breach;

pub(super) fn scan(code: &[u8], report: &mut dyn FnMut(u64, Breach)) {
    let mut info = InstructionInfoFactory::new();
    let mut formatter = GasFormatter::new();
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if !instruction.is_invalid() && uses_float(&mut info, &instruction) {
            let mut code = String::new();
            formatter.format(&instruction, &mut code);
            report(instruction.ip(), Breach::Float { code, state: "SSE, MMX or x87 state" });
        }
    }
}

fn uses_float(info: &mut InstructionInfoFactory, instruction: &Instruction) -> bool {
    let float = |register: Register| {
        register.is_vector_register()
            || register.is_mm()
            || register.is_st()
            || register.is_k()
            || register.is_tmm()
    };
    // To iced, neither the x87 stack nor SSE's control word is a register.
    let x87 = |feature: &CpuidFeature| {
        matches!(feature, CpuidFeature::FPU | CpuidFeature::FPU287 | CpuidFeature::FPU387)
    };
    matches!(
        instruction.mnemonic(),
        Mnemonic::Ldmxcsr | Mnemonic::Stmxcsr | Mnemonic::Vldmxcsr | Mnemonic::Vstmxcsr
    ) || instruction.cpuid_features().iter().any(x87)
        || info.info(instruction).used_registers().iter().any(|used| float(used.register()))
}
