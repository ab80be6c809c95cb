//! The files of a process whose functions can be traced, and their text.

use std::collections::HashSet;

use super::image::{self, Image, Parts, Unread};
use super::mappings::{self, Mapping};
use super::meter::Exceeded;
use super::{ENTRY, Objects};

/// The name of the program's file in descriptions, as in DTrace's `pid` provider.
const PROGRAM: &str = "a.out";

/// The greatest number of unmapped files whose names are kept.
const UNMAPPED: usize = 256;

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
        let (mut all, mut known) = (Vec::new(), HashSet::new());
        for mapping in self.mappings.borrow().all.iter().filter(|of| of.is_text) {
            if !known.insert(mapping.file) {
                continue;
            }
            let is_program = program == Some(&*mapping.path);
            let module = if is_program { PROGRAM.to_owned() } else { mapping.module() };
            all.push(TextFile { module, mapping: mapping.clone() });
        }
        all.sort_by_key(|file: &TextFile| file.module != PROGRAM);
        all
    }

    /// Reads the mappings again, and returns the files with text that are mapped since the last time. The process may have mapped some of them
    /// earlier, and unmapped them meanwhile.
    pub(crate) fn new_text_files(&self) -> Vec<TextFile> {
        let before = self.text_files();
        if !self.refresh() {
            return Vec::new();
        }
        let key = |of: &TextFile| {
            let Mapping { file, addresses, path, .. } = &of.mapping;
            (*file, addresses.start, path.clone())
        };
        let before: HashSet<_> = before.iter().map(key).collect();
        self.text_files().into_iter().filter(|file| !before.contains(&key(file))).collect()
    }

    /// Returns whether a file was mapped at the same address when the mappings were read last.
    pub(crate) fn is_mapped(&self, file: &TextFile) -> bool {
        let Mapping { file, addresses, path, .. } = &file.mapping;
        let all = &self.mappings.borrow().all;
        let found = all.binary_search_by_key(&addresses.start, |of| of.addresses.start);
        found.is_ok_and(|at| all[at].file == *file && all[at].path == *path)
    }

    /// Reads the mappings again. Returns whether they differ.
    fn refresh(&self) -> bool {
        let mut known = self.mappings.borrow_mut();
        self.meter.release(known.charged);
        let now = mappings::read(&self.process, &self.meter);
        // After the end of the process, its addresses keep their names.
        if now.all.is_empty() || now.all == known.all {
            self.meter.release(now.charged);
            self.meter.keep(known.charged);
            return false;
        }
        let (_, names) = std::mem::take(&mut *self.names.borrow_mut());
        self.meter.release(names);
        let before = std::mem::replace(&mut *known, now).all;
        let is_unmapped = |of: &Mapping| {
            let all = &known.all;
            let same = all.binary_search_by_key(&of.addresses.start, |of| of.addresses.start);
            of.is_text && same.map_or(true, |at| all[at] != *of)
        };
        // The system gives the number of a deleted file to a new one.
        let were_mapped: HashSet<_> = before.iter().map(|of| of.file).collect();
        let mut files = self.files.borrow_mut();
        for of in known.all.iter().filter(|of| !were_mapped.contains(&of.file)) {
            if files.remove(&of.file).is_some() {
                self.meter.release(ENTRY);
            }
        }
        let mut unmapped = self.unmapped.borrow_mut();
        before.into_iter().filter(is_unmapped).for_each(|of| unmapped.push_front(of));
        unmapped.truncate(UNMAPPED);
        true
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The reason.
    pub fn text(&self, file: &TextFile) -> Result<Text, &'static str> {
        // If a file system has blocked once, it is not accessed again.
        let read = match self.meter.exceeded() {
            Some(Exceeded::Wait) => Err(Unread::Waits),
            _ => image::read(&self.process, &file.mapping, self.meter.limits(), Parts::Text),
        };
        if matches!(read, Err(Unread::Waits)) {
            self.meter.exceed(Exceeded::Wait);
        }
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
    fn files_are_not_read_after_a_file_system_has_blocked() {
        let objects = Objects::new(std::process::id(), &Budget::default());
        let files = objects.text_files();
        assert!(objects.text(&files[0]).is_ok());
        objects.meter.exceed(Exceeded::Wait);
        assert_eq!(objects.text(&files[0]).unwrap_err(), "its file system does not answer");
    }

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
