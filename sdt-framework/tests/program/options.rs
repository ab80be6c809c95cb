//! The effects of options in the kernel.

use dtrace_abi::option::OptionId;
use recording_host::cpus::Threads;
use sdt_framework::{ConsumerError, Host as _, Which};

use crate::run::Kernel;

/// With `cpu` one CPU is traced: the others record nothing, drop nothing, and use no memory.
#[test]
fn one_cpu_is_traced() {
    let kernel = Kernel::new();
    let x = kernel.consumer();
    let (cpu, cpus) = (OptionId::Cpu.number(), kernel.dtrace.host().cpus());
    for value in [-1, cpus as i64] {
        let bad = ConsumerError::BadOption { option: cpu, value };
        assert_eq!(kernel.dtrace.set_option(x.id, cpu, value), Err(bad));
    }
    x.set(OptionId::Cpu, 1);
    x.enable(
        "proc:::a { trace(arg0); trace(cpu); } proc:::a { @ = sum(arg0); }
         proc:::a /arg0 == 7/ { printf(\"%s\", probename); } proc:::a { trace(1 / (arg0 - 6)); }
         proc:::a { this->s = speculation(); speculate(this->s); trace(arg0); }",
    );
    let all = kernel.dtrace.memory_left().unwrap();
    x.go();
    let one = all - kernel.dtrace.memory_left().unwrap();
    for number in 0..3 {
        Threads::bind(number);
        kernel.hit(0, 6 + number as u64);
    }
    Threads::bind(0);
    x.stop();
    let (records, drops) = x.records(1);
    assert_eq!((records[0].numbers(), drops), (vec![7, 1], 0));
    assert_eq!(records.len(), 3, "and the name, and the quotient");
    assert_eq!(x.aggregations(1).0.values().next(), Some(&vec![7]));
    for other in [0, 2] {
        assert_eq!(x.records(other), (vec![], 0));
        assert!(x.aggregations(other).0.is_empty());
    }
    let status = kernel.dtrace.status(x.id).unwrap();
    assert_eq!((status.errors, status.double_errors, status.speculations_unavailable), (0, 0, 0));
    assert!(matches!(
        x.try_snapshot(cpus, Which::Records),
        Err(ConsumerError::NoCpu(number)) if number == cpus
    ));

    let y = kernel.consumer();
    y.enable("proc:::a { trace(arg0); trace(cpu); } proc:::a { @ = sum(arg0); }");
    let all = kernel.dtrace.memory_left().unwrap();
    y.go();
    assert!(all - kernel.dtrace.memory_left().unwrap() > one, "all CPUs take more than one");
}

/// The number of strings for which a clause has scratch space does not depend on the size of a string.
#[test]
fn scratch_space_grows_with_strings() {
    let program = "BEGIN { this->a = strjoin(\"a\", \"b\"); this->a = strjoin(this->a, \"c\");
                            this->a = strjoin(this->a, \"d\"); this->a = strjoin(this->a, \"e\");
                            trace(strlen(strjoin(this->a, \"f\"))); }";
    for size in [8, 256, 4096, 16 * 1024] {
        let kernel = Kernel::with(Threads::new(), 32 << 20);
        let x = kernel.consumer();
        x.set(OptionId::Strsize, size);
        x.enable(program);
        x.go();
        assert_eq!(x.numbers(), [[6]], "strings of {size} bytes");
    }
    // With little memory, buffers are smaller.
    let kernel = Kernel::with(Threads::new(), 256 << 10);
    let x = kernel.consumer();
    x.set(OptionId::Strsize, 2048);
    x.enable(program);
    x.go();
    assert_eq!(x.numbers(), [[6]]);
}

/// A request is refused if its minimum does not fit, or if a buffer cannot hold a record.
#[test]
fn buffers_of_nothing_are_refused() {
    for (option, does) in [
        (OptionId::Aggsize, "@ = count();"),
        (OptionId::Specsize, "speculate(speculation()); trace(1);"),
    ] {
        let kernel = Kernel::new();
        let x = kernel.consumer();
        x.set(option, 0);
        x.enable(&format!("proc:::a {{ {does} }}"));
        let refused = kernel.dtrace.go(x.id);
        assert_eq!(refused, Err(ConsumerError::SmallBuffer { bytes: 0, least: 8 }), "{does}");
    }
}
