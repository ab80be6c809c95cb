//! The test oracle: a second interpreter of DIF, slow and obvious. It executes each instruction by its definition, accesses
//! memory byte by byte, and keeps strings as vectors. Random programs run on both interpreters.

mod memory;
mod subr;
mod text;
mod variables;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use dtrace_abi::Platform;
use dtrace_abi::dif::{Builtin, Instr, Opcode, Subr, TypeKind, Variable};
use dtrace_abi::fault::Fault;
use sdt_framework::kernel::{Kernel, Number};
use sdt_framework::testing::address::{ObjectAddress, Region};
use sdt_framework::testing::{Access, Difo, Failure};

use super::world::{ARGS, CHUNKS, SCRATCH, World};

/// A fault and its address.
type Stop = (Fault, u64);
type Result<T> = std::result::Result<T, Stop>;

fn stop<T>(fault: Fault) -> Result<T> {
    Err((fault, 0))
}

fn bad<T>(address: u64) -> Result<T> {
    Err((Fault::BadAddress, address))
}

/// A key, or an argument: its value, and the bytes of what it refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(u64),
    Bytes(u64, Vec<u8>),
}

impl Key {
    /// Returns the number of words of the key in a chunk.
    fn words(&self) -> usize {
        match self {
            Self::Number(_) => 1,
            Self::Bytes(_, bytes) => 1 + bytes.len().div_ceil(8),
        }
    }
}

/// The identity of a variable: its number, whether it is thread-local, and its keys.
type Name = (u16, bool, Vec<Key>);

/// A pushed argument of a tuple: its value and its size.
type Pushed = (u64, u64);

/// The state of a consumer.
#[derive(Debug)]
pub struct Oracle<'a> {
    world: &'a World,
    rights: Access,
    literals: Vec<u8>,
    /// The literals of the program that runs begin here.
    strings: u64,
    scratch: Vec<u8>,
    used: usize,
    values: BTreeMap<(Region2, u16), u64>,
    /// The contents of variables by reference, and whether they are NULL.
    references: BTreeMap<(Region2, u16), (bool, Vec<u8>)>,
    chunks: BTreeMap<Name, usize>,
    contents: Vec<Vec<u8>>,
    free: Vec<usize>,
    dropped: bool,
    epid: u32,
    /// The position at which `strtok` continues, and the number of remaining bytes.
    token: Option<(u64, u64)>,
    codes: (bool, bool, bool),
    tuple: Vec<Pushed>,
    /// While a subroutine runs, where the scratch space begins that it may write.
    output: Option<usize>,
    undefined: Cell<bool>,
    done: Done,
}

/// The effects of programs that ended without a fault, and the faults of the others.
#[derive(Debug, Default)]
pub struct Done {
    /// The instructions.
    pub opcodes: BTreeSet<Opcode>,
    /// Subroutines, by name.
    pub subrs: BTreeSet<&'static str>,
    /// The kernel's variables, by number.
    pub variables: BTreeSet<u16>,
    /// Faults, by number.
    pub faults: BTreeSet<u16>,
}

/// Global or clause-local.
type Region2 = u8;

fn region(region: Region) -> Region2 {
    region as u8
}

fn variable(source: &Difo<'_>, number: u16, scope: u8) -> Variable {
    let found = source.variables.iter();
    *found.clone().find(|it| it.id == u32::from(number) && it.scope == scope).expect("validated")
}

impl<'a> Oracle<'a> {
    pub fn new(world: &'a World, rights: Access) -> Self {
        Self {
            world,
            rights,
            literals: Vec::new(),
            strings: 0,
            scratch: vec![0; SCRATCH],
            used: 0,
            values: BTreeMap::new(),
            references: BTreeMap::new(),
            chunks: BTreeMap::new(),
            contents: vec![Vec::new(); CHUNKS],
            free: (0..CHUNKS).rev().collect(),
            dropped: false,
            epid: 0,
            token: None,
            codes: (false, false, false),
            tuple: Vec::new(),
            output: None,
            undefined: Cell::new(false),
            done: Done::default(),
        }
    }

