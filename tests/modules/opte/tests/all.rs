//! All 47 probes are listed with their types, and each hit has the arguments that were passed.

use std::ffi::{CStr, c_char};
use std::ptr::with_exposed_provenance;
use std::sync::Mutex;

use sdt_core::ops::{ARGS, ProbeId};
use sdt_core::patch::Mode;
use xde_probes::fire::{ALL, Packet, all};
use xde_probes::types::Labels;

/// Checks the values of an argument's words.
type Holds = Box<dyn Fn(&[u64])>;

/// The expected C types of an argument, and the check of its words.
struct Expected {
    types: &'static [&'static str],
    holds: Holds,
}

fn word(c_type: &'static [&'static str; 1], value: u64) -> Expected {
    let holds = move |words: &[u64]| assert_eq!(words, [value]);
    Expected { types: c_type, holds: Box::new(holds) }
}

fn place<T: ?Sized>(c_type: &'static [&'static str; 1], of: &T) -> Expected {
    word(c_type, std::ptr::from_ref(of).cast::<()>() as u64)
}

fn extent<T: ?Sized>(types: &'static [&'static str; 2], of: &T, len: usize) -> Expected {
    let at = std::ptr::from_ref(of).cast::<()>() as u64;
    let holds = move |words: &[u64]| assert_eq!(words, [at, len as u64]);
    Expected { types, holds: Box::new(holds) }
}

fn maybe(types: &'static [&'static str; 2], value: Option<u64>) -> Expected {
    let words = value.map_or([0, 0], |value| [value, 1]);
    Expected { types, holds: Box::new(move |got| assert_eq!(got, words)) }
}

/// Returns the C string at an address. Safety: it stays valid while the probe fires.
unsafe fn text<'a>(at: u64) -> &'a str {
    // SAFETY: the caller guarantees that a C string is at this address.
    unsafe { CStr::from_ptr(with_exposed_provenance::<c_char>(at as usize)) }.to_str().unwrap()
}

fn said(what: &str) -> Expected {
    let what = what.to_owned();
    // SAFETY: this is called while the probe fires, whose argument is a C string.
    let holds = move |words: &[u64]| assert_eq!(unsafe { text(words[0]) }, what);
    Expected { types: &["char * > string"], holds: Box::new(holds) }
}

fn labels<const MOST: usize>(
    c_type: &'static [&'static str; 1],
    expected: &'static [&'static str],
    more: bool,
) -> Expected {
    let holds = move |words: &[u64]| {
        // SAFETY: this is called while the probe fires, whose argument is the address of the labels.
        let labels = unsafe { &*with_exposed_provenance::<Labels<MOST>>(words[0] as usize) };
        assert_eq!((labels.len, labels.more), (expected.len(), more));
        for (entry, expected) in labels.entries.iter().zip(expected) {
            // SAFETY: the labels contain static C strings.
            assert_eq!(unsafe { text(entry.expose_provenance() as u64) }, *expected);
        }
    };
    Expected { types: c_type, holds: Box::new(holds) }
}

const DIRECTION: &[&str; 1] = &["enum direction"];
const FLOW: &[&str; 1] = &["struct flow_id *"];
const CHARS: &[&str; 1] = &["char *"];
const TEXT: &[&str; 2] = &["char * > string", "size_t > size_t"];
const BYTES: &[&str; 2] = &["uint8_t * > string", "size_t > size_t"];
const NUMBER: &[&str; 1] = &["uint64_t"];
const MBLK: &[&str; 1] = &["mblk_t *"];
const IP6: &[&str; 1] = &["struct ip6 *"];
const FAMILY: &[&str; 1] = &["enum opte_af"];
const VNI: &[&str; 1] = &["uint32_t"];
const STATE: &[&str; 1] = &["enum tcp_state"];
const PORT: &[&str; 1] = &["uint16_t"];
const LEN: &[&str; 1] = &["size_t"];
const ENTROPY: &[&str; 2] = &["uint16_t", "_Bool"];
const CACHE: &[&str; 1] = &["void *"];
const ETHER: &[&str; 1] = &["uint8_t *"];
const MODE: &[&str; 1] = &["enum filter_mode"];

