//! Files that are written as a whole: who reads one meanwhile has the old one or the new one, and what is killed leaves no
//! half of one.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// For everybody, but for what the umask takes; as of a file that [`File::create`] makes.
const MODE: u32 = 0o666;

/// Writes a file in the place of the one that is there, if one is. A link stays one; what is no regular file, a pipe or
/// a terminal, is written to as it is.
///
/// # Errors
/// It cannot be written, or no other one in its folder.
pub fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let place = match fs::canonicalize(file) {
        Ok(there) if there.is_file() => there,
        Ok(other) => return File::options().write(true).open(other)?.write_all(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => file.to_owned(),
        Err(error) => return Err(error),
    };
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut new = tempfile::Builder::new()
        .permissions(Permissions::from_mode(MODE))
        .tempfile_in(folder.unwrap_or(Path::new(".")))?;
    new.write_all(bytes)?;
    if let Ok(old) = fs::metadata(&place) {
        fs::set_permissions(new.path(), old.permissions())?;
    }
    new.persist(&place)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn who_reads_has_one_or_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("module.ko");
        let [old, new] = [1, 2].map(|byte| vec![byte; 1 << 20]);
        write(&file, &old).unwrap();
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let readers = [0; 2].map(|_| {
                scope.spawn(|| {
                    while !ended.load(Ordering::Relaxed) {
                        let read = fs::read(&file).unwrap();
                        assert!(read == old || read == new, "{} bytes", read.len());
                    }
                })
            });
            for _ in 0..50 {
                write(&file, &new).unwrap();
                write(&file, &old).unwrap();
            }
            ended.store(true, Ordering::Relaxed);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_is_there_stays_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("module.ko"), folder.path().join("link.ko"));
        let made = folder.path().join("made");
        write(&file, b"1").unwrap();
        File::create(&made).unwrap();
        let mode = |file: &Path| fs::metadata(file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&file), mode(&made), "as any file");
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink("module.ko", &link).unwrap();
        write(&link, b"2").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"2");
        assert_eq!(mode(&file), 0o640);
        assert!(link.is_symlink());
        write(Path::new("/dev/null"), b"3").unwrap();
        assert!(!Path::new("/dev/null").is_file());
        let nowhere = folder.path().join("none/module.ko");
        assert_eq!(write(&nowhere, b"4").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
