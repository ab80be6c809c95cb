//! The memory that the system lets this process use.

use std::fs;
use std::path::Path;

/// The folder of control groups, and the files with the limit of a group, of version 2 and of version 1 (Linux,
/// `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/memory.rst`).
const GROUPS: &str = "/sys/fs/cgroup";
const LIMITS: [&str; 2] = ["memory.max", "memory.limit_in_bytes"];

/// Returns the number of bytes of memory that this process may use: the least of the memory of the machine, the limits of its control
/// groups, and its resource limits `RLIMIT_AS` and `RLIMIT_DATA`. A limit that cannot be read does not count. All of them are read from
/// files: a sandbox may forbid the system calls.
pub(crate) fn bytes() -> u64 {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    let machine =
        number(&read("/proc/meminfo"), "MemTotal:").map(|kilobytes| kilobytes.saturating_mul(1024));
    let limits = read("/proc/self/limits");
    let limits = ["Max address space", "Max data size"].map(|name| number(&limits, name));
    let groups = least(Path::new(GROUPS), &read("/proc/self/cgroup"));
    limits.into_iter().chain([machine, groups]).flatten().min().unwrap_or(u64::MAX)
}

/// Returns the first number of the line that begins with `name`; `None` if there is no such line or number, as for `unlimited`.
fn number(lines: &str, name: &str) -> Option<u64> {
    let rest = lines.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Returns whether the system counts or provides memory when it is allocated, and not when it is first used: if the machine
/// does not overcommit memory (`vm.overcommit_memory`, proc(5)), or if this process has locked its memory (`mlockall(2)`).
pub(crate) fn is_taken_at_once() -> bool {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    read("/proc/sys/vm/overcommit_memory").trim() == "2" || is_locked(&read("/proc/self/status"))
}

/// Returns whether the process with this status has locked most of its memory. A program that protects its keys locks only a few
/// pages (`mlock(2)`).
fn is_locked(status: &str) -> bool {
    let [locked, all] = ["VmLck:", "VmSize:"].map(|name| number(status, name).unwrap_or(0));
    locked > all / 2
}

/// Returns the least limit of the groups in `groups`, the content of `/proc/self/cgroup`, and of the groups that contain them. In a
/// container, `root` is the group of the container, and the path can be one outside of it.
fn least(root: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        // Number, controllers, path: for example `0::/user.slice`, or `4:memory:/docker`.
        let mut fields = line.splitn(3, ':').skip(1);
        let folder = match fields.next()? {
            "" => root.to_path_buf(),
            controllers if controllers.split(',').any(|of| of == "memory") => root.join("memory"),
            _ => return None,
        };
        let path = folder.join(fields.next()?.trim_start_matches('/'));
        let groups = path.ancestors().take_while(|group| group.starts_with(&folder));
        groups.filter_map(limit).min()
    });
    limits.min()
}

/// Returns the limit of a control group.
fn limit(group: &Path) -> Option<u64> {
    LIMITS.iter().find_map(|file| fs::read_to_string(group.join(file)).ok()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_groups_counts() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let write = |file: &str, text: &str| {
            let file = root.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("a/b/memory.max", "max\n");
        write("a/memory.max", "4096\n");
        write("memory/c/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/memory.limit_in_bytes", "512\n");
        assert_eq!(least(root, "0::/a/b\n"), Some(4096));
        assert_eq!(least(root, "0::/a\n"), Some(4096));
        assert_eq!(least(root, "0::/\n"), None);
        assert_eq!(least(root, "3:cpu,memory:/c\n0::/a\n"), Some(512));
        assert_eq!(least(root, "3:cpu:/c\n"), None);
        // A path outside of the container.
        assert_eq!(least(&root.join("a"), "0::/../elsewhere\n"), Some(4096));
        assert_eq!(least(root, "nonsense"), None);
    }

    #[test]
    fn limits_are_numbers_of_lines() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max data size             unlimited            unlimited            bytes     \n\
             Max address space         1073741824           unlimited            bytes     \n";
        assert_eq!(number(limits, "Max address space"), Some(1 << 30));
        assert_eq!(number(limits, "Max data size"), None);
        assert_eq!(number(limits, "Max locked memory"), None);
    }

    #[test]
    fn a_process_has_locked_its_memory_or_a_few_pages() {
        let status =
            |locked| format!("VmPeak:\t  8000 kB\nVmSize:\t  7000 kB\nVmLck:\t  {locked} kB\n");
        assert!(is_locked(&status(6980)));
        assert!(!is_locked(&status(64)) && !is_locked(&status(0)));
        assert!(!is_locked(""), "a kernel without an MMU has neither field");
    }

    #[test]
    fn this_process_may_use_some_memory() {
        assert!(bytes() > 1 << 20);
    }
}
