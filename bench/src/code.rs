//! Measures the code of instrumentation, by disassembling this program.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use codegen::Image;
use codegen::function::instructions;

use crate::steps;
use crate::subjects::Subject;

/// The code of one function, while nothing is enabled.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// The number of instructions that a call executes, including called functions.
    pub executed: i64,
    /// Bytes of the function that a call executes.
    pub hot: i64,
    /// Bytes of the function that a call does not execute.
    pub cold: i64,
}

/// This program.
pub struct Program {
    image: Image,
    /// The difference between addresses in memory and in the file.
    bias: u64,
}

impl Program {
    /// Reads this program's file. `known` is one of its functions.
    ///
    /// # Errors
    /// The file cannot be read, or has no symbols.
    pub fn open(known: Subject) -> Result<Self> {
        let path = std::env::current_exe().context("the program's own path")?;
        let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
        let image = Image::parse(&bytes)?;
        let symbol = image.function(&full_name(known.name)).with_context(|| no_symbol(known.name))?;
        let bias = known.entry().wrapping_sub(symbol.address);
        Ok(Self { image, bias })
    }

    /// The code of a function.
    ///
    /// # Errors
    /// There is no such function, or it cannot be decoded.
    pub fn code(&self, subject: Subject) -> Result<Code> {
        let symbol = self.image.function(&full_name(subject.name));
        let symbol = symbol.with_context(|| no_symbol(subject.name))?;
        let executed = steps::executed(subject, symbol.len)?;
        let reached: BTreeSet<_> = executed.iter().map(|a| a.wrapping_sub(self.bias)).collect();
        let (mut hot, mut cold) = (0, 0);
        for instruction in instructions(&self.image, symbol)? {
            let len = instruction.len() as i64;
            if reached.contains(&instruction.address()) {
                hot += len;
            } else {
                cold += len;
            }
        }
        Ok(Code { executed: executed.len() as i64, hot, cold })
    }
}

fn full_name(name: &str) -> String {
    format!("bench::subjects::{name}")
}

fn no_symbol(name: &str) -> String {
    format!("this program has no symbol {}: was it stripped?", full_name(name))
}
