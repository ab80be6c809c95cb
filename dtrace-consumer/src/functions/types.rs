//! The types of a function's arguments. dtrace reads the debug information of a file when a program first uses an argument of one of
//! its functions.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use dtrace_compiler::declared::Declarations;
use dtrace_compiler::surroundings::Argument;
use object::{Object as _, ObjectSection as _};

use super::arguments;
use super::function::Architecture;
use super::name::Name;
use crate::objects::{Objects, Signatures, Text, TextFile};
use crate::signature::{Signature, StructNames};

/// The longest beginning of a function that is read, in bytes.
const LONGEST: u64 = 4096;

/// The arguments of a function, or why they are unknown.
pub(crate) type Arguments = Result<Vec<Argument>, String>;

/// A file with debug information.
#[derive(Debug)]
pub(super) enum Origin {
    /// A file of a process.
    Process { objects: Rc<Objects>, file: TextFile, text: Rc<Text> },
    /// The file of a kernel with its build ID, and its bytes after the first use.
    Kernel { path: PathBuf, build_id: Vec<u8>, bytes: OnceCell<Vec<u8>> },
}

/// The arguments of the functions of a file.
#[derive(Debug)]
pub(super) struct Types {
    architecture: Architecture,
    origin: Origin,
    names: Rc<StructNames>,
    signatures: OnceCell<Result<Signatures, &'static str>>,
    known: RefCell<HashMap<u64, Result<Rc<Signature>, &'static str>>>,
}

impl Types {
    /// Prepares the types of a file. Structs have these names.
    pub fn new(architecture: Architecture, origin: Origin, names: &Rc<StructNames>) -> Self {
        let (names, signatures, known) = (names.clone(), OnceCell::new(), RefCell::default());
        Self { architecture, origin, names, signatures, known }
    }

    /// Returns the declarations of a struct or union that is the target of an argument, by its name in D.
    pub fn declarations(&self, name: &str) -> Option<Declarations> {
        self.signatures.get()?.as_ref().ok()?.declarations(name)
    }

    /// Returns the arguments of the entry or of the returns of a function.
    pub fn arguments(&self, name: &Name, address: u64, is_return: bool) -> Arguments {
        let signature = self.signature(address)?;
        // Functions with equal code may have been merged, so that the symbol is that of another one.
        if let Some(symbol) = &signature.symbol
            && symbol.starts_with('_')
        {
            let described = Name::of(symbol, "").function;
            if described != name.function && described != *symbol {
                return Err(format!(
                    "its code is also that of {described}, which the debug information describes"
                ));
            }
        }
        // GCC removes parameters and results of functions to whose names it adds a suffix: `.isra.0`.
        let is_clone = !name.function.contains("::") && name.function.contains('.');
        Ok(match is_return {
            true => arguments::of_return(&signature, is_clone),
            false => {
                let text = self.text(address).unwrap_or_default();
                arguments::of_entry(self.architecture, &signature, text)
            }
        })
    }

    fn signature(&self, address: u64) -> Result<Rc<Signature>, &'static str> {
        if let Some(known) = self.known.borrow().get(&address) {
            return known.clone();
        }
        let read = || match &self.origin {
            Origin::Process { objects, file, .. } => objects.signatures(file, &self.names),
            Origin::Kernel { path, build_id, .. } => {
                Signatures::of_file(path, build_id, &self.names)
            }
        };
        let signatures = self.signatures.get_or_init(read).as_ref();
        let found = signatures.map_err(|why| *why).and_then(|of| of.at(address).map(Rc::new));
        self.known.borrow_mut().insert(address, found.clone());
        found
    }

    /// Returns the text from an address on, as far as it is needed.
    fn text(&self, address: u64) -> Option<&[u8]> {
        let bytes = match &self.origin {
            Origin::Process { text, .. } => text.bytes(),
            Origin::Kernel { path, bytes, .. } => {
                bytes.get_or_init(|| std::fs::read(path).unwrap_or_default())
            }
        };
        let file = object::File::parse(bytes).ok()?;
        let contains = |section: &object::Section<'_, '_>| {
            (section.address()..section.address().saturating_add(section.size())).contains(&address)
        };
        let section = file.sections().find(contains)?;
        let left = section.address().saturating_add(section.size()) - address;
        section.data_range(address, left.min(LONGEST)).ok()?
    }
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::super::Functions;
    use super::*;

    const SOURCE: &str = "#![crate_type = \"cdylib\"]
        #[unsafe(no_mangle)] pub extern \"C\" fn first(count: u16, text: *const i8) -> i32 {
            std::hint::black_box((count, text)); 7
        }
        #[unsafe(no_mangle)] pub extern \"C\" fn second(ratio: f32, (low, high): (u64, u64)) {
            std::hint::black_box((ratio, low, high));
        }";

    /// Compiles functions, and returns them with the types in a copy of the file at `path`.
    fn compiled(path: &std::path::Path, options: &[&str]) -> (Functions, Types) {
        let source = path.with_extension("rs");
        std::fs::write(&source, SOURCE).unwrap();
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut compiler = std::process::Command::new(rustc);
        compiler.args(["-Clink-arg=-Wl,--build-id", "-Awarnings", "--edition=2024"]);
        compiler.args(options).arg("-o").arg(path).arg(&source);
        assert!(compiler.status().unwrap().success());
        let functions = Functions::read(path).unwrap();
        let (path, build_id) = (path.to_owned(), functions.build_id.clone().unwrap());
        let origin = Origin::Kernel { path, build_id, bytes: OnceCell::new() };
        let types = Types::new(functions.architecture, origin, &Rc::default());
        (functions, types)
    }

    fn shown(functions: &Functions, types: &Types, name: &str, is_return: bool) -> Vec<String> {
        let of = functions.all.iter().find(|of| of.name.function == name).unwrap();
        match types.arguments(&of.name, of.address, is_return) {
            Ok(all) => all
                .into_iter()
                .map(|of| match of.obstacle {
                    Some(why) => format!("{}: {why}", of.name),
                    None => format!("{}: {} arg{}", of.name, of.native, of.mapping),
                })
                .collect(),
            Err(why) => vec![why],
        }
    }

    #[test]
    fn functions_of_a_kernels_file_have_types() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kernel");
        for level in ["-Copt-level=0", "-Copt-level=2"] {
            let (functions, types) = compiled(&path, &["-g", level]);
            let all = shown(&functions, &types, "first", false);
            assert_eq!(all, ["count: uint16_t arg0", "text: int8_t * arg1"], "{level}");
            let result = shown(&functions, &types, "first", true);
            assert_eq!(result, [": uint64_t arg0", ": int arg1"], "{level}");
            let all = shown(&functions, &types, "second", false);
            assert_eq!(all[0], "ratio: its type is a floating-point number (f32)", "{level}");
            assert_eq!(shown(&functions, &types, "second", true), [": uint64_t arg0"]);
        }
    }

    #[test]
    fn a_changed_file_has_no_types() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kernel");
        let (functions, types) = compiled(&path, &["-g"]);
        compiled(&path, &["-g", "-Copt-level=2"]);
        assert_eq!(shown(&functions, &types, "first", false), ["the file has changed"]);
        // The files that are not read any more keep their types.
        let (functions, types) = compiled(&path, &["-g"]);
        let all = shown(&functions, &types, "first", false);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(shown(&functions, &types, "first", false)[0], all[0]);
    }
}
