//! An interpreter whose programs define their own probes, like a filter engine or a scripting language in a kernel. The probes
//! are not known when the interpreter is compiled.
//!
//! A program consists of lines:
//!
//! ```text
//! probe packet int int     a probe, and the types of its arguments: int or string
//! push 42                  a number onto the stack
//! input                    the input
//! add                      the sum of two
//! fire packet              fires, with as many numbers as the probe has arguments, the last one uppermost
//! ```
//!
//! `cargo run --example interpreter` traces one; `cargo test --example interpreter` tests it.

use std::error::Error;
use std::ffi::{CStr, CString};

use recording_host::cpus::Uniprocessor;
use sdt_core::arg::ArgType;
use sdt_core::ops::{Privileges, ProbeId, ProviderAttr};
use sdt_core::runtime::{Probe, Provider, Slot, arg};
use sdt_framework::{Config, Dtrace, Field, Memory, Record, Spec, Which, records};

/// A step of a program.
enum Step {
    Push(u64),
    Input,
    Add,
    Fire(Probe),
}

/// A program, and the provider of its probes. The probes exist while the program is loaded.
struct Program {
    provider: &'static Provider,
    steps: Vec<Step>,
}

impl Program {
    /// Loads a program, and creates its probes, which have the provider `name`.
    fn load(
        provider: &'static Provider,
        dtrace: &'static Dtrace<Uniprocessor>,
        name: &CStr,
        source: &str,
    ) -> Result<Self, Box<dyn Error>> {
        // SAFETY: a process is never unloaded, and neither is a kernel. A module that can be unloaded calls `open`.
        unsafe { provider.open_with(dtrace, c"vm", name, &ProviderAttr::SDT, Privileges::USER) }?;
        let mut program = Self { provider, steps: Vec::new() };
        let mut probes = Vec::new();
        for line in source.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let step = match words[..] {
                [] => continue,
                ["probe", name, ref types @ ..] => {
                    let types: Vec<_> =
                        types.iter().map(|name| type_of(name)).collect::<Result<_, _>>()?;
                    probes.push(provider.add(c"main", &CString::new(name)?, &types)?);
                    continue;
                }
                ["push", number] => Step::Push(number.parse()?),
                ["input"] => Step::Input,
                ["add"] => Step::Add,
                ["fire", name] => {
                    let named = |probe: &&Probe| probe.names().1.to_bytes() == name.as_bytes();
                    Step::Fire(probes.iter().find(named).ok_or("there is no such probe")?.clone())
                }
                _ => return Err(format!("`{line}` is no step").into()),
            };
            program.steps.push(step);
        }
        Ok(program)
    }

    /// Runs the program with an input.
    fn run(&self, input: u64) -> Result<(), Box<dyn Error>> {
        let mut stack = Vec::new();
        for step in &self.steps {
            match step {
                Step::Push(number) => stack.push(*number),
                Step::Input => stack.push(input),
                Step::Add => {
                    let (Some(a), Some(b)) = (stack.pop(), stack.pop()) else {
                        return Err("the stack is empty".into());
                    };
                    stack.push(a.wrapping_add(b));
                }
                Step::Fire(probe) => {
                    let count = probe.args().len();
                    let at = stack.len().checked_sub(count).ok_or("the stack is empty")?;
                    probe.fire(&stack[at..])?;
                    stack.truncate(at);
                }
            }
        }
        Ok(())
    }

    /// Unloads the program. A program that is traced stays loaded.
    fn unload(self) -> Result<(), (Self, Box<dyn Error>)> {
        match self.provider.close() {
            Ok(()) => Ok(()),
            Err(error) => Err((self, error.into())),
        }
    }
}

impl Drop for Program {
    /// A program that failed to load leaves no probes. The probes of a traced program remain until it is not traced any more.
    fn drop(&mut self) {
        let _ = self.provider.close();
    }
}

/// Returns the argument type with this name in the language.
fn type_of(name: &str) -> Result<&'static ArgType, String> {
    match name {
        "int" => Ok(arg::<i64>()),
        "string" => Ok(arg::<&CStr>()),
        _ => Err(format!("`{name}` is no type: int or string")),
    }
}

const PACKETS: &str = "
    probe packet int int
    probe done
    input
    input
    push 1
    add
    fire packet
    fire done
";

static SLOTS: [Slot; 4] = [const { Slot::new() }; 4];
static PROGRAM: Provider = Provider::new(&SLOTS);

static DTRACE: Dtrace<Uniprocessor> =
    // SAFETY: one thread uses it.
    Dtrace::new(unsafe { Uniprocessor::new() });
const CONFIG: Config =
    Config { providers: 1, probes: 4, ecbs: 4, consumers: 1, buffer: 16 * Record::SIZE };
static MEMORY: Memory<{ CONFIG.memory::<Uniprocessor>(1, 1) }> = Memory::new();

/// A probe's names, and its arguments.
type Hit = (String, [u64; 2]);

/// Loads the program, traces two runs, and unloads it. Returns the recorded hits: names and arguments.
fn trace() -> Result<Vec<Hit>, Box<dyn Error>> {
    DTRACE.init(MEMORY.take().ok_or("the memory is taken")?, &CONFIG)?;
    let broken = Program::load(&PROGRAM, &DTRACE, c"packets", "probe packet float");
    let Err(error) = broken else { return Err("there is no such type".into()) };
    assert_eq!(error.to_string(), "`float` is no type: int or string");

    let program = Program::load(&PROGRAM, &DTRACE, c"packets", PACKETS)?;
    // No consumer traces this run.
    program.run(1)?;
    let consumer = DTRACE.open()?;
    DTRACE.enable(consumer, &Spec::parse("packets:::", Field::Name)?)?;
    DTRACE.go(consumer)?;
    program.run(41)?;
    let (program, error) = program.unload().err().ok_or("it is traced")?;
    println!("not unloaded: {error}");
    program.run(43)?;

    let mut bytes = [0; 16 * Record::SIZE];
    let found = DTRACE.snapshot(consumer, 0, Which::Records, 0, &mut bytes)?;
    let mut hits = Vec::new();
    for Record { epid, args, .. } in records(&bytes[..found.size]) {
        let enabled = DTRACE.eprobe(consumer, epid, 0, &mut [])?.ok_or("it is enabled")?;
        let probe = ProbeId::new(enabled.probe).and_then(|id| DTRACE.describe(id));
        let probe = probe.ok_or("it is there")?.info;
        hits.push((probe.to_string(), [args[0], args[1]]));
    }
    DTRACE.close(consumer)?;
    program.unload().map_err(|(_, error)| error)?;
    assert_eq!(DTRACE.for_each_probe(&Spec::ALL, |_| ()), Ok(0));
    Ok(hits)
}

fn main() -> Result<(), Box<dyn Error>> {
    for (probe, args) in trace()? {
        println!("{probe} {args:?}");
    }
    Ok(())
}

#[test]
fn a_programs_probes_are_traced() {
    let (packet, done) = ("packets:vm:main:packet", "packets:vm:main:done");
    let hits = [(packet, [41, 42]), (done, [0, 0]), (packet, [43, 44]), (done, [0, 0])];
    assert_eq!(trace().unwrap(), hits.map(|(probe, args)| (probe.to_owned(), args)));
}
