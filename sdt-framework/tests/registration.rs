//! Values that `register` and `probe_create` accept and refuse.

mod common;

use std::ffi::{CStr, CString, c_int, c_void};

use common::{Call, OPS, TestProvider, create, small, try_create};
use sdt_core::ops::{Framework, FrameworkError, Privileges, ProviderAttr, ProviderId, ProviderOps};
use sdt_framework::registration::{self, RegistrationError};

unsafe extern "C" fn usermode(_arg: *mut c_void, _id: u32, _parg: *mut c_void) -> c_int {
    0
}

/// Registers a provider with a new framework. The result must be that of `registration::check`.
fn attempt(
    name: &CStr,
    privileges: Privileges,
    ops: &ProviderOps,
) -> Result<(), RegistrationError> {
    let dtrace = small();
    let provider = TestProvider::default();
    // SAFETY: the provider outlives the framework.
    let registered =
        unsafe { dtrace.register(name, &ProviderAttr::SDT, privileges, ops, provider.arg()) };
    let checked = registration::check(name, privileges, ops);
    match registered {
        Ok(id) => {
            assert_eq!(checked, Ok(()));
            assert_eq!(dtrace.unregister(id), Ok(()));
        }
        Err(error) => {
            assert_eq!(error, FrameworkError::Invalid);
            assert_eq!(provider.calls(), []);
        }
    }
    checked
}

#[test]
fn names() {
    let long = CString::new("p".repeat(64)).unwrap();
    let longest = CString::new("p".repeat(63)).unwrap();
    let cases: &[(&CStr, Result<(), RegistrationError>)] = &[
        (c"proc", Ok(())),
        (c"_x", Ok(())),
        (c"-x", Ok(())),
        (c".x", Ok(())),
        (c"Ab-_.9`z", Ok(())),
        (&longest, Ok(())),
        (c"", Err(RegistrationError::EmptyName)),
        (c"9x", Err(RegistrationError::BadName)),
        (c"`x", Err(RegistrationError::BadName)),
        (c"a b", Err(RegistrationError::BadName)),
        (c"a:b", Err(RegistrationError::BadName)),
        (c"a*", Err(RegistrationError::BadName)),
        (c"\xc3\xa4", Err(RegistrationError::BadName)),
        (&long, Err(RegistrationError::LongName)),
    ];
    for (name, expected) in cases {
        assert_eq!(attempt(name, Privileges::USER, &OPS), *expected, "{name:?}");
    }
}

#[test]
fn ops() {
    let attempt = |ops: ProviderOps| attempt(c"p", Privileges::USER, &ops);
    assert_eq!(attempt(ProviderOps { provide: None, ..OPS }), Ok(()));
    assert_eq!(attempt(ProviderOps { provide_module: None, ..OPS }), Ok(()));
    assert_eq!(
        attempt(ProviderOps { provide: None, provide_module: None, ..OPS }),
        Err(RegistrationError::NoProvide)
    );
    let missing = |op| Err(RegistrationError::MissingOp(op));
    assert_eq!(attempt(ProviderOps { enable: None, ..OPS }), missing("enable"));
    assert_eq!(attempt(ProviderOps { disable: None, ..OPS }), missing("disable"));
    assert_eq!(attempt(ProviderOps { destroy: None, ..OPS }), missing("destroy"));
    let lone = Err(RegistrationError::SuspendWithoutResume);
    assert_eq!(attempt(ProviderOps { suspend: None, ..OPS }), lone);
    assert_eq!(attempt(ProviderOps { resume: None, ..OPS }), lone);
    assert_eq!(attempt(ProviderOps { suspend: None, resume: None, ..OPS }), Ok(()));
}

#[test]
fn privileges() {
    let kernel = Privileges::KERNEL;
    let with_usermode = ProviderOps { usermode: Some(usermode), ..OPS };
    assert_eq!(attempt(c"p", kernel, &OPS), Ok(()));
    assert_eq!(attempt(c"p", kernel | Privileges::PROC, &OPS), Ok(()));
    for other in [Privileges::USER, Privileges::OWNER] {
        assert_eq!(attempt(c"p", kernel | other, &OPS), Err(RegistrationError::NoUsermode));
        assert_eq!(attempt(c"p", kernel | other, &with_usermode), Ok(()));
    }
    let unknown = Privileges::from_bits_retain(0x20);
    assert_eq!(attempt(c"p", unknown, &OPS), Err(RegistrationError::BadPrivileges));
}

