//! Listing, descriptions of probes, and matching by description.

mod common;

use common::{OPS, Small, TestProvider, create, small};
use sdt_core::ops::{
    Attribute, Class, Framework, Privileges, ProbeId, ProviderAttr, ProviderOps, Stability,
};
use sdt_framework::{Field, Spec, SpecError};

fn populated(provider: &TestProvider) -> Box<Small> {
    let dtrace = small();
    // SAFETY: callers keep the provider longer than the framework.
    let (proc, vfs) = unsafe {
        (
            provider.register(&*dtrace, c"proc").unwrap(),
            provider.register(&*dtrace, c"vfs").unwrap(),
        )
    };
    create(&*dtrace, proc, [c"kernel", c"none", c"exec"], 0); // 1
    create(&*dtrace, proc, [c"kernel", c"none", c"exec-success"], 0); // 2
    create(&*dtrace, proc, [c"example", c"on_exec", c"exec-success"], 0); // 3
    create(&*dtrace, vfs, [c"kernel", c"lookup", c"entry"], 0); // 4
    create(&*dtrace, vfs, [c"kernel", c"lookup", c"return"], 0); // 5
    create(&*dtrace, vfs, [c"", c"", c"b*c[d]"], 0); // 6
    dtrace
}

fn ids(dtrace: &Small, text: &str, last: Field) -> Vec<u32> {
    let spec = Spec::parse(text, last).unwrap();
    let mut ids = Vec::new();
    let count = dtrace.for_each_probe(&spec, |info| ids.push(info.id().get())).unwrap();
    assert_eq!(count as usize, ids.len());
    ids
}

#[test]
fn descriptions_fill_from_the_right() {
    let provider = TestProvider::default();
    let dtrace = populated(&provider);
    let name = |text| ids(&dtrace, text, Field::Name);
    assert_eq!(name(""), [1, 2, 3, 4, 5, 6]);
    assert_eq!(name(":::"), [1, 2, 3, 4, 5, 6]);
    assert_eq!(name("exec-success"), [2, 3]);
    assert_eq!(name("on_exec:exec-success"), [3]);
    assert_eq!(name("kernel:none:"), [1, 2]);
    assert_eq!(name("kernel::exec-success"), [2]);
    assert_eq!(name("proc:::"), [1, 2, 3]);
    assert_eq!(name("proc:::exec-success"), [2, 3]);
    assert_eq!(name(" proc:::exec-success "), [2, 3]);
    assert_eq!(name("proc"), []);
    let function = |text| ids(&dtrace, text, Field::Function);
    assert_eq!(function("lookup"), [4, 5]);
    assert_eq!(function("kernel:lookup"), [4, 5]);
    assert_eq!(function("proc:kernel:"), [1, 2]);
    assert_eq!(function("entry"), []);
    let module = |text| ids(&dtrace, text, Field::Module);
    assert_eq!(module("kernel"), [1, 2, 4, 5]);
    assert_eq!(module("vfs:kernel"), [4, 5]);
    assert_eq!(ids(&dtrace, "vfs", Field::Provider), [4, 5, 6]);
}

#[test]
fn descriptions_are_patterns() {
    let provider = TestProvider::default();
    let dtrace = populated(&provider);
    let name = |text| ids(&dtrace, text, Field::Name);
    assert_eq!(name("*"), [1, 2, 3, 4, 5, 6]);
    assert_eq!(name("p*:::exec*"), [1, 2, 3]);
    assert_eq!(name("[!p]*:::"), [4, 5, 6]);
    assert_eq!(name("kernel:*o*e:"), [1, 2]);
    assert_eq!(name("[er]??[ry]*"), [4]);
    assert_eq!(name("[er]?t[ru]*"), [4, 5]);
    assert_eq!(name("*:*:*:*n"), [5]);
    // A name with metacharacters is found by escaping them.
    assert_eq!(name(r"b\*c\[d\]"), [6]);
    assert_eq!(name("b*c[d]"), []);
    assert_eq!(name("b?c?d?"), [6]);
    // `?` and `*` after a colon: an empty field matches any name, but `?` needs a byte.
    assert_eq!(name("vfs:?*::"), [4, 5]);
    assert_eq!(name("vfs:*::"), [4, 5, 6]);
}

