//! Runs `tests/checklists/checklist.sh` alone in a folder, with stand-ins for the commands of FreeBSD and of illumos: it executes
//! all its steps, and reports every fault.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use harness::workspace;

/// One script that stands in for the commands of both systems: its name selects the command. `loaded` and `enabled` are files
/// here.
const COMMANDS: &str = r#"#!/bin/sh
here=$(dirname "$0")
loaded() { [ -e "$here/loaded" ]; }
case $(basename "$0") in
uname)
	if [ "$1" = -s ]; then echo "$SYSTEM"; else echo "$SYSTEM 1 amd64"; fi ;;
id)
	if [ "$#" -gt 0 ]; then echo 0; else echo 'uid=0(root) gid=0(root)'; fi ;;
isainfo) echo amd64 ;;
cp)
	case $2 in /kernel/*) ;; *) exec /bin/cp "$@" ;; esac ;;
kldload)
	case $1 in
	-n) ;;
	*/*) : >"$here/loaded" ;;
	*) echo "kldload: $1 is not in the module path" >&2; exit 1 ;;
	esac ;;
modload) : >"$here/loaded" ;;
kldunload | modunload)
	if [ -e "$here/enabled" ] && [ -z "$CARELESS" ]; then echo 'Device busy' >&2; exit 1; fi
	rm -f "$here/loaded" ;;
kldstat) loaded ;;
modinfo)
	echo ' Id Loadaddr Size Info Rev Module Name'
	loaded && echo ' 99 fffffffff8000000 1000 - 1 proc_example (SDT probes in Rust)' ;;
dtrace)
	probe= program= command=
	for word; do
		case $previous in -n) program=$word ;; -c) command=$word ;; esac
		previous=$word
	done
	path=$(head -1 "${command#/bin/sh }" 2>/dev/null)
	path=${path%% *}
	case "$*" in
	*sysctl*=*) echo "${command#*=}" ;;
	*kstat*) echo 'by hand' ;;
	*'printf('*) printf '%s\n%s\n%s\n' "$path" "$path" "$path" ;;
	*'stack()'*)
		printf '\n  proc_example.ko`proc_example.on_exec+0x1\n  proc_example`proc_example.on_exec+0x1\n'
		printf '  kernel`do_execve\n  unix`sys_syscall\n' ;;
	*'@['*) printf '\n  %s  3\n' "$path" ;;
	-l*)
		loaded || { echo 'dtrace: failed to match' >&2; exit 0; }
		case $program in
		fbt*) echo '  2 fbt proc_example proc_example.on_exec entry' ;;
		*) echo '  1 proc proc_example none exec-success' ;;
		esac
		printf '\t\tIdentifier Names: Evolving\n\t\tDependency Class: ISA\n\t\targs[0]: char *\n' ;;
	*)
		: >"$here/enabled"
		trap 'rm -f "$here/enabled"; echo "  3"; exit 0' TERM
		echo 'matched 1 probe' >&2
		while :; do sleep 0.05; done ;;
	esac ;;
esac
"#;

const NAMES: [&str; 11] = [
    "cp",
    "dtrace",
    "id",
    "isainfo",
    "kldload",
    "kldstat",
    "kldunload",
    "modinfo",
    "modload",
    "modunload",
    "uname",
];

/// Runs the script as on a system.
fn run(system: &str, careless: bool, args: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    for name in NAMES {
        let file = bin.join(name);
        fs::write(&file, COMMANDS).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let script = folder.path().join("checklist.sh");
    fs::copy(workspace::root().join("tests/checklists/checklist.sh"), &script).unwrap();
    for module in ["proc_example", "proc_example.ko"] {
        fs::write(folder.path().join(module), "").unwrap();
    }
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("sh");
    command.arg(Path::new("checklist.sh")).args(args).current_dir(folder.path());
    command.env("PATH", format!("{}:{path}", bin.display())).env("SYSTEM", system);
    command.env("CARELESS", if careless { "yes" } else { "" });
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn all_steps_pass_where_all_is_well() {
    let both = ["-r", "10", "-n", "proc_example.ko", "-p", "proc_example.ko"];
    for (system, args, steps) in
        [("FreeBSD", &both[..], 2 + 2 * 18), ("SunOS", &["-r", "10", "-n", "proc_example"], 2 + 19)]
    {
        let output = run(system, false, args);
        let text = text(&output);
        let end = format!("{steps} passed, 0 failed, on {system} 1 amd64\n");
        assert!(text.ends_with(&end) && !text.contains("FAIL"), "{text}{output:?}");
        assert_eq!(output.status.code(), Some(0), "{text}");
    }
}

#[test]
fn a_module_that_goes_while_it_is_enabled_fails() {
    for (system, module, unloader) in
        [("FreeBSD", "proc_example.ko", "kldunload"), ("SunOS", "proc_example", "modunload")]
    {
        let output = run(system, true, &["-r", "1", "-n", module]);
        let line = format!("FAIL native: {unloader} is refused while the probe is enabled\n");
        assert!(text(&output).contains(&line), "{}", text(&output));
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn it_says_where_it_does_not_run_and_what_it_wants() {
    let output = run("Linux", false, &["-n", "proc_example.ko"]);
    assert!(text(&output).starts_with("FAIL machine: the system is FreeBSD or illumos\n"));
    assert_eq!(output.status.code(), Some(1));
    for args in [&[][..], &["-x"], &["-r", "5"]] {
        assert_eq!(run("FreeBSD", false, args).status.code(), Some(2), "{args:?}");
    }
    assert_eq!(run("SunOS", false, &["-p", "proc_example"]).status.code(), Some(2));
}
