//! Separate debug files of mapped files, by their build ID or their section `.gnu_debuglink`, at the places where gdb looks ("Separate
//! Debug Files" in its manual).
//!
//! No process has mapped such a file. It must be a regular file in the process's root directory, and have the build ID of the mapped
//! file, or, if that has none, the checksum that is in its `.gnu_debuglink`. The debug files of one process have a [`Limit`].

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

use super::image::{self, Image, Parts, Unread};
use super::limits::Limits;
use super::mappings::Mapping;

/// The folder of debug files.
const FOLDER: &str = "usr/lib/debug";
/// The longest build ID, in bytes. Linkers write at most 32.
const LONGEST: usize = 64;
/// The size in bytes of the pieces in which a file is read for its checksum.
const PIECE: usize = 64 << 10;

/// The maximum number of debug files that are read for one process.
const FILES: u32 = 256;
/// The maximum number of bytes whose checksums are computed for one process: about three seconds of work.
const SUMMED: u64 = 1 << 30;

/// The debug files of a process that may still be read.
#[derive(Clone, Debug)]
pub(super) struct Limit(Arc<(AtomicU32, AtomicU64)>);

impl Default for Limit {
    fn default() -> Self {
        Self(Arc::new((AtomicU32::new(FILES), AtomicU64::new(SUMMED))))
    }
}

impl Limit {
    /// Counts one more file. Returns `false` if the limit is reached.
    fn take_file(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        self.0.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Counts bytes for a checksum. Returns `false` if the limit is reached.
    fn take_bytes(&self, bytes: u64) -> bool {
        let less = |left: u64| left.checked_sub(bytes);
        self.0.1.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// The property by which a debug file is recognised as belonging to a mapped file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mark {
    BuildId(Vec<u8>),
    Checksum(u32),
}

/// A possible path of a debug file, in the root directory of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    path: PathBuf,
    /// Whether symbolic links may lead to it. They do in the folder of build IDs of some systems.
    links: bool,
}

/// Reads the separate debug file of a mapped file; `None` if the mapped file has neither a
/// build ID nor a `.gnu_debuglink`.
pub(super) fn read(
    process: &Path,
    mapping: &Mapping,
    image: &Image,
    (limits, files): (Limits, &Limit),
    parts: Parts,
) -> Option<Result<Image, Unread>> {
    let (candidates, mark) = candidates(image, &mapping.path)?;
    let (root, files) = (process.join("root"), files.clone());
    Some(image::limited(move || {
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, &root, directory, Mode::empty()).map_err(|_| Unread::Other)?;
        let mut result = Err(Unread::Other);
        for file in candidates.iter().filter_map(|candidate| open(&root, candidate)) {
            if !files.take_file() {
                break;
            }
            result = load(&file, &mark, (&limits, &files), parts);
            if result.is_ok() {
                break;
            }
        }
        result
    }))
}

/// Returns the possible paths, the best first, and the mark of the right file.
fn candidates(image: &Image, path: &str) -> Option<(Vec<Candidate>, Mark)> {
    let build_id = image.build_id().filter(|id| (2..=LONGEST).contains(&id.len()));
    let link = image.debug_link();
    let mark = match (build_id, link) {
        (Some(id), _) => Mark::BuildId(id.to_vec()),
        (None, Some((_, checksum))) => Mark::Checksum(checksum),
        (None, None) => return None,
    };
    let by_id = build_id.into_iter().map(by_build_id);
    let by_link = link.into_iter().flat_map(|(name, _)| by_link(name, path));
    Some((by_id.chain(by_link).collect(), mark))
}

fn by_build_id(id: &[u8]) -> Candidate {
    let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (folder, name) = digits.split_at(2);
    let path = format!("{FOLDER}/.build-id/{folder}/{name}.debug");
    Candidate { path: path.into(), links: true }
}

/// Returns the paths for the name in `.gnu_debuglink` of the file with this path.
fn by_link(name: &str, path: &str) -> Vec<Candidate> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let folder = Path::new(folder.trim_start_matches('/'));
    let folders = [folder.to_owned(), folder.join(".debug"), Path::new(FOLDER).join(folder)];
    folders.map(|folder| Candidate { path: folder.join(name), links: false }).into()
}

/// Opens a regular file. The type is checked through a descriptor without access (`O_PATH`), because opening a device
/// can have effects.
fn open(root: &OwnedFd, candidate: &Candidate) -> Option<File> {
    let links = match candidate.links {
        true => ResolveFlags::NO_MAGICLINKS,
        false => ResolveFlags::NO_SYMLINKS,
    };
    let resolve = links | ResolveFlags::IN_ROOT;
    let place = OFlags::PATH | OFlags::CLOEXEC;
    let place = File::from(openat2(root, &candidate.path, place, Mode::empty(), resolve).ok()?);
    place.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let own = format!("/proc/self/fd/{}", place.as_raw_fd());
    openat(CWD, own, flags, Mode::empty()).ok().map(File::from)
}

