//! Declarations of modules, and symbols by name, over a line: split into pieces, and with the rights of the consumer.
#![cfg(feature = "server")]

use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::mem::MaybeUninit;

use dtrace_protocol::{Decoder, Header, Reply, Request, VERSION, Why, Writer};
use recording_host::cpus::Uniprocessor;
use sdt_core::ops::{Framework as _, Privileges, ProbeDesc, ProviderAttr, ProviderOps};
use sdt_framework::kernel::{Kernel, ModuleText, Symbol};
use sdt_framework::server::{Lost, MIN_FRAME, NoSites, Server, Stream};
use sdt_framework::{Config, Dtrace, Rights};

/// A kernel with modules.
struct Modules;

type Small = Dtrace<Uniprocessor<Modules>>;

thread_local! {
    /// Whether the host is passing a module to `show`. A host may hold the lock of its table of modules then.
    static SHOWING: Cell<bool> = const { Cell::new(false) };
    /// Whether the op `provide` was called meanwhile. If such an op used the table of modules, it would wait for ever.
    static DISTURBED: Cell<bool> = const { Cell::new(false) };
    /// The number of requests.
    static ASKED: Cell<u32> = const { Cell::new(0) };
}

unsafe extern "C" fn provide(_: *mut c_void, _: *const ProbeDesc) {
    ASKED.set(ASKED.get() + 1);
    DISTURBED.set(DISTURBED.get() || SHOWING.get());
}

const OPS: ProviderOps = ProviderOps { provide: Some(provide), ..ProviderOps::INERT };

/// A line of a module's text, with the suffixes that an assembler adds to names.
const LINE: &str = "struct\tstruct s\t8\t8\0\0\0\0\n";
const LINES: usize = 200;

impl Kernel for Modules {
    fn timestamp(&self) -> u64 {
        0
    }

    fn load(&self, _address: u64, _into: &mut [u8]) -> bool {
        false
    }

    fn symbol_named(&self, module: Option<&[u8]>, name: &[u8], show: &mut dyn FnMut(Symbol<'_>)) {
        if name == b"hz" && module.is_none_or(|module| module == b"open") {
            show(Symbol { module: b"open", name, address: 0x1000, size: 4 });
        }
    }

    fn declared(&self, index: usize, show: &mut dyn FnMut(ModuleText<'_>)) {
        let text = LINE.repeat(LINES);
        SHOWING.set(true);
        match index {
            0 => show(ModuleText { module: b"open", text: text.as_bytes() }),
            1 => show(ModuleText { module: b"closed", text: text.as_bytes() }),
            2 => show(ModuleText { module: b"empty", text: b"" }),
            // A name that, taken as a pattern, matches every module.
            3 => show(ModuleText { module: b"*", text: text.as_bytes() }),
            _ => {}
        }
        SHOWING.set(false);
    }
}

/// A framework with a probe in each of two modules. All consumers that may trace processes can use one of the probes.
fn dtrace() -> &'static Small {
    // SAFETY: each test has a framework of its own, which one thread calls.
    let cpu = unsafe { Uniprocessor::with(Modules) };
    let dtrace = Box::leak(Box::new(Dtrace::new(cpu)));
    let config = Config { providers: 4, probes: 8, ecbs: 8, ..Config::DEFAULT };
    let memory: &'static mut [MaybeUninit<u8>] =
        Box::leak(Box::new_uninit_slice(config.memory::<Uniprocessor<Modules>>(1, 2)));
    dtrace.init(memory, &config).unwrap();
    for (name, module, privileges) in
        [(c"user", c"open", Privileges::USER), (c"kernel", c"closed", Privileges::KERNEL)]
    {
        let null = std::ptr::null_mut();
        // SAFETY: the ops accept any pointer, and are static.
        let provider =
            unsafe { dtrace.register(name, &ProviderAttr::SDT, privileges, &OPS, null) }.unwrap();
        // SAFETY: the ops accept any pointer, and are static.
        unsafe { dtrace.probe_create(provider, module, c"f", c"n", 0, null) }.unwrap();
    }
    dtrace
}

#[derive(Default)]
struct Line {
    arriving: VecDeque<u8>,
    sent: Vec<u8>,
}

impl Stream for Line {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Lost> {
        let length = buffer.len().min(self.arriving.len());
        buffer.iter_mut().zip(self.arriving.drain(..length)).for_each(|(to, from)| *to = from);
        Ok(length)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        self.sent.extend(bytes);
        Ok(bytes.len())
    }
}

struct Asking {
    server: Server<'static, MIN_FRAME, 2>,
    line: Line,
}

impl Asking {
    fn with(rights: Rights) -> Self {
        let server = Server::new(dtrace(), &NoSites, rights);
        let mut asking = Self { server, line: Line::default() };
        asking.ask(Request::Hello { version: VERSION }, |reply| {
            assert!(matches!(reply, Reply::Hello { .. }));
        });
        asking
    }

