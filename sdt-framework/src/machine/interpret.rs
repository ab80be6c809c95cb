//! The machine that runs programs. Everything here is probe context.

use dtrace_abi::dif::Subr;
use dtrace_abi::fault::Fault;

use super::address::{ObjectAddress, Region};
use super::dynamic::{Endless, Key};
use super::failure::{Failure, Stop};
use super::firing::Firing;
use super::op::{Compared, Op, Registers, Shape, Slot, Var};
use super::tuple::{DEFAULT_STRING, KEY_SIZE, Tuple};
use super::validate::Program;
use super::work::{CALL, INSTRUCTION, LOOK, NUMBER, STEP};
use crate::base::word::Word;
use crate::kernel::Kernel;

impl<'a, K: Kernel> Firing<'a, K> {
    /// Runs a program, and returns its value. For a type by reference, this is an address for [`fetch`](Self::fetch).
    ///
    /// # Errors
    ///
    /// A fault. Effects of earlier instructions remain.
    #[inline]
    pub fn run(&mut self, program: &Program<'_>) -> Result<u64, Failure> {
        // Programs of one instruction need no registers. This saves a tenth of a hit that traces three of them: see the benchmark.
        let result = match program.ops.first() {
            Some(&Slot(Op::ReturnSet(value))) => Ok(value),
            Some(&Slot(Op::ReturnArg(index))) => self.argument(index.into()),
            Some(&Slot(Op::ReturnBuiltin(variable))) => self.builtin(variable),
            _ => return self.interpret(program),
        };
        result.map_err(|stop| stop.failure(0))
    }

