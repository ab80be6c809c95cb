//! The functions that a trace sends to the kernel: of the kernel's file, or of a process and its libraries.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use dtrace_abi::spec::{Field, Spec};
use dtrace_compiler::declared::Declarations;
use dtrace_compiler::surroundings::Description;

use super::{Arguments, Kernel};
use crate::client::{Client, ClientError, Probe};
use crate::functions::{Functions, ProcessFunctions, Traced, TracedError};
use crate::objects::Objects;

/// The functions that descriptions can match.
#[derive(Debug, Default)]
pub(super) struct KnownFunctions {
    /// The functions of the kernel's file.
    kernel: RefCell<Option<Traced>>,
    /// The functions of the process, if the kernel is a process of this machine.
    process: RefCell<Option<ProcessFunctions>>,
}

impl KnownFunctions {
    /// Adds the functions of a process. `own` is its number in its own pid namespace.
    pub(super) fn set_process(&self, own: u32, objects: Rc<Objects>) {
        self.process.replace(Some(ProcessFunctions::new(own, objects)));
    }

    /// Sends the functions that a description matches. Opens the session before the first one.
    ///
    /// # Errors
    /// The kernel refuses, or the kernel or the connection failed.
    pub(super) fn send(
        &self,
        client: &mut Client,
        description: &Description,
        is_open: &Cell<bool>,
    ) -> Result<(), ClientError> {
        if description.id != 0 {
            return Ok(());
        }
        let Ok(spec) = Spec::parse(&description.to_string(), Field::Name) else { return Ok(()) };
        let (mut kernel, mut process) = (self.kernel.borrow_mut(), self.process.borrow_mut());
        let mut process = process.as_mut().filter(|of| of.may_match(description));
        if (kernel.is_some() || process.is_some()) && !is_open.replace(true) {
            client.open()?;
        }
        if let Some(functions) = kernel.as_mut() {
            functions.send(&spec, client)?;
        }
        if let Some(functions) = &mut process {
            functions.send(description, &spec, client)?;
        }
        Ok(())
    }

    /// Sends the functions of libraries that the process has loaded since the last call, as far as descriptions match them. Their
    /// probes join the programs that are enabled.
    ///
    /// # Errors
    /// The process refuses, or the process or the connection failed.
    pub(super) fn send_new(&self, client: &mut Client) -> Result<(), ClientError> {
        self.process.borrow_mut().as_mut().map_or(Ok(()), |process| process.send_new(client))
    }

    /// Notes for which types of arguments a clause with this description is compiled.
    pub(super) fn note_typed(&self, of: &Description, functions: &[Arguments]) {
        let Ok(spec) = Spec::parse(&of.to_string(), Field::Name) else { return };
        let functions: Vec<_> = functions.iter().collect();
        if let Some(kernel) = self.kernel.borrow().as_ref() {
            kernel.note_typed(spec.clone(), &functions);
        }
        if let Some(process) = self.process.borrow().as_ref() {
            process.note_typed(spec, &functions);
        }
    }

    /// Returns whether a probe is one of a function that was sent.
    pub(super) fn has(&self, probe: &Probe) -> bool {
        self.kernel.borrow().as_ref().is_some_and(|of| of.has(probe))
            || self.process.borrow().as_ref().is_some_and(|of| of.has(probe))
    }

    /// Returns the arguments of a function's probe, or why they are unknown; `None` for other probes.
    pub(super) fn arguments(&self, probe: &Probe) -> Option<Arguments> {
        let of_kernel = self.kernel.borrow().as_ref().and_then(|of| of.arguments(probe));
        of_kernel.or_else(|| self.process.borrow().as_ref()?.arguments(probe))
    }

    /// Returns the declarations of a struct or union that is the target of a function's argument, by its name in D.
    pub(super) fn declarations(&self, name: &str) -> Option<Declarations> {
        let of_kernel = self.kernel.borrow().as_ref().and_then(|of| of.declarations(name));
        of_kernel.or_else(|| self.process.borrow().as_ref()?.declarations(name))
    }

    /// Returns messages about functions that descriptions have matched and that are not traced, and forgets them.
    pub(super) fn complaints(&self) -> Vec<String> {
        let mut all: Vec<String> =
            self.kernel.borrow_mut().as_mut().map(Traced::complaints).unwrap_or_default();
        all.extend(self.process.borrow_mut().iter_mut().flat_map(ProcessFunctions::complaints));
        all
    }

    /// Returns functions that a description which matches no function may mean, as descriptions name them.
    fn similar(&self, description: &Description) -> Vec<String> {
        let of_kernel =
            self.kernel.borrow().as_ref().map_or_else(Vec::new, |of| of.similar(description));
        let of_process = self.process.borrow();
        let of_process = of_process.iter().filter(|of| of.may_match(description));
        of_kernel.into_iter().chain(of_process.flat_map(|of| of.similar(description))).collect()
    }
}

impl Kernel {
    /// Lets descriptions match these functions of the kernel's file. A function is sent to the kernel when a description matches
    /// it.
    pub fn trace_functions(&self, functions: Traced) {
        self.functions.kernel.replace(Some(functions));
    }

    /// Lets descriptions match the functions of a module that the kernel has loaded.
    ///
    /// # Errors
    /// The kernel has not loaded the file, or the kernel or the connection failed.
    pub fn trace_module(&self, functions: Functions) -> Result<(), TracedError> {
        let mut kernel = self.functions.kernel.borrow_mut();
        let Some(kernel) = kernel.as_mut() else { return Ok(()) };
        self.ask(|client| Ok(kernel.add_module(functions, client)))?
    }

    /// Returns messages about functions that descriptions have matched and that are not traced.
    pub fn function_complaints(&self) -> Vec<String> {
        self.functions.complaints()
    }

    /// Returns functions that a description which matches no function may mean, as descriptions name them.
    pub fn similar_functions(&self, description: &Description) -> Vec<String> {
        self.functions.similar(description)
    }

    /// Returns a hint if the provider, the module, or the name of a description that matches no function of a process is wrong.
    pub fn wrong_part(&self, description: &Description) -> Option<String> {
        self.functions.process.borrow().as_ref()?.wrong_part(description)
    }
}
