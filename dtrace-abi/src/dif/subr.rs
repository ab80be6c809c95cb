//! The subroutines of the instruction `call`.

use crate::Platform;

macro_rules! subroutines {
    ($($variant:ident, $name:literal, $freebsd:expr, $illumos:expr;)*) => {
        /// A subroutine of the kernel (`DIF_SUBR_*`).
        ///
        /// The numbers up to 45 are common. The following ones are different: FreeBSD has its own (13.0; before 2017
        /// those after `memref` were one higher), and illumos continues with `getf`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Subr {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
        }

        impl Subr {
            /// All subroutines of both platforms.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the name in D.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the number on a platform; `None` if the platform does not have it.
            pub const fn number(self, platform: Platform) -> Option<u16> {
                let (freebsd, illumos): (Option<u16>, Option<u16>) = match self {
                    $(Self::$variant => ($freebsd, $illumos),)*
                };
                match platform {
                    Platform::Freebsd => freebsd,
                    Platform::Illumos => illumos,
                }
            }

            /// Returns the subroutine with this number on a platform.
            pub fn from_number(number: u16, platform: Platform) -> Option<Self> {
                Self::ALL.iter().copied().find(|subr| subr.number(platform) == Some(number))
            }
        }
    };
}

subroutines! {
    Rand, "rand", Some(0), Some(0);
    MutexOwned, "mutex_owned", Some(1), Some(1);
    MutexOwner, "mutex_owner", Some(2), Some(2);
    MutexTypeAdaptive, "mutex_type_adaptive", Some(3), Some(3);
    MutexTypeSpin, "mutex_type_spin", Some(4), Some(4);
    RwReadHeld, "rw_read_held", Some(5), Some(5);
    RwWriteHeld, "rw_write_held", Some(6), Some(6);
    RwIswriter, "rw_iswriter", Some(7), Some(7);
    Copyin, "copyin", Some(8), Some(8);
    Copyinstr, "copyinstr", Some(9), Some(9);
    Speculation, "speculation", Some(10), Some(10);
    Progenyof, "progenyof", Some(11), Some(11);
    Strlen, "strlen", Some(12), Some(12);
    Copyout, "copyout", Some(13), Some(13);
    Copyoutstr, "copyoutstr", Some(14), Some(14);
    Alloca, "alloca", Some(15), Some(15);
    Bcopy, "bcopy", Some(16), Some(16);
    Copyinto, "copyinto", Some(17), Some(17);
    Msgdsize, "msgdsize", Some(18), Some(18);
    Msgsize, "msgsize", Some(19), Some(19);
    Getmajor, "getmajor", Some(20), Some(20);
    Getminor, "getminor", Some(21), Some(21);
    DdiPathname, "ddi_pathname", Some(22), Some(22);
    Strjoin, "strjoin", Some(23), Some(23);
    Lltostr, "lltostr", Some(24), Some(24);
    Basename, "basename", Some(25), Some(25);
    Dirname, "dirname", Some(26), Some(26);
    Cleanpath, "cleanpath", Some(27), Some(27);
    Strchr, "strchr", Some(28), Some(28);
    Strrchr, "strrchr", Some(29), Some(29);
    Strstr, "strstr", Some(30), Some(30);
    Strtok, "strtok", Some(31), Some(31);
    Substr, "substr", Some(32), Some(32);
    Index, "index", Some(33), Some(33);
    Rindex, "rindex", Some(34), Some(34);
    Htons, "htons", Some(35), Some(35);
    Htonl, "htonl", Some(36), Some(36);
    Htonll, "htonll", Some(37), Some(37);
    Ntohs, "ntohs", Some(38), Some(38);
    Ntohl, "ntohl", Some(39), Some(39);
    Ntohll, "ntohll", Some(40), Some(40);
    InetNtop, "inet_ntop", Some(41), Some(41);
    InetNtoa, "inet_ntoa", Some(42), Some(42);
    InetNtoa6, "inet_ntoa6", Some(43), Some(43);
    Toupper, "toupper", Some(44), Some(44);
    Tolower, "tolower", Some(45), Some(45);
    Memref, "memref", Some(46), None;
    SxSharedHeld, "sx_shared_held", Some(47), None;
    SxExclusiveHeld, "sx_exclusive_held", Some(48), None;
    SxIsexclusive, "sx_isexclusive", Some(49), None;
    Memstr, "memstr", Some(50), None;
    Getf, "getf", Some(51), Some(46);
    Json, "json", Some(52), Some(47);
    Strtoll, "strtoll", Some(53), Some(48);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_leads_back() {
        for platform in [Platform::Freebsd, Platform::Illumos] {
            for &subr in Subr::ALL {
                if let Some(number) = subr.number(platform) {
                    assert_eq!(Subr::from_number(number, platform), Some(subr));
                }
            }
        }
        assert_eq!(Subr::from_number(54, Platform::Freebsd), None);
        assert_eq!(Subr::from_number(49, Platform::Illumos), None);
    }
}
