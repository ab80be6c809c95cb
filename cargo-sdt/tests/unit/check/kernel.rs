//! Tests of `src/check/kernel.rs`.

use super::*;

fn list(text: &str) -> Kernel {
    let mut kernel = Kernel::default();
    kernel.add_list(Path::new("lists/kernel.nm"), text).expect("a list");
    kernel
}

#[test]
fn lists_of_every_form() {
    let kernel = list(
        "\nkernel:\nffffffff80210000 T malloc\n                 U missing\n\
         ffffffff80210000 t hidden\nffffffff80210000 0000000000000010 D hz\n\
         printf T 1234 20\nsnprintf T\nW weakling\nfree\n0000 i ifunc\n",
    );
    for (symbol, there) in [
        ("malloc", true),
        ("missing", false),
        ("hidden", false),
        ("hz", true),
        ("printf", true),
        ("snprintf", true),
        ("weakling", true),
        ("free", true),
        ("ifunc", true),
    ] {
        let known = kernel.ask(symbol, &[], false);
        assert_eq!(matches!(known, Known::Exported(_)), there, "{symbol}: {known:?}");
    }
    for (symbol, kind) in [
        ("malloc", Kind::Function),
        ("hz", Kind::Variable),
        ("weakling", Kind::Unknown),
        ("free", Kind::Unknown),
        ("ifunc", Kind::Function),
        ("hidden", Kind::Function),
    ] {
        assert_eq!(kernel.ask(symbol, &[], true), Known::Exported(kind), "{symbol}");
    }
    let kernel = list(
        "[Index]   | Value | Size | Type | Bind | Other | Shndx | Name\n\
         [12]  |  18446744073| 26|FUNC |GLOB |0    |2      |ddi_copyin\n\
         [13]  |  0| 0|FUNC |GLOB |0    |UNDEF  |missing\n\
         [14]  |  0| 0|FUNC |LOCL |0    |2  |hidden\n",
    );
    assert_eq!(kernel.ask("ddi_copyin", &[], false), Known::Exported(Kind::Function));
    assert_eq!(kernel.ask("missing", &[], false), Known::Missing);
    assert_eq!(kernel.ask("hidden", &[], false), Known::Missing);
}

#[test]
fn what_is_no_list() {
    let mut kernel = Kernel::default();
    let error = kernel.add_list(Path::new("x"), "malloc\nfour words of it\n").unwrap_err();
    assert_eq!(error.to_string(), "x: line 2 is not a line of nm's output: \"four words of it\"");
    for text in ["", "\n", " U malloc\n"] {
        let error = kernel.add_list(Path::new("x"), text).unwrap_err();
        assert!(error.to_string().starts_with("x: the list has no defined symbols"), "{error}");
    }
    let error = kernel.add_file(Path::new("x"), b"text").unwrap_err();
    assert!(error.to_string().starts_with("x: not a readable 64-bit object file: "), "{error}");
}

#[test]
fn modules_that_the_kernel_has_in_it() {
    let kernel = list("0 T malloc\n0 d _mod_metadata_usb_version\n0 d _mod_metadata_zfs_version\n");
    let depends = ["kernel", "usb", "zfs"].map(str::to_owned);
    assert_eq!(kernel.ask("usb_typo", &depends, false), Known::Missing);
    let depends = ["kernel", "usb", "other"].map(str::to_owned);
    let unasked = Known::Unasked(vec!["other".to_owned()]);
    assert_eq!(kernel.ask("usb_typo", &depends, false), unasked);
}
