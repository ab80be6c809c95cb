//! The numbers that systems have for the names of errors, signals, flags of open(2) and protocols of IP.

use dtrace_abi::System;

/// Names with the numbers of each system.
const TABLE: &str = include_str!("constants.txt");

/// Returns the names and numbers of a system, as in errno.d, signal.d, io.d and ip.d of dtrace(1). For an unknown
/// system, returns only the protocols.
pub fn constants(system: System) -> impl Iterator<Item = (&'static str, i32)> {
    let column = match system {
        System::Other => None,
        System::Linux => Some(0),
        System::Freebsd => Some(1),
        System::Illumos => Some(2),
    };
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(move |line| {
        let mut words = line.split(' ');
        let name = words.next()?;
        let value = match column {
            Some(column) => words.nth(column)?,
            None => words.next().filter(|_| name.starts_with("IPPROTO_"))?,
        };
        Some((name, number(value)?))
    })
}

/// Returns the number of a column; `None` if the system does not have the name.
fn number(text: &str) -> Option<i32> {
    match text.strip_prefix("0x") {
        Some(digits) => i32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_line_has_a_name_and_three_numbers() {
        let mut names = HashSet::new();
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let [name, numbers @ ..] = &line.split(' ').collect::<Vec<_>>()[..] else { panic!() };
            assert!(names.insert(*name), "{name} is there twice");
            assert_eq!(numbers.len(), 3, "{line}");
            assert!(numbers.iter().all(|text| *text == "-" || number(text).is_some()), "{line}");
            assert!(numbers.iter().any(|text| *text != "-"), "{line}");
        }
    }

    /// The column of Linux has the numbers of the C library.
    #[cfg(target_os = "linux")]
    #[test]
    fn numbers_of_linux_are_those_of_libc() {
        macro_rules! numbers {
            ($($name:ident)*) => { [$((stringify!($name), libc::$name)),*] };
        }
        let all = numbers! {
            E2BIG EADDRINUSE EADDRNOTAVAIL EAFNOSUPPORT EAGAIN EALREADY EBADF EBUSY ECANCELED ECHILD ECONNABORTED
            ECONNREFUSED ECONNRESET EDEADLK EDQUOT EEXIST EFAULT EFBIG EHOSTUNREACH EIDRM EILSEQ EINPROGRESS EINTR EINVAL EIO
            EISCONN EISDIR ELOOP EMFILE EMLINK EMSGSIZE ENAMETOOLONG ENETUNREACH ENFILE ENOBUFS ENODEV ENOENT ENOEXEC
            ENOLCK ENOMEM ENOSPC ENOSYS ENOTCONN ENOTDIR ENOTEMPTY ENOTSOCK ENOTSUP ENOTTY ENXIO EOPNOTSUPP EOVERFLOW
            EPERM EPIPE EPROTO EPROTONOSUPPORT ERANGE ERESTART EROFS ESPIPE ESRCH ESTALE ETIMEDOUT ETXTBSY EWOULDBLOCK EXDEV
            SIGABRT SIGALRM SIGBUS SIGCHLD SIGCONT SIGFPE SIGHUP SIGILL SIGINT SIGIO SIGKILL SIGPIPE SIGPOLL SIGPROF
            SIGPWR SIGQUIT SIGSEGV SIGSTKFLT SIGSTOP SIGSYS SIGTERM SIGTRAP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGUSR1
            SIGUSR2 SIGVTALRM SIGWINCH SIGXCPU SIGXFSZ
            IPPROTO_ICMP IPPROTO_ICMPV6 IPPROTO_IP IPPROTO_IPV6 IPPROTO_RAW IPPROTO_SCTP IPPROTO_TCP IPPROTO_UDP
            O_ACCMODE O_APPEND O_ASYNC O_CLOEXEC O_CREAT O_DSYNC O_EXCL O_NOATIME O_NOCTTY O_NONBLOCK O_PATH O_RDONLY
            O_RDWR O_RSYNC O_SYNC O_TRUNC O_WRONLY
        };
        for (name, number) in all {
            let found = constants(System::Linux).find(|(of, _)| *of == name);
            assert_eq!(found, Some((name, number)));
        }
    }

    #[test]
    fn systems_differ() {
        let value =
            |system, name| constants(system).find(|(of, _)| *of == name).map(|(_, value)| value);
        for (name, numbers) in [
            ("ENOENT", [Some(2), Some(2), Some(2)]),
            ("EAGAIN", [Some(11), Some(35), Some(11)]),
            ("ERESTART", [Some(85), Some(-1), Some(91)]),
            ("SIGCHLD", [Some(17), Some(20), Some(18)]),
            ("SIGINFO", [None, Some(29), Some(41)]),
            ("O_CREAT", [Some(0x40), Some(0x200), Some(0x100)]),
            ("IPPROTO_TCP", [Some(6), Some(6), Some(6)]),
        ] {
            let systems = [System::Linux, System::Freebsd, System::Illumos];
            assert_eq!(systems.map(|system| value(system, name)), numbers, "{name}");
        }
        assert_eq!(value(System::Other, "ENOENT"), None);
        assert_eq!(value(System::Other, "IPPROTO_UDP"), Some(17));
    }
}
