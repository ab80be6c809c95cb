//! The functions of a kernel's file that a trace sends to the kernel.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use dtrace_abi::spec::{Field, Spec};
use dtrace_compiler::declared::Declarations;
use dtrace_compiler::surroundings::Description;
use dtrace_protocol::WhyNoFunction;

use super::function::{Function, Functions, Obstacle, Site};
use super::name::Name;
use super::similar::similar;
use super::types::{Arguments, Origin, Types};
use crate::client::{self, Client, ClientError, FunctionSite, FunctionText};
use crate::signature::StructNames;

/// The name of the provider of a kernel.
const PROVIDER: &str = "fbt";
/// The crates of the framework, which the breakpoint handler and the clauses of programs call.
const FRAMEWORK: [&str; 5] =
    ["sdt_core", "sdt_framework", "sdt_process", "dtrace_abi", "dtrace_protocol"];

/// The functions of a kernel's file, or of several files of a process, and which of them the kernel has received.
#[derive(Debug)]
pub struct Traced {
    provider: String,
    files: Vec<File>,
    /// The names of the structs of arguments.
    structs: Rc<StructNames>,
    /// The probes of functions by their names, each as its file and its index there, and how many have been added.
    named: RefCell<(Indexes, usize)>,
    /// The probes that a description has matched and that are not traced: how many, and the first one, for each reason.
    missing: BTreeMap<&'static str, (usize, String)>,
    /// The descriptions of clauses that use the types of arguments, with the types for which the clauses are compiled; `None` if these
    /// differ.
    typed: RefCell<Vec<(Spec, Option<Arguments>)>>,
    /// Whether functions wait for the kernel to load their file.
    is_waiting: bool,
}

/// Indexes by the name of a function.
type Indexes = HashMap<String, Vec<[usize; 2]>>;

/// The functions of a file.
#[derive(Debug)]
struct File {
    build_id: Vec<u8>,
    probes: Vec<Probe>,
    types: Types,
    is_loaded: IsLoaded,
}

/// Whether the kernel has loaded a file.
#[derive(Clone, Copy, Debug)]
enum IsLoaded {
    Yes,
    /// Not yet, as far as is known. The kernel is still asked this many times.
    Unknown(u8),
    No,
}

impl File {
    /// Prepares the functions of a file of a kernel. Their modules are their crates.
    fn of_kernel(build_id: Vec<u8>, functions: Functions, structs: &Rc<StructNames>) -> Self {
        let (path, bytes) = (functions.path, OnceCell::new());
        let origin = Origin::Kernel { path, build_id: build_id.clone(), bytes };
        let types = Types::new(functions.architecture, origin, structs);
        let probes = functions.all.into_iter().flat_map(|of| Probe::both(of, None)).collect();
        Self { build_id, probes, types, is_loaded: IsLoaded::Yes }
    }
}

/// The entry of a function, or its returns.
#[derive(Debug)]
struct Probe {
    name: Name,
    address: u64,
    is_return: bool,
    sites: Result<Vec<Site>, Obstacle>,
    is_sent: bool,
}

impl Probe {
    /// Returns the probes of a function; `module` is their module, if not the crate.
    fn both(of: Function, module: Option<&str>) -> [Self; 2] {
        let is_framework = FRAMEWORK.contains(&&*of.name.module);
        let (entry, returns) = match is_framework {
            true => (Err(Obstacle::Handler), Err(Obstacle::Handler)),
            false => (of.entry.map(|site| vec![site]), of.returns),
        };
        let Name { module: krate, function } = of.name;
        let name = Name { module: module.map_or(krate, str::to_owned), function };
        let address = of.address;
        [(false, entry), (true, returns)].map(|(is_return, sites)| {
            let name = name.clone();
            Self { name, address, is_return, sites, is_sent: false }
        })
    }
}

const NOT_LOADED: &str =
    "the dynamic linker has not loaded its file, or it is a function of the dynamic linker";
