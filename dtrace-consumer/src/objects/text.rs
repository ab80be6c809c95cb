//! The files of a process whose functions can be traced, and their text.

use super::Objects;
use super::image::{self, Image, Parts, Unread};
use super::mappings::Mapping;

/// The name of the program's file in descriptions, as in DTrace's `pid` provider.
const PROGRAM: &str = "a.out";

/// A file of the process with text.
#[derive(Clone, Debug)]
pub struct TextFile {
    /// `a.out` for the program, otherwise the name of the file without folders.
    pub module: String,
    pub(super) mapping: Mapping,
}

/// The parts of a file that are necessary to find its functions: symbols, text and notes.
#[derive(Debug)]
pub struct Text(Image);

impl Text {
    /// Returns the bytes of the file. Other parts are zero.
    pub fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl Objects {
    /// Returns the files with text, the program first.
    pub fn text_files(&self) -> Vec<TextFile> {
        let program = std::fs::read_link(self.process.join("exe")).ok();
        let program = program.as_deref().and_then(|path| path.to_str());
        let mut all: Vec<TextFile> = Vec::new();
        for mapping in self.mappings.iter().filter(|of| of.is_text) {
            if all.iter().any(|known| known.mapping.file == mapping.file) {
                continue;
            }
            let is_program = program == Some(&*mapping.path);
            let module = if is_program { PROGRAM.to_owned() } else { mapping.module() };
            all.push(TextFile { module, mapping: mapping.clone() });
        }
        all.sort_by_key(|file| file.module != PROGRAM);
        all
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The reason.
    pub fn text(&self, file: &TextFile) -> Result<Text, &'static str> {
        let read = image::read(&self.process, &file.mapping, self.meter.limits(), Parts::Text);
        read.map(Text).map_err(|why| match why {
            Unread::Other => {
                "its file is not an ELF file of 64 bits, not the one that is mapped, or not accessible"
            }
            Unread::TooLarge => "its file is too large for the memory: -x memory=SIZE raises the limit",
            Unread::Waits => "its file system does not answer",
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::budget::Budget;

    use super::*;

    #[test]
    fn the_program_and_its_libraries_have_text() {
        let objects = Objects::new(std::process::id(), &Budget::default());
        let files = objects.text_files();
        assert_eq!(files[0].module, PROGRAM);
        assert!(files[1..].iter().all(|file| file.module != PROGRAM));
        let text = objects.text(&files[0]).unwrap();
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(text.bytes().len(), own.len());
        let parsed = object::File::parse(text.bytes()).unwrap();
        let whole = object::File::parse(&*own).unwrap();
        use object::{Object as _, ObjectSection as _};
        assert_eq!(parsed.build_id().unwrap(), whole.build_id().unwrap());
        let section = |file: &object::File<'_>| {
            file.section_by_name(".text").unwrap().data().unwrap().to_vec()
        };
        assert!(section(&parsed) == section(&whole));
    }
}
