//! Files that are written as a whole: a concurrent reader gets the old or the new contents, and a killed writer leaves no
//! partial file.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The mode of a file that [`File::create`] makes; the umask applies.
const MODE: u32 = 0o666;

/// Writes a file, and replaces an existing one. If `file` is a link, its target is replaced; a pipe, a terminal or
/// another special file is written to directly.
///
/// # Errors
/// The file cannot be written, or no temporary file can be created in its folder.
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
#[path = "../tests/unit/whole.rs"]
mod tests;