    // Not inlined, because it uses many registers.
    #[inline(never)]
    fn interpret(&mut self, program: &Program<'_>) -> Result<u64, Failure> {
        // No instruction runs twice.
        self.charge(program.ops.len() as u64 * INSTRUCTION).map_err(|stop| stop.failure(0))?;
        let mut regs = Registers::default();
        let mut compared = Compared::NOTHING;
        let mut tuple = None;
        let mut pc = 0;
        // Matches the instruction in place, so that only the operands of its kind are loaded.
        while let Some(Slot(op)) = program.ops.get(pc) {
            let failed = |stop: Stop| stop.failure(pc);
            match *op {
                Op::Or(a, b, d) => regs.set(d, regs.get(a) | regs.get(b)),
                Op::Xor(a, b, d) => regs.set(d, regs.get(a) ^ regs.get(b)),
                Op::And(a, b, d) => regs.set(d, regs.get(a) & regs.get(b)),
                // The count is taken modulo 64.
                Op::Sll(a, b, d) => regs.set(d, regs.get(a).wrapping_shl(regs.get(b) as u32)),
                Op::Srl(a, b, d) => regs.set(d, regs.get(a).wrapping_shr(regs.get(b) as u32)),
                Op::Sra(a, b, d) => {
                    regs.set(d, (regs.get(a) as i64).wrapping_shr(regs.get(b) as u32) as u64);
                }
                Op::Sub(a, b, d) => regs.set(d, regs.get(a).wrapping_sub(regs.get(b))),
                Op::Add(a, b, d) => regs.set(d, regs.get(a).wrapping_add(regs.get(b))),
                Op::Mul(a, b, d) => regs.set(d, regs.get(a).wrapping_mul(regs.get(b))),
                Op::Not(a, d) => regs.set(d, !regs.get(a)),
                Op::Mov(a, d) => regs.set(d, regs.get(a)),
                Op::Set(d, value) => regs.set(d, value),
                Op::Nop => {}
                Op::Cmp(a, b) => compared = Compared::numbers(regs.get(a), regs.get(b)),
                Op::Tst(a) => compared = Compared::tested(regs.get(a)),
                Op::Ba(to) => {
                    pc = to as usize;
                    continue;
                }
                Op::Branch(cond, to) => {
                    if compared.is(cond) {
                        pc = to as usize;
                        continue;
                    }
                }
                Op::SetCompareBranch(a, d, cond, to, value) => {
                    regs.set(d, value);
                    compared = Compared::numbers(regs.get(a), value);
                    pc = if compared.is(cond) { to as usize } else { pc + 3 };
                    continue;
                }
                Op::Ret(value) => return Ok(regs.get(value)),
                Op::ReturnSet(value) => return Ok(value),
                Op::ReturnArg(index) => return self.argument(index.into()).map_err(failed),
                Op::ReturnBuiltin(variable) => return self.builtin(variable).map_err(failed),
                Op::Arg(index, d) => regs.set(d, self.argument(index.into()).map_err(failed)?),
                Op::Builtin(variable, d) => regs.set(d, self.builtin(variable).map_err(failed)?),
                Op::Load(width, a, d) => {
                    regs.set(d, self.load(width, regs.get(a)).map_err(failed)?);
                }
                Op::Sdiv(a, b, d) => {
                    let b = divisor(regs.get(b)).map_err(failed)?;
                    regs.set(d, (regs.get(a) as i64).wrapping_div(b as i64) as u64);
                }
                Op::Srem(a, b, d) => {
                    let b = divisor(regs.get(b)).map_err(failed)?;
                    regs.set(d, (regs.get(a) as i64).wrapping_rem(b as i64) as u64);
                }
                Op::Udiv(a, b, d) => {
                    regs.set(d, regs.get(a) / divisor(regs.get(b)).map_err(failed)?);
                }
                Op::Urem(a, b, d) => {
                    regs.set(d, regs.get(a) % divisor(regs.get(b)).map_err(failed)?);
                }
                Op::LoadGlobal(at, d) => regs.set(d, self.global(at).map_err(failed)?.get()),
                Op::LoadLocal(at, d) => regs.set(d, self.local(at).map_err(failed)?.get()),
                Op::StoreGlobal(at, s) => self.global(at).map_err(failed)?.set(regs.get(s)),
                Op::StoreLocal(at, s) => self.local(at).map_err(failed)?.set(regs.get(s)),
                Op::LoadThread(number, shape, d) => {
                    regs.set(d, self.load_thread(number, shape).map_err(failed)?);
                }
                Op::StoreThread(number, shape, s) => {
                    self.store_thread(number, shape, regs.get(s)).map_err(failed)?;
                }
                Op::Scmp(a, b) => {
                    let limit = self.memory.string_size.into();
                    let difference = self.compare(regs.get(a), regs.get(b), limit);
                    compared = Compared::strings(difference.map_err(failed)?);
                }
                ref op => {
                    let tuple = tuple.get_or_insert(Tuple::EMPTY);
                    self.step(op, &mut regs, tuple).map_err(failed)?;
                }
            }
            pc += 1;
        }
        // No program ends without `ret`.
        Err(Stop::new(Fault::IllegalOperation).failure(program.ops.len()))
    }

