//! The machine in which a kernel runs: QEMU, with one serial line to this process.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cargo_sdt::internal::arch::Arch;
use rustix::fs::{MemfdFlags, memfd_create};
use sdt_protocol::MAILBOX;

use crate::{qemu, symbols};

/// The number of bytes of QEMU's output that are kept for error messages.
const KEPT: usize = 4096;

/// The options of a machine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its architecture.
    pub arch: Arch,
    /// QEMU's program.
    pub qemu: PathBuf,
    /// The kernel's ELF file.
    pub kernel: PathBuf,
    /// Number of CPUs.
    pub cpus: u32,
}

/// Why there is no machine.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The line to the machine could not be made.
    #[error("cannot create the line to the machine: {0}")]
    Line(std::io::Error),
    /// The memory of the machine could not be made, or not be written to.
    #[error("cannot create or write the memory of the machine: {0}")]
    Memory(std::io::Error),
    /// QEMU could not be started.
    #[error("cannot run {}: {source}", .qemu.display())]
    Start {
        /// Its program.
        qemu: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
}

/// A running machine. It ends when this value is dropped, and when this process is killed.
pub struct Machine {
    arch: Arch,
    child: Child,
    /// Its RAM, which QEMU maps.
    memory: File,
    said: Arc<Mutex<Vec<u8>>>,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("pid", &self.child.id()).finish_non_exhaustive()
    }
}

impl Machine {
    /// Starts the machine. Returns it, and this process's end of its serial line.
    ///
    /// The calling thread must live as long as the machine: Linux treats it as the parent, and its death ends the
    /// machine.
    ///
    /// # Errors
    /// QEMU could not be started.
    pub fn start(options: &Options) -> Result<(Self, UnixStream), MachineError> {
        let (ours, theirs) = UnixStream::pair().map_err(MachineError::Line)?;
        let memory = memory().map_err(MachineError::Memory)?;
        let mut command = Self::command(options, &memory);
        // The line is QEMU's standard input: a socket transfers data in both directions.
        command
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C at the terminal must reach only this process, which then stops the machine in order.
            .process_group(0);
        // SAFETY: prctl is a system call that is sound between fork and exec; it touches no memory.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let mut child = command
            .spawn()
            .map_err(|source| MachineError::Start { qemu: options.qemu.clone(), source })?;
        // The command holds QEMU's end of the line. Only QEMU may hold it, as otherwise the line stays open after QEMU's end.
        drop(command);
        let said = Arc::new(Mutex::new(Vec::new()));
        if let Some(stderr) = child.stderr.take() {
            keep_tail(stderr, Arc::clone(&said));
        }
        Ok((Self { arch: options.arch, child, memory, said }, ours))
    }

    fn command(options: &Options, memory: &File) -> Command {
        let mut command = Command::new(&options.qemu);
        command.arg("-kernel").arg(&options.kernel);
        let size = format!("{}M", qemu::RAM >> 20);
        command.args(["-smp", &options.cpus.to_string(), "-m", &size]);
        let (process, file) = (std::process::id(), memory.as_raw_fd());
        command.arg("-object").arg(format!(
            "memory-backend-file,id=ram,size={size},share=on,mem-path=/proc/{process}/fd/{file}"
        ));
        command.args(["-machine", "memory-backend=ram"]);
        command.args(["-accel", "tcg,thread=multi", "-nodefaults", "-no-user-config"]);
        command.args(["-display", "none", "-no-reboot", "-monitor", "none"]);
        command.args(qemu::machine_options(options.arch));
        // Loads the kernel's symbols into memory after the kernel, as a boot loader does.
        let symbols = symbols::file(&options.kernel);
        if symbols.exists() {
            let address = qemu::symbols_address(options.arch);
            let loaded =
                format!("loader,force-raw=on,addr={address:#x},file={}", symbols.display());
            command.args(["-device", &loaded]);
        }
        command.args(["-chardev", "socket,id=line,fd=0", "-serial", "chardev:line"]);
        command
    }

    /// Writes a message into the mailbox. The kernel looks at it when the line says so.
    ///
    /// # Errors
    /// The memory cannot be written to.
    pub fn mail(&self, frame: &[u8]) -> Result<(), MachineError> {
        self.memory.write_all_at(frame, qemu::SYMBOLS + MAILBOX).map_err(MachineError::Memory)
    }

