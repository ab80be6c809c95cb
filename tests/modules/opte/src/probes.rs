//! The declarations: OPTE's 47 probes with the names under which dtrace(1) lists them, and typed arguments. In OPTE they
//! are C functions with `uintptr_t` arguments, and OPTE formats strings for them on the heap even without a consumer.

#![allow(missing_docs, reason = "that they can be declared is all that there is to them")]

use core::ffi::CStr;

use sdt_core::arg::Shown;
use sdt_core::sdt_provider;

#[cfg(not(sdt_args = "5"))]
use crate::types::FilterMode;
use crate::types::{Direction, Family, FlowId, Ip6, Labels, Mblk, Port, RouteCache, TcpState, Vni};

sdt_provider! {
    /// The packet filter.
    pub opte {
        // Flow tables.
        fn flow_expired(port: &CStr, layer: &CStr, flow: &FlowId, last_hit: u64, now: u64);
        fn ft_entry_invalidated(dir: Direction, port: &CStr, layer: &CStr, flow: &FlowId, epoch: u64);

        // Layers and rules.
        fn gen_desc_fail(port: &CStr, layer: &CStr, dir: Direction, flow: &FlowId, err: Shown);
        fn gen_ht_fail(port: &CStr, layer: &CStr, dir: Direction, flow: &FlowId, err: Shown);
        fn layer_process_entry(dir: Direction, port: &CStr, layer: &CStr, flow: &FlowId);
        #[cfg(not(sdt_args = "5"))]
        fn layer_process_return(
            dir: Direction,
            port: &CStr,
            layer: &CStr,
            before: &FlowId,
            after: &FlowId,
            res: &Labels<2>,
        );
        /// Routes with five arguments carry the first five, here and below.
        #[cfg(sdt_args = "5")]
        fn layer_process_return(dir: Direction, port: &CStr, layer: &CStr, before: &FlowId, after: &FlowId);
        fn rule_match(port: &str, layer: &str);
        fn rule_no_match(port: &str, layer: &str);
        fn rule_deny(port: &CStr, layer: &CStr, dir: Direction, flow: &FlowId);
        fn ht_run(before: &FlowId, after: &FlowId);

        // Ports.
        fn port_process_entry(dir: Direction, port: &CStr, flow: &FlowId, epoch: u64, pkt: *const Mblk as "mblk_t *");
        #[cfg(sdt_args = "10")]
        fn port_process_return(
            dir: Direction,
            port: &CStr,
            before: &FlowId,
            after: &FlowId,
            epoch: u64,
            pkt: *const Mblk as "mblk_t *",
            hp_pkt: *const Mblk as "mblk_t *",
            err: &Labels<2>,
            path: crate::types::Path,
        );
        /// Routes with six arguments carry the first six.
        #[cfg(sdt_args = "6")]
        fn port_process_return(
            dir: Direction,
            port: &CStr,
            before: &FlowId,
            after: &FlowId,
            epoch: u64,
            pkt: *const Mblk as "mblk_t *",
        );
        #[cfg(sdt_args = "5")]
        fn port_process_return(dir: Direction, port: &CStr, before: &FlowId, after: &FlowId, epoch: u64);
        fn uft_hit(dir: Direction, port: &CStr, flow: &FlowId, epoch: u64, last_hit: u64);
        fn uft_invalidate(dir: Direction, port: &CStr, flow: &FlowId, epoch: u64);
        fn uft_tcp_closed(dir: Direction, port: &CStr, flow: &FlowId);

        // TCP.
        fn tcp_err(dir: Direction, port: &CStr, flow: &FlowId, pkt: *const Mblk as "mblk_t *", err: Shown);
        fn tcp_flow_state(port: &CStr, flow: &FlowId, before: TcpState, after: TcpState);
        fn tcp_flow_drop(port: &CStr, flow: &FlowId, state: TcpState, dir: Direction, flags: u8);
    }
}