    /// Executes an instruction that `interpret` does not execute itself, because it takes longer.
    #[inline(never)]
    fn step(&mut self, op: &Op, regs: &mut Registers, tuple: &mut Tuple) -> Result<(), Stop> {
        self.charge(match op {
            Op::Call(Subr::Speculation, _) => CALL + LOOK * self.speculations as u64,
            Op::Call(..) => CALL,
            Op::Lock(..) => NUMBER,
            _ => STEP,
        })?;
        let (target, value) = match *op {
            Op::Args(index, d) => (d, self.argument(regs.get(index))?),
            Op::UserRegister(index, d) => (d, self.user_register(regs.get(index))?),
            Op::LoadUser(width, a, d) => (d, self.load_user(width, regs.get(a))?),
            Op::LoadGlobalRef(number, d) => (d, self.load_ref(Region::Global, number)?),
            Op::LoadLocalRef(number, d) => (d, self.load_ref(Region::Local, number)?),
            Op::LoadElement(var, by_ref, d) => (d, self.load_element(var, by_ref, tuple)?),
            Op::Alloc(size, d) => (d, self.allocate(regs.get(size), true)?),
            Op::Call(subr, d) => (d, self.call(subr, regs.get(d), tuple)?),
            Op::Lock(question, d) => (d, self.ask_lock(question, tuple.arg(0))?),
            Op::StoreGlobalRef(number, shape, s) => {
                return self.store_ref(Region::Global, number, shape, regs.get(s));
            }
            Op::StoreLocalRef(number, shape, s) => {
                return self.store_ref(Region::Local, number, shape, regs.get(s));
            }
            Op::StoreElement(var, shape, s) => {
                return self.store_element(var, shape, regs.get(s), tuple);
            }
            Op::Store(width, s, to) => return self.store(width, regs.get(s), regs.get(to)),
            Op::Copy(from, size, to) => {
                return self.copy_padded(regs.get(from), regs.get(to), regs.get(size));
            }
            Op::PushValue(s) => return tuple.push(regs.get(s), 0),
            Op::PushBytes(size, s) => return tuple.push(regs.get(s), regs.get(size)),
            Op::PushString(size, s) => {
                let limit = match regs.get(size) {
                    0 => DEFAULT_STRING,
                    size => size.min(KEY_SIZE),
                };
                if tuple.is_full() {
                    return Err(Stop::new(Fault::TupleOverflow));
                }
                let length = self.length(regs.get(s), limit)?;
                return tuple.push(regs.get(s), length + 1);
            }
            Op::Pop => {
                tuple.pop();
                return Ok(());
            }
            Op::Flush => {
                tuple.clear();
                return Ok(());
            }
            // `interpret` executes all other instructions.
            _ => return Err(Stop::new(Fault::IllegalOperation)),
        };
        regs.set(target, value);
        Ok(())
    }

