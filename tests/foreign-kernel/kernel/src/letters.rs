//! The work of the kernel: its CPUs write each other letters, and count them.

use alloc::collections::VecDeque;
use alloc::string::String;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sdt_core::{sdt_probe, sdt_provider};
use spin::Mutex;

use crate::machine::CPUS;

sdt_provider! {
    /// Letters between CPUs.
    pub letters {
        /// A CPU has sent one: to whom, and how many bytes it has.
        fn sent(to: usize, bytes: usize);
        /// A CPU has received one: what it says, and how many letters are left in its box.
        fn received(text: &str, left: usize);
    }
}

/// The letters of a CPU: how many to send, how many are sent and received, and those that wait.
pub struct Desk {
    pub to_send: AtomicU64,
    pub sent: AtomicU64,
    pub received: AtomicU64,
    inbox: Mutex<VecDeque<String>>,
}

pub static DESKS: [Desk; CPUS] = [const {
    let [to_send, sent, received] = [const { AtomicU64::new(0) }; 3];
    Desk { to_send, sent, received, inbox: Mutex::new(VecDeque::new()) }
}; CPUS];

/// Sends a letter, if one is to be sent and the other's box has room, and receives one, if one has come.
pub fn work(cpu: usize) {
    let Desk { to_send, sent, received, inbox } = &DESKS[cpu];
    let to = (cpu + 1) % CPUS;
    // The shell may change the number meanwhile.
    let less = |to_send: u64| to_send.checked_sub(1);
    if DESKS[to].inbox.lock().len() < 64 && to_send.fetch_update(Relaxed, Relaxed, less).is_ok() {
        sent.fetch_add(1, Relaxed);
        let letter = alloc::format!("from CPU {cpu}: {sent:?}");
        sdt_probe!(letters::sent, to, letter.len());
        DESKS[to].inbox.lock().push_back(letter);
    }
    let mut inbox = inbox.lock();
    if let Some(letter) = inbox.pop_front() {
        received.fetch_add(1, Relaxed);
        sdt_probe!(letters::received, &letter, inbox.len());
    }
}