    pub fn done(self) -> Done {
        self.done
    }

    /// Returns whether a subroutine read unallocated scratch space to which it also wrote. Then the result depends on the number
    /// of bytes that it reads at once.
    pub fn is_undefined(&self) -> bool {
        self.undefined.get()
    }

    pub fn begin(&mut self, epid: u32, source: &Difo<'_>) {
        self.epid = epid;
        self.used = 0;
        self.token = None;
        self.dropped = false;
        self.literals.resize(self.literals.len().next_multiple_of(8), 0);
        self.strings = place(Region::Literals, 0, self.literals.len());
        self.literals.extend(source.strings);
        for variable in source.variables {
            let by_ref = variable.ty.flags & 1 != 0;
            let which = match variable.scope {
                0 => Region::Global,
                2 => Region::Local,
                _ => continue,
            };
            let number = variable.id as u16 - 0x500;
            if by_ref && variable.kind == 1 {
                let size = variable.ty.size as usize;
                self.references.entry((region(which), number)).or_insert((false, vec![0; size]));
            }
        }
    }

    pub fn dropped(&self) -> bool {
        self.dropped
    }

    pub fn scratch(&self) -> &[u8] {
        &self.scratch
    }

    pub fn run(&mut self, source: &Difo<'_>) -> std::result::Result<u64, Failure> {
        let mut regs = [0u64; 8];
        self.codes = (false, false, false);
        self.tuple.clear();
        let mut pc = 0;
        loop {
            let instr = source.code[pc];
            let opcode = instr.opcode().expect("validated");
            if opcode == Opcode::Ret {
                self.done.opcodes.insert(opcode);
                return Ok(regs[usize::from(instr.rd())]);
            }
            if self.branches(opcode) {
                self.done.opcodes.insert(opcode);
                pc = instr.label() as usize;
                continue;
            }
            if let Err((fault, address)) = self.step(source, instr, opcode, &mut regs) {
                self.done.faults.insert(fault.number());
                return Err(Failure { fault, offset: 4 * pc as u32, address });
            }
            self.done.opcodes.insert(opcode);
            pc += 1;
        }
    }

    fn branches(&self, opcode: Opcode) -> bool {
        let (n, z, c) = self.codes;
        match opcode {
            Opcode::Ba => true,
            Opcode::Be => z,
            Opcode::Bne => !z,
            Opcode::Bg => !(z || n),
            Opcode::Bgu => !(c || z),
            Opcode::Bge => !n,
            Opcode::Bgeu => !c,
            Opcode::Bl => n,
            Opcode::Blu => c,
            Opcode::Ble => z || n,
            Opcode::Bleu => c || z,
            _ => false,
        }
    }

