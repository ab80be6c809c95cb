//! Measures the cost of a probe in code and time, compared with other ways to instrument a function.
//!
//! `cargo xtask bench` runs it. It asserts nothing about time, but checks that every function had its effect.

/// Declares the modules. They need x86_64 and Linux, as they decode instructions and handle signals.
macro_rules! modules {
    ($($module:ident)*) => {
        $(
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            mod $module;
        )*
    };
}

modules! { clauses code compile cpus dif fired functions host peers report scale steps subjects table time traps }

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn main() -> anyhow::Result<()> {
    report::run()
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn main() -> anyhow::Result<()> {
    anyhow::bail!("the benchmark is for Linux on x86_64")
}
