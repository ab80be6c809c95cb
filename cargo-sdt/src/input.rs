//! Files that users give to commands, up to the size of kernels.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};

/// The greatest size of a file in bytes: kernels with all their debugging information are smaller.
const MOST: u64 = 256 << 20;

/// Reads a regular file.
///
/// # Errors
/// The file cannot be read, is a device or a pipe, or is larger than any module or kernel. The error names the file.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let regular = || {
        // Checked before the file is opened: opening a pipe would wait for a writer.
        ensure!(std::fs::metadata(path)?.is_file(), "is not a regular file");
        read_most(path, MOST)
    };
    regular().with_context(|| path.display().to_string())
}

/// Reads a text, possibly from a pipe such as a shell's `<(nm kernel)`.
///
/// # Errors
/// The file cannot be read, is larger than the limit of [`read`], or is not UTF-8. The error names the file.
pub fn read_text(path: &Path) -> anyhow::Result<String> {
    let text = || -> anyhow::Result<_> { Ok(String::from_utf8(read_most(path, MOST)?)?) };
    text().with_context(|| path.display().to_string())
}

fn read_most(path: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // The limit also ends the reading of a file that grows, or that reports the size 0, like the files in /proc.
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        bail!("is larger than {most} bytes, so it is neither a module nor a kernel");
    }
    Ok(bytes)
}

#[cfg(test)]
#[path = "../tests/unit/input.rs"]
mod tests;
