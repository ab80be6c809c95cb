//! The functions of a process: of the program and of its shared libraries.

use std::rc::Rc;

use dtrace_abi::spec::{Field, Spec};
use dtrace_compiler::surroundings::Description;

use super::elf::{self, ReadError, Symbol, Symbols};
use super::function::Architecture;
use super::similar::similar;
use super::traced::Traced;
use super::types::{Arguments, Origin, Types};
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
}

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
}

impl ProcessFunctions {
    /// Prepares the functions of a process.
    pub fn new(id: u32, objects: Rc<Objects>) -> Self {
        let unread = objects.text_files();
        let traced = Traced::empty(format!("{PROVIDER}{id}"));
        Self { objects, unread, files: Vec::new(), traced }
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
        let Description { provider, module, .. } = description;
        let means = |module_of_file: &str| {
            let fields = format!("{provider}:{module}::");
            Spec::parse(&fields, Field::Name).is_ok_and(|spec| {
                let provider = self.traced.provider();
                spec.matches([provider, module_of_file, "", ""].map(str::as_bytes))
            })
        };
        let (meant, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.unread).into_iter().partition(|file| means(&file.module));
        self.unread = others;
        if !meant.is_empty() && self.files.is_empty() {
            // Without the right to trace functions, no file is read.
            client.function_text()?;
        }
        for file in meant {
            match self.read(&file) {
                Ok(read) => self.files.push(read),
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
            let types = || Types::new(file.architecture, origin());
            self.traced.add(&file.build_id, functions, &file.module, types);
        }
        self.traced.send(spec, client)
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
        Ok(ReadFile { module, build_id, architecture, text, file, symbols })
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

    /// Returns the arguments of a probe: see [`Traced::arguments`].
    pub(crate) fn arguments(&self, probe: &Probe) -> Option<Arguments> {
        self.traced.arguments(probe)
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