/// Returns the arguments of each probe for a packet, in the order in which the probes fire.
fn expected(p: &Packet) -> Vec<(&'static str, &'static str, Vec<Expected>)> {
    let (dir_in, dir_out) = (|| word(DIRECTION, 1), || word(DIRECTION, 2));
    let port = || place(CHARS, p.port);
    let layer = || place(CHARS, p.layer);
    let before = || place(FLOW, &p.before);
    let after = || place(FLOW, &p.after);
    let number = |n| word(NUMBER, n);
    let mblk = || place(MBLK, &p.mblk);
    let name = || extent(TEXT, p.name, 5);
    let layer_name = || extent(TEXT, p.layer_name, 8);
    let v4 = || word(FAMILY, 2);
    let group = || extent(BYTES, &p.group, 4);
    let vni = || word(VNI, 77);
    let underlay = || place(IP6, &p.underlay);
    let error = || said(&format!("truncated at byte {}", p.n));
    let debug = || said(&format!("ParseError {{ offset: {} }}", p.n));
    let cache = || place(CACHE, &p.cache);
    let entropy = |value| maybe(ENTROPY, value);
    vec![
        ("opte", "flow-expired", vec![port(), layer(), before(), number(p.n), number(p.n + 1)]),
        ("opte", "ft-entry-invalidated", vec![dir_in(), port(), layer(), before(), number(p.n)]),
        ("opte", "gen-desc-fail", vec![port(), layer(), dir_out(), before(), error()]),
        ("opte", "gen-ht-fail", vec![port(), layer(), dir_in(), after(), debug()]),
        ("opte", "layer-process-entry", vec![dir_out(), port(), layer(), before()]),
        (
            "opte",
            "layer-process-return",
            vec![
                dir_in(),
                port(),
                layer(),
                before(),
                after(),
                labels::<2>(&["struct labels_2 *"], &["ok"], false),
            ],
        ),
        ("opte", "rule-match", vec![name(), layer_name()]),
        ("opte", "rule-no-match", vec![layer_name(), name()]),
        ("opte", "rule-deny", vec![port(), layer(), dir_out(), after()]),
        ("opte", "ht-run", vec![before(), after()]),
        ("opte", "port-process-entry", vec![dir_in(), port(), before(), number(p.n), mblk()]),
        (
            "opte",
            "port-process-return",
            vec![
                dir_in(),
                port(),
                before(),
                after(),
                number(p.n),
                mblk(),
                place(MBLK, &p.hp),
                labels::<2>(&["struct labels_2 *"], &["a", "b"], true),
                word(&["enum path"], if p.n & 1 == 0 { 2 } else { 1 }),
            ],
        ),
        ("opte", "uft-hit", vec![dir_in(), port(), before(), number(p.n), number(p.n + 2)]),
        ("opte", "uft-invalidate", vec![dir_out(), port(), before(), number(p.n)]),
        ("opte", "uft-tcp-closed", vec![dir_in(), port(), after()]),
        ("opte", "tcp-err", vec![dir_in(), port(), before(), mblk(), error()]),
        ("opte", "tcp-flow-state", vec![port(), before(), word(STATE, 1), word(STATE, 2)]),
        (
            "opte",
            "tcp-flow-drop",
            vec![port(), before(), word(STATE, 0), dir_out(), word(&["uint8_t"], 0x12)],
        ),
        (
            "xde",
            "bad-packet",
            vec![
                port(),
                dir_in(),
                mblk(),
                labels::<8>(&["struct labels_8 *"], &["parse", "ip6"], false),
                word(LEN, 1500),
            ],
        ),
        ("xde", "guest-loopback", vec![mblk(), before(), word(PORT, 80), word(PORT, 443)]),
        ("xde", "copy-out-resp", vec![debug()]),
        ("xde", "hdlr-resp", vec![error()]),
        ("xde", "set-error", vec![word(&["int"], -(p.n as i64) as u64)]),
        (
            "xde",
            "next-hop",
            vec![
                place(&["struct ip6 * > ip6info_t *"], &p.dst),
                underlay(),
                place(ETHER, &p.ether[0]),
                place(ETHER, &p.ether[1]),
                if p.n & 1 == 0 {
                    Expected { types: CHARS, ..said("no route") }
                } else {
                    word(CHARS, 0)
                },
            ],
        ),
        ("xde", "routecache-full", vec![cache(), place(IP6, &p.dst), entropy(None)]),
        ("xde", "routecache-hit", vec![cache(), place(IP6, &p.dst), entropy(Some(p.n))]),
        ("xde", "routecache-insert", vec![cache(), place(IP6, &p.dst), entropy(Some(0))]),
        ("xde", "routecache-refresh", vec![cache(), place(IP6, &p.src), entropy(None)]),
        ("xde", "routecache-delete", vec![cache(), place(IP6, &p.src), entropy(Some(p.n))]),
        ("xde", "mcast-tx", vec![v4(), group(), vni()]),
        ("xde", "mcast-rx", vec![word(FAMILY, 26), extent(BYTES, &p.dst, 16), word(VNI, 78)]),
        ("xde", "mcast-local-delivery", vec![v4(), group(), vni(), name()]),
        ("xde", "mcast-underlay-fwd", vec![v4(), group(), vni(), underlay()]),
        ("xde", "mcast-external-fwd", vec![v4(), group(), vni(), underlay()]),
        ("xde", "mcast-map-set", vec![v4(), group(), underlay(), vni()]),
        ("xde", "mcast-map-clear", vec![v4(), group(), underlay(), vni()]),
        ("xde", "mcast-fwd-set", vec![underlay(), word(LEN, p.n), vni()]),
        ("xde", "mcast-fwd-clear", vec![underlay(), vni()]),
        ("xde", "mcast-subscribe", vec![name(), v4(), group(), vni()]),
        ("xde", "mcast-unsubscribe", vec![name(), v4(), group(), vni()]),
        ("xde", "mcast-unsubscribe-all", vec![v4(), group(), vni()]),
        ("xde", "mcast-tx-pullup-fail", vec![word(LEN, 1500)]),
        ("xde", "mcast-rx-pullup-fail", vec![word(LEN, 60)]),
        ("xde", "mcast-tx-no-inner-ip", vec![mblk()]),
        ("xde", "mcast-no-fwd-entry", vec![underlay(), vni()]),
        (
            "xde",
            "mcast-source-filtered",
            vec![
                word(FAMILY, 26),
                place(IP6, &p.src),
                place(IP6, &p.dst),
                vni(),
                port(),
                word(MODE, 0),
            ],
        ),
        (
            "xde",
            "mcast-fwd-source-filtered",
            vec![
                word(FAMILY, 26),
                place(IP6, &p.src),
                place(IP6, &p.dst),
                vni(),
                underlay(),
                word(MODE, 1),
            ],
        ),
    ]
}

