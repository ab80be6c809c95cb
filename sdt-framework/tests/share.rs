//! The memory for buffers is divided among the configured consumers.

mod common;

use common::{Five as _, TestProvider, create, drain, memory, spec};
use dtrace_abi::option::OptionId;
use sdt_framework::smp::{Machine, Tracing};
use sdt_framework::{Config, ConsumerError};

/// One CPU.
struct Single;

static SHARED: Tracing<Single, 1> = Tracing::new(c"shared");

// SAFETY: there is one CPU, and no text is written.
unsafe impl Machine for Single {
    fn cpu() -> usize {
        0
    }

    fn cpus() -> usize {
        1
    }

    fn timestamp() -> u64 {
        0
    }

    fn without_interrupts<R>(f: impl FnOnce() -> R) -> R {
        f()
    }

    fn interrupt_others() {}
}

/// Three consumers, as in the guide. Each requests a buffer of 4 MB, as dtrace(1) does.
#[test]
fn a_consumer_with_large_buffers_leaves_room_for_the_others() {
    const CONFIG: Config =
        Config { providers: 3, probes: 16, ecbs: 16, consumers: 3, buffer: 512 << 10 };
    let bytes = Tracing::<Single, 1>::memory(&CONFIG, 3);
    // SAFETY: this program has no probes.
    let dtrace = unsafe { SHARED.start(memory(bytes), &CONFIG) }.unwrap();
    // SAFETY: the provider is never freed.
    let id = unsafe { Box::leak(Box::new(TestProvider::default())).register(dtrace, c"shared") };
    let probe = create(dtrace, id.unwrap(), [c"", c"", c"hit"], 0);
    let start = || {
        let consumer = dtrace.open()?;
        dtrace.set_option(consumer, OptionId::Bufsize.number(), 4 << 20)?;
        assert_eq!(dtrace.enable(consumer, &spec("shared:::hit"))?, 1);
        dtrace.go(consumer)?;
        Ok(consumer)
    };
    let all = [(), (), ()].map(|()| start().unwrap());
    assert_eq!(start(), Err(ConsumerError::TooManyConsumers { max: 3 }));
    dtrace.five(probe.get(), [7; 5]);
    for consumer in all {
        assert_eq!(drain(dtrace, consumer, 0).len(), 1);
        let mut chosen = None;
        let mut from = 0;
        while let Some((option, value)) = dtrace.next_option(consumer, from).unwrap() {
            if option == OptionId::Bufsize.number() {
                chosen = Some(value);
            }
            from = option + 1;
        }
        // The consumer learns the size that it got: two halves for each of three consumers.
        assert!(chosen.is_some_and(|bytes| (256 << 10..=512 << 10).contains(&bytes)), "{chosen:?}");
    }
    for consumer in all {
        dtrace.close(consumer).unwrap();
    }
}