/// The reason for functions of a library that was loaded after a clause was compiled for the types of other functions.
const TYPED: &str = "a program that uses arguments by type was compiled for other functions, before the library was loaded; run dtrace again";
const SEVERAL: &str = "several functions have this name, with different arguments";
/// The reason for probes that the consumer itself does not send.
const OBSTACLE: &str = "see the reason with dtrace --functions FILE";

/// Returns the reason for which a kernel or process refuses a site.
const fn reason(why: WhyNoFunction) -> &'static str {
    match why {
        WhyNoFunction::Name => "the name is not accepted",
        WhyNoFunction::Instruction => "the instruction cannot be emulated",
        WhyNoFunction::Stack => {
            "the instruction stores below the stack that the breakpoint handler leaves free"
        }
        WhyNoFunction::Address => {
            "the host excludes it: its breakpoint handler may call it, or it is not in the text that may be traced"
        }
        WhyNoFunction::Bytes => "the code in memory differs from the file",
        WhyNoFunction::Overlap => "the instruction overlaps another site",
        WhyNoFunction::NoRoom => {
            "there is no room for more sites; a process sets their number by Options::function_sites"
        }
        _ => "the site is refused",
    }
}

/// Why the functions of a file cannot be traced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TracedError {
    /// The file has no build ID.
    #[error(
        "the file has no build ID, so it cannot be compared with the running kernel; link the kernel with --build-id"
    )]
    NoBuildId,
    /// The file is that of another build.
    #[error(
        "the file is not that of the running kernel: its build ID is {file}, the kernel's is {kernel}"
    )]
    Build {
        /// The build ID of the file, in hexadecimal digits.
        file: String,
        /// The build ID of the kernel.
        kernel: String,
    },
    /// The kernel has not loaded the file of a module.
    #[error("the kernel has loaded no module with its build ID, {0}")]
    NotLoaded(String),
    /// The connection failed.
    #[error(transparent)]
    Client(#[from] ClientError),
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Traced {
    /// Prepares the functions of a file for the kernel with this text.
    ///
    /// # Errors
    /// The file is not that of the kernel.
    pub fn new(mut functions: Functions, text: &FunctionText) -> Result<Self, TracedError> {
        let build_id = functions.build_id.take().ok_or(TracedError::NoBuildId)?;
        if build_id != text.build_id {
            return Err(TracedError::Build {
                file: hexadecimal(&build_id),
                kernel: hexadecimal(&text.build_id),
            });
        }
        functions.exclude_reachable(&text.handlers);
        let mut traced = Self::empty(PROVIDER.to_owned());
        traced.files.push(File::of_kernel(build_id, functions, &traced.structs));
        Ok(traced)
    }

    /// Adds the functions of a file that the kernel has loaded, such as a module. The client is open.
    ///
    /// # Errors
    /// The file has no build ID, or the kernel has not loaded it.
    pub(crate) fn add_module(
        &mut self,
        mut functions: Functions,
        client: &mut Client,
    ) -> Result<(), TracedError> {
        let build_id = functions.build_id.take().ok_or(TracedError::NoBuildId)?;
        if !client.knows_functions(&build_id)? {
            return Err(TracedError::NotLoaded(hexadecimal(&build_id)));
        }
        self.files.push(File::of_kernel(build_id, functions, &self.structs));
        Ok(())
    }

    /// Creates an empty set of functions for a provider.
    pub(super) fn empty(provider: String) -> Self {
        let named = (Indexes::new(), 0);
        let (files, missing, typed) = (Vec::new(), BTreeMap::new(), RefCell::default());
        let structs = Rc::default();
        Self { provider, files, structs, named: named.into(), missing, typed, is_waiting: false }
    }

    /// Returns the name of the provider.
    pub(super) fn provider(&self) -> &str {
        &self.provider
    }

    /// Adds functions of a file, in this module. `types` prepares the types of the file. The process is asked so many times at most whether it has
    /// loaded the file.
    pub(super) fn add(
        &mut self,
        build_id: &[u8],
        functions: Vec<Function>,
        module: &str,
        types: impl FnOnce(&Rc<StructNames>) -> Types,
        times: u8,
    ) {
        let probes = functions.into_iter().flat_map(|of| Probe::both(of, Some(module)));
        match self.files.iter_mut().find(|file| file.build_id == build_id) {
            Some(file) => file.probes.extend(probes),
            None => {
                let (build_id, probes) = (build_id.to_vec(), probes.collect());
                let is_loaded = IsLoaded::Unknown(times);
                let types = types(&self.structs);
                self.files.push(File { build_id, probes, types, is_loaded });
            }
        }
    }

    /// Returns the names of the functions in the modules that a description matches.
    pub(super) fn names(&self, spec: &Spec) -> impl Iterator<Item = &str> {
        let all = self.files.iter().flat_map(|file| &file.probes).map(|probe| &probe.name);
        let is_meant =
            |of: &&Name| spec.matches([&*self.provider, &of.module, "", ""].map(str::as_bytes));
        all.filter(is_meant).map(|of| &*of.function)
    }

    /// Returns functions that a description which matches none may mean.
    pub(crate) fn similar(&self, of: &Description) -> Vec<String> {
        let spec = Spec::parse(&format!("{}:{}::", of.provider, of.module), Field::Name);
        spec.map_or_else(|_| Vec::new(), |spec| similar(&of.function, self.names(&spec)))
    }

    /// Returns the functions of a probe, each with its file.
    fn functions_of(&self, of: &client::Probe) -> Vec<(&File, &Probe)> {
        let mut named = self.named.borrow_mut();
        let count = self.files.iter().map(|file| file.probes.len()).sum();
        if named.1 != count {
            named.0.clear();
            for (file, index) in self.files.iter().zip(0..) {
                for (probe, position) in file.probes.iter().zip(0..) {
                    let name = probe.name.function.clone();
                    named.0.entry(name).or_default().push([index, position]);
                }
            }
            named.1 = count;
        }
        let is_return = of.name == "return";
        let all = named.0.get(&of.function).into_iter().flatten().map(|[file, index]| {
            let file = &self.files[*file];
            (file, &file.probes[*index])
        });
        all.filter(|(_, probe)| probe.is_return == is_return && probe.name.module == of.module)
            .collect()
    }

    /// Returns whether a probe is one of a function.
    pub(crate) fn has(&self, probe: &client::Probe) -> bool {
        self.provider == probe.provider && ["entry", "return"].contains(&&*probe.name)
    }

    /// Returns the arguments of a probe, or why they are unknown; `None` if it is not one of these functions. Several functions with
    /// one name, such as instances of a generic function, are one probe; its arguments are known only if they are the same.
    pub(crate) fn arguments(&self, probe: &client::Probe) -> Option<Arguments> {
        let is_hit = |(_, of): &(&File, &Probe)| of.sites.is_ok();
        let ours = if self.has(probe) { self.functions_of(probe) } else { Vec::new() };
        let mut all = ours
            .into_iter()
            .filter(is_hit)
            .map(|(file, of)| file.types.arguments(&of.name, of.address, of.is_return));
        let first = all.next()?;
        match all.all(|other| other == first) {
            true => Some(first),
            false => Some(Err(SEVERAL.to_owned())),
        }
    }

    /// Returns the declarations of a struct or union that is the target of an argument, by its name in D.
    pub(crate) fn declarations(&self, name: &str) -> Option<Declarations> {
        self.files.iter().find_map(|file| file.types.declarations(name))
    }

    /// Counts a function or a file that is not traced, for the message with this reason.
    pub(super) fn note_missing(&mut self, reason: &'static str, what: &str) {
        self.missing.entry(reason).or_insert_with(|| (0, what.to_owned())).0 += 1;
    }

    /// Sends the functions that a description matches and that the kernel has not received. The client is open.
    ///
    /// # Errors
    /// The kernel or the connection failed.
    pub(crate) fn send(&mut self, spec: &Spec, client: &mut Client) -> Result<(), ClientError> {
        let mut missing = Vec::new();
        let Self { provider, files, typed, .. } = self;
        let names = |of: &Probe| {
            let name = if of.is_return { "return" } else { "entry" };
            [&**provider, &of.name.module, &of.name.function, name].map(str::to_owned)
        };
        let matches =
            |spec: &Spec, of: &Probe| spec.matches(names(of).each_ref().map(String::as_bytes));
        for File { build_id, probes, types, is_loaded } in files {
            let is_new = |probe: &Probe| !probe.is_sent && matches(spec, probe);
            if !probes.iter().any(is_new) {
                continue;
            }
            if let IsLoaded::Unknown(times) = is_loaded {
                *is_loaded = match (client.knows_functions(build_id)?, *times) {
                    (true, _) => IsLoaded::Yes,
                    (false, ..2) => IsLoaded::No,
                    (false, times) => IsLoaded::Unknown(times - 1),
                };
            }
            if matches!(is_loaded, IsLoaded::Unknown(_)) {
                self.is_waiting = true;
                continue;
            }
            let mut sites = Vec::new();
            for probe in probes.iter_mut().filter(|probe| is_new(probe)) {
                probe.is_sent = true;
                let Name { module, function } = &probe.name;
                let of_clause = typed.get_mut().iter().find(|(spec, _)| matches(spec, probe));
                let is_other = of_clause.is_some_and(|(_, arguments)| {
                    let own = types.arguments(&probe.name, probe.address, probe.is_return);
                    arguments.as_ref() != Some(&own)
                });
                match &probe.sites {
                    Err(Obstacle::NeverReturns | Obstacle::Handler) => {}
                    Err(_) => missing.push((OBSTACLE, function.clone())),
                    Ok(_) if matches!(is_loaded, IsLoaded::No) => {
                        missing.push((NOT_LOADED, function.clone()));
                    }
                    Ok(_) if is_other => missing.push((TYPED, function.clone())),
                    Ok(all) => sites.extend(all.iter().map(|site| FunctionSite {
                        module,
                        function,
                        is_return: probe.is_return,
                        address: site.address,
                        offset: site.address.saturating_sub(probe.address) as u32,
                        code: site.code(),
                        window: site.window,
                    })),
                }
            }
            if sites.is_empty() {
                continue;
            }
            for (index, why) in client.functions(build_id, &sites)? {
                missing.push((reason(why), sites[index].function.to_owned()));
            }
        }
        for (reason, function) in missing {
            self.note_missing(reason, &function);
        }
        Ok(())
    }

    /// Returns whether functions wait for the kernel to load their file, and forgets it.
    pub(super) fn take_waiting(&mut self) -> bool {
        std::mem::take(&mut self.is_waiting)
    }

    /// Notes the types for which a clause with this description is compiled: those of these functions. The kernel receives no further
    /// functions that the description matches and that have other types.
    pub(crate) fn note_typed(&self, spec: Spec, functions: &[&Arguments]) {
        let are_same = functions.windows(2).all(|two| two[0] == two[1]);
        let arguments = functions.first().filter(|_| are_same).map(|first| (*first).clone());
        self.typed.borrow_mut().push((spec, arguments));
    }

    /// Returns messages about probes that descriptions have matched and that are not traced, and forgets them.
    pub fn complaints(&mut self) -> Vec<String> {
        let missing = std::mem::take(&mut self.missing);
        let line = |(reason, (count, first)): (&str, (usize, String))| {
            let others = match count {
                1 => String::new(),
                count => format!(" and {} others", count - 1),
            };
            format!("{}: {first}{others}: not traced: {reason}", self.provider)
        };
        missing.into_iter().map(line).collect()
    }
}