    /// Process id of QEMU.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of the machine; returns how it ended, or `None` after this time.
    pub fn ended(&mut self, within: Duration) -> Option<Ended> {
        let end = Instant::now() + within;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                let said = self.said.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                let said = String::from_utf8_lossy(&said).trim().to_owned();
                return Some(Ended { arch: self.arch, status, said });
            }
            if Instant::now() >= end {
                return None;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // If QEMU cannot be killed, it has ended already. In both cases `wait` collects its status.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file in memory that is the RAM of a machine.
fn memory() -> std::io::Result<File> {
    let file = File::from(memfd_create("ram", MemfdFlags::CLOEXEC)?);
    file.set_len(qemu::RAM)?;
    Ok(file)
}

/// The reason for the end of a machine.
#[derive(Clone, Debug)]
pub struct Ended {
    arch: Arch,
    status: ExitStatus,
    said: String,
}

impl Ended {
    /// Returns whether the kernel powered it off in order.
    pub fn in_order(&self) -> bool {
        self.status.code() == Some(qemu::powered_off(self.arch))
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QEMU ended: {}", self.status)?;
        if self.said.is_empty() { Ok(()) } else { write!(f, ": {}", self.said) }
    }
}

/// Reads a pipe to its end, and keeps the last bytes.
fn keep_tail(mut pipe: impl Read + Send + 'static, tail: Arc<Mutex<Vec<u8>>>) {
    thread::spawn(move || {
        let mut buffer = [0; 1024];
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            let mut tail = tail.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            tail.extend_from_slice(&buffer[..length]);
            let over = tail.len().saturating_sub(KEPT);
            tail.drain(..over);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Returns options that run a script instead of QEMU.
    fn stand_in(script: &str) -> (tempfile::TempDir, Options) {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let qemu = folder.path().join("qemu");
        std::fs::write(&qemu, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&qemu, std::fs::Permissions::from_mode(0o755)).unwrap();
        (folder, Options { arch: Arch::X86_64, qemu, kernel: "kernel".into(), cpus: 3 })
    }

    #[test]
    fn the_line_goes_both_ways() {
        let (_folder, options) = stand_in("read word; echo \"got $word\" >&0; exit 33");
        let (mut machine, mut line) = Machine::start(&options).unwrap();
        line.write_all(b"hello\n").unwrap();
        let mut answer = String::new();
        line.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "got hello\n");
        assert!(machine.ended(Duration::from_secs(10)).unwrap().in_order());
    }

    #[test]
    fn how_it_ended_is_told() {
        let (_folder, options) = stand_in("echo no such kernel >&2; exit 1");
        let (mut machine, mut line) = Machine::start(&options).unwrap();
        // The end of the line is noticed.
        assert_eq!(line.read(&mut [0]).unwrap(), 0);
        let ended = machine.ended(Duration::from_secs(10)).unwrap();
        assert!(!ended.in_order());
        // Another thread receives its output.
        let wait = Instant::now() + Duration::from_secs(10);
        let mut text = ended.to_string();
        while !text.contains("no such kernel") && Instant::now() < wait {
            text = machine.ended(Duration::ZERO).unwrap().to_string();
        }
        assert_eq!(text, "QEMU ended: exit status: 1: no such kernel");
    }

    #[test]
    fn nothing_is_left_when_it_is_dropped() {
        let (_folder, options) = stand_in("exec sleep 600");
        let (machine, line) = Machine::start(&options).unwrap();
        let process = PathBuf::from(format!("/proc/{}", machine.pid()));
        assert!(process.exists());
        drop(machine);
        assert!(!process.exists());
        drop(line);
    }

    #[test]
    fn a_missing_qemu_is_named() {
        let qemu = "/nowhere/qemu".into();
        let options = Options { arch: Arch::X86_64, qemu, kernel: "kernel".into(), cpus: 1 };
        let error = Machine::start(&options).unwrap_err();
        assert!(error.to_string().starts_with("cannot run /nowhere/qemu: "), "{error}");
    }
}
