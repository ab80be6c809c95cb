//! Which threads cannot take a breakpoint.

use std::fs;
use std::io;

/// A thread that the kernel would end the process for, should it come to a breakpoint: it has SIGTRAP blocked.
pub(crate) fn any_blocks_breakpoints() -> io::Result<bool> {
    for task in fs::read_dir("/proc/self/task")? {
        // A thread that has ended in between has no status.
        if let Ok(status) = fs::read_to_string(task?.path().join("status"))
            && blocks(&status)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a status (proc_pid_status(5)) is that of such a thread.
fn blocks(status: &str) -> bool {
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let has_ended = field("State").is_some_and(|state| state.starts_with(['Z', 'X']));
    // Workers of io_uring are the kernel's, execute nothing of the program, and block everything.
    let is_the_kernels = field("Name").is_some_and(|name| name.starts_with("iou-"));
    let blocked = field("SigBlk").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    let blocks = blocked.is_some_and(|mask| mask & (1 << (libc::SIGTRAP - 1)) != 0);
    blocks && !has_ended && !is_the_kernels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read() {
        let status =
            |name, state, mask| format!("Name:\t{name}\nState:\t{state}\nSigBlk:\t{mask}\n");
        assert!(blocks(&status("main", "S (sleeping)", "0000000000000010")));
        assert!(blocks(&status("main", "R (running)", "fffffffffffffeff")));
        assert!(!blocks(&status("main", "R (running)", "ffffffffffffffef")));
        assert!(!blocks(&status("main", "Z (zombie)", "fffffffffffffeff")));
        assert!(!blocks(&status("iou-wrk-77", "S (sleeping)", "fffffffffffbfeff")));
        assert!(!blocks(""));
    }
}
