//! Generates declarations from a build script.

use std::path::{Path, PathBuf};
use std::{env, fmt, fs, io};

use crate::{ParseError, Providers};

/// The reason why no declarations were generated.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    Read {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file is not a valid provider file.
    Parse {
        /// The file.
        file: PathBuf,
        /// The error and its place.
        source: ParseError,
    },
    /// The environment variable `OUT_DIR` is not set: the program is not a build script.
    NoOutDir,
    /// The generated file cannot be written.
    Write {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { file, source } | Self::Write { file, source } => {
                write!(f, "{}: {source}", file.display())
            }
            Self::Parse { file, source } => write!(f, "{}:{source}", file.display()),
            Self::NoOutDir => f.write_str("OUT_DIR is not set: call this from a build script"),
        }
    }
}

impl std::error::Error for Error {}

/// Generates declarations from a provider file.
#[derive(Clone, Debug)]
pub struct Builder {
    file: PathBuf,
    public: bool,
}

impl Builder {
    /// Returns a builder for a provider file. A relative path starts at the package's folder.
    pub fn new(file: impl AsRef<Path>) -> Self {
        Self { file: file.as_ref().to_owned(), public: false }
    }

    /// Whether the providers are public. By default they are not.
    #[must_use]
    pub fn public(mut self, public: bool) -> Self {
        self.public = public;
        self
    }

    /// Returns the declarations in Rust.
    ///
    /// # Errors
    /// The file cannot be read, or is not a provider file.
    pub fn generate(&self) -> Result<String, Error> {
        let file = || self.file.clone();
        let bytes = fs::read(&self.file).map_err(|source| Error::Read { file: file(), source })?;
        let providers = Providers::text(&bytes)
            .and_then(Providers::parse)
            .map_err(|source| Error::Parse { file: file(), source })?;
        Ok(providers.to_rust(if self.public { "pub" } else { "" }))
    }

    /// Writes the declarations to a file of this name in `OUT_DIR`, to be included, and tells cargo to run the build script again
    /// when the provider file has changed.
    ///
    /// # Errors
    /// As [`generate`](Self::generate); and the other file cannot be written.
    pub fn write(&self, name: &str) -> Result<(), Error> {
        println!("cargo::rerun-if-changed={}", self.file.display());
        let file = Path::new(&env::var_os("OUT_DIR").ok_or(Error::NoOutDir)?).join(name);
        let text = self.generate()?;
        fs::write(&file, text).map_err(|source| Error::Write { file, source })
    }
}
