//! The platforms whose numbers differ.

/// The kernel whose `sys/dtrace.h` defines a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Platform {
    /// FreeBSD, as of 13.0; also `sdt-framework`.
    Freebsd,
    /// illumos.
    Illumos,
}

/// The operating system of a traced kernel or program. It decides the numbers of constants such as `EAGAIN`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum System {
    /// Another system, or none.
    #[default]
    Other,
    /// Linux.
    Linux,
    /// FreeBSD.
    Freebsd,
    /// illumos.
    Illumos,
}

impl System {
    /// The system for which this crate is compiled.
    pub const TARGET: Self = if cfg!(any(target_os = "linux", target_os = "android")) {
        Self::Linux
    } else if cfg!(target_os = "freebsd") {
        Self::Freebsd
    } else if cfg!(target_os = "illumos") {
        Self::Illumos
    } else {
        Self::Other
    };

    /// Returns the number of the system in the protocol between kernel and consumer.
    pub const fn number(self) -> u8 {
        match self {
            Self::Other => 0,
            Self::Linux => 1,
            Self::Freebsd => 2,
            Self::Illumos => 3,
        }
    }

    /// Returns the system with this number; [`Other`](Self::Other) if the number is unknown.
    pub const fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Linux,
            2 => Self::Freebsd,
            3 => Self::Illumos,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_keep_their_numbers() {
        for system in [System::Other, System::Linux, System::Freebsd, System::Illumos] {
            assert_eq!(System::from_number(system.number()), system);
        }
        assert_eq!(System::from_number(200), System::Other);
    }
}
