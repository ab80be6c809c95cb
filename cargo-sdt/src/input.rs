//! Files that users give to commands, up to the size of kernels.

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
#[path = "../tests/unit/input.rs"]
mod tests;
