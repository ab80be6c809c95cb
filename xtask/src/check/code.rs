//! Code: no instruction may touch the SSE, MMX or x87 state, which the kernel does not save for
//! itself (`-mno-mmx -mno-sse -msoft-float` of `sys/conf/kern.mk`).

use iced_x86::{
    CpuidFeature, Decoder, DecoderOptions, Formatter, GasFormatter, Instruction,
    InstructionInfoFactory, Mnemonic, Register,
};

use super::finding::{Findings, Problem};
use super::image::Image;

/// So many are reported one by one in a section: where there is one there are hundreds.
const SHOWN: usize = 5;

pub(crate) fn check(image: &Image<'_>, findings: &mut Findings) {
    let mut info = InstructionInfoFactory::new();
    let mut formatter = GasFormatter::new();
    for section in image.loaded().filter(|section| section.is_code()) {
        let mut found = 0;
        let mut decoder = Decoder::with_ip(64, section.data, 0, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() || !uses_float(&mut info, &instruction) {
                continue;
            }
            found += 1;
            if found <= SHOWN {
                let mut text = String::new();
                formatter.format(&instruction, &mut text);
                findings.offset(&section.name, instruction.ip(), Problem::Float(text));
            }
        }
        if found > SHOWN {
            findings.section(&section.name, Problem::MoreFloat(found - SHOWN));
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
