//! Limits a thread by a seccomp filter: it can only compute, read files, and write to standard output and error.
//!
//! A system call that starts a program, writes or changes a file, connects to something or sends a signal to another process
//! ends the program: it is what a fuzzer looks for.

use std::sync::Once;

/// System calls that change nothing outside of the process.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_newfstatat,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_fcntl,
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getpgid,
    libc::SYS_getsid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigreturn,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_prctl,
    libc::SYS_exit,
    // Allowed for this process only: it aborts with these.
    libc::SYS_tgkill,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_getpgrp,
];

/// Flags that are refused when a file is opened.
const CHANGES: u32 =
    (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND) as u32;

/// Bytes of a system call's description before its arguments, and of each of these.
const ARGUMENTS: u32 = 16;
const ARGUMENT: u32 = 8;

const fn filter(code: u32, k: u32, jump_true: u8, jump_false: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: jump_true, jf: jump_false, k }
}

/// Loads a word of the description.
const fn load(at: u32) -> libc::sock_filter {
    filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at, 0, 0)
}

/// Skips this number of instructions if the word is equal, or if not.
const fn equal(k: u32, jump_true: u8, jump_false: u8) -> libc::sock_filter {
    filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, k, jump_true, jump_false)
}

const fn end(action: u32) -> libc::sock_filter {
    filter(libc::BPF_RET | libc::BPF_K, action, 0, 0)
}

fn program() -> Vec<libc::sock_filter> {
    let (allow, trap) = (end(libc::SECCOMP_RET_ALLOW), end(libc::SECCOMP_RET_TRAP));
    let mut all = vec![load(0)];
    for number in ALLOWED {
        all.extend([equal(*number as u32, 0, 1), allow]);
    }
    // Writing, to standard output and error.
    all.extend([equal(libc::SYS_write as u32, 0, 5), load(ARGUMENTS)]);
    all.extend([equal(1, 1, 0), equal(2, 0, 1), allow, trap]);
    // Opening, to read.
    let is_set = filter(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, CHANGES, 1, 0);
    all.extend([
        equal(libc::SYS_openat as u32, 0, 3),
        load(ARGUMENTS + 2 * ARGUMENT),
        is_set,
        allow,
    ]);
    all.push(trap);
    all
}

extern "C" fn refused(_: libc::c_int) {
    const WORDS: &[u8] = b"a system call that has an effect was made\n";
    // SAFETY: the pointer and the length are those of `WORDS`.
    unsafe { libc::write(2, WORDS.as_ptr().cast(), WORDS.len()) };
    std::process::abort();
}

/// Installs the handler of forbidden system calls, once for the process.
fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let handler: extern "C" fn(libc::c_int) = refused;
        // SAFETY: the handler writes and aborts, which a handler may.
        let before = unsafe { libc::signal(libc::SIGSYS, handler as libc::sighandler_t) };
        assert_ne!(before, libc::SIG_ERR, "SIGSYS can be handled");
    });
}

/// Puts this thread into the sandbox, which it cannot leave.
fn enter() {
    let mut program = program();
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: this only prevents the thread from gaining privileges.
    let no_new = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the length and the pointer in `filter` are those of `program`, and the kernel copies it.
    let entered = unsafe { libc::syscall(libc::SYS_seccomp, mode, 0, &raw const filter) };
    assert_eq!((no_new, entered), (0, 0), "{}", std::io::Error::last_os_error());
}

/// Runs a function in a thread that is in the sandbox.
pub(crate) fn within(function: impl FnOnce() + Send) -> std::thread::Result<()> {
    watch();
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            enter();
            function();
        });
        inside.join()
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use super::*;

    /// The variable that makes this program try an action in the sandbox.
    const ROLE: &str = "SDT_SANDBOX";

    #[test]
    fn nothing_can_be_done_in_it() {
        if let Ok(role) = std::env::var(ROLE) {
            let inside = within(|| match &*role {
                "nothing" => assert!(std::fs::read("/proc/self/status").is_ok()),
                "run" => drop(Command::new("/bin/true").status()),
                "write" => drop(std::fs::write("/dev/null", "x")),
                "connect" => drop(std::os::unix::net::UnixStream::connect("/nowhere")),
                "remove" => drop(std::fs::remove_file("/nowhere")),
                role => panic!("{role}"),
            });
            return inside.unwrap();
        }
        for (role, is_allowed) in [
            ("nothing", true),
            ("run", false),
            ("write", false),
            ("connect", false),
            ("remove", false),
        ] {
            let mut child = Command::new(std::env::current_exe().unwrap());
            let name = "sandbox::tests::nothing_can_be_done_in_it";
            let output =
                child.args([name, "--exact", "--nocapture"]).env(ROLE, role).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.success(), is_allowed, "{role}: {said}");
            // `Command` blocks all signals before it starts a program, so the kernel ends the child without a message.
            let is_ended =
                said.contains("has an effect") || output.status.signal() == Some(libc::SIGSYS);
            assert_eq!(is_ended, !is_allowed, "{role}: {said}");
        }
    }
}