/// The expected arguments of each probe, by its id.
static EXPECTED: Mutex<Vec<(ProbeId, Vec<CheckedArgument>)>> = Mutex::new(Vec::new());

/// The number of words, and the values that they must have.
struct CheckedArgument(usize, Holds);

// SAFETY: the value contains numbers and addresses, which are compared and not dereferenced.
unsafe impl Send for CheckedArgument {}

fn check(id: u32, args: &[u64; ARGS]) {
    let expected = EXPECTED.lock().unwrap();
    let (_, arguments) = expected.iter().find(|(of, _)| of.get() == id).expect("it is known");
    let mut rest = &args[..];
    for CheckedArgument(count, holds) in arguments {
        let (words, behind) = rest.split_at(*count);
        holds(words);
        rest = behind;
    }
    assert!(rest.iter().all(|&word| word == 0), "probe {id}: {args:x?}");
}

#[test]
fn all_are_listed_with_their_types_and_carry_what_they_are_given() {
    let recorder = recording_host::attach(Mode::Trap);
    assert_eq!(ALL.len(), 47);
    assert_eq!(recorder.names().len(), 47);
    for n in [6, 7] {
        let packet = Packet::new(n);
        let all_expected = expected(&packet);
        let names: Vec<_> = all_expected.iter().map(|&(p, name, _)| (p, name)).collect();
        let declared: Vec<_> = ALL.iter().map(|(p, name)| (*p, name.replace('_', "-"))).collect();
        assert!(names.iter().copied().eq(declared.iter().map(|(p, name)| (*p, name.as_str()))));
        EXPECTED.lock().unwrap().clear();
        for (provider, name, arguments) in all_expected {
            let id = recorder.find(provider, name).unwrap();
            let types: Vec<_> = arguments.iter().flat_map(|of| of.types).copied().collect();
            assert_eq!(recorder.types(id), types, "{provider}:::{name}");
            let checked = arguments.into_iter().map(|of| CheckedArgument(of.types.len(), of.holds));
            EXPECTED.lock().unwrap().push((id, checked.collect()));
            recorder.enable(id);
        }
        *recorder.hook.write().unwrap() = Some(check);
        all(&packet);
        *recorder.hook.write().unwrap() = None;
        for (id, _) in EXPECTED.lock().unwrap().iter() {
            assert_eq!(recorder.hits(*id), n - 5, "{:?}", recorder.entry(*id));
            recorder.disable(*id);
        }
    }
    // While the probes are disabled.
    all(&Packet::new(8));
    assert!(EXPECTED.lock().unwrap().iter().all(|(id, _)| recorder.hits(*id) == 2));
}