    fn ask<R>(&mut self, request: Request<'_>, show: impl Fn(Reply<'_>) -> R) -> R {
        let (mut buffer, mut line) = ([0; 512], [0; 600]);
        let header = Header { channel: 1, seq: 3 };
        let frame = Writer::new(&mut buffer, header, &request).unwrap();
        let length = frame.seal(&mut line).unwrap();
        self.line.arriving.extend(&line[..length]);
        while self.server.step(&mut self.line).unwrap() {}
        let mut decoder = Decoder::new([0; MIN_FRAME]);
        for byte in std::mem::take(&mut self.line.sent) {
            if let Some(frame) = decoder.push(byte) {
                let frame = frame.unwrap();
                let (reply, _) = frame.message().unwrap();
                return show(reply);
            }
        }
        panic!("{request:?} was not answered");
    }

    /// Returns the name of a module, its whole text, and the number of pieces.
    fn declared(&mut self, index: u32) -> Option<(String, Vec<u8>, usize)> {
        let (mut text, mut at, mut pieces) = (Vec::new(), 0, 0);
        loop {
            let request = Request::Declared { index, at };
            let (module, more, next, end) = self.ask(request, |reply| {
                let Reply::Declared(found) = reply else { panic!("{reply:?}") };
                let found = found?;
                let module = String::from_utf8(found.module.to_vec()).unwrap();
                Some((module, found.text.to_vec(), found.next, found.end))
            })?;
            text.extend(more);
            pieces += 1;
            if next == end {
                return Some((module, text, pieces));
            }
            assert!(next > at && next < end);
            at = next;
        }
    }
}

#[test]
fn texts_come_in_pieces_without_nuls() {
    let mut asking = Asking::with(Rights::ALL);
    let whole = LINE.replace('\0', "").repeat(LINES).into_bytes();
    for (index, name) in [(0, "open"), (1, "closed")] {
        let (module, text, pieces) = asking.declared(index).unwrap();
        assert_eq!((&*module, &text), (name, &whole));
        assert!(pieces > 5, "{pieces}");
    }
    assert_eq!(asking.declared(2), Some(("empty".into(), Vec::new(), 1)));
    assert_eq!(asking.declared(4), None);
    // A request for a position after the end returns no text.
    asking.ask(Request::Declared { index: 0, at: u32::MAX }, |reply| match reply {
        Reply::Declared(Some(found)) => assert!(found.text.is_empty() && found.next == found.end),
        other => panic!("{other:?}"),
    });
}

#[test]
fn a_module_is_there_for_who_may_use_a_probe_of_it() {
    let mut asking = Asking::with(Rights::new(Privileges::USER));
    assert!(!asking.declared(0).unwrap().1.is_empty());
    // The answers show neither the names of the other modules nor the lengths of their texts, for any position.
    for index in [1, 2, 3] {
        assert_eq!(asking.declared(index), Some((String::new(), Vec::new(), 1)));
        asking.ask(Request::Declared { index, at: 7 }, |reply| match reply {
            Reply::Declared(Some(found)) => assert_eq!((found.next, found.end), (7, 7)),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(asking.declared(4), None);
    assert!(ASKED.get() > 0 && !DISTURBED.get(), "{}", ASKED.get());
    asking.ask(Request::SymbolNamed { module: "", name: "hz" }, |reply| match reply {
        Reply::Refused { why, .. } => assert_eq!(why, Why::NotPermitted),
        other => panic!("{other:?}"),
    });
}

#[test]
fn symbols_have_names() {
    let mut asking = Asking::with(Rights::ALL);
    let mut address = |module, name| {
        asking.ask(Request::SymbolNamed { module, name }, |reply| match reply {
            Reply::Symbol(symbol) => symbol.map(|symbol| (symbol.address, symbol.size)),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(address("", "hz"), Some((0x1000, 4)));
    assert_eq!(address("open", "hz"), Some((0x1000, 4)));
    assert_eq!((address("other", "hz"), address("", "nosuch")), (None, None));
}