#[test]
fn bad_descriptions() {
    let parse = |text: &str, last| Spec::parse(text, last).map(|_| ());
    assert_eq!(
        parse("a:b:c:d:e", Field::Name),
        Err(SpecError::TooManyPieces { pieces: 5, max: 4 })
    );
    assert_eq!(parse("a:b", Field::Provider), Err(SpecError::TooManyPieces { pieces: 2, max: 1 }));
    assert_eq!(parse("a:b", Field::Module), Ok(()));
    for (field, max, head, tail) in [
        (Field::Provider, 63, "", ":::"),
        (Field::Module, 63, ":", "::"),
        (Field::Function, 191, "::", ":"),
        (Field::Name, 63, ":::", ""),
    ] {
        let text = |len| format!("{head}{}{tail}", "x".repeat(len));
        assert_eq!(parse(&text(max), Field::Name), Ok(()));
        assert_eq!(
            parse(&text(max + 1), Field::Name),
            Err(SpecError::TooLong { field, len: max + 1, max })
        );
    }
    assert_eq!(parse("a\0b:", Field::Name), Err(SpecError::Nul { field: Field::Function }));
}

#[test]
fn listing_tells_names_in_order() {
    let provider = TestProvider::default();
    let dtrace = populated(&provider);
    let mut rows = Vec::new();
    dtrace
        .for_each_probe(&Spec::ALL, |info| {
            // Called without a lock, so it can call the framework.
            assert!(dtrace.describe(info.id()).is_some());
            let names = [info.provider(), info.module(), info.function(), info.name()];
            rows.push(names.map(|name| name.to_str().unwrap().to_owned()).join(":"));
        })
        .unwrap();
    assert_eq!(
        rows,
        [
            "proc:kernel:none:exec",
            "proc:kernel:none:exec-success",
            "proc:example:on_exec:exec-success",
            "vfs:kernel:lookup:entry",
            "vfs:kernel:lookup:return",
            "vfs:::b*c[d]",
        ]
    );
}

/// `dtrace -lv` on FreeBSD 12.1 printed Private, Private, Unknown for an SDT probe and Private,
/// Private, ISA for its arguments.
#[test]
fn stability_of_sdt_probes_is_what_freebsd_printed() {
    let provider = TestProvider::default();
    let dtrace = populated(&provider);
    let detail = dtrace.describe(ProbeId::new(3).unwrap()).unwrap();
    let private = |class| Attribute::new(Stability::Private, Stability::Private, class);
    assert_eq!(detail.probe, private(Class::Unknown));
    assert_eq!(detail.args, private(Class::Isa));
    assert_eq!(detail.info.name(), c"exec-success");
    // Empty names, and names with metacharacters, do not affect the stability: only the provider does.
    let bare = dtrace.describe(ProbeId::new(6).unwrap()).unwrap();
    let evolving = Attribute::new(Stability::Evolving, Stability::Evolving, Class::Common);
    assert_eq!(bare.probe, evolving);
    assert!(dtrace.describe(ProbeId::new(7).unwrap()).is_none());
    assert!(dtrace.describe(ProbeId::new(u32::MAX).unwrap()).is_none());
}

#[test]
fn argument_types() {
    let provider = TestProvider::default();
    let dtrace = populated(&provider);
    let types = |dtrace: &Small, id| {
        dtrace
            .arg_descs(ProbeId::new(id).unwrap())
            .map(|desc| (desc.mapping, desc.native.to_string(), desc.xlate.to_string()))
            .collect::<Vec<_>>()
    };
    let expected = [(0, "int", ""), (1, "struct proc *", "psinfo_t *")]
        .map(|(mapping, native, xlate)| (mapping, native.to_owned(), xlate.to_owned()));
    assert_eq!(types(&dtrace, 1), expected);
    assert_eq!(types(&dtrace, 9), []);

    let ops = ProviderOps { getargdesc: None, ..OPS };
    // SAFETY: the provider outlives the framework.
    let plain = unsafe {
        dtrace.register(c"x", &ProviderAttr::SDT, Privileges::USER, &ops, provider.arg()).unwrap()
    };
    let untyped = create(&*dtrace, plain, [c"", c"", c"untyped"], 0);
    assert_eq!(types(&dtrace, untyped.get()), []);
}

/// A description as typed, with all four names, and without the white space around each.
#[test]
fn descriptions_are_shown_whole() {
    let shown = |text, last| Spec::parse(text, last).unwrap().to_string();
    assert_eq!(shown(" proc : : : exec-* ", Field::Name), "proc:::exec-*");
    assert_eq!(shown("vfs:lookup", Field::Function), ":vfs:lookup:");
    assert_eq!(Spec::ALL.to_string(), ":::");
    assert_eq!(Spec::parse(" a ", Field::Name), Spec::parse("a", Field::Name));
}
