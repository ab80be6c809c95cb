//! The mappings of a process, from `/proc/PID/maps`.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use super::meter::Meter;

/// The file of a mapping, as the system numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    /// Major and minor number of the device.
    pub device: (u32, u32),
    pub inode: u64,
}

/// Addresses of the process that are a part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub addresses: Range<u64>,
    /// Offset of the part in the file.
    pub offset: u64,
    pub file: Identity,
    pub path: Rc<str>,
    /// Whether the process can execute it.
    pub is_text: bool,
}

impl Mapping {
    /// Returns the name of the file without folders, escaped.
    pub fn module(&self) -> String {
        let path = self.path.strip_suffix(" (deleted)").unwrap_or(&self.path);
        crate::escape::name(path.rsplit('/').next().unwrap_or(path).as_bytes())
    }
}

/// The mappings of files, in the order of their addresses.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    pub all: Vec<Mapping>,
    /// The memory that they are charged with, in bytes.
    pub charged: u64,
}

/// Reads the mappings of files, as far as the memory permits.
pub(super) fn read(process: &Path, meter: &Meter) -> Mappings {
    let mut mappings = Mappings::default();
    let Mappings { all, charged } = &mut mappings;
    let Ok(file) = File::open(process.join("maps")) else { return mappings };
    for line in BufReader::new(file).split(b'\n') {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line);
        let Some(mut found) = mapping(&line) else { continue };
        let mut bytes = 2 * size_of::<Mapping>();
        match all.last() {
            Some(last) if last.path == found.path => found.path = last.path.clone(),
            _ => bytes += found.path.len() + 32,
        }
        if !meter.keep(bytes as u64) {
            break;
        }
        *charged += bytes as u64;
        all.push(found);
    }
    mappings
}

/// Returns a mapping of a file, from a line of `/proc/PID/maps`.
fn mapping(line: &str) -> Option<Mapping> {
    // address perms offset dev inode pathname
    let mut rest = line;
    let mut word = || {
        rest = rest.trim_start();
        let end = rest.find(' ').unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind;
        word
    };
    let [addresses, protection, offset, device, inode] = [(); 5].map(|()| word());
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let part = |text| u32::from_str_radix(text, 16).ok();
    let path = rest.trim_start();
    let (start, end) = addresses.split_once('-')?;
    let (major, minor) = device.split_once(':')?;
    if !path.starts_with('/') {
        return None;
    }
    Some(Mapping {
        addresses: hex(start)?..hex(end)?,
        offset: hex(offset)?,
        file: Identity { device: (part(major)?, part(minor)?), inode: inode.parse().ok()? },
        path: path.into(),
        is_text: protection.contains('x'),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    #[test]
    fn mappings_of_files_are_read() {
        let line = "7f00-7f80 r-xp 00001000 fe:0a 4711      /usr/lib/a b.so (deleted)";
        let expected = Mapping {
            addresses: 0x7f00..0x7f80,
            offset: 0x1000,
            file: Identity { device: (0xfe, 10), inode: 4711 },
            path: "/usr/lib/a b.so (deleted)".into(),
            is_text: true,
        };
        assert_eq!(mapping(line), Some(expected.clone()));
        assert_eq!(expected.module(), "a b.so");
        for other in [
            "",
            "7f00-7f80 rw-p 00000000 00:00 0",
            "7f00-7f80 rw-p 00000000 00:00 0 [heap]",
            "x r 0 0 0 /a",
        ] {
            assert_eq!(mapping(other), None, "{other}");
        }
    }

    #[test]
    fn mappings_have_a_limit_of_memory() {
        let own = Path::new("/proc/self");
        let all = read(own, &Meter::new(&Budget::default())).all.len();
        let meter = Meter::new(&Budget::new(1000));
        let some = read(own, &meter).all.len();
        assert!(some < all && meter.exceeded().is_some(), "{some} of {all}");
    }

    #[test]
    fn names_of_files_are_escaped() {
        let line = "7f00-7f80 r-xp 00001000 fe:00 7 /tmp/\u{1b}[31m";
        assert_eq!(mapping(line).unwrap().module(), "\\u{1b}[31m");
    }
}
