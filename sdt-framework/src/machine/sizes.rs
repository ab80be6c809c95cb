//! The sizes of the dynamic variables of a program.

use super::dynamic::{HEADER, key_words};
use super::op::{Op, Reg};
use super::tuple::{DEFAULT_STRING, KEY_SIZE};

/// Computes the size of the largest dynamic variable that a program stores.
#[derive(Default)]
pub(super) struct Sizes {
    /// The number that the last instruction [`Op::Set`] loaded.
    constant: u64,
    keys: usize,
    /// The number of words of the largest dynamic variable: header, keys and value.
    pub(super) largest: usize,
}

impl Sizes {
    /// Processes the next instruction.
    pub(super) fn follow(&mut self, op: &Op) {
        /// A word for the variable.
        const VARIABLE: usize = 1;
        /// Words for the variable and the thread.
        const OWN: usize = VARIABLE + 1;
        let value = match *op {
            Op::Set(_, value) => {
                self.constant = value;
                return;
            }
            Op::Flush => {
                self.keys = 0;
                return;
            }
            Op::PushValue(_) => {
                self.keys = self.keys.saturating_add(key_words(0));
                return;
            }
            Op::PushBytes(size, _) | Op::PushString(size, _) => {
                // The compiler sets a register to the size right before it pushes.
                let size = match (size, op) {
                    (Reg::ZERO, Op::PushString(..)) => DEFAULT_STRING,
                    (Reg::ZERO, _) => 0,
                    _ => self.constant.min(KEY_SIZE),
                };
                self.keys = self.keys.saturating_add(key_words(size as usize + 1));
                return;
            }
            Op::StoreThread(_, shape, _) => OWN + shape.size().div_ceil(8) as usize,
            Op::StoreElement(var, shape, _) => {
                let own = if var.thread { OWN } else { VARIABLE };
                self.keys.saturating_add(own + shape.size().div_ceil(8) as usize)
            }
            _ => return,
        };
        self.largest = self.largest.max(value.saturating_add(HEADER));
    }
}