#[test]
fn raw_attributes() {
    let sdt = [5, 5, 5, 1, 1, 0, 1, 1, 4, 5, 5, 5, 1, 1, 4];
    assert_eq!(registration::from_raw(&sdt, 2), Ok((ProviderAttr::SDT, Privileges::USER)));
    for at in 0..15 {
        let max = if at % 3 == 2 { 5 } else { 7 };
        let mut bytes = sdt;
        bytes[at] = max;
        assert!(registration::from_raw(&bytes, 0).is_ok(), "byte {at} = {max}");
        bytes[at] = max + 1;
        assert_eq!(registration::from_raw(&bytes, 0), Err(RegistrationError::BadAttributes));
    }
    assert_eq!(registration::from_raw(&sdt, 0x1f).map(|(_, p)| p), Ok(Privileges::all()));
    assert_eq!(registration::from_raw(&sdt, 0x20), Err(RegistrationError::BadPrivileges));
}

#[test]
fn the_provider_table_fills_and_empties() {
    let dtrace = small();
    let provider = TestProvider::default();
    // SAFETY: the provider outlives the framework.
    let register = || unsafe { provider.register(&*dtrace, c"p") };
    // Duplicate names are accepted, as in the kernels.
    let ids: Vec<ProviderId> = (0..4).map(|_| register().unwrap()).collect();
    assert_eq!(register(), Err(FrameworkError::Full));
    assert_eq!(dtrace.unregister(ids[1]), Ok(()));
    let again = register().unwrap();
    // The id of an unregistered provider does not identify the next provider.
    assert!(!ids.contains(&again));
    assert_eq!(dtrace.unregister(ids[1]), Err(FrameworkError::NotFound));
    assert_eq!(dtrace.unregister(ProviderId::new(0)), Err(FrameworkError::NotFound));
}

#[test]
fn probes_are_created_and_found_by_exact_names() {
    let dtrace = small();
    let provider = TestProvider::default();
    // SAFETY: the provider outlives the framework.
    let (p, q) = unsafe {
        (provider.register(&*dtrace, c"p").unwrap(), provider.register(&*dtrace, c"q").unwrap())
    };
    let a = create(&*dtrace, p, [c"m", c"f", c"n"], 11);
    let b = create(&*dtrace, q, [c"m", c"f", c"n"], 12);
    let c = create(&*dtrace, p, [c"", c"", c"n"], 13);
    assert_eq!([a, b, c].map(|id| id.get()), [1, 2, 3]);
    let find = |provider, m, f, n| dtrace.probe_lookup(provider, m, f, n);
    assert_eq!(find(p, c"m", c"f", c"n"), Some(a));
    assert_eq!(find(q, c"m", c"f", c"n"), Some(b));
    assert_eq!(find(p, c"", c"", c"n"), Some(c));
    // Patterns and empty names do not match other names here.
    assert_eq!(find(q, c"", c"", c"n"), None);
    assert_eq!(find(p, c"m", c"f", c"*"), None);
    assert_eq!(find(p, c"m", c"f", c"nn"), None);
    assert_eq!(find(ProviderId::new(99), c"m", c"f", c"n"), None);
    assert_eq!(dtrace.probe_arg(p, a).map(|parg| parg.addr()), Some(11));
    assert_eq!(dtrace.probe_arg(q, b).map(|parg| parg.addr()), Some(12));
    assert_eq!(dtrace.probe_arg(q, a), None);
}

#[test]
fn the_probe_table_fills_and_ids_are_used_again_late() {
    let dtrace = small();
    let provider = TestProvider::default();
    // SAFETY: the provider outlives the framework.
    let p = unsafe { provider.register(&*dtrace, c"p") }.unwrap();
    for parg in 0..15 {
        create(&*dtrace, p, [if parg < 2 { c"old" } else { c"new" }, c"f", c"n"], parg);
    }
    assert_eq!(dtrace.destroy_module(c"old"), Ok(2));
    assert_eq!(create(&*dtrace, p, [c"m", c"f", c"n"], 0).get(), 16);
    assert_eq!(create(&*dtrace, p, [c"m", c"f", c"n"], 0).get(), 1);
    assert_eq!(create(&*dtrace, p, [c"m", c"f", c"n"], 0).get(), 2);
    let one_more = try_create(&*dtrace, p, [c"m", c"f", c"n"], 0, 0);
    assert_eq!(one_more, Err(FrameworkError::Full));
}

