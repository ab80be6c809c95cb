//! As much of DIF as programs need that compute.

use std::collections::HashMap;

use dtrace_abi::Platform;
use dtrace_abi::dif::{Builtin, DifType, Opcode, Subr, VarScope};
use dtrace_abi::fault::Fault;
use dtrace_compiler::program::Difo;
use dtrace_compiler::surroundings::Description;

/// Why a program stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    Fault { fault: Fault, offset: u64, address: u64 },
    Unsupported(String),
}

/// Addresses begin here: nothing stands at small numbers.
const BASE: u64 = 0x10_0000;

pub struct Vm {
    strsize: u32,
    arena: Vec<u8>,
    variables: HashMap<(u8, u16), u64>,
    builtins: HashMap<Builtin, u64>,
    pushed: Vec<u64>,
}

fn unsupported<T>(what: impl std::fmt::Debug) -> Result<T, Stop> {
    Err(Stop::Unsupported(format!("{what:?}")))
}

impl Vm {
    pub fn new(strsize: u32) -> Self {
        let (variables, builtins) = (HashMap::new(), HashMap::new());
        Self { strsize, arena: Vec::new(), variables, builtins, pushed: Vec::new() }
    }

    pub fn forget_locals(&mut self) {
        self.variables.retain(|(scope, _), _| *scope != VarScope::Local.number());
    }

    pub fn probe(&mut self, epid: u32, probe: &Description) {
        let texts = [
            (Builtin::Probeprov, &probe.provider),
            (Builtin::Probemod, &probe.module),
            (Builtin::Probefunc, &probe.function),
            (Builtin::Probename, &probe.name),
        ];
        for (builtin, text) in texts {
            let address = self.put(&[text.as_bytes(), b"\0"].concat());
            self.builtins.insert(builtin, address);
        }
        self.builtins.insert(Builtin::Epid, epid.into());
        self.builtins.insert(Builtin::Id, probe.id.into());
    }

    fn put(&mut self, bytes: &[u8]) -> u64 {
        let address = BASE + self.arena.len() as u64;
        self.arena.extend_from_slice(bytes);
        self.arena.resize(self.arena.len().next_multiple_of(8), 0);
        address
    }

    pub fn memory(&mut self, address: u64, size: usize) -> Result<&mut [u8], Stop> {
        let at = address.wrapping_sub(BASE) as usize;
        let range = at..at.saturating_add(size);
        let fault = Stop::Fault { fault: Fault::BadAddress, offset: u64::MAX, address };
        self.arena.get_mut(range).ok_or(fault)
    }

    pub fn string(&mut self, address: u64, size: usize) -> Result<Vec<u8>, Stop> {
        let mut text = Vec::new();
        while text.len() < size {
            match self.memory(address + text.len() as u64, 1)?[0] {
                0 => break,
                byte => text.push(byte),
            }
        }
        Ok(text)
    }

    fn load(&mut self, address: u64, size: usize, signed: bool) -> Result<u64, Stop> {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(self.memory(address, size)?);
        let value = u64::from_le_bytes(bytes);
        let unused = 64 - 8 * size as u32;
        Ok(if signed { ((value << unused) as i64 >> unused) as u64 } else { value })
    }

    /// The storage of a variable that is known by its address.
    fn storage(&mut self, key: (u8, u16), ty: DifType) -> u64 {
        if let Some(&address) = self.variables.get(&key) {
            return address;
        }
        let size = if ty.is_string() { self.strsize } else { ty.size };
        let address = self.put(&vec![0; size as usize]);
        self.variables.insert(key, address);
        address
    }

    fn variable(&mut self, op: Opcode, id: u16, difo: &Difo) -> Result<((u8, u16), DifType), Stop> {
        let scope = match op {
            Opcode::Ldls | Opcode::Stls => VarScope::Local,
            Opcode::Ldgs | Opcode::Stgs => VarScope::Global,
            _ => return unsupported(op),
        };
        let of = |variable: &&dtrace_abi::dif::Variable| {
            variable.id == u32::from(id) && variable.scope == scope.number()
        };
        match difo.variables.iter().find(of) {
            Some(variable) => Ok(((scope.number(), id), variable.ty)),
            None => unsupported(id),
        }
    }

