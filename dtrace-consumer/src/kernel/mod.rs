//! A kernel at the other end of a connection, for the compiler and for rendering: probes, descriptions of records, symbols.
//! Answers are cached.

mod descriptions;
#[cfg(feature = "functions")]
mod functions;
#[cfg(not(feature = "functions"))]
#[path = "no_functions.rs"]
mod functions;
mod symbols;

pub(crate) use descriptions::DescriptionSource;
use functions::KnownFunctions;
use symbols::SymbolCache;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use dtrace_abi::stability::{Attribute, Class, Stability};
use dtrace_compiler::declared::{self, Declarations, Named};
use dtrace_compiler::surroundings::{
    self, Argument, Description, Matches, ProbeInfo, ProviderAttributes, Surroundings,
};
use dtrace_compiler::types::Types;

use crate::budget::{Budget, Share, Use};
use crate::client::{ArgType, Client, ClientError, Declared, Detail, Probe};
use crate::objects::{Line, Objects};

/// The statements of the library's own `dtrace:::ERROR` clause are numbered from this number on.
pub(crate) const OWN: u64 = 1 << 32;

/// The maximum number of probes in a row that may disappear between the list and the request for their details.
const AGAIN: u32 = 64;

/// Size of the names of a probe or an argument in memory, in bytes.
const NAME: usize = 64;

/// The names of arguments by provider and probe, of each module that declares such a probe.
type ArgumentNames = HashMap<[String; 2], Vec<(String, Vec<Named>)>>;

/// The arguments of a function, or why they are unknown.
type Arguments = Result<Vec<Argument>, String>;

/// A kernel, with a cache of its answers.
#[derive(Debug)]
pub struct Kernel {
    client: RefCell<Client>,
    /// The first error of a request by a caller that cannot return errors.
    failed: RefCell<Option<ClientError>>,
    matches: RefCell<HashMap<Description, Matches>>,
    /// The names of the arguments of the probes that modules declare.
    arguments: RefCell<ArgumentNames>,
    symbols: SymbolCache,
    /// The memory of descriptions.
    described: RefCell<Share>,
    target: i64,
    /// Whether the session is open.
    is_open: Cell<bool>,
    functions: KnownFunctions,
    /// The mapped files of the kernel, if it is a process of this machine.
    objects: Option<Rc<Objects>>,
}

impl Kernel {
    /// Creates a kernel from a connection. `target` is the value of `$target`.
    pub fn new(client: Client, target: i64) -> Self {
        let budget = client.budget();
        let described = budget.share(Use::Descriptions).into();
        let symbols = SymbolCache::new(budget.share(Use::Symbols));
        Self {
            client: RefCell::new(client),
            failed: RefCell::default(),
            matches: RefCell::default(),
            arguments: RefCell::default(),
            symbols,
            described,
            target,
            is_open: Cell::new(false),
            functions: KnownFunctions::default(),
            objects: None,
        }
    }

    /// Opens the session, once.
    ///
    /// # Errors
    /// The kernel refuses, or the kernel or the connection failed.
    pub fn open(&self) -> Result<(), ClientError> {
        if !self.is_open.get() {
            self.ask(Client::open)?;
            self.is_open.set(true);
        }
        Ok(())
    }

    /// Sets the process ID of a kernel that is a process of this machine. The process's files provide names of functions that the
    /// process itself does not report: of libraries, and of inlined functions. If `$target` is this process, it becomes the number that
    /// the process has in its own pid namespace, as `pid` is in its programs.
    pub fn set_process(&mut self, id: u32) {
        let budget = self.budget();
        let objects = Rc::new(Objects::new(id, &budget));
        let own = objects.own_number();
        if self.target == i64::from(id) {
            self.target = own.into();
        }
        self.functions.set_process(own, objects.clone());
        self.objects = Some(objects);
    }

    /// Returns whether the kernel is a process of this machine.
    pub(crate) const fn is_process(&self) -> bool {
        self.objects.is_some()
    }

