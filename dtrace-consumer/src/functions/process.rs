//! The functions of a process: of the program and of its shared libraries.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use dtrace_abi::spec::{Field, Spec};
use dtrace_compiler::declared::Declarations;
use dtrace_compiler::surroundings::Description;

use super::elf::{self, ReadError, Symbol, Symbols};
use super::function::Architecture;
use super::similar::similar;
use super::traced::Traced;
use super::types::{Arguments, Origin, Types};
use super::wrong::wrong_part;
use crate::client::{Client, ClientError, Probe};
use crate::objects::{Objects, Text, TextFile};

/// The beginning of the provider's name. Other descriptions match no functions, because they would make dtrace read all files.
const PROVIDER: &str = "pid";

/// The functions of a process. dtrace reads a file when a description first refers to it, and decodes a function when a
/// description first matches it.
#[derive(Debug)]
pub struct ProcessFunctions {
    objects: Rc<Objects>,
    /// The files that are not read yet.
    unread: Vec<TextFile>,
    files: Vec<ReadFile>,
    traced: Traced,
    /// The descriptions of programs that can match functions.
    asked: Vec<(Description, Spec)>,
    /// The number of times that the process is asked whether it has loaded a file that is read now.
    times: u8,
    /// Whether files are left for the next search, because reading took too long.
    is_behind: bool,
}

/// The time after which a search for new files reads no further one. Meanwhile dtrace reads no records.
const LONGEST: Duration = Duration::from_millis(500);

/// The reason for a file that is the copy of another one.
const COPY: &str = "its build ID is that of another loaded file";

/// The number of times that the process is asked whether it has loaded a file that it has mapped a moment ago.
const LATE: u8 = 50;

/// A file that is read.
#[derive(Debug)]
struct ReadFile {
    module: String,
    build_id: Vec<u8>,
    architecture: Architecture,
    text: Rc<Text>,
    file: TextFile,
    /// The functions that no description has matched yet.
    symbols: Vec<Symbol>,
    /// The number of times that the process is asked whether it has loaded the file.
    times: u8,
}

impl ProcessFunctions {
    /// Prepares the functions of a process.
    pub fn new(id: u32, objects: Rc<Objects>) -> Self {
        let unread = objects.text_files();
        let traced = Traced::empty(format!("{PROVIDER}{id}"));
        let (files, asked) = (Vec::new(), Vec::new());
        Self { objects, unread, files, traced, asked, times: 1, is_behind: false }
    }

    /// Returns whether a description can match functions.
    pub(crate) fn may_match(&self, description: &Description) -> bool {
        description.provider.starts_with(PROVIDER)
    }

    /// Sends the functions that a description matches and that the process has not received. The client is open.
    ///
    /// # Errors
    /// The process does not let consumers trace functions, or it or the connection failed.
    pub(crate) fn send(
        &mut self,
        description: &Description,
        spec: &Spec,
        client: &mut Client,
    ) -> Result<(), ClientError> {
        if !self.is_meant(description, None) {
            return Ok(());
        }
        if self.asked.is_empty() {
            // Without the right to trace functions, no file is read.
            client.function_text()?;
        }
        if !self.asked.iter().any(|(other, _)| other == description) {
            self.asked.push((description.clone(), spec.clone()));
        }
        self.send_matching(description, spec, client, None)
    }

    /// Sends the functions of files that the process has mapped since the last call, as far as a description that was sent before matches
    /// them.
    ///
    /// # Errors
    /// The process or the connection failed.
    pub(crate) fn send_new(&mut self, client: &mut Client) -> Result<(), ClientError> {
        if self.asked.is_empty() {
            return Ok(());
        }
        let new = self.objects.new_text_files();
        let is_behind = std::mem::take(&mut self.is_behind);
        if !self.traced.take_waiting() && !is_behind && new.is_empty() {
            return Ok(());
        }
        let end = Some(Instant::now() + LONGEST);
        self.unread.retain(|file| self.objects.is_mapped(file));
        self.unread.extend(new);
        self.times = LATE;
        let asked = std::mem::take(&mut self.asked);
        let sent =
            asked.iter().try_for_each(|(of, spec)| self.send_matching(of, spec, client, end));
        self.asked = asked;
        sent
    }

    /// Returns whether a description can match functions of this process, and of a module.
    fn is_meant(&self, of: &Description, module: Option<&str>) -> bool {
        let pattern = module.map_or("", |_| &of.module);
        let spec = Spec::parse(&format!("{}:{pattern}::", of.provider), Field::Name);
        let names = [self.traced.provider(), module.unwrap_or_default(), "", ""];
        spec.is_ok_and(|spec| spec.matches(names.map(str::as_bytes)))
    }

