//! The kernel's symbols, which are a file next to the kernel.

use std::path::{Path, PathBuf};

use cargo_sdt::internal::module::BuildError;
use cargo_sdt::internal::whole;
use object::{Object as _, ObjectSymbol as _, SymbolKind};
use sdt_protocol::symbols::{Symbol, table};

/// Returns the path of the file with a kernel's symbols.
pub fn file(kernel: &Path) -> PathBuf {
    kernel.with_extension("symbols")
}

/// Writes the file with the symbols, unless it exists and is not older than the kernel.
///
/// # Errors
/// The kernel cannot be read, or the file cannot be written.
pub(crate) fn write(kernel: &Path) -> Result<(), BuildError> {
    let file = file(kernel);
    let failed = |source| BuildError::File { file: kernel.into(), source };
    let changed = |file: &Path| std::fs::metadata(file).and_then(|of| of.modified());
    let built = changed(kernel).map_err(failed)?;
    if changed(&file).is_ok_and(|written| written >= built) {
        return Ok(());
    }
    let bytes = std::fs::read(kernel).map_err(failed)?;
    let table = of(&bytes).map_err(|error| failed(std::io::Error::other(error)))?;
    // Other processes may write the file, or start a machine with it.
    whole::write(&file, &table).map_err(|source| BuildError::File { file, source })
}

/// Returns the table of the functions and statics of an ELF file.
fn of(kernel: &[u8]) -> Result<Vec<u8>, object::Error> {
    let kernel = object::File::parse(kernel)?;
    let symbols = kernel.symbols().filter(|symbol| {
        matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Data) && symbol.size() > 0
    });
    let named = symbols.filter_map(|symbol| {
        let (address, size, name) = (symbol.address(), symbol.size(), symbol.name_bytes().ok()?);
        Some(Symbol { address, size, name })
    });
    Ok(table(named))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sdt_protocol::symbols::Table;

    #[test]
    fn symbols_of_a_program_are_found_again() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let parsed = object::File::parse(&*own).unwrap();
        let named = |name: &str| parsed.symbols().find(|of| of.name() == Ok(name)).unwrap();
        let bytes = of(&own).unwrap();
        let table = Table::new(&bytes).unwrap();
        let main = named("main");
        let found = table.at(main.address() + 1).unwrap();
        assert_eq!((found.name, found.address), (&b"main"[..], main.address()));
        assert!(bytes.len() < Table::ROOM);
    }
}
