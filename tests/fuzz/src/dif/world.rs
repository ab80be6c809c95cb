//! A kernel of a little memory, and room for a consumer's programs.

use std::sync::atomic::AtomicU32;

use dtrace_abi::Platform;
use sdt_framework::kernel::{Kernel, LockQuestion, Number, Text};
use sdt_framework::testing::{
    self, Access, Declarations, Declared, Dynamic, Firing, Memory, PerCpu, Probe, Statics, Word,
};

/// The address of the kernel's memory; no memory follows it.
pub const KERNEL: u64 = 0xffff_8000_0000_1000;
/// The start of the process's memory.
pub const USER: u64 = 0x1000;
/// The toxic range of the kernel's memory.
pub const TOXIC: std::ops::Range<u64> = KERNEL + 100..KERNEL + 110;
/// Bytes of a string.
pub const STRING: u32 = 24;
/// Bytes of scratch space.
pub const SCRATCH: usize = 512;
/// Words of a chunk.
pub const CHUNK: usize = 24;
/// The number of chunks.
pub const CHUNKS: usize = 6;
/// The arguments that the probe brings.
pub const ARGS: [u64; 6] = [KERNEL, KERNEL + 3, USER, 7, u64::MAX, 1 << 63];

/// The kernel.
#[derive(Debug)]
pub struct World {
    pub kernel: Vec<u8>,
    pub user: Vec<u8>,
}

impl Default for World {
    fn default() -> Self {
        let text = b"/usr//bin/./x\0a.b.c\0\0The quick brown fox\xff\x80\0 -0x1F 42\0".repeat(4);
        Self { kernel: text.clone(), user: text }
    }
}

pub fn load(bytes: &[u8], start: u64, address: u64, into: &mut [u8]) -> bool {
    let from = address.checked_sub(start).and_then(|at| bytes.get(usize::try_from(at).ok()?..));
    from.and_then(|from| from.get(..into.len())).is_some_and(|from| {
        into.copy_from_slice(from);
        true
    })
}

impl Kernel for World {
    fn timestamp(&self) -> u64 {
        123_456_789
    }

    fn load(&self, address: u64, into: &mut [u8]) -> bool {
        load(&self.kernel, KERNEL, address, into)
    }

    fn is_toxic(&self, address: u64, length: u64) -> bool {
        address < TOXIC.end && TOXIC.start < address.saturating_add(length)
    }

    fn aligned(&self) -> bool {
        false
    }

    fn thread(&self) -> u64 {
        77
    }

    fn number(&self, which: Number) -> Option<u64> {
        (which != Number::Ucaller).then(|| which as u64 + 1000)
    }

    fn text(&self, which: Text) -> Option<&[u8]> {
        (which != Text::Jailname).then_some(b"init")
    }

    fn argument(&self, index: u64) -> u64 {
        index.wrapping_mul(3)
    }

    fn user_register(&self, index: u64) -> Option<u64> {
        (index < 8).then(|| index + 50)
    }

    fn copyin(&self, address: u64, into: &mut [u8]) -> bool {
        load(&self.user, USER, address, into)
    }

    fn copyout(&self, from: &[u8], address: u64) -> bool {
        load(&self.user, USER, address, &mut vec![0; from.len()])
    }

    fn lock(&self, question: LockQuestion, address: u64) -> Option<u64> {
        (question != LockQuestion::RwIswriter).then_some(address ^ 1)
    }

    fn progenyof(&self, process: u64) -> Option<bool> {
        Some(process == 1)
    }

    fn speculation(&self) -> Option<u64> {
        Some(1)
    }
}

/// The names of the probe.
const NAMES: [&[u8]; 4] = [b"prov", b"mod", b"", b"name"];

/// All parts of a consumer's memory.
#[derive(Debug)]
pub struct Room {
    literals: Vec<Word>,
    statics: [(Vec<Word>, Vec<Word>); 2],
    links: [Vec<AtomicU32>; 3],
    chunks: Vec<Word>,
    cpus: [PerCpu; 1],
    tables: [[Declared; 16]; 3],
    machine: Machine,
}

/// The state that hits use.
#[derive(Debug)]
pub struct Machine {
    scratch: Vec<u8>,
    key: Vec<u64>,
}

impl Machine {
    pub fn firing<'a>(
        &'a mut self,
        world: &'a World,
        memory: &'a Memory<'a>,
        rights: Access,
    ) -> Firing<'a, World> {
        let room = testing::Room { scratch: &mut self.scratch, key: &mut self.key };
        let probe = Probe { id: 9, names: &NAMES, args: &ARGS };
        Firing::new(world, memory, probe, rights, 0, room)
    }

    pub fn scratch(&self) -> &[u8] {
        &self.scratch
    }
}

fn words(count: usize) -> Vec<Word> {
    (0..count).map(|_| Word::new()).collect()
}

impl Default for Room {
    fn default() -> Self {
        let links = |count| (0..count).map(|_| AtomicU32::new(0)).collect();
        Self {
            literals: words(512),
            statics: std::array::from_fn(|_| (words(16), words(64))),
            links: [links(3), links(CHUNKS), links(CHUNKS)],
            chunks: words(CHUNK * CHUNKS),
            cpus: [PerCpu::new()],
            tables: [[Declared::NONE; 16]; 3],
            machine: Machine { scratch: vec![0; SCRATCH], key: vec![0; CHUNK] },
        }
    }
}

impl Room {
    pub fn with<R>(
        &mut self,
        f: impl FnOnce(&Memory<'_>, &mut Declarations<'_>, &mut Machine) -> R,
    ) -> R {
        let Self { literals, statics, links, chunks, cpus, tables, machine } = self;
        let [globals, locals] = &*statics;
        let [buckets, chain, list] = &*links;
        let memory = Memory {
            literals,
            globals: Statics { extents: &globals.0, words: &globals.1, copies: 1 },
            locals: Statics { extents: &locals.0, words: &locals.1, copies: 1 },
            dynamic: Dynamic::new(buckets, chain, list, chunks, CHUNK, cpus),
            string_size: STRING,
        };
        let [one, two, three] = tables;
        let mut declarations = Declarations::new(Platform::Freebsd, &memory, one, two, three);
        f(&memory, &mut declarations, machine)
    }
}
