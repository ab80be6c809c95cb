//! Provider `k` requires the right to trace the kernel, `u` the right to trace processes; `u` reports every other hit
//! as a hit in user mode.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use sdt_core::ops::{Framework as _, Privileges, ProviderAttr, ProviderOps};

use super::*;

static IS_USER: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn usermode(_: *mut c_void, _: u32, _: *mut c_void) -> c_int {
    IS_USER.fetch_not(Ordering::Relaxed).into()
}

fn providers(dtrace: &Small, provider: &TestProvider) -> [(ProviderId, ProbeId); 2] {
    let ops = ProviderOps { usermode: Some(usermode), ..common::OPS };
    [(c"k", Privileges::KERNEL), (c"u", Privileges::USER)].map(|(name, privileges)| {
        // SAFETY: the tests keep the provider longer than the framework.
        let id =
            unsafe { dtrace.register(name, &ProviderAttr::SDT, privileges, &ops, provider.arg()) };
        let id = id.unwrap();
        (id, create(dtrace, id, [c"m", c"f", c"fired"], 0))
    })
}

fn listed(server: &mut Served<'_>, line: &mut Line) -> Vec<u32> {
    line.ask(1, 5, &Request::List { spec: ":::", after: 0 });
    run(server, line);
    let all = line.answers(|_, _, items| {
        items.iter::<Probe<'_>>().map(|probe| probe.unwrap().id).collect::<Vec<_>>()
    });
    all.into_iter().flatten().collect()
}

#[test]
fn who_may_trace_processes_sees_nothing_of_the_kernel() {
    Threads::bind(3);
    let (provider, dtrace) = (TestProvider::default(), small());
    let [(of_kernel, kernel), (_, user)] = providers(&dtrace, &provider);
    let mut server = Served::new(&*dtrace, &Ten, Rights::new(Privileges::USER));
    let mut line = Line::default();
    ask(&mut server, &mut line, HELLO);
    assert_eq!(listed(&mut server, &mut line), [user.get()]);
    for request in [
        Request::Describe { probe: kernel.get() },
        Request::Argument { probe: kernel.get(), index: 0 },
    ] {
        assert_eq!(refused(&mut server, &mut line, request), Why::NoProbe);
    }
    // Not even if another probe had this number at the last check.
    let types = |probe| Tracer::arg_desc(&*dtrace, probe, 0, Rights::new(Privileges::USER));
    assert!(types(kernel).is_none() && types(user).is_some());
    let sites = Request::Sites { probe: user.get(), skip: 0 };
    assert_eq!(refused(&mut server, &mut line, sites), Why::NotPermitted);
    ask(&mut server, &mut line, Request::Open);
    assert_eq!(enable(&mut server, &mut line, ":::"), "Matched { probes: 1 }");
    // It does not get later probes either.
    let later = create(&*dtrace, of_kernel, [c"m", c"f", c"later"], 0);
    ask(&mut server, &mut line, Request::Go);
    for n in 0..6 {
        dtrace.probe(user, &[n; 6]);
        dtrace.probe(kernel, &[100; 6]);
        dtrace.probe(later, &[200; 6]);
    }
    let (args, drops) = read_all(&mut server, &mut line);
    // Every other hit was in user mode; `usermode` was not called for the kernel's hits.
    assert_eq!((args.len(), drops), (3, 0), "{args:?}");
    assert!(args.iter().all(|&n| n < 6), "{args:?}");
}

#[test]
fn who_may_trace_the_kernel_sees_all() {
    Threads::bind(3);
    let (provider, dtrace) = (TestProvider::default(), small());
    let [(_, kernel), (_, user)] = providers(&dtrace, &provider);
    let mut server = Served::new(&*dtrace, &Ten, Rights::new(Privileges::KERNEL));
    let mut line = Line::default();
    ask(&mut server, &mut line, HELLO);
    assert_eq!(listed(&mut server, &mut line), [kernel.get(), user.get()]);
    line.ask(1, 5, &Request::Sites { probe: user.get(), skip: 0 });
    run(&mut server, &mut line);
    assert_eq!(line.answers(|_, reply, _| reply == Reply::Sites), [true]);
}

#[test]
fn who_may_nothing_learns_nothing() {
    let (provider, dtrace) = (TestProvider::default(), small());
    let [(_, kernel), _] = providers(&dtrace, &provider);
    let mut server = Served::new(&*dtrace, &Ten, Rights::NONE);
    let mut line = Line::default();
    ask(&mut server, &mut line, HELLO);
    for request in [
        Request::Open,
        Request::List { spec: ":::", after: 0 },
        Request::Describe { probe: kernel.get() },
        Request::Status,
    ] {
        assert_eq!(refused(&mut server, &mut line, request), Why::NotPermitted);
    }
}
