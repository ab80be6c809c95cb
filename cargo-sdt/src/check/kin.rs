//! What a module wants to be loaded with, by its file: why a kernel refuses it, or shows no probe of it, in words that
//! say what to do.

use object::{Object as _, ObjectSymbol as _, elf};

use crate::arch::Arch;
use crate::platform::Os;

/// What the table is called by which a module for illumos with a provider of its own and its companion know each other
/// (`sdt_core::illumos::companion`); the module's name follows.
pub(crate) const DRIVER: &str = "sdt_driver_";

/// Behind a module's name, that of its companion.
const COMPANION: &str = "_dtrace";

/// What a module wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kin {
    os: Option<Os>,
    /// The machine that it is for, as its header has it.
    machine: Option<elf::Machine>,
    /// The module that it is the companion of.
    module: Option<String>,
    /// Its own companion.
    companion: Option<String>,
}

impl Kin {
    /// What a file wants; nothing, if it cannot be read.
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

    /// Why no kernel for this architecture takes the file, whatever it has loaded. Of a file that is for no machine that
    /// is known the kernel says what it thinks.
    pub fn is_of_another(&self, arch: Arch) -> Option<String> {
        let told = Arch::of_machine(self.machine?).filter(|&told| told != arch)?;
        Some(format!("it is a module for {told}, and the kernel is for {arch}: take --arch {told}"))
    }

    /// Why no kernel of this system takes the file, whatever it has loaded.
    pub fn is_of_another_system(&self, os: Os) -> Option<String> {
        let told = self.os.filter(|&told| told != os)?;
        Some(format!("it is a module for {told}, and the kernel is {os}'s: take --os {told}"))
    }

    /// Why a kernel that has loaded these modules would refuse the module.
    pub fn refused(&self, loaded: &[String]) -> Option<String> {
        let module = self.module.as_ref().filter(|module| !is_loaded(loaded, module))?;
        Some(format!("it is the companion of {module}, which has to be loaded before it"))
    }

    /// Why a kernel that has loaded the module, and these, shows no probe of it.
    pub fn silent(&self, loaded: &[String]) -> Option<String> {
        let companion =
            self.companion.as_ref().filter(|companion| !is_loaded(loaded, companion))?;
        Some(format!(
            "its provider is registered by its companion, {companion}, which is not loaded"
        ))
    }
}

/// The machine in a file's ELF header, of either byte order.
fn machine(file: &[u8]) -> Option<elf::Machine> {
    let number = file.starts_with(&elf::ELFMAG).then(|| file.get(18..20)?.try_into().ok())??;
    let is_big = elf::DataEncoding(*file.get(5)?) == elf::ELFDATA2MSB;
    Some(elf::Machine(if is_big { u16::from_be_bytes(number) } else { u16::from_le_bytes(number) }))
}

/// Whether a file of this name is loaded, which may have its class in front.
fn is_loaded(loaded: &[String], name: &str) -> bool {
    loaded.iter().any(|file| file.rsplit('/').next() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kin(os: Os, module: Option<&str>, companion: Option<&str>) -> Kin {
        let owned = |name: Option<&str>| name.map(str::to_owned);
        Kin { os: Some(os), machine: None, module: owned(module), companion: owned(companion) }
    }

    #[test]
    fn what_is_missing_is_named() {
        let (module, companion) =
            (kin(Os::Illumos, None, Some("x_dtrace")), kin(Os::Illumos, Some("x"), None));
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let (nothing, both) = (names(&[]), names(&["misc/x", "x_dtrace"]));
        assert_eq!(module.refused(&nothing), None);
        let silent = module.silent(&names(&["x"])).unwrap();
        assert_eq!(
            silent,
            "its provider is registered by its companion, x_dtrace, which is not loaded"
        );
        assert_eq!(module.silent(&both), None);
        let refused = companion.refused(&nothing).unwrap();
        assert_eq!(refused, "it is the companion of x, which has to be loaded before it");
        assert_eq!(companion.refused(&both), None);
        let refused = module.is_of_another_system(Os::FreeBsd).unwrap();
        assert_eq!(
            refused,
            "it is a module for illumos, and the kernel is freebsd's: take --os illumos"
        );
        assert_eq!(Kin::of(b"text"), Kin::default());
        let mut header = [0; 64];
        header[..4].copy_from_slice(&elf::ELFMAG);
        header[18..20].copy_from_slice(&elf::EM_X86_64.0.to_le_bytes());
        assert_eq!(Kin::of(&header).is_of_another(Arch::X86_64), None);
        assert_eq!(
            Kin::of(&header).is_of_another(Arch::Riscv64).unwrap(),
            "it is a module for x86_64, and the kernel is for riscv64: take --arch x86_64"
        );
        assert_eq!(Kin::default().is_of_another(Arch::Riscv64), None);
        assert_eq!(Kin::default().is_of_another_system(Os::Illumos), None);
        assert_eq!(Kin::default().refused(&nothing), None);
    }
}
