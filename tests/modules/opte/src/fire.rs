//! The functions that fire: one for each probe, so that each can be taken apart.

use core::ffi::CStr;

use sdt_core::arg::Shown;
use sdt_core::sdt_probe;

use crate::probes::{opte, xde};
#[cfg(not(sdt_args = "5"))]
use crate::types::FilterMode;
use crate::types::{
    AddrPair, Direction, Family, FlowId, Ip6, Labels, Mblk, ParseError, Port, RouteCache, TcpState,
    Vni,
};

/// The data from which the arguments of all probes are taken.
#[derive(Debug)]
pub struct Packet {
    /// The port's name.
    pub port: &'static CStr,
    /// The name of the layer.
    pub layer: &'static CStr,
    /// The port's name again, as a Rust string.
    pub name: &'static str,
    /// The name of the layer again, as a Rust string.
    pub layer_name: &'static str,
    /// The flow before processing.
    pub before: FlowId,
    /// The flow after processing.
    pub after: FlowId,
    /// The packet itself.
    pub mblk: Mblk,
    /// The packet after processing.
    pub hp: Mblk,
    /// The source address.
    pub src: Ip6,
    /// The destination address.
    pub dst: Ip6,
    /// An address of the underlay network.
    pub underlay: Ip6,
    /// An address of IPv4.
    pub group: [u8; 4],
    /// Addresses of Ethernet.
    pub ether: [[u8; 6]; 2],
    /// The cache.
    pub cache: RouteCache,
    /// The number of the packet.
    pub n: u64,
}

impl Packet {
    /// Returns the packet with this number.
    pub fn new(n: u64) -> Self {
        let ip6 = |last: u8| Ip6 { octets: [last; 16] };
        let (src, dst) = (ip6(1), ip6(2));
        Self {
            port: c"opte0",
            layer: c"firewall",
            name: "opte0 and more".get(..5).unwrap_or_default(),
            layer_name: "firewall",
            before: FlowId { proto: 6, addrs: AddrPair::V6 { src, dst }, info: [80, 443] },
            after: FlowId {
                proto: 17,
                addrs: AddrPair::V4 { src: [10; 4], dst: [11; 4] },
                info: [1, 2],
            },
            mblk: Mblk { len: 1500 },
            hp: Mblk { len: 60 },
            src,
            dst,
            underlay: ip6(3),
            group: [224, 0, 0, 1],
            ether: [[1; 6], [2; 6]],
            cache: RouteCache { len: 3 },
            n,
        }
    }
}