    /// Returns the functions and lines at an address, by debug information: see [`Objects::lines`].
    pub fn lines(&self, address: u64) -> Vec<Line> {
        self.objects.as_ref().map_or_else(Vec::new, |objects| objects.lines(address))
    }

    /// Sends the functions of libraries that the process has loaded since the last call, as far as descriptions match them. Their
    /// probes join the programs that are enabled.
    ///
    /// # Errors
    /// The process refuses, or the process or the connection failed.
    pub(crate) fn trace_new_libraries(&self) -> Result<(), ClientError> {
        self.ask(|client| self.functions.send_new(client))
    }

    /// Returns messages, each once: that functions of the process have no names because a limit was reached, that stacks are
    /// short because the process was compiled without frame pointers, and that functions of new libraries are not traced.
    pub fn process_messages(&self) -> Vec<String> {
        let objects = self.objects.as_deref();
        let messages = objects.map(|of| [of.limit_message(), of.stack_message()]);
        let messages = messages.into_iter().flatten().flatten();
        messages.chain(self.functions.complaints()).collect()
    }

    /// Sends requests to the kernel.
    ///
    /// # Errors
    /// An earlier error that [`check`](Self::check) would return, or the error of the request.
    pub fn ask<T>(
        &self,
        ask: impl FnOnce(&mut Client) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        self.check()?;
        ask(&mut self.client.borrow_mut())
    }

