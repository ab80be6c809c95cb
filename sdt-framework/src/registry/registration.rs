//! The checks of `dtrace_register`.
//!
//! The rules are those of `dtrace_register` in FreeBSD's `dtrace.c`, and one more: a name that is too long is refused,
//! while the kernels accept it and cut it in listings, so that nothing matches it.

use core::ffi::CStr;
use core::fmt;

use sdt_core::ops::{
    Attribute, Class, FrameworkError, PROVIDER_NAME_LEN, Privileges, ProviderAttr, ProviderOps,
    Stability,
};

/// The reason why a provider cannot be registered. The provider gets [`FrameworkError::Invalid`] for all of these; a
/// host can print the reason on its console.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RegistrationError {
    /// The name is empty.
    EmptyName,
    /// The name does not start with a letter, `-`, `_` or `.`, or contains a character other than these, digits and ``
    /// ` ``.
    BadName,
    /// The name does not fit [`PROVIDER_NAME_LEN`].
    LongName,
    /// Both the `provide` and the `provide_module` op are missing.
    NoProvide,
    /// A required op is missing.
    MissingOp(&'static str),
    /// Only one of the ops `suspend` and `resume` is given.
    SuspendWithoutResume,
    /// A stability or a class is beyond the last one.
    BadAttributes,
    /// The privileges have unknown bits.
    BadPrivileges,
    /// `KERNEL` together with `USER` or `OWNER` needs a `usermode` op.
    NoUsermode,
}

impl fmt::Display for RegistrationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyName => f.write_str("the provider's name is empty"),
            Self::BadName => f.write_str(
                "the provider's name may contain letters, '-', '_' and '.', and after the first \
                 character also digits and '`'",
            ),
            Self::LongName => {
                write!(f, "the provider's name is longer than {} bytes", PROVIDER_NAME_LEN - 1)
            }
            Self::NoProvide => {
                f.write_str("the ops have neither 'provide' nor 'provide_module'; one is required")
            }
            Self::MissingOp(op) => write!(f, "the op '{op}' is missing"),
            Self::SuspendWithoutResume => {
                f.write_str("the ops 'suspend' and 'resume' must be given together")
            }
            Self::BadAttributes => f.write_str("a stability or class in the attributes is unknown"),
            Self::BadPrivileges => f.write_str("the privileges have unknown bits"),
            Self::NoUsermode => f.write_str(
                "the privilege KERNEL together with USER or OWNER needs the op 'usermode'",
            ),
        }
    }
}

impl core::error::Error for RegistrationError {}

impl From<RegistrationError> for FrameworkError {
    fn from(_: RegistrationError) -> Self {
        Self::Invalid
    }
}

/// Checks the rules of `register`, and returns the broken one.
///
/// # Errors
/// The first rule that is broken.
pub fn check(
    name: &CStr,
    privileges: Privileges,
    ops: &ProviderOps,
) -> Result<(), RegistrationError> {
    let (first, rest) = name.to_bytes().split_first().ok_or(RegistrationError::EmptyName)?;
    let start = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_' | b'.');
    if !start(first) || !rest.iter().all(|b| start(b) || b.is_ascii_digit() || *b == b'`') {
        return Err(RegistrationError::BadName);
    }
    if name.to_bytes_with_nul().len() > PROVIDER_NAME_LEN {
        return Err(RegistrationError::LongName);
    }
    if ops.provide.is_none() && ops.provide_module.is_none() {
        return Err(RegistrationError::NoProvide);
    }
    let required = [
        ("enable", ops.enable.is_none()),
        ("disable", ops.disable.is_none()),
        ("destroy", ops.destroy.is_none()),
    ];
    if let Some((op, _)) = required.iter().find(|(_, missing)| *missing) {
        return Err(RegistrationError::MissingOp(op));
    }
    if ops.suspend.is_some() != ops.resume.is_some() {
        return Err(RegistrationError::SuspendWithoutResume);
    }
    if !Privileges::all().contains(privileges) {
        return Err(RegistrationError::BadPrivileges);
    }
    if privileges.contains(Privileges::KERNEL)
        && privileges.intersects(Privileges::USER | Privileges::OWNER)
        && ops.usermode.is_none()
    {
        return Err(RegistrationError::NoUsermode);
    }
    Ok(())
}

/// Converts the attributes and privileges that a C caller passes to `dtrace_register`: a `dtrace_pattr_t` as bytes, and
/// a `uint32_t`.
///
/// # Errors
/// [`RegistrationError::BadAttributes`] for a number beyond the last stability or class,
/// [`RegistrationError::BadPrivileges`] for unknown bits.
pub fn from_raw(
    attributes: &[u8; 15],
    privileges: u32,
) -> Result<(ProviderAttr, Privileges), RegistrationError> {
    let attribute = |part: usize| -> Option<Attribute> {
        let [name, data, class] = *attributes.as_chunks::<3>().0.get(part)?;
        Some(Attribute::new(
            Stability::from_number(name)?,
            Stability::from_number(data)?,
            Class::from_number(class)?,
        ))
    };
    let all = || -> Option<ProviderAttr> {
        Some(ProviderAttr {
            provider: attribute(0)?,
            module: attribute(1)?,
            function: attribute(2)?,
            name: attribute(3)?,
            args: attribute(4)?,
        })
    };
    let attributes = all().ok_or(RegistrationError::BadAttributes)?;
    let privileges = Privileges::from_bits(privileges).ok_or(RegistrationError::BadPrivileges)?;
    Ok((attributes, privileges))
}
