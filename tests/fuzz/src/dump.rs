//! A damaged dump of a framework's memory: reading it ends and has bounded output, and `dtrace` shows the result without an
//! error of its own. It executes no action of the programs in the dump.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use arbitrary::{Arbitrary, Unstructured};
use dtrace_abi::Platform;
use dtrace_abi::option::OptionId;
use dtrace_abi::postmortem::{CpuNote, Header, Note, Session, check};
use dtrace_abi::reader::Reader;
use dtrace_compiler::options::Options;
use dtrace_compiler::surroundings::EveryProbe;
use dtrace_compiler::{Compiler, Source, dof};
use dtrace_consumer::consume::{self, Recorded};
use dtrace_consumer::{Client, Interrupt, Job, postmortem};
use rustix::fs::{MemfdFlags, memfd_create};
use sdt_core::ops::{Framework as _, Privileges, ProviderAttr, ProviderOps};
use sdt_framework::{Config, Dtrace};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;

use crate::counted::Counted;
use crate::server::{CPU, Machine, Small};

/// Bytes of the memory.
const BYTES: usize = 64 << 10;
const CONFIG: Config = Config { providers: 2, probes: 4, ecbs: 8, consumers: 2, buffer: 512 };

/// A change of the dump.
#[derive(Debug, Arbitrary)]
struct Damage {
    /// Whether the checksums of damaged structures are correct again.
    is_sealed: bool,
    /// Words that are replaced.
    words: Vec<(Place, Value)>,
    /// The part of the dump that remains, in 256ths.
    cut: Option<u8>,
}

/// The position of a word.
#[derive(Debug, Arbitrary)]
enum Place {
    /// In the header.
    Header(u8),
    /// In the description of the consumer: its session, its notes or those of the CPUs.
    Session(u8),
    /// Anywhere, counted from the header.
    Any(u16),
}

/// The new value of a word.
#[derive(Debug, Arbitrary)]
enum Value {
    Any(u64),
    Small(u8),
    /// The value of another word.
    Of(Place),
    Flipped(u8),
}

const TEXT: &[u8] = b"p:::one { printf(\"%d %s\\n\", arg0, probename); @a[arg0 % 3] = count(); @b = quantize(arg0); }
    p:::two { trace(arg0); @c[probename] = avg(arg0); }
    p:::one /arg0 % 8 == 0/ { system(\"touch %d\", arg0); freopen(\"made\"); ftruncate(); setopt(\"quiet\"); clear(@c); }
    p:::two /arg0 == 98/ { exit(7); }";

/// The memory of a framework that has been recording into rings.
fn memory() -> &'static [u8] {
    static MEMORY: OnceLock<Vec<u8>> = OnceLock::new();
    MEMORY.get_or_init(|| {
        let memory: &'static mut [u64] = vec![0; BYTES / 8].leak();
        let bytes = memory.as_mut_ptr().cast::<std::mem::MaybeUninit<u8>>();
        let dtrace: &'static Small = Box::leak(Box::new(Dtrace::new(Machine(AtomicU64::new(1)))));
        // SAFETY: only the framework uses the memory, which is leaked.
        let over = unsafe { std::slice::from_raw_parts_mut(bytes, BYTES) };
        dtrace.init(over, &CONFIG).expect("it is enough");
        let null = std::ptr::null_mut();
        // SAFETY: the ops do nothing.
        let provider = unsafe {
            dtrace.register(c"p", &ProviderAttr::SDT, Privileges::USER, &ProviderOps::INERT, null)
        }
        .expect("there is room for a provider");
        let ids = [c"one", c"two"].map(|name| {
            // SAFETY: the ops do not look at the pointer.
            unsafe { dtrace.probe_create(provider, c"m", c"f", name, 1, null) }
                .expect("there is room for two probes")
        });
        let mut options = Options::default();
        for (name, value) in
            [("bufpolicy", "ring"), ("bufsize", "1k"), ("aggsize", "4k"), ("strsize", "16")]
        {
            options.set(name, Some(value)).expect("options are as they are");
        }
        options.put(OptionId::Destructive, 0);
        let mut compiler = Compiler::new(Platform::Freebsd, options);
        let program = compiler.compile(Source::file(TEXT), &EveryProbe).expect("it is right");
        let dof = dof::anonymous(std::iter::once(&program), None, compiler.options())
            .expect("it is short");
        dtrace.enable_anonymously(&dof).expect("there is room");
        for times in 0..100 {
            CPU.set(times % crate::server::CPUS);
            dtrace.probe(ids[times % 3 / 2], &[times as u64; 6]);
        }
        // SAFETY: the memory was zeroed when it was allocated, and no code writes to it any more.
        unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), BYTES) }.to_vec()
    })
}

