//! A process leads `dtrace -p` to the socket of another process, by links of both kinds.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use dtrace_consumer::{Address, Protection};
use sdt_core::{sdt_probe, sdt_provider};

/// The environment variable that makes this program the process that `-p` names. Its value is the kind of link to another
/// process's socket, and the path of that socket.
const ROLE: &str = "SDT_DEPUTY";

sdt_provider!(victim);

#[inline(never)]
fn hit() {
    sdt_probe!(victim::hit, 1);
}

/// Runs as the named process if the variable [`ROLE`] is set.
#[test]
fn deputy() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (role, other) = role.split_once(' ').unwrap();
    let own = std::env::current_dir().unwrap().join("sdt/1");
    let away = own.with_file_name("away");
    let _listens = UnixListener::bind(&own).unwrap();
    match role {
        "itself" => {}
        "link" => {
            fs::rename(&own, &away).unwrap();
            symlink(other, &own).unwrap();
        }
        "folder" => {
            let folder = own.parent().unwrap();
            fs::rename(folder, folder.with_file_name("away")).unwrap();
            let others = Path::new(other).parent().unwrap();
            fs::hard_link(other, others.join("1")).unwrap();
            symlink(others, folder).unwrap();
        }
        // A hard link: the path leads to the same socket without a symbolic link.
        "same" => {
            fs::rename(&own, &away).unwrap();
            fs::hard_link(other, &own).unwrap();
        }
        _ => panic!("{role}"),
    }
    println!("> ready");
    std::io::stdin().lines().for_each(drop);
}

struct Deputy {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Deputy {
    fn new(role: &str, other: &Path) -> Self {
        // Hard links are for files of one file system.
        let folder = tempfile::tempdir_in(other.parent().unwrap()).unwrap();
        fs::create_dir(folder.path().join("sdt")).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["deputy", "--exact", "--nocapture"])
            .env(ROLE, format!("{role} {}", other.display()))
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines.find(|line| line.as_ref().unwrap().contains("> ready")).unwrap().unwrap();
        Self { child, _folder: folder }
    }
}

impl Drop for Deputy {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn dtrace(id: u32) -> (String, String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
    let output = command.args(["-l", "-P", "victim", "-p", &id.to_string()]).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (out, err, output.status.code())
}

#[test]
fn only_the_named_process_is_traced() {
    // The test program also runs as the named process; then it must not run this test.
    if std::env::var(ROLE).is_ok() {
        return;
    }
    hit();
    let traced = sdt_process::Options::new().module(c"victim".to_owned()).start().unwrap();
    let own = std::process::id();
    let (listed, err, status) = dtrace(own);
    assert!(listed.contains("hit") && status == Some(0), "{err}");
    let victim = traced.socket().to_owned();
    for (role, why) in [
        ("link", "contains a symbolic link"),
        ("folder", "contains a symbolic link"),
        (
            "same",
            &*format!(
                "process {own} answers at its socket; dtrace traces only the process that -p names"
            ),
        ),
    ] {
        let deputy = Deputy::new(role, &victim);
        let id = deputy.child.id();
        let (listed, err, status) = dtrace(id);
        assert_eq!((&*listed, status), ("", Some(1)), "{role}: {err}");
        assert!(err.starts_with(&format!("dtrace: failed to connect to process:{id}: ")), "{err}");
        assert!(err.contains(why), "{role}: {err}");
        fs::remove_file(victim.with_file_name("1")).ok();
    }
    // The other process can still be traced under its own ID.
    let (listed, err, status) = dtrace(own);
    assert!(listed.contains("hit") && status == Some(0), "{err}");
}

/// dtrace connects to a process in a child pid namespace by its ID in dtrace's namespace, which differs from its ID inside.
#[test]
fn a_process_in_a_pid_namespace_is_reached_by_its_number_outside() {
    if std::env::var(ROLE).is_ok() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sdt")).unwrap();
    let child = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", "--kill-child"])
        .arg(std::env::current_exe().unwrap())
        .args(["deputy", "--exact", "--nocapture"])
        .env(ROLE, "itself none")
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("there is no unshare(1): not tried");
        return;
    };
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let is_ready = |line: &std::io::Result<String>| line.as_ref().unwrap().contains("> ready");
    if lines.find(is_ready).is_none() {
        eprintln!("namespaces are not permitted: not tried");
        let _ = child.wait();
        return;
    }
    let id = child.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let inside = Address::Process(children.trim().parse().unwrap());
    let line = inside.open(&Protection::Machine, || {});
    let _ = child.kill();
    let _ = child.wait();
    assert!(line.is_ok(), "{}", line.err().unwrap());
}
