//! A process of this machine that hosts its probes itself (`sdt-process`).
//!
//! The system is asked at which socket the process listens, by `/proc`. So neither the environment of the process nor
//! what others have left in folders has a say, and a process in a container is found as well. That takes what tracing
//! takes: to be the process's user, or root.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead as _, BufReader, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// `__SO_ACCEPTCON`, by which `/proc/net/unix` tells who listens (Linux, `include/uapi/linux/net.h`).
const LISTENS: u32 = 1 << 16;

/// Connects to the socket of a process's probes.
pub(super) fn connect(id: u32) -> io::Result<UnixStream> {
    let process = PathBuf::from(format!("/proc/{id}"));
    let own = sockets(&process).map_err(|error| match error.kind() {
        ErrorKind::NotFound => io::Error::new(ErrorKind::NotFound, "No such process"),
        _ => error,
    })?;
    let table = BufReader::new(fs::File::open(process.join("net/unix"))?);
    for line in table.split(b'\n') {
        let line = line?;
        let Some((socket, path)) = listening(&line) else { continue };
        if own.contains(&socket) && is_of_probes(path) {
            let inside = path.strip_prefix("/").unwrap_or(path);
            return UnixStream::connect(process.join("root").join(inside));
        }
    }
    let none = "it hosts no probes: sdt_process has not been started in it";
    Err(io::Error::new(ErrorKind::NotFound, none))
}

/// The numbers of the sockets that a process has open.
fn sockets(process: &Path) -> io::Result<Vec<u64>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(process.join("fd"))? {
        // What has been closed in between is none.
        let Ok(target) = fs::read_link(entry?.path()) else { continue };
        let number = target.to_str().and_then(|to| to.strip_prefix("socket:[")?.strip_suffix(']'));
        all.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    Ok(all)
}

/// Number and path of a line of `/proc/net/unix`, if it is a socket that listens.
fn listening(line: &[u8]) -> Option<(u64, &Path)> {
    // Num RefCount Protocol Flags Type St Inode Path
    let mut rest = line;
    let mut fields = [""; 7];
    for field in &mut fields {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let (text, behind) = rest.split_at(end);
        (*field, rest) = (str::from_utf8(text).ok()?, behind);
    }
    let [_, _, _, flags, _, _, number] = fields;
    let listens = u32::from_str_radix(flags, 16).ok()? & LISTENS != 0;
    let path = Path::new(OsStr::from_bytes(rest.strip_prefix(b" ")?));
    Some((number.parse().ok()?, path)).filter(|_| listens)
}

/// Whether a socket is where `sdt-process` has its own: `sdt/PID`, or `sdt-UID/PID`.
fn is_of_probes(path: &Path) -> bool {
    let folder = path.parent().and_then(Path::file_name).map(OsStr::as_bytes);
    folder.is_some_and(|name| name == b"sdt" || name.starts_with(b"sdt-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_table_are_read() {
        let line = |text: &'static str| {
            listening(text.as_bytes()).map(|(number, path)| (number, path.to_str().unwrap()))
        };
        let listens = "00000000af7f7406: 00000002 00000000 00010000 0001 01 95392 /run/a b/sdt/7";
        assert_eq!(line(listens), Some((95392, "/run/a b/sdt/7")));
        let aligned = "00000000af7f7406: 00000002 00000000 00010000 0001 01    77 @x";
        assert_eq!(line(aligned), Some((77, "@x")));
        for other in [
            "00000000f60c6764: 00000003 00000000 00000000 0001 03 95089 /run/sdt/7",
            "00000000f60c6764: 00000003 00000000 00010000 0001 03 95089",
            "Num       RefCount Protocol Flags    Type St Inode Path",
            "",
        ] {
            assert_eq!(line(other), None, "{other}");
        }
    }

    #[test]
    fn only_sockets_of_probes_are_taken() {
        for (path, expected) in [
            ("/run/user/7/sdt/9", true),
            ("/tmp/sdt-7/9", true),
            ("/run/sdt", false),
            ("/run/other/9", false),
            ("9", false),
        ] {
            assert_eq!(is_of_probes(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn who_has_none_is_told_so() {
        let error = |id| connect(id).unwrap_err().to_string();
        assert!(error(std::process::id()).starts_with("it hosts no probes"));
        assert_eq!(error(u32::MAX), "No such process");
    }
}