/// Reads a debug file if its mark matches the mapped file.
fn load(
    file: &File,
    mark: &Mark,
    (limits, files): (&Limits, &Limit),
    parts: Parts,
) -> Result<Image, Unread> {
    let length = file.metadata().map_err(|_| Unread::Other)?.len();
    if let Mark::Checksum(expected) = mark
        && !has_checksum(file, length, *expected, files)
    {
        return Err(Unread::Other);
    }
    if let Mark::BuildId(expected) = mark {
        let identity = image::load(file, length, limits, Parts::Identity)?;
        if identity.build_id() != Some(expected) {
            return Err(Unread::Other);
        }
    }
    image::load(file, length, limits, parts)
}

/// Returns whether a file has this checksum, if the limit permits to compute it.
fn has_checksum(file: &File, length: u64, expected: u32, limit: &Limit) -> bool {
    limit.take_bytes(length) && checksum(file, length) == Some(expected)
}

/// Returns the checksum of a file (CRC-32 of ISO 3309), as in `.gnu_debuglink`.
fn checksum(file: &File, length: u64) -> Option<u32> {
    let mut piece = vec![0; PIECE];
    let (mut at, mut sum) = (0, u32::MAX);
    while at < length {
        let read = file.read_at(&mut piece, at).ok().filter(|read| *read > 0)?;
        sum = piece
            .get(..read)?
            .iter()
            .fold(sum, |sum, byte| TABLE[usize::from(sum as u8 ^ *byte)] ^ (sum >> 8));
        at += read as u64;
    }
    Some(!sum)
}

/// The checksums of single bytes.
static TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 0 { sum >> 1 } else { (sum >> 1) ^ 0xedb8_8320 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_that_of_debug_links() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        // The check value of CRC-32.
        std::fs::write(&path, "123456789").unwrap();
        assert_eq!(checksum(&File::open(&path).unwrap(), 9), Some(0xcbf4_3926));
        let file = File::open(&path).unwrap();
        assert_eq!(checksum(&file, 10), None, "it became shorter");
    }

    #[test]
    fn debug_files_have_limits() {
        let limit = Limit::default();
        assert!((0..FILES).all(|_| limit.take_file()) && !limit.take_file());
        assert!(!limit.take_bytes(SUMMED + 1) && limit.take_bytes(SUMMED - 1));
        assert!(limit.take_bytes(1) && !limit.take_bytes(1));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "123456789").unwrap();
        let file = File::open(&path).unwrap();
        let matches = |limit: &Limit| has_checksum(&file, 9, 0xcbf4_3926, limit);
        assert!(matches(&Limit::default()) && !matches(&limit));
    }

    #[test]
    fn debug_files_have_the_usual_paths() {
        let path = "usr/lib/debug/.build-id/0a/1bff.debug";
        assert_eq!(by_build_id(&[0x0a, 0x1b, 0xff]), Candidate { path: path.into(), links: true });
        let paths = by_link("p.debug", "/usr/bin/p").into_iter().map(|of| of.path);
        let expected =
            ["usr/bin/p.debug", "usr/bin/.debug/p.debug", "usr/lib/debug/usr/bin/p.debug"];
        assert!(paths.eq(expected.map(PathBuf::from)));
    }

    #[test]
    fn only_regular_files_below_the_root_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("root")).unwrap();
        std::fs::write(at("outside"), "").unwrap();
        std::fs::write(at("root/file"), "").unwrap();
        for (name, target) in [("link", "file"), ("out", "../outside"), ("magic", "/proc/self/exe")]
        {
            std::os::unix::fs::symlink(target, at("root").join(name)).unwrap();
        }
        rustix::fs::mkfifoat(CWD, at("root/fifo"), Mode::RUSR).unwrap();
        let root = openat(CWD, at("root"), OFlags::PATH, Mode::empty()).unwrap();
        let opens =
            |path: &str, links| open(&root, &Candidate { path: path.into(), links }).is_some();
        assert!(opens("file", false) && opens("file", true) && opens("link", true));
        assert!(opens("../file", true), "the root has no parent");
        for path in ["out", "magic", "fifo", ".", "missing"] {
            assert!(!opens(path, true), "{path}");
        }
        assert!(!opens("link", false));
    }
}
