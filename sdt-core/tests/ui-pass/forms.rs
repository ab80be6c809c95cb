//! What has to compile: all forms, in all places.
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
        sdt_probe!(plain::touch, self.seen, self.name());
    }
}

fn fallible(text: &str) -> Result<u32, core::num::ParseIntError> {
    sdt_probe!(plain::fallible, text.parse::<u32>()?);
    Ok(1)
}

unsafe fn dangerous(p: *const u32) {
    // SAFETY: by contract.
    sdt_probe!(plain::dangerous, unsafe { *p });
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
    fallible("7").unwrap();
    // SAFETY: a good pointer.
    unsafe { dangerous(&n) };
    drop(asynchronous(n));
}