    /// Returns the error of an earlier request by a caller that cannot return errors, such as the compiler.
    ///
    /// # Errors
    /// That error.
    pub fn check(&self) -> Result<(), ClientError> {
        self.failed.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// Empties the cache of probes: some may have appeared or disappeared.
    pub fn forget_probes(&self) {
        self.matches.borrow_mut().clear();
    }

    /// Sets the time limit of all further answers.
    pub fn limit_answers(&self, limit: Duration) {
        self.client.borrow_mut().set_limit(limit);
    }

    /// Returns the budget of memory that the kernel can make dtrace use.
    pub fn budget(&self) -> Budget {
        self.client.borrow().budget().clone()
    }

    /// Charges the memory of a description.
    fn describe(&self, bytes: usize) -> Result<(), ClientError> {
        Ok(self.described.borrow_mut().add(bytes as u64)?)
    }

    /// Returns the client.
    pub fn into_client(self) -> Client {
        self.client.into_inner()
    }

    /// Requests the declarations of the kernel's modules, and keeps the names of the arguments of their probes.
    ///
    /// # Errors
    /// The kernel or the connection failed.
    pub fn declared(&self) -> Result<Vec<Declared>, ClientError> {
        let all = self.ask(Client::declared)?;
        let mut names = ArgumentNames::new();
        for Declared { module, text } in &all {
            // The compiler reports an error in the declarations when a program names a probe of the module.
            let Ok(declarations) = Declarations::parse(text) else { continue };
            for declared::Probe { provider, name, arguments } in declarations.probes {
                self.describe(NAME * (1 + arguments.len()))?;
                names.entry([provider, name]).or_default().push((module.clone(), arguments));
            }
        }
        self.arguments.replace(names);
        Ok(all)
    }

    /// Returns the stability and arguments of a probe with the names that [`declared`](Self::declared) has found; `None` if it has
    /// disappeared.
    ///
    /// # Errors
    /// The kernel refuses, or the kernel or the connection failed.
    pub fn detail(&self, probe: &Probe) -> Result<Option<Detail>, ClientError> {
        let Some(mut detail) = self.ask(|client| client.describe(probe))? else { return Ok(None) };
        if let Some(arguments) = self.functions.arguments(probe) {
            match arguments {
                Ok(arguments) => detail.types = argument_types(&arguments),
                Err(why) => detail.untyped = Some(why),
            }
            return Ok(Some(detail));
        }
        let arguments = self.arguments(probe, &detail);
        for (index, ty) in detail.types.iter_mut().enumerate() {
            ty.name = dtrace_compiler::name_of(&arguments, index);
        }
        Ok(Some(detail))
    }

    /// Returns the names of a probe's arguments, one for each position. Returns no names if their number differs from
    /// that of the arguments. For the probes of a companion module, uses the declarations of the module itself.
    fn names_of(&self, probe: &Probe, count: usize) -> Vec<String> {
        let Probe { module, provider, name, .. } = probe;
        let names = self.arguments.borrow();
        let all = names.get(&[provider, name].map(String::clone)).map_or(&[][..], Vec::as_slice);
        let own = all.iter().find(|(declared_in, _)| declared_in == module);
        let each = own.or(all.first()).into_iter().flat_map(|(_, arguments)| arguments);
        let all: Vec<String> =
            each.flat_map(|of| std::iter::repeat_n(of.name.clone(), of.words)).collect();
        if all.len() == count { all } else { vec![String::new(); count] }
    }

    /// Returns the arguments of a probe for the compiler.
    fn arguments(&self, probe: &Probe, detail: &Detail) -> Vec<Argument> {
        let names = self.names_of(probe, detail.types.len());
        let all = detail.types.iter().zip(names).zip(0..);
        all.map(|((ty, name), mapping)| Argument {
            name,
            native: ty.native.clone(),
            translated: ty.translated.clone().unwrap_or_default(),
            mapping,
            obstacle: None,
        })
        .collect()
    }

    /// Returns the properties of a probe. Those of a function have no arguments.
    fn info(&self, probe: &Probe, detail: &Detail) -> ProbeInfo {
        let [provider, module, function, name, args] = detail.provider.map(attribute);
        let attributes = ProviderAttributes { provider, module, function, name, args };
        let arguments = self.arguments(probe, detail);
        let info = ProbeInfo::new(probe.module.clone(), attributes, arguments);
        ProbeInfo { is_function: self.functions.has(probe), ..info }
    }

    /// Sends a request for a caller that cannot return errors. Stores an error, and returns `None`.
    fn known<T>(
        &self,
        ask: impl FnOnce(&mut Client) -> Result<Option<T>, ClientError>,
    ) -> Option<T> {
        if self.failed.borrow().is_some() {
            return None;
        }
        let answer = ask(&mut self.client.borrow_mut());
        answer.unwrap_or_else(|error| {
            self.failed.replace(Some(error));
            None
        })
    }

    /// Returns the probes that a description matches.
    ///
    /// # Errors
    /// The kernel refuses, or the kernel or the connection failed.
    pub fn list(&self, description: &Description) -> Result<Vec<Probe>, ClientError> {
        self.ask(|client| {
            self.functions.send(client, description, &self.is_open)?;
            match description.id {
                0 => client.list(&description.to_string()),
                id => Ok(client.probe(id)?.into_iter().collect()),
            }
        })
    }

    fn find(
        &self,
        client: &mut Client,
        description: &Description,
    ) -> Result<Option<Matches>, ClientError> {
        self.functions.send(client, description, &self.is_open)?;
        let text = description.to_string();
        for _ in 0..AGAIN {
            let some = match description.id {
                0 => client.list_after(&text, 0)?,
                id => client.probe(id)?.into_iter().collect(),
            };
            let Some(first) = some.first() else { break };
            // Otherwise the probe has disappeared; another one may match.
            let Some(detail) = client.describe(first)? else { continue };
            // The frame may have had room for one probe only.
            let several = some.len() > 1
                || description.id == 0 && !client.list_after(&text, first.id)?.is_empty();
            let info = self.info(first, &detail);
            return Ok(Some(if several { Matches::Several(info) } else { Matches::One(info) }));
        }
        Ok(Some(Matches::None))
    }
}

/// Returns the types of a function's arguments for a listing.
fn argument_types(arguments: &[Argument]) -> Vec<ArgType> {
    let ty = |(index, of): (usize, &Argument)| ArgType {
        native: of.native.clone(),
        translated: (!of.translated.is_empty()).then(|| of.translated.clone()),
        name: dtrace_compiler::name_of(arguments, index),
        obstacle: of.obstacle.clone(),
    };
    arguments.iter().enumerate().map(ty).collect()
}

fn attribute([name, data, class]: [u8; 3]) -> Attribute {
    let part = Stability::from_number;
    match (part(name), part(data), Class::from_number(class)) {
        (Some(name), Some(data), Some(class)) => Attribute { name, data, class },
        _ => Attribute::UNSTABLE,
    }
}

/// Converts a probe to the compiler's description.
pub(crate) fn description(probe: &Probe) -> Description {
    let Probe { id, provider, module, function, name } = probe.clone();
    Description { id, provider, module, function, name }
}

impl Surroundings for Kernel {
    fn probes(&self, description: &Description) -> Matches {
        if let Some(matches) = self.matches.borrow().get(description) {
            return matches.clone();
        }
        let found = self.known(|client| self.find(client, description)).unwrap_or(Matches::None);
        self.matches.borrow_mut().insert(description.clone(), found.clone());
        found
    }