/// Declares a function for each site, and one that calls them all.
macro_rules! fires {
    ($packet:ident: $($(#[$attr:meta])* $provider:ident::$probe:ident($($arg:expr),* $(,)?);)*) => {
        /// Fires all probes.
        #[inline(never)]
        pub fn all($packet: &Packet) {
            $($(#[$attr])* sites::$probe($packet);)*
        }

        /// The names of all probes: of Rust's, provider and probe.
        pub const ALL: &[(&str, &str)] =
            &[$($(#[$attr])* (stringify!($provider), stringify!($probe)),)*];

        /// The functions.
        pub mod sites {
            use super::*;

            $(
                /// Fires the probe of its name.
                $(#[$attr])*
                #[inline(never)]
                #[unsafe(export_name = concat!("fire_", stringify!($provider), "_", stringify!($probe)))]
                pub fn $probe($packet: &Packet) {
                    sdt_probe!($provider::$probe $(, $arg)*);
                }
            )*
        }
    };
}

/// The error that comes with the packet.
fn error(packet: &Packet) -> ParseError {
    ParseError { offset: packet.n as u16 }
}

fires! {
    p:
    opte::flow_expired(p.port, p.layer, &p.before, p.n, p.n + 1);
    opte::ft_entry_invalidated(Direction::In, p.port, p.layer, &p.before, p.n);
    opte::gen_desc_fail(p.port, p.layer, Direction::Out, &p.before, Shown::new(&error(p)));
    opte::gen_ht_fail(p.port, p.layer, Direction::In, &p.after, Shown::debug(&error(p)));
    opte::layer_process_entry(Direction::Out, p.port, p.layer, &p.before);
    #[cfg(not(sdt_args = "5"))]
    opte::layer_process_return(Direction::In, p.port, p.layer, &p.before, &p.after, &Labels::new(&[c"ok"]));
    #[cfg(sdt_args = "5")]
    opte::layer_process_return(Direction::In, p.port, p.layer, &p.before, &p.after);
    opte::rule_match(p.name, p.layer_name);
    opte::rule_no_match(p.layer_name, p.name);
    opte::rule_deny(p.port, p.layer, Direction::Out, &p.after);
    opte::ht_run(&p.before, &p.after);
    opte::port_process_entry(Direction::In, p.port, &p.before, p.n, &p.mblk);
    #[cfg(sdt_args = "10")]
    opte::port_process_return(
        Direction::In, p.port, &p.before, &p.after, p.n, &p.mblk, &p.hp, &Labels::new(&[c"a", c"b", c"c"]),
        if p.n & 1 == 0 { crate::types::Path::Slow } else { crate::types::Path::Fast },
    );
    #[cfg(sdt_args = "6")]
    opte::port_process_return(Direction::In, p.port, &p.before, &p.after, p.n, &p.mblk);
    #[cfg(sdt_args = "5")]
    opte::port_process_return(Direction::In, p.port, &p.before, &p.after, p.n);
    opte::uft_hit(Direction::In, p.port, &p.before, p.n, p.n + 2);
    opte::uft_invalidate(Direction::Out, p.port, &p.before, p.n);
    opte::uft_tcp_closed(Direction::In, p.port, &p.after);
    opte::tcp_err(Direction::In, p.port, &p.before, &p.mblk, Shown::new(&error(p)));
    opte::tcp_flow_state(p.port, &p.before, TcpState::SynSent, TcpState::Established);
    opte::tcp_flow_drop(p.port, &p.before, TcpState::Closed, Direction::Out, 0x12);
    xde::bad_packet(p.port, Direction::In, &p.mblk, &Labels::new(&[c"parse", c"ip6"]), p.mblk.len);
    xde::guest_loopback(&p.mblk, &p.before, Port(p.before.info[0]), Port(p.before.info[1]));
    xde::copy_out_resp(Shown::debug(&error(p)));
    xde::hdlr_resp(Shown::new(&error(p)));
    xde::set_error(-(p.n as i32));
    xde::next_hop(&p.dst, &p.underlay, &p.ether[0], &p.ether[1], (p.n & 1 == 0).then_some(c"no route"));
    xde::routecache_full(&p.cache, &p.dst, None);
    xde::routecache_hit(&p.cache, &p.dst, Some(p.n as u16));
    xde::routecache_insert(&p.cache, &p.dst, Some(0));
    xde::routecache_refresh(&p.cache, &p.src, None);
    xde::routecache_delete(&p.cache, &p.src, Some(p.n as u16));
    xde::mcast_tx(Family::V4, &p.group, Vni(77));
    xde::mcast_rx(Family::V6, &p.dst.octets, Vni(78));
    #[cfg(not(sdt_args = "5"))]
    xde::mcast_local_delivery(Family::V4, &p.group, Vni(77), p.name);
    #[cfg(sdt_args = "5")]
    xde::mcast_local_delivery(Family::V4, &p.group, Vni(77), p.port);
    xde::mcast_underlay_fwd(Family::V4, &p.group, Vni(77), &p.underlay);
    xde::mcast_external_fwd(Family::V4, &p.group, Vni(77), &p.underlay);
    xde::mcast_map_set(Family::V4, &p.group, &p.underlay, Vni(77));
    xde::mcast_map_clear(Family::V4, &p.group, &p.underlay, Vni(77));
    xde::mcast_fwd_set(&p.underlay, p.n as usize, Vni(77));
    xde::mcast_fwd_clear(&p.underlay, Vni(77));
    #[cfg(not(sdt_args = "5"))]
    xde::mcast_subscribe(p.name, Family::V4, &p.group, Vni(77));
    #[cfg(sdt_args = "5")]
    xde::mcast_subscribe(p.name, Family::V4, &p.group);
    #[cfg(not(sdt_args = "5"))]
    xde::mcast_unsubscribe(p.name, Family::V4, &p.group, Vni(77));
    #[cfg(sdt_args = "5")]
    xde::mcast_unsubscribe(p.name, Family::V4, &p.group);
    xde::mcast_unsubscribe_all(Family::V4, &p.group, Vni(77));
    xde::mcast_tx_pullup_fail(p.mblk.len);
    xde::mcast_rx_pullup_fail(p.hp.len);
    xde::mcast_tx_no_inner_ip(&p.mblk);
    xde::mcast_no_fwd_entry(&p.underlay, Vni(77));
    #[cfg(not(sdt_args = "5"))]
    xde::mcast_source_filtered(Family::V6, &p.src, &p.dst, Vni(77), p.port, FilterMode::Include);
    #[cfg(sdt_args = "5")]
    xde::mcast_source_filtered(Family::V6, &p.src, &p.dst, Vni(77), p.port);
    #[cfg(not(sdt_args = "5"))]
    xde::mcast_fwd_source_filtered(Family::V6, &p.src, &p.dst, Vni(77), &p.underlay, FilterMode::Exclude);
    #[cfg(sdt_args = "5")]
    xde::mcast_fwd_source_filtered(Family::V6, &p.src, &p.dst, Vni(77), &p.underlay);
}
