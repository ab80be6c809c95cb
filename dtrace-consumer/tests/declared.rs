//! The declarations of a process for D arrive over the line: no library is installed or named.
#![cfg(target_os = "linux")]

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sdt_core::arg::{Argument, CType};
use sdt_core::{sdt_probe, sdt_provider, sdt_translator};

/// An article.
#[derive(CType)]
#[repr(C)]
struct Sale {
    pence: u64,
    count: u16,
    article: [core::ffi::c_char; 8],
}

/// The outcome of a sale.
#[derive(Argument, Clone, Copy)]
enum Outcome {
    Sold,
    Refused,
}

sdt_provider! {
    /// A shop.
    pub shop {
        /// A customer buys an article.
        fn sale(sale: &Sale, outcome: Outcome);
        /// The same argument, with a translated type.
        fn seen(sale: &Sale => "saleinfo_t *");
    }
}

sdt_translator! {"
    typedef struct saleinfo {
        uint64_t pounds;    /* rounded */
        string what;
    } saleinfo_t;

    translator saleinfo_t < struct sale *S > {
        pounds = S->pence / 100;
        what = stringof(S->article);
    };
"}

#[unsafe(no_mangle)]
static SHOP_TILL: AtomicU64 = AtomicU64::new(4711);
static DRAWER: AtomicU64 = AtomicU64::new(42);

fn dtrace(program: &str) -> String {
    let id = std::process::id().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dtrace"));
    let output = command.args(["-p", &id, "-q", "-n", program]).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (said, error) = (text(output.stdout), text(output.stderr));
    assert_eq!((&*error, output.status.code()), ("", Some(0)), "{program}: {said}");
    said
}

fn sells() {
    let mut sale = Sale { pence: 1250, count: 3, article: [0; 8] };
    for (to, from) in sale.article.iter_mut().zip(b"tea") {
        *to = *from as core::ffi::c_char;
    }
    for outcome in [Outcome::Sold, Outcome::Refused] {
        sdt_probe!(shop::sale, &sale, outcome);
    }
    sdt_probe!(shop::seen, &sale);
}

#[test]
fn types_constants_translators_and_symbols_come_over_the_line() {
    let _traced = sdt_process::Options::new().module(c"shop".to_owned()).start().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                sells();
                for count in [&SHOP_TILL, &DRAWER] {
                    count.fetch_add(0, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let done = recording_host::Done(&done);
        let said = [
                "shop:::sale { printf(\"%d %s\", args[0]->count, stringof(args[0]->article)); exit(0); }",
                "shop:::sale /args[1] == OUTCOME_REFUSED/ { printf(\"%d\", (int)args[1]); exit(0); }",
                "shop:::sale { print(*args[0]); exit(0); }",
                "shop:::seen { printf(\"%s %d\", args[0]->what, args[0]->pounds); exit(0); }",
                "BEGIN { printf(\"%d %d\", `SHOP_TILL, `DRAWER); exit(0); }",
                "shop:::sale { printf(\"%d\", curpsinfo->pr_pid == pid && uid == curpsinfo->pr_uid); exit(0); }",
                "shop:::sale { printf(\"%s\", curpsinfo->pr_psargs); exit(0); }",
            ]
            .map(dtrace);
        drop(done);
        let [fields, constant, printed, translated, symbols, current, arguments] = said;
        assert_eq!((&*fields, &*constant), ("3 tea\n", "1\n"));
        assert!(
            printed
                .contains("struct sale {\n    uint64_t pence = 0x4e2\n    uint16_t count = 0x3\n"),
            "{printed}"
        );
        assert_eq!((&*translated, &*symbols, &*current), ("tea 12\n", "4711 42\n", "1\n"));
        let own: Vec<_> = std::env::args().collect();
        assert_eq!(arguments, own.join(" ") + "\n");
    });
}