    fn each(&self, of: &Description) -> Vec<(Description, ProbeInfo)> {
        let probes = self.known(|client| {
            self.functions.send(client, of, &self.is_open)?;
            match of.id {
                0 => client.list(&of.to_string()).map(Some),
                id => Ok(Some(client.probe(id)?.into_iter().collect())),
            }
        });
        let mut known = HashSet::new();
        let mut of_function: Option<ProbeInfo> = None;
        let (mut each, mut typed) = (Vec::new(), Vec::new());
        for probe in probes.unwrap_or_default() {
            let Probe { module, provider, function, name, .. } = &probe;
            let is_function = self.functions.has(&probe);
            let function = if is_function { function.clone() } else { String::new() };
            if !known.insert([module.clone(), provider.clone(), function, name.clone()]) {
                continue;
            }
            // A probe that has disappeared is left out. The functions of a provider differ only in their arguments.
            let last = of_function.as_ref().filter(|_| is_function);
            let info = match last {
                Some(info) => Some(ProbeInfo { module: module.clone(), ..info.clone() }),
                None => self
                    .known(|client| client.describe(&probe))
                    .map(|detail| self.info(&probe, &detail)),
            };
            let Some(mut info) = info else { continue };
            if is_function {
                of_function = Some(info.clone());
                let arguments = self.functions.arguments(&probe);
                typed.extend(arguments.clone());
                match arguments {
                    Some(Ok(arguments)) => info.arguments = arguments,
                    Some(Err(why)) => info.untyped = Some(why),
                    None => {}
                }
            }
            each.push((description(&probe), info));
        }
        self.functions.note_typed(of, &typed);
        each
    }

    fn probe(&self, id: u32) -> Option<Description> {
        self.known(|client| client.probe(id)).map(|probe| description(&probe))
    }

    fn declarations(&self, name: &str) -> Option<Declarations> {
        self.functions.declarations(name)
    }

    fn symbol(
        &self,
        module: Option<&str>,
        name: &str,
        _: &mut Types,
    ) -> Option<surroundings::Symbol> {
        let found = self.symbol_named(module, name)?;
        let crate::client::Symbol { module, name, address, size } = found;
        Some(surroundings::Symbol { module, name, address, size, ty: None })
    }

    /// The values are those of dtrace's own process, as in dtrace(1).
    fn macro_variable(&self, name: &str) -> Option<i64> {
        use rustix::process as own;
        let number = |id: Option<own::Pid>| i64::from(id.map_or(0, own::Pid::as_raw_pid));
        Some(match name {
            "pid" => number(Some(own::getpid())),
            "ppid" => number(own::getppid()),
            "pgid" => number(Some(own::getpgrp())),
            "sid" => number(own::getsid(None).ok()),
            "uid" => own::getuid().as_raw().into(),
            "euid" => own::geteuid().as_raw().into(),
            "gid" => own::getgid().as_raw().into(),
            "egid" => own::getegid().as_raw().into(),
            // Systems without projects and tasks have only the first one.
            "projid" | "taskid" => 0,
            "target" => self.target,
            _ => return None,
        })
    }

    fn has(&self, class: &str, name: &str) -> bool {
        let description = match class {
            "provider" => Description { provider: name.into(), ..Description::default() },
            "module" => Description { module: name.into(), ..Description::default() },
            _ => return false,
        };
        self.probes(&description) != Matches::None
    }
}
