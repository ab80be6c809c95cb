//! Versions of D (`dt_version_t` of dt_impl.h and dt_subr.c), and the list of releases (FreeBSD's dt_open.c).

/// A version: major, minor, micro.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u8, u16, u16);

impl Version {
    /// The version of this compiler.
    pub const LATEST: Self = Self(1, 13, 0);

    /// All releases of D.
    const RELEASES: &[Self] = &[
        Self(1, 0, 0),
        Self(1, 1, 0),
        Self(1, 2, 0),
        Self(1, 2, 1),
        Self(1, 2, 2),
        Self(1, 3, 0),
        Self(1, 4, 0),
        Self(1, 4, 1),
        Self(1, 5, 0),
        Self(1, 6, 0),
        Self(1, 6, 1),
        Self(1, 6, 2),
        Self(1, 6, 3),
        Self(1, 7, 0),
        Self(1, 7, 1),
        Self(1, 8, 0),
        Self(1, 8, 1),
        Self(1, 9, 0),
        Self(1, 9, 1),
        Self(1, 10, 0),
        Self(1, 11, 0),
        Self(1, 12, 0),
        Self(1, 12, 1),
        Self::LATEST,
    ];

    /// Parses a version: up to three numbers separated by points, each of which may be missing.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = [0u16; 3];
        for (index, part) in text.split('.').enumerate() {
            let digits = part.bytes().all(|byte| byte.is_ascii_digit());
            let value = if part.is_empty() { 0 } else { part.parse().ok().filter(|_| digits)? };
            *parts.get_mut(index)? = value;
        }
        let [major, minor, micro] = parts;
        (minor <= 0xfff && micro <= 0xfff).then_some(Self(u8::try_from(major).ok()?, minor, micro))
    }

    /// Returns whether this is a release of D.
    pub fn is_release(self) -> bool {
        Self::RELEASES.contains(&self)
    }
}

impl Default for Version {
    fn default() -> Self {
        Self::LATEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_version_is() {
        assert_eq!(Version::parse("1.2"), Some(Version(1, 2, 0)));
        assert_eq!(Version::parse("1.2.0"), Version::parse("1.2"));
        assert_eq!(Version::parse(""), Some(Version(0, 0, 0)));
        assert_eq!(Version::parse("255.4095.4095"), Some(Version(255, 4095, 4095)));
        for bad in ["1.x", "256", "1.4096", "1.1.1.1", "+1", "-1", " 1"] {
            assert_eq!(Version::parse(bad), None, "{bad}");
        }
        assert!(Version::parse("1.6.3").is_some_and(Version::is_release));
        assert!(!Version::parse("1.6.4").is_some_and(Version::is_release));
    }
}
