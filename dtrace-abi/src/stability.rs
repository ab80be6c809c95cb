//! Stability attributes of names, of data and of dependencies.

use core::fmt;

use static_assertions::const_assert_eq;

numbered! {
    /// A stability level (`DTRACE_STABILITY_*`).
    pub enum Stability: u8 {
        /// Private to DTrace itself.
        Internal = 0, "Internal";
        /// Private to the project that defines it.
        Private = 1, "Private";
        /// Still supported, will be removed.
        Obsolete = 2, "Obsolete";
        /// Controlled by another party.
        External = 3, "External";
        /// New or changing fast.
        Unstable = 4, "Unstable";
        /// May change in a minor release, with notice.
        Evolving = 5, "Evolving";
        /// Changes in a major release only.
        Stable = 6, "Stable";
        /// An industry standard.
        Standard = 7, "Standard";
    }
}

numbered! {
    /// A dependency class (`DTRACE_CLASS_*`).
    pub enum Class: u8 {
        /// Not declared.
        Unknown = 0, "Unknown";
        /// The CPU model.
        Cpu = 1, "CPU";
        /// The platform.
        Platform = 2, "Platform";
        /// The platform group.
        Group = 3, "Group";
        /// The instruction set.
        Isa = 4, "ISA";
        /// No dependency: common to all systems.
        Common = 5, "Common";
    }
}

/// Stability of name and data, and the dependency class (`dtrace_attribute_t`, 3 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Attribute {
    /// The stability of the name.
    pub name: Stability,
    /// The stability of the data.
    pub data: Stability,
    /// The dependency class.
    pub class: Class,
}

impl Attribute {
    /// The greatest values (`_dtrace_maxattr`, dt_open.c).
    pub const MAX: Self =
        Self { name: Stability::Standard, data: Stability::Standard, class: Class::Common };
    /// The attributes of the D language itself (`_dtrace_defattr`, dt_open.c).
    pub const DEFAULT: Self =
        Self { name: Stability::Stable, data: Stability::Stable, class: Class::Common };
    /// The attributes of symbols and types of a kernel (`_dtrace_symattr`, `_dtrace_typattr`, dt_open.c).
    pub const PRIVATE: Self =
        Self { name: Stability::Private, data: Stability::Private, class: Class::Unknown };
    /// The attributes of a description that matches probes of unknown providers (`_dtrace_prvdesc`, dt_open.c).
    pub const UNSTABLE: Self =
        Self { name: Stability::Unstable, data: Stability::Unstable, class: Class::Common };

    /// Creates an attribute from its parts, in DTrace's order.
    pub const fn new(name: Stability, data: Stability, class: Class) -> Self {
        Self { name, data, class }
    }

    /// Returns the lesser value of each part.
    pub fn min(self, other: Self) -> Self {
        Self {
            name: self.name.min(other.name),
            data: self.data.min(other.data),
            class: self.class.min(other.class),
        }
    }

    /// Returns whether any part is less than that of `other` (`dt_attr_cmp` below zero, dt_subr.c).
    pub fn is_less_than(self, other: Self) -> bool {
        self.name < other.name || self.data < other.data || self.class < other.class
    }

    /// Parses `Name/Data/Class`, ignoring letter case (`dtrace_str2attr`, dt_subr.c). Parts missing at the end have the
    /// greatest value. Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let mut attribute = Self::MAX;
        if text.is_empty() {
            return Some(attribute);
        }
        let mut parts = text.split('/');
        let stability = |part: &str| {
            Stability::ALL.iter().copied().find(|s| s.name().eq_ignore_ascii_case(part))
        };
        attribute.name = stability(parts.next()?)?;
        if let Some(part) = parts.next().filter(|part| !part.is_empty()) {
            attribute.data = stability(part)?;
        }
        if let Some(part) = parts.next().filter(|part| !part.is_empty()) {
            attribute.class =
                Class::ALL.iter().copied().find(|c| c.name().eq_ignore_ascii_case(part))?;
        }
        parts.next().is_none().then_some(attribute)
    }

    /// Returns the number that DOF uses: name, data and class in the three upper bytes (`DOF_ATTR`).
    pub const fn to_dof(self) -> u32 {
        (self.name.number() as u32) << 24
            | (self.data.number() as u32) << 16
            | (self.class.number() as u32) << 8
    }

    /// Returns the attribute for a number from DOF; `None` if a part is invalid.
    pub const fn from_dof(number: u32) -> Option<Self> {
        let [_, class, data, name] = number.to_le_bytes();
        match (
            Stability::from_number(name),
            Stability::from_number(data),
            Class::from_number(class),
        ) {
            (Some(name), Some(data), Some(class)) => Some(Self { name, data, class }),
            _ => None,
        }
    }
}

impl fmt::Display for Attribute {
    /// `Stable/Stable/Common`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.name.name(), self.data.name(), self.class.name())
    }
}

/// Stability of a provider's probes, part by part (`dtrace_pattr_t`, 15 bytes, alignment 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct ProviderAttr {
    /// The attribute of the provider's name.
    pub provider: Attribute,
    /// The attribute of the module names.
    pub module: Attribute,
    /// The attribute of the function names.
    pub function: Attribute,
    /// The attribute of the probe names.
    pub name: Attribute,
    /// The attribute of the arguments.
    pub args: Attribute,
}

impl ProviderAttr {
    /// The attributes of every SDT provider on FreeBSD (`sdt_attr` in `sys/cddl/dev/sdt/sdt.c`).
    pub const SDT: Self = {
        use Class::{Common, Isa, Unknown};
        use Stability::{Evolving, Private};
        Self {
            provider: Attribute::new(Evolving, Evolving, Common),
            module: Attribute::new(Private, Private, Unknown),
            function: Attribute::new(Private, Private, Isa),
            name: Attribute::new(Evolving, Evolving, Common),
            args: Attribute::new(Private, Private, Isa),
        }
    };
}

const_assert_eq!(size_of::<Attribute>(), 3);
const_assert_eq!(size_of::<ProviderAttr>(), 15);
const_assert_eq!(align_of::<ProviderAttr>(), 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_number_come_back() {
        let text = "Evolving/Private/ISA";
        let attribute = Attribute::parse(text).unwrap();
        assert_eq!(attribute.to_string(), text);
        assert_eq!(Attribute::from_dof(attribute.to_dof()), Some(attribute));
        assert_eq!(attribute.to_dof(), 0x0501_0400);
    }

    #[test]
    fn parts_may_be_left_out() {
        let attribute = Attribute::parse("stable").unwrap();
        assert_eq!(attribute.to_string(), "Stable/Standard/Common");
        assert_eq!(Attribute::parse(""), Some(Attribute::MAX));
        for bad in ["Stable/Stable/Common/", "Steady", "Stable/x", "Stable/Stable/x"] {
            assert_eq!(Attribute::parse(bad), None, "{bad}");
        }
    }
}