    #[inline(always)]
    fn global(&self, at: u32) -> Result<&'a Word, Stop> {
        self.memory.globals.value(0, at).ok_or(Stop::new(Fault::IllegalOperation))
    }

    #[inline(always)]
    fn local(&self, at: u32) -> Result<&'a Word, Stop> {
        self.memory.locals.value(self.cpu, at).ok_or(Stop::new(Fault::IllegalOperation))
    }

    /// Writes the words of the keys of an element: [`Var::key`], the thread if the variable is thread-local, and each entry of the
    /// tuple: a number, or the size of an object and the object. Returns the number of words; `None` if they do not fit a chunk.
    fn key(&mut self, var: Var, tuple: &Tuple) -> Result<Option<usize>, Stop> {
        let mut at = 0;
        let mut put = |room: &mut [u64], word: u64| {
            let place = room.get_mut(at)?;
            *place = word;
            at += 1;
            Some(())
        };
        let entries = tuple.entries().iter().enumerate();
        let objects = entries.fold(0, |bits, (at, entry)| bits | u32::from(entry.size != 0) << at);
        if put(self.room.key, var.key(objects)).is_none() {
            return Ok(None);
        }
        if var.thread {
            let thread = self.thread();
            if put(self.room.key, thread).is_none() {
                return Ok(None);
            }
        }
        for entry in tuple.entries() {
            if entry.size == 0 {
                if put(self.room.key, entry.value).is_none() {
                    return Ok(None);
                }
                continue;
            }
            if entry.size / 8 > self.room.key.len() as u64
                || put(self.room.key, entry.size).is_none()
            {
                return Ok(None);
            }
            self.charge(entry.size)?;
            for offset in (0..entry.size).step_by(8) {
                let mut bytes = [0; 8];
                let count = (entry.size - offset).min(8) as usize;
                if let Some(bytes) = bytes.get_mut(..count) {
                    self.read(entry.value.wrapping_add(offset), bytes)?;
                }
                if put(self.room.key, u64::from_le_bytes(bytes)).is_none() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(at))
    }

    fn load_element(&mut self, var: Var, by_ref: bool, tuple: &Tuple) -> Result<u64, Stop> {
        let Some(length) = self.key(var, tuple)? else { return Ok(0) };
        let key = Key::new(self.room.key.get(..length).unwrap_or_default());
        let dynamic = &self.memory.dynamic;
        let found = self.working(|work| dynamic.find(self.cpu, key, work))?;
        Ok(found.map_or(0, |chunk| self.loaded(chunk, by_ref)))
    }

    /// Assigns an element of an array; 0 removes it.
    fn store_element(
        &mut self,
        var: Var,
        shape: Shape,
        value: u64,
        tuple: &Tuple,
    ) -> Result<(), Stop> {
        let memory = self.memory;
        let dynamic = &memory.dynamic;
        if var.thread {
            self.forget_predicate();
        }
        let length = self.key(var, tuple)?;
        let key = length.and_then(|length| self.room.key.get(..length)).map(Key::new);
        if value == 0 {
            if let Some(key) = key {
                self.working(|work| dynamic.remove(self.cpu, key, work))?;
            }
            return Ok(());
        }
        let chunk = match key {
            Some(key) => {
                let size = shape.size().max(8);
                self.working(|work| dynamic.find_or_make(self.cpu, key, size, work))?
            }
            None => dynamic.refuse(self.cpu),
        };
        self.stored(chunk, shape, value)
    }

    /// Loads a thread-local variable without keys.
    #[inline(never)]
    fn load_thread(&mut self, number: u16, shape: Shape) -> Result<u64, Stop> {
        self.charge(STEP)?;
        let chunk = match self.last {
            Some((last, chunk)) if last == number => chunk,
            _ => {
                let words = self.thread_key(number);
                let dynamic = &self.memory.dynamic;
                let found = self.working(|work| dynamic.find(self.cpu, Key::new(&words), work))?;
                let Some(chunk) = found else { return Ok(0) };
                self.last = Some((number, chunk));
                chunk
            }
        };
        Ok(self.loaded(chunk, shape != Shape::Value))
    }

    /// Assigns a thread-local variable without keys; 0 removes it.
    #[inline(never)]
    fn store_thread(&mut self, number: u16, shape: Shape, value: u64) -> Result<(), Stop> {
        self.charge(STEP)?;
        self.forget_predicate();
        let chunk = match self.last {
            Some((last, chunk)) if last == number && value != 0 => Some(chunk),
            _ => {
                let words = self.thread_key(number);
                let key = Key::new(&words);
                let dynamic = &self.memory.dynamic;
                if value == 0 {
                    self.last = None;
                    return self.working(|work| dynamic.remove(self.cpu, key, work));
                }
                let size = shape.size().max(8);
                let made = self.working(|work| dynamic.find_or_make(self.cpu, key, size, work))?;
                self.last = made.map(|chunk| (number, chunk));
                made
            }
        };
        self.stored(chunk, shape, value)
    }

    /// Returns the words of the keys of a thread-local variable without keys.
    fn thread_key(&mut self, number: u16) -> [u64; 2] {
        [Var { number, thread: true }.key(0), self.thread()]
    }

    /// Returns the value of a dynamic variable for a register: a number or an address.
    fn loaded(&self, chunk: u32, by_ref: bool) -> u64 {
        if by_ref {
            return ObjectAddress::start(Region::Dynamic, chunk).address();
        }
        self.memory.dynamic.number(chunk).map_or(0, Word::get)
    }

    /// Assigns a dynamic variable that has been found or made; without a chunk, drops the record.
    fn stored(&mut self, chunk: Option<u32>, shape: Shape, value: u64) -> Result<(), Stop> {
        let Some(chunk) = chunk else {
            self.drop_record();
            return Ok(());
        };
        if shape == Shape::Value {
            if let Some(word) = self.memory.dynamic.number(chunk) {
                word.set(value);
            }
            return Ok(());
        }
        self.copy_value(value, ObjectAddress::start(Region::Dynamic, chunk).address(), shape)
    }

    /// Calls `f` with the budget.
    fn working<R>(&self, f: impl FnOnce(&mut u32) -> Result<R, Endless>) -> Result<R, Stop> {
        let mut work = self.work.get();
        let result = f(&mut work);
        self.work.set(work);
        // A clause that exceeds the budget is stopped.
        result.map_err(|Endless| Stop::new(Fault::IllegalOperation))
    }
}

/// Returns the divisor, or a fault if it is 0.
fn divisor(value: u64) -> Result<u64, Stop> {
    if value == 0 { Err(Stop::new(Fault::DivideByZero)) } else { Ok(value) }
}
