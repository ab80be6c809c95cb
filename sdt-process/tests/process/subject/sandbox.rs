//! Limits that the subject sets itself.

use std::io;

/// Returns the system calls in the table of this crate's documentation that a sandbox must allow.
fn documented() -> Vec<&'static str> {
    let readme = include_str!("../../../README.md");
    let (_, table) = readme.split_once("### The system calls that a sandbox must allow\n").unwrap();
    let (table, _) = table.split_once("\n#").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| "));
    // The cells of a row: the occasion, and the calls.
    let names = rows
        .filter_map(|row| row.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2));
    names.collect()
}

/// The system calls of the subject itself, through Rust's standard library: threads, memory, and its answers.
const OWN: &[&str] = &[
    "brk",
    "clone",
    "clone3",
    "exit",
    "exit_group",
    "fcntl",
    "getrandom",
    "madvise",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "prctl",
    "rseq",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_getaffinity",
    "set_robust_list",
    "tgkill",
    "wait4",
    "write",
];

/// The names and numbers of system calls.
const NUMBERS: &[(&str, libc::c_long)] = &[
    ("accept4", libc::SYS_accept4),
    ("brk", libc::SYS_brk),
    ("clock_gettime", libc::SYS_clock_gettime),
    ("clock_nanosleep", libc::SYS_clock_nanosleep),
    ("clone", libc::SYS_clone),
    ("clone3", libc::SYS_clone3),
    ("close", libc::SYS_close),
    ("exit", libc::SYS_exit),
    ("exit_group", libc::SYS_exit_group),
    ("fcntl", libc::SYS_fcntl),
    ("fstat", libc::SYS_fstat),
    ("futex", libc::SYS_futex),
    ("getcpu", libc::SYS_getcpu),
    ("getdents64", libc::SYS_getdents64),
    ("geteuid", libc::SYS_geteuid),
    ("getgid", libc::SYS_getgid),
    ("getpid", libc::SYS_getpid),
    ("getppid", libc::SYS_getppid),
    ("getrandom", libc::SYS_getrandom),
    ("getsockopt", libc::SYS_getsockopt),
    ("gettid", libc::SYS_gettid),
    ("getuid", libc::SYS_getuid),
    ("ioctl", libc::SYS_ioctl),
    ("kill", libc::SYS_kill),
    ("lseek", libc::SYS_lseek),
    ("madvise", libc::SYS_madvise),
    ("membarrier", libc::SYS_membarrier),
    ("mmap", libc::SYS_mmap),
    ("mprotect", libc::SYS_mprotect),
    ("mremap", libc::SYS_mremap),
    ("munmap", libc::SYS_munmap),
    ("nanosleep", libc::SYS_nanosleep),
    ("newfstatat", libc::SYS_newfstatat),
    ("openat", libc::SYS_openat),
    ("ppoll", libc::SYS_ppoll),
    ("prctl", libc::SYS_prctl),
    ("pread64", libc::SYS_pread64),
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("process_vm_writev", libc::SYS_process_vm_writev),
    ("pwrite64", libc::SYS_pwrite64),
    ("read", libc::SYS_read),
    ("recvfrom", libc::SYS_recvfrom),
    ("rseq", libc::SYS_rseq),
    ("rt_sigaction", libc::SYS_rt_sigaction),
    ("rt_sigprocmask", libc::SYS_rt_sigprocmask),
    ("rt_sigreturn", libc::SYS_rt_sigreturn),
    ("sched_getaffinity", libc::SYS_sched_getaffinity),
    ("sched_yield", libc::SYS_sched_yield),
    ("sendto", libc::SYS_sendto),
    ("set_robust_list", libc::SYS_set_robust_list),
    ("sigaltstack", libc::SYS_sigaltstack),
    ("statx", libc::SYS_statx),
    ("tgkill", libc::SYS_tgkill),
    ("timer_create", libc::SYS_timer_create),
    ("timer_delete", libc::SYS_timer_delete),
    ("timer_gettime", libc::SYS_timer_gettime),
    ("timer_settime", libc::SYS_timer_settime),
    ("unlinkat", libc::SYS_unlinkat),
    ("wait4", libc::SYS_wait4),
    ("write", libc::SYS_write),
    #[cfg(target_arch = "x86_64")]
    ("unlink", libc::SYS_unlink),
    #[cfg(not(target_arch = "x86_64"))]
    ("unlink", libc::SYS_unlinkat),
];

fn number(name: &str) -> libc::c_long {
    let found = NUMBERS.iter().find(|(of, _)| *of == name);
    found.unwrap_or_else(|| panic!("{name}: no number is known")).1
}

const fn statement(code: u32, value: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k: value }
}

/// Installs a filter in all threads with one answer for these system calls, and another for all others.
fn install(calls: impl Iterator<Item = libc::c_long>, answer: u32, otherwise: u32) {
    install_with(libc::SECCOMP_FILTER_FLAG_TSYNC, calls, answer, otherwise);
}

/// Installs a filter that allows everything in this thread only.
pub(super) fn allow_all_in_this_thread() {
    install_with(0, std::iter::empty(), libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_ALLOW);
}

/// Installs a filter with these flags.
fn install_with(
    flags: libc::c_ulong,
    calls: impl Iterator<Item = libc::c_long>,
    answer: u32,
    otherwise: u32,
) {
    let mut filter = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for call in calls {
        let equals = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        filter.push(libc::sock_filter { code: equals, jt: 0, jf: 1, k: call as u32 });
        filter.push(statement(libc::BPF_RET | libc::BPF_K, answer));
    }
    filter.push(statement(libc::BPF_RET | libc::BPF_K, otherwise));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    let how = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the kernel copies the filter during the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let done = libc::syscall(libc::SYS_seccomp, how, flags, &raw const program);
        assert_eq!(done, 0, "{}", io::Error::last_os_error());
    }
}

/// Makes each system call end the process, except those of the documentation and of the subject itself.
pub(super) fn allow_what_is_documented() -> &'static str {
    let calls = documented().into_iter().chain(OWN.iter().copied()).map(number);
    install(calls, libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_KILL_PROCESS);
    "sandboxed"
}

/// Makes a system call end the process or fail.
pub(super) fn deny(call: &str, how: &str) -> &'static str {
    let answer = match how {
        "kill" => libc::SECCOMP_RET_KILL_PROCESS,
        _ => libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
    };
    install([number(call)].into_iter(), answer, libc::SECCOMP_RET_ALLOW);
    "denied"
}

/// Forbids memory to become executable (`PR_SET_MDWE`, Linux 6.3).
pub(super) fn refuse_executable_gain() -> bool {
    const SET_MDWE: libc::c_int = 65;
    const REFUSE_EXEC_GAIN: libc::c_ulong = 1;
    // SAFETY: `prctl` reads and writes no memory here.
    unsafe { libc::prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) == 0 }
}

/// Opens files until no descriptor is left.
pub(super) fn take_all_descriptors() -> &'static str {
    // SAFETY: sets a limit of this process, and opens files.
    unsafe {
        let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
        while libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) >= 0 {}
    }
    assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EMFILE));
    "full"
}

/// Makes the process undumpable, and its user another one, as daemons do.
pub(super) fn cannot_be_dumped() -> &'static str {
    const NOBODY: libc::uid_t = 65534;
    // SAFETY: the calls read and write no memory.
    unsafe {
        if libc::geteuid() == 0 {
            assert_eq!(libc::setresuid(NOBODY, NOBODY, NOBODY), 0);
        }
        assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0), 0);
    }
    "undumpable"
}