    fn step(
        &mut self,
        source: &Difo<'_>,
        instr: Instr,
        opcode: Opcode,
        regs: &mut [u64; 8],
    ) -> Result<()> {
        let (a, b) = (regs[usize::from(instr.r1() % 8)], regs[usize::from(instr.r2() % 8)]);
        let d = usize::from(instr.rd() % 8);
        let stored = regs[d];
        let number = instr.operand();
        let user = number.wrapping_sub(0x500);
        let result = match opcode {
            Opcode::Or => a | b,
            Opcode::Xor => a ^ b,
            Opcode::And => a & b,
            Opcode::Sll => a << (b % 64),
            Opcode::Srl => a >> (b % 64),
            Opcode::Sra => (a as i64 >> (b % 64)) as u64,
            Opcode::Sub => a.wrapping_sub(b),
            Opcode::Add => a.wrapping_add(b),
            Opcode::Mul => a.wrapping_mul(b),
            Opcode::Sdiv | Opcode::Udiv | Opcode::Srem | Opcode::Urem if b == 0 => {
                return stop(Fault::DivideByZero);
            }
            Opcode::Sdiv => (i128::from(a as i64) / i128::from(b as i64)) as u64,
            Opcode::Udiv => a / b,
            Opcode::Srem => (i128::from(a as i64) % i128::from(b as i64)) as u64,
            Opcode::Urem => a % b,
            Opcode::Not => !a,
            Opcode::Mov => a,
            Opcode::Cmp => {
                self.codes = ((a.wrapping_sub(b) as i64) < 0, a == b, a < b);
                return Ok(());
            }
            Opcode::Tst => {
                self.codes = (false, a == 0, false);
                return Ok(());
            }
            Opcode::Scmp => {
                let order = self.compare(a, b)?;
                self.codes = (order < 0, order == 0, false);
                return Ok(());
            }
            Opcode::Ldsb => i64::from(self.number(a, 1)? as i8) as u64,
            Opcode::Ldsh => i64::from(self.number(a, 2)? as i16) as u64,
            Opcode::Ldsw => i64::from(self.number(a, 4)? as i32) as u64,
            Opcode::Ldub => self.number(a, 1)?,
            Opcode::Lduh => self.number(a, 2)?,
            Opcode::Lduw => self.number(a, 4)?,
            Opcode::Ldx => self.number(a, 8)?,
            Opcode::Uldsb => i64::from(self.user(a, 1)? as i8) as u64,
            Opcode::Uldsh => i64::from(self.user(a, 2)? as i16) as u64,
            Opcode::Uldsw => i64::from(self.user(a, 4)? as i32) as u64,
            Opcode::Uldub => self.user(a, 1)?,
            Opcode::Ulduh => self.user(a, 2)?,
            Opcode::Ulduw => self.user(a, 4)?,
            Opcode::Uldx => self.user(a, 8)?,
            Opcode::Stb => return self.store(a, 1, stored),
            Opcode::Sth => return self.store(a, 2, stored),
            Opcode::Stw => return self.store(a, 4, stored),
            Opcode::Stx => return self.store(a, 8, stored),
            Opcode::Setx => source.integers[usize::from(number)],
            Opcode::Sets => self.strings + u64::from(number),
            Opcode::Ldga => match instr.r1() {
                0 => self.argument(b)?,
                2 if !self.rights.process => return stop(Fault::UserPrivilege),
                2 => self.world.user_register(b).ok_or((Fault::BadAddress, 0))?,
                _ => return stop(Fault::IllegalOperation),
            },
            Opcode::Ldgs if number < 0x500 => {
                let value = self.builtin(Builtin::from_number(number).unwrap())?;
                self.done.variables.insert(number);
                value
            }
            Opcode::Ldgs | Opcode::Ldls => {
                let which = if opcode == Opcode::Ldgs { Region::Global } else { Region::Local };
                match self.references.get(&(region(which), user)) {
                    Some((true, _)) => 0,
                    Some((false, _)) => place(which, user.into(), 0),
                    None => *self.values.get(&(region(which), user)).unwrap_or(&0),
                }
            }
            Opcode::Stgs | Opcode::Stls => {
                let scope = if opcode == Opcode::Stgs { Region::Global } else { Region::Local };
                let key = (region(scope), user);
                if !self.references.contains_key(&key) {
                    self.values.insert(key, stored);
                    return Ok(());
                }
                self.references.get_mut(&key).unwrap().0 = stored == 0;
                if stored == 0 {
                    return Ok(());
                }
                let scope_number = if scope == Region::Global { 0 } else { 2 };
                let variable = variable(source, number, scope_number);
                return self.assign(&variable, stored, place(scope, user.into(), 0));
            }
            Opcode::Ldts | Opcode::Ldgaa | Opcode::Ldtaa => {
                let thread = opcode != Opcode::Ldgaa;
                let variable = variable(source, number, u8::from(thread));
                let Some(name) = self.name(user, thread, opcode == Opcode::Ldts)? else {
                    regs[d] = 0;
                    return Ok(());
                };
                match self.chunks.get(&name) {
                    None => 0,
                    Some(&chunk) if variable.ty.flags & 1 != 0 => place(Region::Dynamic, chunk, 0),
                    Some(&chunk) => {
                        u64::from_le_bytes(self.contents[chunk][..8].try_into().unwrap())
                    }
                }
            }
            Opcode::Stts | Opcode::Stgaa | Opcode::Sttaa => {
                let thread = opcode != Opcode::Stgaa;
                let variable = variable(source, number, u8::from(thread));
                let name = self.name(user, thread, opcode == Opcode::Stts)?;
                return self.store_dynamic(name, &variable, stored);
            }
            Opcode::Call => {
                let subr = Subr::from_number(number, Platform::Freebsd).expect("validated");
                self.output = Some(self.used);
                let result = self.call(subr, stored);
                self.output = None;
                let result = result?;
                self.done.subrs.insert(subr.name());
                result
            }
            Opcode::Pushtv | Opcode::Pushtr => {
                if self.tuple.len() == 8 {
                    return stop(Fault::TupleOverflow);
                }
                let size = match (opcode, TypeKind::from_number(instr.r1())) {
                    (Opcode::Pushtv, _) => 0,
                    (_, Some(TypeKind::Ctf)) => b,
                    _ => {
                        let limit = if b == 0 { 256 } else { b.min(16 * 1024) };
                        self.string(stored, limit)?.len() as u64 + 1
                    }
                };
                self.tuple.push((stored, size));
                return Ok(());
            }
            Opcode::Popts => {
                self.tuple.pop();
                return Ok(());
            }
            Opcode::Flushts => {
                self.tuple.clear();
                return Ok(());
            }
            Opcode::Allocs => self.allocate(a, true)?,
            Opcode::Copys => return self.copy_padded(a, stored, b),
            Opcode::Nop => return Ok(()),
            // A branch that was not taken.
            _ => return Ok(()),
        };
        regs[d] = result;
        Ok(())
    }

