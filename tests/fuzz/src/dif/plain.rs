//! DIF, run the slow and obvious way: each instruction as it stands, memory byte by byte, strings as vectors.

use std::cell::Cell;
use std::collections::BTreeMap;

use dtrace_abi::Platform;
use dtrace_abi::dif::{Builtin, Instr, Opcode, Subr, TypeKind, Variable};
use dtrace_abi::fault::Fault;
use sdt_framework::dif::address::{Place, Region};
use sdt_framework::dif::{Difo, Failure, Kernel, LockQuestion, Number, Rights, Text};

use super::world::{ARGS, CHUNK, CHUNKS, SCRATCH, STRING, World};

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
    /// Words that it takes in a chunk.
    fn words(&self) -> usize {
        match self {
            Self::Number(_) => 2,
            Self::Bytes(_, bytes) => 1 + bytes.len().div_ceil(8),
        }
    }
}

/// Which variable: its number, whether it is a thread's, and its keys.
type Name = (u16, bool, Vec<Key>);

/// What is pushed.
type Pushed = (u64, u64);

/// The state of a consumer.
#[derive(Debug)]
pub struct Plain<'a> {
    world: &'a World,
    rights: Rights,
    literals: Vec<u8>,
    /// The literals of the program that runs begin here.
    strings: u64,
    scratch: Vec<u8>,
    used: usize,
    values: BTreeMap<(Region2, u16), u64>,
    /// What variables by reference hold, and whether they are NULL.
    references: BTreeMap<(Region2, u16), (bool, Vec<u8>)>,
    chunks: BTreeMap<Name, usize>,
    contents: Vec<Vec<u8>>,
    free: Vec<usize>,
    dirty: Vec<usize>,
    clean: Vec<usize>,
    dropped: bool,
    epid: u32,
    token: u64,
    codes: (bool, bool, bool),
    tuple: Vec<Pushed>,
    /// While a subroutine runs, where the scratch space begins that it may write.
    output: Option<usize>,
    undefined: Cell<bool>,
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

