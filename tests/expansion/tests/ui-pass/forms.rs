//! All forms of the macros compile, in all places.
#![deny(warnings)]
#![deny(clippy::all)]

use core::ffi::CStr;

use sdt_core::{sdt_enabled, sdt_probe, sdt_provider};

mod deep {
    pub mod er {
        sdt_core::sdt_provider!(pub nested);
    }
}

sdt_provider!(plain);
sdt_provider! {
    /// Documented.
    pub(crate) declared {
        /// No arguments.
        fn nothing();
        fn borrowed(text: &CStr, number: Option<&u32>,);
        /// A name with two underscores, as USDT users write it.
        fn order__start(number: u32);
    }
}
sdt_provider! { pub empty {} }

struct Thing {
    name: std::ffi::CString,
    seen: u32,
}

impl Thing {
    fn name(&self) -> &CStr {
        &self.name
    }

    fn touch(&mut self) {
        self.seen += 1;
        sdt_probe!(declared::borrowed, self.name(), Some(&self.seen));
        sdt_probe!(declared::order__start, self.seen);
        sdt_probe!(plain::touch, self.seen, self.name());
    }
}

fn fallible(text: &str) -> Result<u32, core::num::ParseIntError> {
    sdt_probe!(plain::fallible, text.parse::<u32>()?);
    Ok(1)
}

unsafe fn dangerous(p: *const u32) {
    // SAFETY: the caller guarantees that the pointer is valid.
    sdt_probe!(plain::dangerous, unsafe { *p });
}

#[allow(non_upper_case_globals)]
static mut counter: u32 = 0;

fn of_statics() {
    static LIMIT: u32 = 1;
    fn keep(limit: &'static u32) -> u32 {
        *limit
    }
    fn same(value: u32) -> u32 {
        value
    }
    // SAFETY: no code writes to the static.
    sdt_probe!(plain::static_mut, unsafe { same(counter) });
    sdt_probe!(plain::static_borrow, keep(&LIMIT));
    sdt_probe!(lasting::borrowed, &LIMIT);
}

// Arguments may have any names.
sdt_provider! {
    lasting {
        fn borrowed(limit: &'static u32);
        fn next_hop(dst: u32);
        fn forward(next_hop: u32, r#type: u8, borrowed: u8, counter: u8, lasting: u8, Thing: u8);
        fn r#type(r#fn: u32, self_: u8, __sdt: u8, u8: u8);
    }
}

fn of_any_name() {
    sdt_probe!(lasting::next_hop, 1);
    sdt_probe!(lasting::forward, 1, 2, 3, 4, 5, 6);
    sdt_probe!(lasting::r#type, 1, 2, 3, 4);
}

macro_rules! wrapped {
    ($value:expr) => {
        sdt_probe!(plain::wrapped, $value)
    };
}

async fn asynchronous(n: u32) -> u32 {
    sdt_probe!(plain::asynchronous, n);
    n
}

fn main() {
    sdt_probe!(plain::start);
    sdt_probe!(declared::nothing,);
    sdt_probe!(crate::deep::er::nested::exec, 1u8);
    sdt_probe!(self::plain::r#type, 1u8);
    let owned = String::from("x");
    sdt_probe!(plain::owned, owned.len());
    wrapped!(owned.len() as u64);
    let closure = |n: u32| sdt_probe!(plain::in_closure, n + 1);
    closure(2);
    let n = 5;
    sdt_probe!(plain::inferred, u64::from(n).count_ones());
    if sdt_enabled!(plain::start) || sdt_enabled!(declared::nothing) {
        println!("{owned}");
    }
    let mut thing = Thing { name: c"thing".into(), seen: 0 };
    thing.touch();
    of_statics();
    of_any_name();
    fallible("7").unwrap();
    // SAFETY: the pointer comes from a reference.
    unsafe { dangerous(&n) };
    drop(asynchronous(n));
}
