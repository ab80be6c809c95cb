//! Files that are given to commands: of a size that modules and kernels have.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};

/// Most bytes of a file: kernels with all their debugging information have fewer.
const MOST: u64 = 256 << 20;

/// Reads a regular file.
///
/// # Errors
/// It cannot be read, is a device or a pipe, or is larger than a module or a kernel can be. Which file, the error says.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let regular = || {
        // Before it is opened: a pipe would wait for a writer.
        ensure!(std::fs::metadata(path)?.is_file(), "is not a regular file");
        read_most(path, MOST)
    };
    regular().with_context(|| path.display().to_string())
}

/// Reads a text, which may come through a pipe, as of a shell's `<(nm kernel)`.
///
/// # Errors
/// It cannot be read, is larger than [`read`] takes, or is not UTF-8. Which file, the error says.
pub fn read_text(path: &Path) -> anyhow::Result<String> {
    let text = || -> anyhow::Result<_> { Ok(String::from_utf8(read_most(path, MOST)?)?) };
    text().with_context(|| path.display().to_string())
}

fn read_most(path: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One that grows, or says that it is empty, as those of /proc do, has an end here, too.
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        bail!("is larger than {most} bytes, which is more than a module or a kernel has");
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_not_read() {
        for path in ["/dev/zero", "/dev/null", "/"] {
            let error = format!("{:#}", read(Path::new(path)).unwrap_err());
            assert_eq!(error, format!("{path}: is not a regular file"));
        }
        let error = format!("{:#}", read(Path::new("/nowhere/x.ko")).unwrap_err());
        assert!(error.starts_with("/nowhere/x.ko: No such file"), "{error}");
    }

    #[test]
    fn what_is_too_large_is_not_read() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), b"12345678").expect("it is written");
        assert_eq!(read_most(file.path(), 8).expect("all of it"), b"12345678");
        let error = read_most(file.path(), 7).unwrap_err().to_string();
        assert!(error.starts_with("is larger than 7 bytes, "), "{error}");
        // Without a byte of it on the disk.
        file.as_file().set_len(MOST + 1).expect("it is stretched");
        assert!(read(file.path()).is_err());
    }

    #[test]
    fn text_is_utf8() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), [0xff]).expect("it is written");
        assert!(read_text(file.path()).is_err());
    }
}
