//! The file with a kernel's key: 64 hexadecimal digits, readable by its owner alone.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use dtrace_protocol::secure::Key;

use crate::system::reason;

/// Why a key cannot be read or created.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read the key {}: {}", .file.display(), reason(.error))]
    Read {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// Other users can read or write the file, or own it.
    #[error(
        "{} is accessible to other users (mode {mode:03o}, owner {owner}): they may know the key; \
         create a new key, and keep its file at mode 0600",
        .file.display()
    )]
    NotPrivate {
        /// The file.
        file: PathBuf,
        /// The permission bits.
        mode: u32,
        /// The owner.
        owner: u32,
    },
    /// The file has no key.
    #[error("{} does not contain a key of 64 hexadecimal digits; dtrace --make-key FILE creates one", .0.display())]
    NoKey(PathBuf),
    /// The file cannot be created.
    #[error("cannot create the key {}: {}", .file.display(), reason(.error))]
    Make {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
}

/// Reads a key from a file that belongs to this user or root, and that no other user can read or write.
///
/// # Errors
/// See [`KeyError`].
pub fn read(file: &Path) -> Result<Key, KeyError> {
    let error = |error| KeyError::Read { file: file.into(), error };
    let open = File::open(file).map_err(error)?;
    // The metadata of the open file: another file may have the name by now.
    let meta = open.metadata().map_err(error)?;
    let (mode, owner) = (meta.mode() & 0o777, meta.uid());
    let ours = owner == rustix::process::geteuid().as_raw() || owner == 0;
    if mode & 0o077 != 0 || !ours {
        return Err(KeyError::NotPrivate { file: file.into(), mode, owner });
    }
    let mut text = Vec::with_capacity(Key::HEX + 3);
    (&open).take(Key::HEX as u64 + 3).read_to_end(&mut text).map_err(error)?;
    Key::from_hex(&text).ok_or_else(|| KeyError::NoKey(file.into()))
}

/// Creates a file with a new key, which only this user can read and write.
///
/// # Errors
/// [`KeyError::Make`]: the file exists already, or cannot be created.
pub fn make(file: &Path) -> Result<(), KeyError> {
    let error = |error| KeyError::Make { file: file.into(), error };
    let mut key = [0; Key::LEN];
    getrandom::fill(&mut key).map_err(|failed| error(failed.into()))?;
    let mut text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    text.push('\n');
    let mut open =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(error)?;
    open.write_all(text.as_bytes()).and_then(|()| open.sync_all()).map_err(error)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_that_is_made_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        make(&one).unwrap();
        make(&two).unwrap();
        assert_eq!(fs::metadata(&one).unwrap().mode() & 0o777, 0o600);
        assert_ne!(read(&one).unwrap().bytes(), read(&two).unwrap().bytes());
        let again = make(&one).unwrap_err().to_string();
        assert_eq!(again, format!("cannot create the key {}: File exists", one.display()));
    }

    #[test]
    fn what_others_can_read_is_no_key() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        make(&file).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o602] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            let error = read(&file).unwrap_err().to_string();
            assert!(
                error.contains(&format!("is accessible to other users (mode {mode:03o}")),
                "{error}"
            );
        }
        fs::set_permissions(&file, Permissions::from_mode(0o400)).unwrap();
        read(&file).unwrap();
    }

    #[test]
    fn what_is_no_key_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let said = |file: &Path| read(file).unwrap_err().to_string();
        assert!(said(&file).ends_with("No such file or directory"));
        make(&file).unwrap();
        fs::write(&file, "correct horse battery staple\n").unwrap();
        assert!(said(&file).contains("does not contain a key of 64"));
        fs::write(&file, "0123456789abcdef".repeat(1 << 16)).unwrap();
        assert!(said(&file).contains("does not contain a key"));
    }
}
