//! Reads from a module's file which kernel and which other modules it needs. The messages tell the user what to do before a
//! kernel refuses the module, or shows no probe of it.

use cargo_sdt::internal::arch::Arch;
use cargo_sdt::internal::check::DRIVER;
use cargo_sdt::internal::platform::Os;
use object::{Object as _, ObjectSymbol as _, elf};

/// The suffix of a companion's name, after that of its module.
const COMPANION: &str = "_dtrace";

/// The needs of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    os: Option<Os>,
    /// The machine that it is for, by its header.
    machine: Option<elf::Machine>,
    /// The module of which it is the companion.
    module: Option<String>,
    /// Its own companion.
    companion: Option<String>,
}

impl Needs {
    /// Returns the needs of a module's file; none, if it cannot be read.
    pub fn of(file: &[u8]) -> Self {
        let (os, machine) = (Os::told_by(file), machine(file));
        let Ok(parsed) = object::File::parse(file) else {
            return Self { os, machine, ..Self::default() };
        };
        let driver = |defined| {
            let mut symbols = parsed.symbols().filter(|symbol| symbol.is_definition() == defined);
            symbols.find_map(|symbol| Some(symbol.name().ok()?.strip_prefix(DRIVER)?.to_owned()))
        };
        let companion = driver(true).map(|module| module + COMPANION);
        Self { os, machine, module: driver(false), companion }
    }

    /// Returns why kernels for this architecture refuse the file. The kernel itself judges a file for an unknown machine.
    pub fn wrong_arch(&self, arch: Arch) -> Option<String> {
        let told = Arch::of_machine(self.machine?).filter(|&told| told != arch)?;
        Some(format!("it is a module for {told}, and the kernel is for {arch}: use --arch {told}"))
    }

    /// Returns why kernels of this system refuse the file.
    pub fn wrong_system(&self, os: Os) -> Option<String> {
        let told = self.os.filter(|&told| told != os)?;
        Some(format!("it is a module for {told}, and the kernel is {os}: use --os {told}"))
    }

    /// Returns the module that must be loaded first, if it is not among the loaded ones.
    pub fn missing_module(&self, loaded: &[String]) -> Option<String> {
        let module = self.module.as_ref().filter(|module| !is_loaded(loaded, module))?;
        Some(format!("it is the companion of {module}: load {module} first"))
    }

    /// Returns the companion that must be loaded for its probes, if it is not among the loaded ones.
    pub fn missing_companion(&self, loaded: &[String]) -> Option<String> {
        let companion =
            self.companion.as_ref().filter(|companion| !is_loaded(loaded, companion))?;
        Some(format!(
            "its companion, {companion}, registers its provider, and is not loaded: load \
             {companion}, too"
        ))
    }
}

/// Returns the machine in a file's ELF header, of either byte order.
fn machine(file: &[u8]) -> Option<elf::Machine> {
    let number = file.starts_with(&elf::ELFMAG).then(|| file.get(18..20)?.try_into().ok())??;
    let is_big = elf::DataEncoding(*file.get(5)?) == elf::ELFDATA2MSB;
    Some(elf::Machine(if is_big { u16::from_be_bytes(number) } else { u16::from_le_bytes(number) }))
}

/// Returns whether a file of this name, with or without its class, is loaded.
fn is_loaded(loaded: &[String], name: &str) -> bool {
    loaded.iter().any(|file| file.rsplit('/').next() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(os: Os, module: Option<&str>, companion: Option<&str>) -> Needs {
        let owned = |name: Option<&str>| name.map(str::to_owned);
        Needs { os: Some(os), machine: None, module: owned(module), companion: owned(companion) }
    }

    #[test]
    fn what_is_missing_is_named() {
        let (module, companion) =
            (needs(Os::Illumos, None, Some("x_dtrace")), needs(Os::Illumos, Some("x"), None));
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let (nothing, both) = (names(&[]), names(&["misc/x", "x_dtrace"]));
        assert_eq!(module.missing_module(&nothing), None);
        let silent = module.missing_companion(&names(&["x"])).unwrap();
        assert_eq!(
            silent,
            "its companion, x_dtrace, registers its provider, and is not loaded: load x_dtrace, too"
        );
        assert_eq!(module.missing_companion(&both), None);
        let refused = companion.missing_module(&nothing).unwrap();
        assert_eq!(refused, "it is the companion of x: load x first");
        assert_eq!(companion.missing_module(&both), None);
        let refused = module.wrong_system(Os::FreeBsd).unwrap();
        assert_eq!(
            refused,
            "it is a module for illumos, and the kernel is freebsd: use --os illumos"
        );
        assert_eq!(Needs::of(b"text"), Needs::default());
        let mut header = [0; 64];
        header[..4].copy_from_slice(&elf::ELFMAG);
        header[18..20].copy_from_slice(&elf::EM_X86_64.0.to_le_bytes());
        assert_eq!(Needs::of(&header).wrong_arch(Arch::X86_64), None);
        assert_eq!(
            Needs::of(&header).wrong_arch(Arch::Riscv64).unwrap(),
            "it is a module for x86_64, and the kernel is for riscv64: use --arch x86_64"
        );
        assert_eq!(Needs::default().wrong_arch(Arch::Riscv64), None);
        assert_eq!(Needs::default().wrong_system(Os::Illumos), None);
        assert_eq!(Needs::default().missing_module(&nothing), None);
    }
}