/// The structures with checksums, in the sound dump.
struct Sealed {
    session: usize,
    notes: Range<usize>,
    cpus: Range<usize>,
}

impl Sealed {
    /// Returns the structures of the only consumer.
    fn of(memory: &[u8]) -> Self {
        let header = Header::read(&mut Reader::new(memory)).expect("the memory has a header");
        let mut sessions = (0..header.consumers as usize).filter_map(|consumer| {
            let at = header.consumers_at as usize + 16 * consumer;
            (word(memory, at) != 0).then(|| word(memory, at + 8) as usize)
        });
        let session = sessions.next_back().expect("the program was enabled");
        let of = Session::read(&mut Reader::new(&memory[session..])).expect("it is whole");
        let (notes, cpus) = (of.notes_at as usize, of.cpus_at as usize);
        Self {
            session,
            notes: notes..notes + of.notes as usize * Note::SIZE,
            cpus: cpus..cpus + header.cpus as usize * CpuNote::SIZE,
        }
    }

    /// Returns the offset of a word.
    fn place(&self, place: &Place) -> usize {
        let words = |range: &Range<usize>| range.clone().step_by(8);
        match place {
            Place::Header(at) => usize::from(*at) % (Header::SIZE / 8) * 8,
            Place::Session(at) => {
                let session = self.session..self.session + Session::SIZE;
                let all = words(&session).chain(words(&self.notes)).chain(words(&self.cpus));
                all.clone().nth(usize::from(*at) % all.count()).expect("the session has words")
            }
            Place::Any(at) => usize::from(*at) % (BYTES / 8) * 8,
        }
    }

    /// Corrects the checksums.
    fn seal(&self, memory: &mut [u8]) {
        let header = Header::read(&mut Reader::new(memory)).expect("it is as long as before");
        memory[..Header::SIZE].copy_from_slice(&header.sealed().to_bytes());
        let end = self.session + Session::SIZE - 8;
        let parts = [self.session..end, self.notes.clone(), self.cpus.clone()];
        let sum = check(parts.map(|part| &memory[part]));
        memory[end..end + 8].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Returns the word at an offset.
fn word(memory: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(memory[at..at + 8].try_into().expect("a word"))
}

/// Runs the target.
///
/// # Panics
/// A sound dump cannot be shown, or the output exceeds its bound.
pub fn run(input: &[u8]) {
    let Ok(damage) = Damage::arbitrary_take_rest(Unstructured::new(input)) else { return };
    let mut bytes = memory().to_vec();
    let sealed = Sealed::of(&bytes);
    let is_sound = damage.words.is_empty() && damage.cut.is_none();
    for (place, value) in &damage.words {
        let at = sealed.place(place);
        let value = match value {
            Value::Any(value) => *value,
            Value::Small(value) => (*value).into(),
            Value::Of(other) => word(&bytes, sealed.place(other)),
            Value::Flipped(bit) => word(&bytes, at) ^ 1 << (bit % 64),
        };
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    if damage.is_sealed {
        sealed.seal(&mut bytes);
    }
    bytes.truncate(BYTES / 256 * damage.cut.map_or(256, usize::from));
    let file = File::from(memfd_create("dump", MemfdFlags::CLOEXEC).expect("memory"));
    file.write_all_at(&bytes, 0).expect("memory");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let dump = match postmortem::read(path.as_ref()) {
        Ok(dump) => dump,
        Err(error) => {
            assert!(!is_sound, "{error}");
            return;
        }
    };
    // One byte can become a whole line, and a quantised aggregation many lines.
    let mut output = Counted::up_to(4096 * BYTES);
    assert!(!is_sound || dump.complaints.is_empty(), "{:?}", dump.complaints);
    for traced in dump.consumers {
        let client = Client::connect(postmortem::Line::new(traced.clone())).expect("it answers");
        let job = Job { claim: true, ..Job::default() };
        let shown = consume::run(client, &job, &Interrupt::new(), &mut Recorded, &mut output);
        if is_sound {
            // The status is not that of the traced program.
            assert_eq!(shown.expect("a sound dump is shown"), 0);
            assert!(
                traced.complaints.is_empty() && output.bytes() > 1000,
                "{:?}",
                traced.complaints
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealing_accepts_damage() {
        let mut bytes = memory().to_vec();
        let sealed = Sealed::of(&bytes);
        sealed.seal(&mut bytes);
        assert!(bytes == memory());
        let is_whole =
            |bytes: &[u8]| Header::read(&mut Reader::new(bytes)).is_ok_and(|of| of.is_whole());
        bytes[sealed.place(&Place::Header(6))] ^= 1;
        assert!(!is_whole(&bytes));
        sealed.seal(&mut bytes);
        assert!(is_whole(&bytes));
    }
}
