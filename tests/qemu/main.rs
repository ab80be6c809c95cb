//! The stand-in kernel in QEMU: it loads the example module, its probe is listed, enabled, hit and
//! disabled, through the patched byte and the CPU's breakpoint exception.

mod arguments;
mod bench;
mod beside_c;
mod broken;
mod by_hand;
mod cli;
mod consumers;
mod embedded;
mod failures;
mod flame;
mod functions;
mod golden;
mod golden_dof;
mod golden_illumos;
mod illumos;
mod illumos_fallback;
mod illumos_provider;
mod illumos_stress;
mod lifecycle;
mod machine;
mod native;
mod opte;
mod patch;
mod postmortem;
mod programs;
mod refusals;
mod releases;
mod runtime;
mod symbols;
mod torture;
