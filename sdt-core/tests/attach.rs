//! Attaching and detaching, in a process of its own.

use recording_host::site_bytes;
use sdt_core::attach::{self, Attachment, DetachError, Refusal, RefusedProvider};
use sdt_core::ops::FrameworkError;
use sdt_core::patch::Mode;
use sdt_core::{sdt_probe, sdt_provider};

sdt_provider! {
    first {
        fn fires(n: u32);
    }
}
sdt_provider!(second);

fn fire(n: u32) {
    sdt_probe!(first::fires, n);
    sdt_probe!(second::fires, n);
}

#[test]
fn a_refused_detach_changes_nothing_and_a_granted_one_ends_it() {
    let recorder = recording_host::attach(Mode::Trap);
    let id = recorder.find("first", "fires").unwrap();
    recorder.enable(id);

    // The second provider refuses after the first has unregistered, so the first must register again.
    *recorder.refuses.lock().unwrap() = Some("second");
    recorder.disable(id);
    let refused = |provider| {
        let provider = RefusedProvider::Declared(provider);
        let refusal = Refusal { provider, probe: None, error: FrameworkError::Busy };
        Err(DetachError::Refused(refusal))
    };
    assert_eq!(attach::detach(), refused(c"second"));
    assert_eq!(recorder.names(), ["second:test::fires", "first:test::fires"]);
    let id = recorder.find("first", "fires").unwrap();
    recorder.enable(id);

    *recorder.refuses.lock().unwrap() = Some("first");
    assert_eq!(attach::detach(), refused(c"first"));
    fire(1);
    assert_eq!((recorder.hits(id), recorder.args(id)[0]), (1, 1));

    recorder.disable(id);
    // The hit of a thread that had left its site when the probe was disabled.
    let words = [3u64];
    // SAFETY: a record of this image and one word.
    unsafe { sdt_core::__private::fire::fire(&first::fires, words.as_ptr(), 1, std::ptr::null()) };
    assert_eq!(recorder.hits(id), 1);

    *recorder.refuses.lock().unwrap() = None;
    assert_eq!(attach::detach(), Ok(()));
    assert_eq!(first::fires.id(), None);
    assert!(
        site_bytes(&first::fires)
            .iter()
            .all(|text| text == sdt_core::site::ENCODING.nop.as_bytes())
    );
    fire(2);
    assert_eq!(recorder.hits(id), 1);
    assert_eq!(attach::detach(), Ok(()), "once more is no harm");

    // The hit of a thread that had left its site when the image was detached.
    // SAFETY: a record of this image and one word.
    unsafe { sdt_core::__private::fire::fire(&first::fires, words.as_ptr(), 1, std::ptr::null()) };
    assert_eq!(recorder.hits(id), 1);

    let attachment = Attachment {
        framework: recorder,
        patcher: &recording_host::Text,
        mode: Mode::Trap,
        module: c"again",
    };
    // SAFETY: the handler that `recording_host` installed consults `resume_address`, and this program is never unloaded.
    unsafe { attach::attach(Box::leak(Box::new(attachment))) }.unwrap();
    // In the order of the linker.
    let mut names = recorder.names();
    names.sort();
    assert_eq!(names, ["first:again::fires", "second:again::fires"]);
    let id = recorder.find("first", "fires").unwrap();
    recorder.enable(id);
    fire(4);
    recorder.disable(id);
    assert_eq!((recorder.hits(id), recorder.args(id)[0]), (1, 4));
}