    fn argument(&self, index: u64) -> Result<u64> {
        if !self.rights.args {
            return stop(Fault::KernelPrivilege);
        }
        let brought = usize::try_from(index).ok().and_then(|index| ARGS.get(index));
        Ok(brought.copied().unwrap_or_else(|| self.world.argument(index)))
    }

    fn builtin(&self, builtin: Builtin) -> Result<u64> {
        use Builtin as B;
        let text = |item| Ok(place(Region::Text, item, 0));
        let number = |allowed: bool, fault, which| match allowed {
            true => self.world.number(which).ok_or((Fault::IllegalOperation, 0)),
            false => stop(fault),
        };
        let process = |which| number(self.rights.process, Fault::UserPrivilege, which);
        let kernel = |which| number(self.rights.kernel, Fault::KernelPrivilege, which);
        match builtin {
            B::Probeprov => text(0),
            B::Probemod => text(1),
            B::Probefunc => text(2),
            B::Probename => text(3),
            B::Execname | B::Zonename | B::Jailname | B::Execargs | B::Threadname
                if !self.rights.process =>
            {
                stop(Fault::UserPrivilege)
            }
            B::Execname => text(4),
            B::Zonename => text(5),
            B::Jailname => stop(Fault::IllegalOperation),
            B::Execargs => text(7),
            B::Threadname => text(8),
            B::Timestamp => Ok(self.world.timestamp()),
            B::Walltimestamp => number(true, Fault::Unknown, Number::Walltimestamp),
            B::Vtimestamp => number(true, Fault::Unknown, Number::Vtimestamp),
            B::Epid => Ok(self.epid.into()),
            B::Id => Ok(9),
            B::Cpu => Ok(0),
            B::Ipl => kernel(Number::Ipl),
            B::Stackdepth => kernel(Number::Stackdepth),
            B::Caller => kernel(Number::Caller),
            B::Curthread => process(Number::Curthread),
            B::Ustackdepth => process(Number::Ustackdepth),
            B::Ucaller => process(Number::Ucaller),
            B::Pid => process(Number::Pid),
            B::Tid => process(Number::Tid),
            B::Ppid => process(Number::Ppid),
            B::Uid => process(Number::Uid),
            B::Gid => process(Number::Gid),
            B::Errno => process(Number::Errno),
            B::Jid => process(Number::Jid),
            _ => self.argument(u64::from(builtin.number() - B::Arg0.number())),
        }
    }
}

fn place(region: Region, item: usize, offset: usize) -> u64 {
    ObjectAddress { region, item: item as u32, offset: offset as u32 }.address()
}