sdt_provider! {
    /// The driver.
    pub xde {
        // Packets.
        fn bad_packet(port: &CStr, dir: Direction, mp: *const Mblk as "mblk_t *", err: &Labels<8>, len: usize);
        fn guest_loopback(mp: *const Mblk as "mblk_t *", flow: &FlowId, src: Port, dst: Port);

        // Ioctls.
        fn copy_out_resp(resp: Shown);
        fn hdlr_resp(resp: Shown);
        fn set_error(errno: i32);

        // Routes. An argument has the name of a probe, as in OPTE.
        fn next_hop(dst: &Ip6 => "ip6info_t *", gw: &Ip6, src: &[u8; 6], ether_dst: &[u8; 6], msg: Option<&CStr>);
        fn routecache_full(cache: &RouteCache as "void *", dst: &Ip6, entropy: Option<u16>);
        fn routecache_hit(cache: &RouteCache as "void *", dst: &Ip6, entropy: Option<u16>);
        fn routecache_insert(cache: &RouteCache as "void *", dst: &Ip6, entropy: Option<u16>);
        fn routecache_refresh(cache: &RouteCache as "void *", dst: &Ip6, entropy: Option<u16>);
        fn routecache_delete(cache: &RouteCache as "void *", dst: &Ip6, entropy: Option<u16>);

        // Multicast.
        fn mcast_tx(af: Family, dst: &[u8], vni: Vni);
        fn mcast_rx(af: Family, dst: &[u8], vni: Vni);
        #[cfg(not(sdt_args = "5"))]
        fn mcast_local_delivery(af: Family, dst: &[u8], vni: Vni, port: &str);
        #[cfg(sdt_args = "5")]
        fn mcast_local_delivery(af: Family, dst: &[u8], vni: Vni, port: &CStr);
        fn mcast_underlay_fwd(af: Family, dst: &[u8], vni: Vni, next_hop: &Ip6);
        fn mcast_external_fwd(af: Family, dst: &[u8], vni: Vni, next_hop: &Ip6);
        fn mcast_map_set(af: Family, group: &[u8], underlay: &Ip6, vni: Vni);
        fn mcast_map_clear(af: Family, group: &[u8], underlay: &Ip6, vni: Vni);
        fn mcast_fwd_set(underlay: &Ip6, count: usize, vni: Vni);
        fn mcast_fwd_clear(underlay: &Ip6, vni: Vni);
        #[cfg(not(sdt_args = "5"))]
        fn mcast_subscribe(port: &str, af: Family, group: &[u8], vni: Vni);
        #[cfg(sdt_args = "5")]
        fn mcast_subscribe(port: &str, af: Family, group: &[u8]);
        #[cfg(not(sdt_args = "5"))]
        fn mcast_unsubscribe(port: &str, af: Family, group: &[u8], vni: Vni);
        #[cfg(sdt_args = "5")]
        fn mcast_unsubscribe(port: &str, af: Family, group: &[u8]);
        fn mcast_unsubscribe_all(af: Family, group: &[u8], vni: Vni);
        fn mcast_tx_pullup_fail(len: usize);
        fn mcast_rx_pullup_fail(len: usize);
        fn mcast_tx_no_inner_ip(mblk: *const Mblk as "mblk_t *");
        fn mcast_no_fwd_entry(underlay: &Ip6, vni: Vni);
        #[cfg(not(sdt_args = "5"))]
        fn mcast_source_filtered(af: Family, src: &Ip6, dst: &Ip6, vni: Vni, port: &CStr, mode: FilterMode);
        #[cfg(sdt_args = "5")]
        fn mcast_source_filtered(af: Family, src: &Ip6, dst: &Ip6, vni: Vni, port: &CStr);
        #[cfg(not(sdt_args = "5"))]
        fn mcast_fwd_source_filtered(af: Family, src: &Ip6, dst: &Ip6, vni: Vni, next_hop: &Ip6, mode: FilterMode);
        #[cfg(sdt_args = "5")]
        fn mcast_fwd_source_filtered(af: Family, src: &Ip6, dst: &Ip6, vni: Vni, next_hop: &Ip6);
    }
}
