//! A small server to try D on; the recipes in `docs/d.md` trace it: `dtrace -p PID -l -P shop`.
//!
//! Eight tasks serve requests on two threads. Each request allocates a page, waits for the database, and may fail. A task that
//! waits gives its thread to another task, and may go on in the other thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt;
use std::hint::black_box;
use std::time::Duration;

use sdt_core::arg::{Shown, show};
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider! {
    /// The work of the shop.
    pub shop {
        /// A request has arrived.
        fn request_start(id: u64, path: &str);
        /// A request was answered, with a status of HTTP.
        fn request_done(id: u64, path: &str, status: u16);
        /// A query of the database begins.
        fn query_start(id: u64, table: &str);
        /// A query of the database has ended.
        fn query_done(id: u64);
        /// A request failed.
        fn failed(id: u64, cause: Shown);
        /// The program allocates memory.
        fn alloc(bytes: usize);
    }
}

/// Allocates as the system does, and fires a probe.
struct Traced;

#[global_allocator]
static ALLOCATOR: Traced = Traced;

// SAFETY: all work is the system allocator's; a probe may fire anywhere, also in an allocator.
unsafe impl GlobalAlloc for Traced {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        sdt_probe!(shop::alloc, layout.size());
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which is that of `System`, too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `alloc` above, which returned `memory`, has it from `System`.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Why a request fails.
#[derive(Clone, Copy)]
enum Cause {
    OutOfStock { item: u64 },
    PaymentRefused,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfStock { item } => write!(f, "item {item} is out of stock"),
            Self::PaymentRefused => f.write_str("payment refused"),
        }
    }
}

/// Numbers that look random and are the same in each run (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[inline(never)]
fn render_page(items: u64) -> Vec<String> {
    (0..items).map(|item| format!("<li>item {item}</li>")).collect()
}

#[inline(never)]
fn compress(page: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    page.iter().for_each(|line| bytes.extend(line.bytes().filter(u8::is_ascii_alphanumeric)));
    bytes
}

/// Waits for the database: most queries take 1 to 3 ms, one of orders now and then 40 ms.
async fn query(id: u64, table: &str, numbers: &mut Numbers) {
    sdt_probe!(shop::query_start, id, table);
    let slow = table == "orders" && numbers.below(8) == 0;
    let time = if slow { 40_000 } else { 1_000 + numbers.below(2_000) };
    tokio::time::sleep(Duration::from_micros(time)).await;
    sdt_probe!(shop::query_done, id);
}

/// Serves a request for a page.
async fn serve(id: u64, path: &str, numbers: &mut Numbers) -> Result<(), Cause> {
    let (table, items) = match path {
        "/checkout" => ("orders", 4),
        "/cart" => ("carts", 8),
        _ => ("items", 40),
    };
    query(id, table, numbers).await;
    black_box(compress(&render_page(items)));
    match numbers.below(40) {
        0 if path == "/checkout" => Err(Cause::PaymentRefused),
        1 | 2 => Err(Cause::OutOfStock { item: 7 }),
        _ => Ok(()),
    }
}

/// Serves one request after the other.
async fn work(task: u64) {
    let mut numbers = Numbers(task + 1);
    for count in 0.. {
        let id = task * 1_000_000 + count;
        let path = ["/checkout", "/cart", "/cart", "/", "/", "/", "/", "/"];
        let path = path[numbers.below(8) as usize];
        sdt_probe!(shop::request_start, id, path);
        let served = serve(id, path, &mut numbers).await;
        if let Err(cause) = &served {
            sdt_probe!(shop::failed, id, show(cause));
        }
        let status: u16 = if served.is_ok() { 200 } else { 500 };
        sdt_probe!(shop::request_done, id, path, status);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _traced = sdt_process::start()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    runtime.block_on(async {
        let tasks: Vec<_> = (0..8).map(|task| tokio::spawn(work(task))).collect();
        for task in tasks {
            task.await?;
        }
        Ok(())
    })
}
