//! A kernel for programs: a little memory that can be read, one process, a clock.

use std::cell::Cell;

use dtrace_abi::Platform;
use sdt_framework::kernel::{Kernel, Number, Text};
use sdt_framework::testing::{
    Access, Declarations, Declared, Dynamic, Firing, Memory, PerCpu, Probe, Room, Statics, Word,
};
use std::sync::atomic::AtomicU32;

/// The kernel.
#[derive(Debug, Default)]
pub struct World {
    /// The readable memory of the kernel: addresses and bytes.
    pub memory: Vec<(u64, Vec<u8>)>,
    /// The readable memory of the process.
    pub process: Vec<(u64, Vec<u8>)>,
    /// Ranges that are toxic.
    pub toxic: Vec<(u64, u64)>,
    pub clock: Cell<u64>,
    pub thread: Cell<u64>,
}

fn load(memory: &[(u64, Vec<u8>)], address: u64, into: &mut [u8]) -> bool {
    memory.iter().any(|(start, bytes)| {
        let from = address.checked_sub(*start).and_then(|at| bytes.get(at as usize..));
        from.and_then(|from| from.get(..into.len())).is_some_and(|from| {
            into.copy_from_slice(from);
            true
        })
    })
}

impl Kernel for World {
    fn timestamp(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    fn load(&self, address: u64, into: &mut [u8]) -> bool {
        load(&self.memory, address, into)
    }

    fn is_toxic(&self, address: u64, length: u64) -> bool {
        self.toxic.iter().any(|&(start, size)| address < start + size && start < address + length)
    }

    fn aligned(&self) -> bool {
        false
    }

    fn thread(&self) -> u64 {
        self.thread.get() + 1
    }

    fn number(&self, which: Number) -> Option<u64> {
        Some(match which {
            Number::Pid => 100,
            Number::Walltimestamp => 1_600_000_000_000_000_000,
            Number::Caller => return None,
            _ => 0,
        })
    }

    fn text(&self, which: Text) -> Option<&[u8]> {
        Some(match which {
            Text::Execname => b"dtrace",
            Text::Zonename | Text::Jailname => b"0",
            Text::Execargs => b"dtrace -s x.d",
            Text::Threadname => b"main",
        })
    }

    fn copyin(&self, address: u64, into: &mut [u8]) -> bool {
        load(&self.process, address, into)
    }
}

fn words(count: usize) -> &'static [Word] {
    Box::leak((0..count).map(|_| Word::new()).collect())
}

fn links(count: usize) -> &'static [AtomicU32] {
    Box::leak((0..count).map(|_| AtomicU32::new(0)).collect())
}

/// Returns memory for a consumer, with this number of chunks for dynamic variables.
pub fn memory(string_size: u32, cpus: usize, chunks: usize) -> &'static Memory<'static> {
    const CHUNK: usize = 160;
    let statics =
        |copies: usize| Statics { extents: words(64), words: words(2048 * copies), copies };
    let per_cpu: &'static [PerCpu] = Box::leak((0..cpus).map(|_| PerCpu::new()).collect());
    let dynamic = Dynamic::new(
        links(chunks.div_ceil(2)),
        links(chunks),
        links(chunks),
        words(CHUNK * chunks),
        CHUNK,
        per_cpu,
    );
    let memory = Memory {
        literals: words(4096),
        globals: statics(1),
        locals: statics(cpus),
        dynamic,
        string_size,
    };
    Box::leak(Box::new(memory))
}

/// Returns empty declarations.
pub fn declarations(memory: &'static Memory<'static>) -> Declarations<'static> {
    let table = || -> &'static mut [Declared] { Box::leak(vec![Declared::NONE; 64].into()) };
    Declarations::new(Platform::Freebsd, memory, table(), table(), table())
}

/// A firing of `dtrace:::BEGIN` or another probe.
pub fn firing<'a>(
    world: &'a World,
    memory: &'a Memory<'a>,
    rights: Access,
    id: u32,
    cpu: usize,
) -> Firing<'a, World> {
    let name: &[u8] = [b"BEGIN".as_slice(), b"END", b"ERROR"].get(id as usize - 1).unwrap();
    let room = Room {
        scratch: Box::leak(vec![0; 8192].into()),
        key: Box::leak(vec![0; memory.dynamic.chunk_words()].into()),
    };
    let probe = Probe {
        id,
        names: Box::leak(Box::new([b"dtrace".as_slice(), b"", b"", name])),
        args: &[0; 6],
    };
    Firing::new(world, memory, probe, rights, cpu, room)
}
