//! The types that the probes carry: those of a packet filter, written anew in the shapes of OPTE's types.

use core::ffi::{CStr, c_char};
use core::fmt;

use sdt_core::arg::{Argument, CType};

/// The direction of a packet.
#[derive(Clone, Copy, Debug, Argument)]
#[repr(u8)]
pub enum Direction {
    /// To the guest.
    In = 1,
    /// From the guest.
    Out = 2,
}

/// A state of a TCP connection.
#[derive(Clone, Copy, Debug, Argument)]
pub enum TcpState {
    /// No connection.
    Closed,
    /// A SYN has been sent.
    SynSent,
    /// Data can be sent.
    Established,
}

/// An address family, by illumos's numbers.
#[derive(Clone, Copy, Debug, Argument)]
#[c_name = "enum opte_af"]
pub enum Family {
    /// `AF_INET`.
    #[c_name = "OPTE_AF_INET"]
    V4 = 2,
    /// `AF_INET6`.
    #[c_name = "OPTE_AF_INET6"]
    V6 = 26,
}

/// The sources of a multicast group that are accepted.
#[derive(Clone, Copy, Debug, Argument)]
pub enum FilterMode {
    /// The listed ones.
    Include,
    /// All others.
    Exclude,
}

/// The way in which a packet was processed.
#[derive(Clone, Copy, Debug, Argument)]
pub enum Path {
    /// By a known flow.
    Fast = 1,
    /// By the rules.
    Slow,
}

/// The number of a virtual network.
#[derive(Clone, Copy, Debug, Argument)]
pub struct Vni(pub u32);

/// A port of TCP or UDP.
#[derive(Clone, Copy, Debug, Argument)]
pub struct Port(pub u16);

/// An address of IPv6. For D `struct ip6`, to be given to `inet_ntoa6`.
#[derive(Clone, Copy, Debug, CType)]
#[repr(C)]
pub struct Ip6 {
    /// In the order of the wire.
    pub octets: [u8; 16],
}

/// Source and destination, an enum with data: for D `union addr_pair`, whose tag selects the valid member.
#[derive(Clone, Copy, Debug, CType)]
#[repr(C, u16)]
pub enum AddrPair {
    /// Of IPv4.
    V4 {
        /// The source.
        src: [u8; 4],
        /// The destination.
        dst: [u8; 4],
    } = 2,
    /// Of IPv6.
    V6 {
        /// The source.
        src: Ip6,
        /// The destination.
        dst: Ip6,
    } = 26,
}

/// The addresses, ports and protocol that identify a flow.
#[derive(Clone, Copy, Debug, CType)]
#[repr(C, align(4))]
pub struct FlowId {
    /// IP's number of the protocol.
    pub proto: u8,
    /// The addresses.
    pub addrs: AddrPair,
    /// Data of the protocol, such as the ports.
    pub info: [u16; 2],
}

/// The layers of an error as words, the outermost first.
#[derive(Clone, Copy, Debug, CType)]
#[repr(C)]
#[c_type(describe(2, 8))]
pub struct Labels<const MOST: usize> {
    /// The number of words.
    pub len: usize,
    /// Whether there were more.
    pub more: bool,
    /// Further data about the innermost word.
    pub data: [u64; 2],
    /// The words.
    pub entries: [*const c_char; MOST],
}

impl<const MOST: usize> Labels<MOST> {
    /// Returns the first of these words, as many as fit.
    pub fn new(words: &[&'static CStr]) -> Self {
        let mut entries = [c"".as_ptr(); MOST];
        entries.iter_mut().zip(words).for_each(|(entry, word)| *entry = word.as_ptr());
        Self { len: words.len().min(MOST), more: words.len() > MOST, data: [0; 2], entries }
    }
}

/// Why a packet was refused.
#[derive(Clone, Copy, Debug)]
pub struct ParseError {
    /// The offset in the packet.
    pub offset: u16,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "truncated at byte {}", self.offset)
    }
}

/// A message block, the kernel's own: D has its type.
#[derive(Debug)]
#[repr(C)]
pub struct Mblk {
    /// The size in bytes.
    pub len: usize,
}

/// The route cache, which is opaque.
#[derive(Debug)]
pub struct RouteCache {
    /// Entries.
    pub len: usize,
}