impl<'a> Plain<'a> {
    pub fn new(world: &'a World, rights: Rights) -> Self {
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
            dirty: Vec::new(),
            clean: Vec::new(),
            dropped: false,
            epid: 0,
            token: 0,
            codes: (false, false, false),
            tuple: Vec::new(),
            output: None,
            undefined: Cell::new(false),
        }
    }

    /// Whether a subroutine has read scratch space that nobody has allocated before, where it writes itself:
    /// what it sees there depends on how many bytes it reads at once.
    pub fn is_undefined(&self) -> bool {
        self.undefined.get()
    }

    pub fn begin(&mut self, epid: u32, source: &Difo<'_>) {
        self.epid = epid;
        self.used = 0;
        self.token = 0;
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

    pub fn clean(&mut self) {
        if self.clean.is_empty() {
            self.clean = std::mem::take(&mut self.dirty);
        }
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
                return Ok(regs[usize::from(instr.rd())]);
            }
            if self.branches(opcode) {
                pc = instr.label() as usize;
                continue;
            }
            if let Err((fault, address)) = self.step(source, instr, opcode, &mut regs) {
                return Err(Failure { fault, offset: 4 * pc as u32, address });
            }
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
                self.builtin(Builtin::from_number(number).unwrap())?
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
                result?
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
            Opcode::Copys => return self.copy(a, stored, b),
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
            B::Execname | B::Zonename | B::Jailname | B::Execargs if !self.rights.process => {
                stop(Fault::UserPrivilege)
            }
            B::Execname => text(4),
            B::Zonename => text(5),
            B::Jailname => stop(Fault::IllegalOperation),
            B::Execargs => text(7),
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

    /// The bytes that an address of ours leads to.
    fn ours(&self, place: Place) -> Option<Vec<u8>> {
        let zero_ended = |text: &[u8]| Some([text, &[0]].concat());
        let item = place.item as u16;
        match place.region {
            Region::Scratch => Some(self.scratch.clone()),
            Region::Literals => {
                let mut all = self.literals.clone();
                all.resize(4096, 0);
                Some(all)
            }
            Region::Global | Region::Local => {
                Some(self.references.get(&(region(place.region), item))?.1.clone())
            }
            Region::Dynamic => self.contents.get(place.item as usize).cloned(),
            Region::Text => match place.item {
                0 => zero_ended(b"prov"),
                1 => zero_ended(b"mod"),
                2 => zero_ended(b""),
                3 => zero_ended(b"name"),
                _ if !self.rights.process => None,
                4 => zero_ended(self.world.text(Text::Execname)?),
                5 => zero_ended(self.world.text(Text::Zonename)?),
                6 => zero_ended(self.world.text(Text::Jailname)?),
                7 => zero_ended(self.world.text(Text::Execargs)?),
                _ => None,
            },
        }
    }

    fn read(&self, address: u64, length: u64) -> Result<Vec<u8>> {
        if length == 0 {
            return Ok(Vec::new());
        }
        match Place::of(address) {
            None if !self.rights.kernel => Err((Fault::KernelPrivilege, address)),
            None => {
                let mut bytes = Vec::new();
                for at in 0..length {
                    let mut byte = [0];
                    let address_of = address.wrapping_add(at);
                    let toxic = self.world.is_toxic(address_of, 1);
                    if toxic || !self.world.load(address_of, &mut byte) {
                        return bad(address);
                    }
                    bytes.extend(byte);
                }
                Ok(bytes)
            }
            Some(found) => {
                if let (Ok(found), Some(output)) = (found, self.output) {
                    let end = u64::from(found.offset).saturating_add(length);
                    let reads = found.region == Region::Scratch && end > output as u64;
                    self.undefined.set(self.undefined.get() || reads);
                }
                let bytes = found.ok().and_then(|found| {
                    let end = u64::from(found.offset).checked_add(length)?;
                    Some(self.ours(found)?.get(found.offset as usize..end as usize)?.to_vec())
                });
                bytes.ok_or((Fault::BadAddress, address))
            }
        }
    }

    fn byte(&self, address: u64) -> Result<u8> {
        Ok(self.read(address, 1)?[0])
    }

    fn number(&self, address: u64, size: u64) -> Result<u64> {
        let mut bytes = self.read(address, size)?;
        bytes.resize(8, 0);
        Ok(u64::from_le_bytes(bytes.try_into().unwrap()))
    }

    fn user(&self, address: u64, size: usize) -> Result<u64> {
        let mut bytes = [0; 8];
        match self.world.copyin(address, &mut bytes[..size]) {
            true => Ok(u64::from_le_bytes(bytes)),
            false => bad(address),
        }
    }

    /// Where bytes can be written.
    fn writable(&mut self, address: u64, length: u64) -> Result<&mut [u8]> {
        let found = Place::of(address).and_then(std::result::Result::ok);
        let room = found.and_then(|found| {
            let all: &mut Vec<u8> = match found.region {
                Region::Scratch => &mut self.scratch,
                Region::Global | Region::Local => {
                    &mut self.references.get_mut(&(region(found.region), found.item as u16))?.1
                }
                Region::Dynamic => self.contents.get_mut(found.item as usize)?,
                Region::Literals | Region::Text => return None,
            };
            let end = u64::from(found.offset).checked_add(length)?;
            all.get_mut(found.offset as usize..usize::try_from(end).ok()?)
        });
        room.ok_or((Fault::BadAddress, address))
    }

    fn store(&mut self, value: u64, size: u64, address: u64) -> Result<()> {
        let room = self.writable(address, size)?;
        if !address.is_multiple_of(size) {
            return Err((Fault::BadAlignment, address));
        }
        room.copy_from_slice(&value.to_le_bytes()[..size as usize]);
        Ok(())
    }

    /// In parts of 64 bytes, from the end if the places overlap so.
    fn copy(&mut self, from: u64, to: u64, length: u64) -> Result<()> {
        self.writable(to, length)?;
        let mut parts: Vec<_> = (0..length).step_by(64).collect();
        if from < to && to < from.saturating_add(length) {
            parts.reverse();
        }
        for at in parts {
            let bytes = self.read(from.wrapping_add(at), (length - at).min(64))?;
            self.writable(to.wrapping_add(at), bytes.len() as u64)?.copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn assign(&mut self, variable: &Variable, from: u64, to: u64) -> Result<()> {
        let size = u64::from(variable.ty.size);
        if variable.ty.kind != 1 {
            return self.copy(from, to, size);
        }
        for at in 0..size {
            let byte = self.byte(from.wrapping_add(at))?;
            self.writable(to.wrapping_add(at), 1)?[0] = byte;
            if byte == 0 {
                break;
            }
        }
        Ok(())
    }

    fn name(&mut self, number: u16, thread: bool, alone: bool) -> Result<Option<Name>> {
        let mut keys = Vec::new();
        let mut words = 4;
        let tuple = if alone { Vec::new() } else { self.tuple.clone() };
        let mut before = 0;
        for (value, size) in tuple {
            before += 1;
            if before > CHUNK || size / 8 > CHUNK as u64 {
                return Ok(None);
            }
            let key = match size {
                0 => Key::Number(value),
                _ => {
                    // As many words as there is room for are looked at.
                    let room = (CHUNK - before) as u64 * 8;
                    for at in (0..size.min(room + 8)).step_by(8) {
                        self.read(value.wrapping_add(at), (size - at).min(8))?;
                    }
                    if size > room {
                        return Ok(None);
                    }
                    Key::Bytes(size, self.read(value, size)?)
                }
            };
            before += key.words() - 1;
            words += key.words();
            if before > CHUNK {
                return Ok(None);
            }
            keys.push(key);
        }
        Ok((words <= CHUNK).then_some((number, thread, keys)))
    }

    fn store_dynamic(&mut self, name: Option<Name>, variable: &Variable, value: u64) -> Result<()> {
        if value == 0 {
            if let Some(chunk) = name.and_then(|name| self.chunks.remove(&name)) {
                self.dirty.push(chunk);
            }
            return Ok(());
        }
        let by_ref = variable.ty.flags & 1 != 0;
        let size = if by_ref { variable.ty.size.max(8) as usize } else { 8 };
        let Some(name) = name else {
            self.dropped = true;
            return Ok(());
        };
        let chunk = match self.chunks.get(&name) {
            Some(&chunk) => chunk,
            None => {
                let keys: usize = name.2.iter().map(Key::words).sum();
                if 2 + 4 + keys + size.div_ceil(8) > CHUNK {
                    self.dropped = true;
                    return Ok(());
                }
                if self.free.is_empty() {
                    self.free = std::mem::take(&mut self.clean);
                }
                let Some(chunk) = self.free.pop() else {
                    self.dropped = true;
                    return Ok(());
                };
                self.contents[chunk] = vec![0; size];
                self.chunks.insert(name, chunk);
                chunk
            }
        };
        if by_ref {
            return self.assign(variable, value, place(Region::Dynamic, chunk, 0));
        }
        self.contents[chunk][..8].copy_from_slice(&value.to_le_bytes());
        Ok(())
    }

    /// A string without its end, of at most so many bytes.
    fn string(&self, address: u64, limit: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for at in 0..limit {
            match self.byte(address.wrapping_add(at))? {
                0 => break,
                byte => bytes.push(byte),
            }
        }
        Ok(bytes)
    }

    fn compare(&self, a: u64, b: u64) -> Result<i32> {
        if a == b {
            return Ok(0);
        }
        for at in 0..u64::from(STRING) {
            let byte = |start: u64| match start {
                0 => Ok(0),
                _ => self.byte(start.wrapping_add(at)),
            };
            let (one, other) = (byte(a)?, byte(b)?);
            if one != other {
                return Ok(i32::from(one) - i32::from(other));
            }
            if one == 0 {
                break;
            }
        }
        Ok(0)
    }

    fn allocate(&mut self, size: u64, aligned: bool) -> Result<u64> {
        let start = if aligned { self.used.next_multiple_of(8) } else { self.used };
        let end = u128::from(size) + start as u128;
        if end > SCRATCH as u128 {
            return stop(Fault::NoScratch);
        }
        self.scratch[self.used..end as usize].fill(0);
        self.used = end as usize;
        Ok(place(Region::Scratch, 0, start))
    }

    /// A string in scratch space of its own, cut where it would not fit.
    fn give(&mut self, text: &[u8]) -> Result<u64> {
        let at = self.allocate(STRING.into(), false)?;
        self.fill(at, text);
        Ok(at)
    }

    fn fill(&mut self, at: u64, text: &[u8]) {
        let text = &text[..text.len().min(STRING as usize - 1)];
        let text = text.split(|&byte| byte == 0).next().unwrap();
        self.writable(at, text.len() as u64).unwrap().copy_from_slice(text);
    }

    fn call(&mut self, subr: Subr, before: u64) -> Result<u64> {
        let given = |index: usize| self.tuple.get(index).map(|pushed| pushed.0);
        let [a, b, c] = [0, 1, 2].map(|index| given(index).unwrap_or(0));
        let (second, third) = (given(1), given(2));
        let limit = u64::from(STRING);
        if let Some(question) = question(subr) {
            if !self.rights.kernel {
                return Err((Fault::KernelPrivilege, a));
            }
            return self.world.lock(question, a).ok_or((Fault::IllegalOperation, 0));
        }
        match subr {
            Subr::Rand => Ok((self.world.timestamp() * 2416 + 374_441) % 1_771_875),
            Subr::Speculation => Ok(1),
            Subr::Progenyof => Ok(u64::from(a == 1)),
            Subr::Copyin => {
                let to = self.allocate(b, true)?;
                self.copyin(a, b, to)?;
                Ok(to)
            }
            Subr::Copyinto => self.copyin(a, b, c).map(|()| before),
            Subr::Copyinstr => {
                let size = second.filter(|&most| most < limit).map_or(limit, |most| most + 1);
                let to = self.allocate(size, false)?;
                let mut text = Vec::new();
                while (text.len() as u64) < size - 1 {
                    match self.user(a.wrapping_add(text.len() as u64), 1) {
                        Ok(0) => break,
                        Ok(byte) => text.push(byte as u8),
                        Err(fault) => {
                            self.fill(to, &text);
                            return Err(fault);
                        }
                    }
                }
                self.fill(to, &text);
                Ok(to)
            }
            Subr::Copyout | Subr::Copyoutstr => {
                self.copyout(a, b, c, subr == Subr::Copyoutstr).map(|()| before)
            }
            Subr::Alloca => self.allocate(a, true),
            Subr::Bcopy => {
                self.in_scratch(b, c)?;
                self.copy(a, b, c).map(|()| before)
            }
            Subr::Strlen => Ok(self.string(a, limit)?.len() as u64),
            Subr::Strchr | Subr::Strrchr => {
                let mut found = 0;
                for address in (0..limit).map(|at| a.wrapping_add(at)) {
                    let byte = self.byte(address)?;
                    if byte == b as u8 {
                        found = address;
                    }
                    if byte == 0 || (found != 0 && subr == Subr::Strchr) {
                        break;
                    }
                }
                Ok(found)
            }
            Subr::Strstr | Subr::Index | Subr::Rindex => {
                let (text, wanted) = (self.string(a, limit)?, self.string(b, limit)?);
                let from = third.filter(|_| subr != Subr::Strstr).map(|from| from as i64);
                let found = self.find(a, text.len(), &wanted, from, subr == Subr::Rindex)?;
                Ok(match found {
                    Some(at) if subr == Subr::Strstr => a.wrapping_add(at),
                    Some(at) => at,
                    None if subr == Subr::Strstr => 0,
                    None => u64::MAX,
                })
            }
            Subr::Strtok => self.strtok(a, b),
            Subr::Substr => {
                let text = self.string(a, limit)?;
                let at = self.allocate(limit, false)?;
                let part =
                    substr(&text, b as i64, third.map_or(limit as i64, |count| count as i64));
                self.fill(at, part);
                Ok(at)
            }
            Subr::Strjoin => self.strjoin(a, b),
            Subr::Toupper | Subr::Tolower => {
                let at = self.allocate(limit, false)?;
                for offset in 0..limit - 1 {
                    let byte = self.byte(a.wrapping_add(offset))?;
                    if byte == 0 {
                        break;
                    }
                    let byte = match subr {
                        Subr::Toupper => byte.to_ascii_uppercase(),
                        _ => byte.to_ascii_lowercase(),
                    };
                    self.writable(at + offset, 1)?[0] = byte;
                }
                Ok(at)
            }
            Subr::Basename | Subr::Dirname => {
                let path = self.string(a, limit)?;
                let text = if subr == Subr::Basename { basename(&path) } else { dirname(&path) };
                self.give(&text)
            }
            Subr::Strtoll => self.strtoll(a, second),
            Subr::Lltostr => self.lltostr(a as i64, second),
            Subr::Htons | Subr::Ntohs => Ok((a & 0xff) << 8 | a >> 8 & 0xff),
            Subr::Htonl | Subr::Ntohl => Ok(u64::from((a as u32).swap_bytes())),
            Subr::Htonll | Subr::Ntohll => Ok(a.swap_bytes()),
            Subr::InetNtoa => self.inet(2, a, false),
            Subr::InetNtoa6 => self.inet(28, a, true),
            Subr::InetNtop => self.inet(a as i32, b, false),
            Subr::Getmajor => Ok(a >> 32),
            Subr::Getminor => Ok(a & u64::from(u32::MAX)),
            Subr::Memref => {
                let at = self.allocate(16, true)?;
                let bytes = [a.to_le_bytes(), b.to_le_bytes()].concat();
                self.writable(at, 16)?.copy_from_slice(&bytes);
                Ok(at)
            }
            Subr::Memstr => {
                if c == 0 {
                    return Ok(0);
                }
                // More than there is room for is too much before more than there may be is.
                let at = self.allocate(c, false)?;
                for offset in 0..c - 1 {
                    let byte = self.byte(a.wrapping_add(offset))?;
                    self.writable(at + offset, 1)?[0] = if byte == 0 { b as u8 } else { byte };
                }
                Ok(at)
            }
            _ => stop(Fault::IllegalOperation),
        }
    }

    /// A match may go on where a string of full length ends.
    fn find(
        &self,
        text: u64,
        length: usize,
        wanted: &[u8],
        from: Option<i64>,
        last: bool,
    ) -> Result<Option<u64>> {
        if length == 0 && wanted.is_empty() {
            return Ok(Some(0));
        }
        let length = length as i64;
        let places: Vec<i64> = match (from, last) {
            (Some(..0), true) => return Ok(wanted.is_empty().then_some(0)),
            (from, true) => (0..=from.unwrap_or(length).min(length)).rev().collect(),
            (Some(from), false) if from >= length => {
                return Ok(wanted.is_empty().then_some(length as u64));
            }
            (from, false) => (from.unwrap_or(0).max(0)..length).collect(),
        };
        'places: for at in places {
            for (offset, wanted) in (0..).zip(wanted) {
                if self.byte(text.wrapping_add(at as u64 + offset))? != *wanted {
                    continue 'places;
                }
            }
            return Ok(Some(at as u64));
        }
        Ok(None)
    }

    fn in_scratch(&self, address: u64, length: u64) -> Result<()> {
        let inside = Place::of(address).and_then(std::result::Result::ok).is_some_and(|place| {
            let end = u128::from(place.offset) + u128::from(length);
            place.region == Region::Scratch && end <= self.used as u128
        });
        if inside { Ok(()) } else { bad(address) }
    }

    fn copyin(&mut self, from: u64, size: u64, to: u64) -> Result<()> {
        self.in_scratch(to, size)?;
        let mut bytes = vec![0; size as usize];
        if size != 0 && !self.world.copyin(from, &mut bytes) {
            return bad(from);
        }
        self.writable(to, size)?.copy_from_slice(&bytes);
        Ok(())
    }

    fn copyout(&mut self, from: u64, to: u64, size: u64, string: bool) -> Result<()> {
        if !self.rights.control {
            return stop(Fault::UserPrivilege);
        }
        let mut at = 0;
        while at < size {
            let mut part = Vec::new();
            let mut ended = false;
            while part.len() < 64 && at + (part.len() as u64) < size && !ended {
                let byte = self.byte(from.wrapping_add(at + part.len() as u64))?;
                part.push(byte);
                ended = string && byte == 0;
            }
            if !self.world.copyout(&part, to.wrapping_add(at)) {
                return bad(to.wrapping_add(at));
            }
            if ended {
                break;
            }
            at += part.len() as u64;
        }
        Ok(())
    }

    fn strtok(&mut self, text: u64, separators: u64) -> Result<u64> {
        let limit = u64::from(STRING);
        if self.used + STRING as usize > SCRATCH {
            return stop(Fault::NoScratch);
        }
        let separators = self.string(separators, limit)?;
        let text = if text == 0 { self.token } else { text };
        let mut at = 0;
        let mut byte = 0;
        while at < limit {
            byte = self.byte(text.wrapping_add(at))?;
            if byte == 0 || !separators.contains(&byte) {
                break;
            }
            at += 1;
        }
        if byte == 0 {
            self.token = 0;
            return Ok(0);
        }
        let to = self.allocate(limit, false)?;
        let mut length = 0;
        while at < limit && length < limit - 1 {
            let byte = self.byte(text.wrapping_add(at))?;
            if byte == 0 || separators.contains(&byte) {
                break;
            }
            self.writable(to + length, 1)?[0] = byte;
            (at, length) = (at + 1, length + 1);
        }
        self.token = text.wrapping_add(at);
        Ok(to)
    }

    fn strjoin(&mut self, a: u64, b: u64) -> Result<u64> {
        let limit = u64::from(STRING);
        let at = self.allocate(limit, false)?;
        let mut length = 0;
        for text in [a, b] {
            for offset in 0.. {
                if length >= limit {
                    return stop(Fault::NoScratch);
                }
                let byte = self.byte(text.wrapping_add(offset))?;
                if byte == 0 {
                    break;
                }
                self.writable(at + length, 1)?[0] = byte;
                length += 1;
            }
        }
        self.used = Place::of(at).unwrap().unwrap().offset as usize + length as usize + 1;
        Ok(at)
    }

    fn strtoll(&mut self, text: u64, base: Option<u64>) -> Result<u64> {
        let base = base.map_or(10, |base| base as i32);
        if !(2..=36).contains(&base) {
            return stop(Fault::IllegalOperation);
        }
        let limit = u64::from(STRING);
        let byte = |at: u64| self.byte(text.wrapping_add(at));
        let mut at = 0;
        while at < limit && [b' ', b'\t'].contains(&byte(at)?) {
            at += 1;
        }
        let sign = byte(at)?;
        at += u64::from(sign == b'-' || sign == b'+');
        if base == 16 && byte(at)? == b'0' && byte(at + 1)?.eq_ignore_ascii_case(&b'x') {
            at += if byte(at + 2)?.is_ascii_hexdigit() { 2 } else { 0 };
        }
        let mut number: i64 = 0;
        // What ends it is read, too.
        let mut next = byte(at)?;
        while at < limit {
            let Some(digit) = char::from(next).to_digit(base as u32) else { break };
            number = number.wrapping_mul(base.into()).wrapping_add(digit.into());
            at += 1;
            next = byte(at)?;
        }
        Ok(if sign == b'-' { number.wrapping_neg() } else { number } as u64)
    }

    fn lltostr(&mut self, number: i64, base: Option<u64>) -> Result<u64> {
        let base = base.map_or(10, |base| base as i32);
        if !(2..=36).contains(&base) {
            return stop(Fault::IllegalOperation);
        }
        let mut digits = Vec::new();
        let mut left = match base {
            10 => u128::from(number.unsigned_abs()),
            _ => u128::from(number as u64),
        };
        while left != 0 {
            digits.push(char::from_digit((left % base as u128) as u32, base as u32).unwrap());
            left /= base as u128;
        }
        let digits: String = digits.iter().rev().collect();
        let text = match base {
            _ if number == 0 && base != 16 => "0".into(),
            16 if number == 0 => "0x0".into(),
            16 => format!("0x{digits}"),
            8 => format!("0{digits}"),
            10 if number < 0 => format!("-{digits}"),
            _ => digits,
        };
        self.at_end(&text, 65)
    }

    fn inet(&mut self, family: i32, from: u64, only_dotted: bool) -> Result<u64> {
        match family {
            2 => {
                let bytes = self.read(from, 4)?;
                let parts: Vec<_> = bytes.iter().map(u8::to_string).collect();
                self.at_end(&parts.join("."), 16)
            }
            26 | 28 => {
                let bytes: [u8; 16] = self.read(from, 16)?.try_into().unwrap();
                let address = std::net::Ipv6Addr::from(bytes);
                let stands_for_4 = bytes[..10] == [0; 10]
                    && (bytes[10..12] == [255; 2]
                        || bytes[10..12] == [0; 2] && u128::from(address) > 1);
                let dotted = bytes[12..].iter().map(u8::to_string).collect::<Vec<_>>().join(".");
                let text = match (stands_for_4, only_dotted) {
                    (true, true) => dotted,
                    (true, false) => self.mixed(&bytes, &dotted),
                    _ => address.to_string(),
                };
                self.at_end(&text, 46)
            }
            _ => stop(Fault::IllegalOperation),
        }
    }

    /// Version 4 within version 6, with the prefix.
    fn mixed(&self, bytes: &[u8; 16], dotted: &str) -> String {
        match bytes[10..12] {
            [0, 0] => format!("::{dotted}"),
            _ => format!("::ffff:{dotted}"),
        }
    }

    /// A text at the end of so many bytes of scratch space, its zero included.
    fn at_end(&mut self, text: &str, size: u64) -> Result<u64> {
        let at = self.allocate(size, false)? + size - 1 - text.len() as u64;
        self.writable(at, text.len() as u64)?.copy_from_slice(text.as_bytes());
        Ok(at)
    }
}

fn place(region: Region, item: usize, offset: usize) -> u64 {
    Place { region, item: item as u32, offset: offset as u32 }.address()
}

fn question(subr: Subr) -> Option<LockQuestion> {
    Some(match subr {
        Subr::MutexOwned => LockQuestion::MutexOwned,
        Subr::MutexOwner => LockQuestion::MutexOwner,
        Subr::MutexTypeAdaptive => LockQuestion::MutexTypeAdaptive,
        Subr::MutexTypeSpin => LockQuestion::MutexTypeSpin,
        Subr::RwReadHeld => LockQuestion::RwReadHeld,
        Subr::RwWriteHeld => LockQuestion::RwWriteHeld,
        Subr::RwIswriter => LockQuestion::RwIswriter,
        Subr::SxSharedHeld => LockQuestion::SxSharedHeld,
        Subr::SxExclusiveHeld => LockQuestion::SxExclusiveHeld,
        Subr::SxIsexclusive => LockQuestion::SxIsexclusive,
        _ => return None,
    })
}

fn substr(text: &[u8], index: i64, count: i64) -> &[u8] {
    let length = text.len() as i128;
    let (mut index, mut count) = (i128::from(index), i128::from(count));
    if index < 0 {
        index += length;
        if index < 0 && index + count > 0 {
            (index, count) = (0, count + index);
        }
    }
    if index < 0 || index >= length {
        return &[];
    }
    if count < 0 {
        count += length - index;
    }
    let end = (index + count.max(0)).min(length);
    &text[index as usize..end as usize]
}

fn basename(path: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        return b".".to_vec();
    }
    match path.split(|&byte| byte == b'/').rfind(|part| !part.is_empty()) {
        Some(part) => part.to_vec(),
        None => b"/".to_vec(),
    }
}

fn dirname(path: &[u8]) -> Vec<u8> {
    let trimmed = |path: &[u8]| {
        let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
        path[..end].to_vec()
    };
    if path.is_empty() {
        return b".".to_vec();
    }
    let whole = trimmed(path);
    if whole.is_empty() {
        return b"/".to_vec();
    }
    match whole.iter().rposition(|&byte| byte == b'/') {
        None => b".".to_vec(),
        Some(at) => match trimmed(&whole[..at]) {
            dir if dir.is_empty() => b"/".to_vec(),
            dir => dir,
        },
    }
}