#[test]
fn long_probe_names_are_refused_not_cut() {
    let dtrace = small();
    let provider = TestProvider::default();
    // SAFETY: the provider outlives the framework.
    let p = unsafe { provider.register(&*dtrace, c"p") }.unwrap();
    let of = |len| CString::new("x".repeat(len)).unwrap();
    let create = |m: &CStr, f: &CStr, n: &CStr| try_create(&*dtrace, p, [m, f, n], 0, 0);
    assert!(create(&of(63), &of(191), &of(63)).is_ok());
    assert_eq!(create(&of(64), c"f", c"n"), Err(FrameworkError::Invalid));
    assert_eq!(create(c"m", &of(192), c"n"), Err(FrameworkError::Invalid));
    assert_eq!(create(c"m", c"f", &of(64)), Err(FrameworkError::Invalid));
    let gone = ProviderId::new(77);
    let orphan = try_create(&*dtrace, gone, [c"m", c"f", c"n"], 0, 0);
    assert_eq!(orphan, Err(FrameworkError::NotFound));
}

/// A provider that creates its probe in the op `provide`, if the probe does not exist yet.
struct Lazy {
    dtrace: Box<common::Small>,
    id: std::sync::OnceLock<ProviderId>,
}

unsafe extern "C" fn provide_lazily(arg: *mut c_void, _desc: *const sdt_core::ops::ProbeDesc) {
    // SAFETY: the op is registered with a `Lazy` that is never freed.
    let lazy = unsafe { &*arg.cast::<Lazy>() };
    // During `register`, the test does not have the id yet, so it cannot create the probe.
    if let Some(&id) = lazy.id.get()
        && lazy.dtrace.probe_lookup(id, c"m", c"f", c"lazy").is_none()
    {
        create(&*lazy.dtrace, id, [c"m", c"f", c"lazy"], 0);
    }
}

#[test]
fn provide_may_look_up_and_create() {
    let ops = ProviderOps { provide: Some(provide_lazily), ..OPS };
    let lazy: &'static Lazy =
        Box::leak(Box::new(Lazy { dtrace: small(), id: std::sync::OnceLock::new() }));
    let arg = std::ptr::from_ref(lazy).cast_mut().cast();
    // SAFETY: `lazy` is never freed; the other ops are not called, as nothing is enabled.
    let id = unsafe {
        lazy.dtrace.register(c"p", &ProviderAttr::SDT, Privileges::USER, &ops, arg).unwrap()
    };
    lazy.id.set(id).unwrap();
    for _ in 0..2 {
        let mut names = Vec::new();
        lazy.dtrace
            .for_each_probe(&common::spec("lazy"), |info| names.push(info.name().to_owned()))
            .unwrap();
        assert_eq!(names, [c"lazy".to_owned()]);
    }
}

#[test]
fn providers_are_asked_with_what_is_looked_for() {
    let dtrace = small();
    let provider = TestProvider::default();
    // SAFETY: the provider outlives the framework.
    unsafe { provider.register(&*dtrace, c"p") }.unwrap();
    assert_eq!(provider.calls(), [Call::Provide(None)]);
    assert_eq!(dtrace.for_each_probe(&common::spec("p:m*::[ab]"), |_| {}), Ok(0));
    let desc = ["p", "m*", "", "[ab]"].map(String::from);
    assert_eq!(provider.calls(), [Call::Provide(Some(desc.clone()))]);
    let consumer = dtrace.open().unwrap();
    assert_eq!(dtrace.enable(consumer, &common::spec("p:m*::[ab]")), Ok(0));
    assert_eq!(provider.calls(), [Call::Provide(Some(desc))]);
    // SAFETY: the provider takes any number for a module.
    unsafe { dtrace.module_loaded(std::ptr::without_provenance_mut(5)) }.unwrap();
    assert_eq!(provider.calls(), [Call::ProvideModule(5)]);
}
