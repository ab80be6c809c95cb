//! Finds stacks in which callers are missing because a function keeps no frame pointer. dtrace prints the reason once.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::Objects;
use super::image::{self, Parts};
use super::mappings::{Identity, Mapping};
use super::meter::Meter;
use super::part::Metered;
use super::unwind::Unwind;

/// The most addresses that are examined.
const MOST: usize = 1024;
/// The most steps of reading the unwind tables: they may have some ten thousand functions.
const STEPS: u64 = 1 << 22;
/// The beginnings of names of functions in Rust's libraries, which are compiled with other options than the program.
const LIBRARIES: [&str; 6] = ["std::", "core::", "alloc::", "<std::", "<core::", "<alloc::"];

/// The stacks of a process.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    /// The program's file, with its unwind tables.
    program: OnceCell<Option<(Identity, Unwind)>>,
    /// For each return address, whether its function keeps a frame pointer; `None` if unknown.
    examined: RefCell<HashMap<u64, Option<bool>>>,
    /// The first function whose callers are missing.
    lonely: RefCell<Option<String>>,
    reported: Cell<bool>,
}

impl Objects {
    /// Examines a stack of the process: the return addresses for which the stack should contain the caller as well, the innermost
    /// first.
    pub fn note_stack(&self, frames: &[u64]) {
        if self.stacks.lonely.borrow().is_some() {
            return;
        }
        let keeps: Vec<_> = frames.iter().map(|frame| self.examined(*frame)).collect();
        // If one function keeps a frame pointer, the program was compiled with frame pointers. Functions without one
        // come from libraries.
        if keeps.contains(&Some(true)) {
            return;
        }
        let mut without = frames.iter().zip(keeps).filter(|(_, keeps)| *keeps == Some(false));
        let lonely = without.find_map(|(frame, _)| {
            let found = self.symbol(frame.saturating_sub(1))?;
            let name = format!("{:#}", rustc_demangle::demangle(&found.name));
            let is_program = !LIBRARIES.iter().any(|library| name.starts_with(library));
            is_program.then(|| format!("{}`{}", found.module, crate::escape::line(&name)))
        });
        self.stacks.lonely.replace(lonely);
    }

    /// Returns a message, once, if the callers of a function of the program are missing in a stack.
    pub fn stack_message(&self) -> Option<String> {
        let lonely = self.stacks.lonely.borrow();
        let name = lonely.as_ref().filter(|_| !self.stacks.reported.replace(true))?;
        Some(format!(
            "stacks of process {} lack frames: {name} was compiled without a frame pointer, so its callers are missing; compile the \
             program with -C force-frame-pointers=yes (C: -fno-omit-frame-pointer)",
            self.id
        ))
    }

    fn examined(&self, frame: u64) -> Option<bool> {
        if let Some(keeps) = self.stacks.examined.borrow().get(&frame) {
            return *keeps;
        }
        if self.stacks.examined.borrow().len() == MOST {
            return None;
        }
        let keeps = self.keeps_frame_pointer(frame);
        self.stacks.examined.borrow_mut().insert(frame, keeps);
        keeps
    }

    /// Returns whether the function of the program at a return address keeps a frame pointer; `None` if it is unknown, or for other
    /// files.
    fn keeps_frame_pointer(&self, frame: u64) -> Option<bool> {
        // A return address may belong to the next function, so the call before it is looked up.
        let (mapping, _, own) = self.find(frame.checked_sub(1)?)?;
        let program = self.stacks.program.get_or_init(|| self.read_program(&mapping)).as_ref();
        let (identity, unwind) = program?;
        (mapping.file == *identity).then(|| unwind.keeps_frame_pointer(own)).flatten()
    }

    fn read_program(&self, any: &Mapping) -> Option<(Identity, Unwind)> {
        let path = std::fs::read_link(self.process.join("exe")).ok()?;
        let is_program = |of: &&Mapping| path.to_str() == Some(&*of.path);
        let mapping = {
            let mappings = self.mappings.borrow();
            [any].into_iter().chain(&mappings.all).find(is_program)?.clone()
        };
        let budget = self.meter.budget();
        let image =
            image::read(&self.process, &mapping, self.meter.limits(), Parts::Unwind).ok()?;
        self.meter.keep_file(image.charged());
        // The unwind tables have limits of their own.
        let meter = Rc::new(Meter::with_steps(budget, STEPS));
        meter.begin();
        let unwind = Unwind::new(&Rc::new(Metered { image, meter: meter.clone() }))?;
        Some((mapping.file, unwind))
    }
}