    /// Sends the functions that a description matches, without those of files that are not read until `end`.
    fn send_matching(
        &mut self,
        description: &Description,
        spec: &Spec,
        client: &mut Client,
        end: Option<Instant>,
    ) -> Result<(), ClientError> {
        let unread = std::mem::take(&mut self.unread);
        let (meant, others): (Vec<_>, Vec<_>) =
            unread.into_iter().partition(|file| self.is_meant(description, Some(&file.module)));
        self.unread = others;
        for file in meant {
            if end.is_some_and(|end| Instant::now() >= end) {
                self.is_behind = true;
                self.unread.push(file);
                continue;
            }
            match self.read(&file) {
                Ok(read) => match self.files.iter().find(|of| of.build_id == read.build_id) {
                    None => self.files.push(read),
                    // The process has loaded it before, and has unloaded it meanwhile.
                    Some(known) if known.module == read.module => {}
                    // The process would take the functions for those of the other file.
                    Some(_) => self.traced.note_missing(COPY, &read.module),
                },
                Err(reason) => self.traced.note_missing(reason, &file.module),
            }
        }
        let provider = self.traced.provider().to_owned();
        for file in &mut self.files {
            let matches = |symbol: &Symbol| {
                ["entry", "return"].iter().any(|name| {
                    let names = [&*provider, &file.module, &symbol.name.function, name];
                    spec.matches(names.map(str::as_bytes))
                })
            };
            let found: Vec<_> = file.symbols.extract_if(.., |symbol| matches(symbol)).collect();
            let decode = |symbol: Symbol| symbol.decode(file.architecture, file.text.bytes());
            let functions = found.into_iter().map(decode).collect();
            let origin = || Origin::Process {
                objects: self.objects.clone(),
                file: file.file.clone(),
                text: file.text.clone(),
            };
            let types = |structs: &_| Types::new(file.architecture, origin(), structs);
            self.traced.add(&file.build_id, functions, &file.module, types, file.times);
        }
        self.traced.send(spec, client)
    }

    /// Notes the types of the arguments for which a clause is compiled: see [`Traced::note_typed`].
    pub(crate) fn note_typed(&self, spec: Spec, functions: &[&Arguments]) {
        self.traced.note_typed(spec, functions);
    }

    /// Reads a file.
    fn read(&self, file: &TextFile) -> Result<ReadFile, &'static str> {
        let text = self.objects.text(file)?;
        let symbols = elf::read(text.bytes()).map_err(|error| match error {
            ReadError::Stripped => "the file has no symbols of functions",
            ReadError::Architecture(_) => "the file is for another architecture",
            _ => "the file is damaged",
        })?;
        let Symbols { architecture, build_id, all: symbols } = symbols;
        let build_id = build_id.ok_or("the file has no build ID: link it with -Wl,--build-id")?;
        let (module, file, text) = (file.module.clone(), file.clone(), Rc::new(text));
        let times = self.times;
        Ok(ReadFile { module, build_id, architecture, text, file, symbols, times })
    }

    /// Returns descriptions of functions that a description which matches none may mean.
    pub(crate) fn similar(&self, of: &Description) -> Vec<String> {
        let spec = Spec::parse(&format!("{}:{}::", of.provider, of.module), Field::Name);
        let Ok(spec) = spec else { return Vec::new() };
        let provider = self.traced.provider();
        let is_meant =
            |file: &&ReadFile| spec.matches([provider, &file.module, "", ""].map(str::as_bytes));
        let unmatched = self.files.iter().filter(is_meant).flat_map(|file| &file.symbols);
        let unmatched = unmatched.map(|symbol| &*symbol.name.function);
        similar(&of.function, unmatched.chain(self.traced.names(&spec)))
    }

    /// Returns a hint if the provider, the module, or the name of a description that matches no function is wrong.
    pub(crate) fn wrong_part(&self, of: &Description) -> Option<String> {
        let read = self.files.iter().map(|file| &*file.module);
        let modules: BTreeSet<_> =
            read.chain(self.unread.iter().map(|file| &*file.module)).collect();
        let modules: Vec<_> = modules.into_iter().collect();
        wrong_part(of, self.traced.provider(), &modules)
    }

    /// Returns the arguments of a probe: see [`Traced::arguments`].
    pub(crate) fn arguments(&self, probe: &Probe) -> Option<Arguments> {
        self.traced.arguments(probe)
    }

    /// Returns the declarations of a struct or union: see [`Traced::declarations`].
    pub(crate) fn declarations(&self, name: &str) -> Option<Declarations> {
        self.traced.declarations(name)
    }

    /// Returns whether a probe is one of these functions.
    pub(crate) fn has(&self, probe: &Probe) -> bool {
        self.traced.has(probe)
    }

    /// Returns messages about functions that descriptions have matched and that are not traced, and forgets them.
    pub fn complaints(&mut self) -> Vec<String> {
        self.traced.complaints()
    }
}