    pub fn run(&mut self, difo: &Difo) -> Result<u64, Stop> {
        let (mut pc, mut registers, mut compared) = (0, [0_u64; 256], (0_u64, 0_u64));
        loop {
            let at = pc as u64 * 4;
            let stop = |stop| match stop {
                Stop::Fault { fault, address, .. } => Stop::Fault { fault, offset: at, address },
                other => other,
            };
            let instr = difo.code[pc];
            let Some(op) = instr.opcode() else { return unsupported(instr) };
            let (left, right) = (registers[instr.r1() as usize], registers[instr.r2() as usize]);
            let rd = instr.rd() as usize;
            pc += 1;
            let value = match op {
                Opcode::Ret => return Ok(registers[rd]),
                Opcode::Setx => difo.integers[instr.operand() as usize],
                Opcode::Sets => {
                    let text = difo.string(instr.operand().into()).unwrap_or_default();
                    self.put(&[text, b"\0"].concat())
                }
                Opcode::Mov => left,
                Opcode::Not => !left,
                Opcode::Or => left | right,
                Opcode::Xor => left ^ right,
                Opcode::And => left & right,
                Opcode::Sll => left << (right & 63),
                Opcode::Srl => left >> (right & 63),
                Opcode::Sra => (left as i64 >> (right & 63)) as u64,
                Opcode::Add => left.wrapping_add(right),
                Opcode::Sub => left.wrapping_sub(right),
                Opcode::Mul => left.wrapping_mul(right),
                Opcode::Sdiv | Opcode::Udiv | Opcode::Srem | Opcode::Urem => {
                    let (l, r) = (left as i64, right as i64);
                    let value = match op {
                        Opcode::Sdiv if right != 0 => Some(l.wrapping_div(r) as u64),
                        Opcode::Srem if right != 0 => Some(l.wrapping_rem(r) as u64),
                        Opcode::Udiv => left.checked_div(right),
                        _ => left.checked_rem(right),
                    };
                    let fault = Fault::DivideByZero;
                    value.ok_or(Stop::Fault { fault, offset: at, address: 0 })?
                }
                Opcode::Cmp | Opcode::Tst | Opcode::Scmp => {
                    compared = match op {
                        Opcode::Cmp => (left, right),
                        Opcode::Tst => (left, 0),
                        _ => {
                            let size = self.strsize as usize;
                            let texts = (
                                self.string(left, size).map_err(stop)?,
                                self.string(right, size).map_err(stop)?,
                            );
                            (u64::from(texts.0 > texts.1), u64::from(texts.0 < texts.1))
                        }
                    };
                    continue;
                }
                Opcode::Ba
                | Opcode::Be
                | Opcode::Bne
                | Opcode::Bg
                | Opcode::Bgu
                | Opcode::Bge
                | Opcode::Bgeu
                | Opcode::Bl
                | Opcode::Blu
                | Opcode::Ble
                | Opcode::Bleu => {
                    let (l, r) = compared;
                    let (sl, sr) = (l as i64, r as i64);
                    let taken = match op {
                        Opcode::Ba => true,
                        Opcode::Be => l == r,
                        Opcode::Bne => l != r,
                        Opcode::Bg => sl > sr,
                        Opcode::Bgu => l > r,
                        Opcode::Bge => sl >= sr,
                        Opcode::Bgeu => l >= r,
                        Opcode::Bl => sl < sr,
                        Opcode::Blu => l < r,
                        Opcode::Ble => sl <= sr,
                        _ => l <= r,
                    };
                    if taken {
                        pc = instr.label() as usize;
                    }
                    continue;
                }
                Opcode::Ldsb => self.load(left, 1, true).map_err(stop)?,
                Opcode::Ldsh => self.load(left, 2, true).map_err(stop)?,
                Opcode::Ldsw => self.load(left, 4, true).map_err(stop)?,
                Opcode::Ldub => self.load(left, 1, false).map_err(stop)?,
                Opcode::Lduh => self.load(left, 2, false).map_err(stop)?,
                Opcode::Lduw => self.load(left, 4, false).map_err(stop)?,
                Opcode::Ldx => self.load(left, 8, false).map_err(stop)?,
                Opcode::Stb | Opcode::Sth | Opcode::Stw | Opcode::Stx => {
                    let size = match op {
                        Opcode::Stb => 1,
                        Opcode::Sth => 2,
                        Opcode::Stw => 4,
                        _ => 8,
                    };
                    let memory = self.memory(registers[rd], size).map_err(stop)?;
                    memory.copy_from_slice(&left.to_le_bytes()[..size]);
                    continue;
                }
                Opcode::Ldgs | Opcode::Ldls => {
                    let id = instr.operand();
                    match Builtin::from_number(id) {
                        Some(builtin) => match self.builtins.get(&builtin) {
                            Some(&value) => value,
                            None => return unsupported(builtin),
                        },
                        None => {
                            let (key, ty) = self.variable(op, id, difo)?;
                            match ty.is_by_ref() {
                                true => self.storage(key, ty),
                                false => self.variables.get(&key).copied().unwrap_or(0),
                            }
                        }
                    }
                }
                Opcode::Stgs | Opcode::Stls => {
                    let (key, ty) = self.variable(op, instr.operand(), difo)?;
                    if ty.is_by_ref() {
                        let to = self.storage(key, ty);
                        let bytes = if ty.is_string() {
                            let size = self.strsize as usize;
                            let mut text = self.string(registers[rd], size - 1).map_err(stop)?;
                            text.push(0);
                            text
                        } else {
                            self.memory(registers[rd], ty.size as usize).map_err(stop)?.to_vec()
                        };
                        self.memory(to, bytes.len()).map_err(stop)?.copy_from_slice(&bytes);
                    } else {
                        self.variables.insert(key, registers[rd]);
                    }
                    continue;
                }
                Opcode::Allocs => self.put(&vec![0; left as usize]),
                Opcode::Copys => {
                    let bytes = self.memory(left, right as usize).map_err(stop)?.to_vec();
                    self.memory(registers[rd], bytes.len()).map_err(stop)?.copy_from_slice(&bytes);
                    continue;
                }
                Opcode::Nop => continue,
                Opcode::Flushts => {
                    self.pushed.clear();
                    continue;
                }
                Opcode::Pushtr | Opcode::Pushtv => {
                    self.pushed.push(registers[rd]);
                    continue;
                }
                Opcode::Call => self.call(instr.operand()).map_err(stop)?,
                other => return unsupported(other),
            };
            // %r0 is always zero.
            if rd != 0 {
                registers[rd] = value;
            }
        }
    }

    fn call(&mut self, number: u16) -> Result<u64, Stop> {
        let pushed = std::mem::take(&mut self.pushed);
        let size = self.strsize as usize;
        match (Subr::from_number(number, Platform::Freebsd), &pushed[..]) {
            (Some(Subr::Alloca), [size]) => Ok(self.put(&vec![0; *size as usize])),
            (Some(Subr::Bcopy), [from, to, size]) => {
                let bytes = self.memory(*from, *size as usize)?.to_vec();
                self.memory(*to, bytes.len())?.copy_from_slice(&bytes);
                Ok(0)
            }
            (Some(Subr::Strlen), [text]) => Ok(self.string(*text, size)?.len() as u64),
            (Some(Subr::Strjoin), [left, right]) => {
                let text = [self.string(*left, size)?, self.string(*right, size)?, vec![0]];
                Ok(self.put(&text.concat()))
            }
            (other, _) => unsupported(other),
        }
    }
}
