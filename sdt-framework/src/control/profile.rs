//! The provider `profile`: the probes `profile-N` and `tick-N`.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;

use sdt_core::ops::{
    ARGS, Attribute, Class, FrameworkError, Privileges, ProbeDesc, ProbeId, ProviderAttr,
    ProviderId, ProviderOps, Stability,
};

use crate::base::counters::PerCpu;
use crate::base::host::Host;
use crate::base::sync::{AtomicBool, AtomicU32};
use crate::base::word::Word;
use crate::control::Control;
use crate::run::fire::Args;

/// The shortest interval in nanoseconds (`profile_interval_min`, profile.c).
const SHORTEST: u64 = 200_000;
const SECOND: u64 = 1_000_000_000;
/// The nanoseconds after which a timer that has not fired counts as late.
const LATE: u64 = 2 * SECOND;

/// The probes that exist from the beginning, as in profile.c, if there is room for other probes too.
const LISTED: [&core::ffi::CStr; 13] = [
    c"profile-97",
    c"profile-199",
    c"profile-499",
    c"profile-997",
    c"profile-1999",
    c"profile-4001",
    c"profile-4999",
    c"tick-1",
    c"tick-10",
    c"tick-100",
    c"tick-500",
    c"tick-1000",
    c"tick-5000",
];

/// The provider.
pub(crate) struct Profiles {
    /// Whether a thread registers the provider, or has registered it.
    is_claimed: AtomicBool,
    profile: spin::Once<Profile>,
}

impl Profiles {
    pub(crate) const fn new() -> Self {
        Self { is_claimed: AtomicBool::new(false), profile: spin::Once::new() }
    }

    /// Returns the provider, if it is registered. Probe context.
    fn get(&self) -> Option<&Profile> {
        self.profile.get()
    }
}

/// The provider's timers.
struct Profile {
    provider: ProviderId,
    timers: &'static [Timer],
    /// The next deadlines, for each timer those of all CPUs.
    deadlines: &'static [Word],
    cpus: usize,
}

/// The timer of a probe.
struct Timer {
    /// The number of the timer's probe; 0 if it has none.
    id: AtomicU32,
    is_enabled: AtomicBool,
    /// Whether it was enabled and no consumer has started since.
    is_new: AtomicBool,
    interval: Word,
    /// The number of probes that this provider had created before its probe.
    age: Word,
    /// Whether its probe [exists from the beginning](LISTED).
    is_listed: AtomicBool,
    /// Whether it fires on every CPU: `profile-N`.
    everywhere: AtomicBool,
    /// Whether the host's threads fire it ([`Host::sample_threads`]), and not [`tick`](Control::tick).
    is_sampled: AtomicBool,
}

/// Parses a name: whether the probe fires on every CPU, and its interval in nanoseconds.
fn parse(name: &[u8]) -> Option<(bool, u64)> {
    let (everywhere, rest) = match name.strip_prefix(b"profile-") {
        Some(rest) => (true, rest),
        None => (false, name.strip_prefix(b"tick-")?),
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = rest.split_at_checked(digits).filter(|_| digits > 0)?;
    let number = number.iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })?;
    let is = |names: [&str; 2]| names.iter().any(|it| unit.eq_ignore_ascii_case(it.as_bytes()));
    let each = if is(["ns", "nsec"]) {
        1
    } else if is(["us", "usec"]) {
        1_000
    } else if is(["ms", "msec"]) {
        1_000_000
    } else if is(["s", "sec"]) {
        SECOND
    } else if is(["m", "min"]) {
        60 * SECOND
    } else if is(["h", "hour"]) {
        3_600 * SECOND
    } else if is(["d", "day"]) {
        86_400 * SECOND
    } else if is(["hz", ""]) {
        let interval = SECOND.checked_div(number)?;
        return (interval >= SHORTEST).then_some((everywhere, interval));
    } else {
        return None;
    };
    let interval = number.checked_mul(each)?;
    (interval >= SHORTEST).then_some((everywhere, interval))
}

const UNSTABLE: Attribute =
    Attribute::new(Stability::Unstable, Stability::Unstable, Class::Unknown);
const EVOLVING: Attribute = Attribute::new(Stability::Evolving, Stability::Evolving, Class::Common);

/// The attributes of the probes, as in profile.c.
const ATTRIBUTES: ProviderAttr = ProviderAttr {
    provider: EVOLVING,
    module: UNSTABLE,
    function: Attribute::new(Stability::Private, Stability::Private, Class::Unknown),
    name: EVOLVING,
    args: EVOLVING,
};

/// The ops, for a pointer to a static framework.
const fn ops<H: Host>() -> ProviderOps {
    ProviderOps {
        provide: Some(provide::<H>),
        enable: Some(enable::<H>),
        disable: Some(disable::<H>),
        ..ProviderOps::INERT
    }
}

/// Returns the framework of an op.
///
/// # Safety
/// `arg` is the `arg` of an op here: `register_profile` registers the address of a static `Control<H>`.
unsafe fn framework<H: Host>(arg: *mut c_void) -> &'static Control<H> {
    // SAFETY: `arg` is the address of a static `Control<H>`, by the contract of this function.
    unsafe { &*arg.cast_const().cast() }
}

unsafe extern "C" fn provide<H: Host>(arg: *mut c_void, desc: *const ProbeDesc) {
    // SAFETY: the framework passes the registered `arg`, and a description that is valid during the call, or NULL.
    let (this, desc) = unsafe { (framework::<H>(arg), desc.as_ref()) };
    let Some(profile) = this.profile.get() else { return };
    match desc {
        None => this.list_timers(profile),
        Some(desc) => this.create_timer(profile, desc.name.as_c_str()),
    }
}

unsafe extern "C" fn enable<H: Host>(arg: *mut c_void, _id: u32, parg: *mut c_void) -> c_int {
    // SAFETY: the framework passes the registered `arg`.
    unsafe { framework::<H>(arg) }.turn_timer(parg.addr(), true);
    0
}

unsafe extern "C" fn disable<H: Host>(arg: *mut c_void, _id: u32, parg: *mut c_void) {
    // SAFETY: the framework passes the registered `arg`.
    unsafe { framework::<H>(arg) }.turn_timer(parg.addr(), false);
}

impl<H: Host> Control<H> {
    /// [`Dtrace::register_profile`](crate::Dtrace::register_profile).
    pub(crate) fn register_profile(&'static self, timers: usize) -> Result<(), FrameworkError> {
        if self.profile.is_claimed.swap(true, Ordering::Relaxed) {
            return Err(FrameworkError::Busy);
        }
        let profile = self.create_profile(timers).inspect_err(|_| {
            self.profile.is_claimed.store(false, Ordering::Relaxed);
        })?;
        let profile = self.profile.profile.call_once(|| profile);
        let _registration = self.registration.lock();
        self.providing(|| self.list_timers(profile));
        Ok(())
    }

    fn create_profile(&'static self, timers: usize) -> Result<Profile, FrameworkError> {
        let cpus = self.shared().map_err(|_| FrameworkError::NotReady)?.cpus.len();
        let arg = core::ptr::from_ref(self).cast_mut().cast();
        // SAFETY: the ops expect the address of a static `Control<H>`, and `arg` is the address of `self`.
        let provider =
            unsafe { self.register(c"profile", &ATTRIBUTES, Privileges::USER, &ops::<H>(), arg) }?;
        let Some((timers, deadlines)) = self.timers(timers, cpus) else {
            self.invalidate(provider);
            self.unregister(provider)?;
            return Err(FrameworkError::Full);
        };
        Ok(Profile { provider, timers, deadlines, cpus })
    }

    /// Allocates this number of timers, and their deadlines for each CPU.
    fn timers(&self, timers: usize, cpus: usize) -> Option<(&'static [Timer], &'static [Word])> {
        let mut tables = self.tables.lock();
        let arena = &mut tables.arena;
        let count = timers.checked_mul(cpus)?;
        let made = arena.slice(timers, |_| Timer::new())?;
        let Some(deadlines) = arena.slice(count, |_| Word::new()) else {
            arena.free(made);
            return None;
        };
        Some((made.leak(), deadlines.leak()))
    }

    /// Creates the probes that exist from the beginning. Called with registration locked, like
    /// [`create_timer`](Self::create_timer).
    fn list_timers(&self, profile: &Profile) {
        if profile.timers.len() > LISTED.len() {
            LISTED.iter().for_each(|name| self.create_timer(profile, name));
        }
    }

    /// Creates the probe with this name, if the name is valid, the probe does not exist, and there is room. To make
    /// room, it can destroy a probe that no consumer has enabled. Called with registration locked, so by one thread at
    /// a time.
    fn create_timer(&self, profile: &Profile, name: &core::ffi::CStr) {
        let Some((everywhere, interval)) = parse(name.to_bytes()) else { return };
        if self.probe_lookup(profile.provider, c"", c"", name).is_some() {
            return;
        }
        let Some(index) = profile.free_timer().or_else(|| self.reclaim_timer(profile)) else {
            return;
        };
        let timer = &profile.timers[index];
        timer.interval.set(interval);
        timer.everywhere.store(everywhere, Ordering::Relaxed);
        let newest = profile.timers.iter().map(|timer| timer.age.get()).max();
        timer.age.set(newest.unwrap_or(0) + 1);
        timer.is_listed.store(LISTED.contains(&name), Ordering::Relaxed);
        let tag = core::ptr::without_provenance_mut(index);
        let created = self.find_or_create(profile.provider, [c"", c"", name], 0, tag);
        if let Ok(id) = created {
            timer.id.store(id.get(), Ordering::Release);
        }
    }

    /// Destroys the oldest probe that no consumer has enabled, [listed](LISTED) probes last. Returns the index of its
    /// timer. So a consumer can keep a timer only by enabling its probe.
    fn reclaim_timer(&self, profile: &Profile) -> Option<usize> {
        let mut before = None;
        loop {
            // Ages are different from each other.
            let (key, index) = profile
                .timers
                .iter()
                .enumerate()
                .map(|(index, timer)| {
                    ((timer.is_listed.load(Ordering::Relaxed), timer.age.get()), index)
                })
                .filter(|&(key, _)| before.is_none_or(|before| key > before))
                .min()?;
            let timer = &profile.timers[index];
            if self.destroy_unless_enabled(ProbeId::new(timer.id.load(Ordering::Relaxed))?) {
                timer.id.store(0, Ordering::Relaxed);
                return Some(index);
            }
            before = Some(key);
        }
    }

    fn turn_timer(&self, index: usize, on: bool) {
        let Some(profile) = self.profile.get() else { return };
        let Some(timer) = profile.timers.get(index) else { return };
        if on {
            self.wind(profile, index, timer);
        }
        timer.is_new.store(on, Ordering::Relaxed);
        if timer.everywhere.load(Ordering::Relaxed) {
            let interval = on.then(|| timer.interval.get());
            let is_sampled = self.hits.host.sample_threads(index, interval);
            timer.is_sampled.store(is_sampled, Ordering::Relaxed);
        } else {
            timer.is_sampled.store(false, Ordering::Relaxed);
        }
        // Release: a CPU that sees the timer enabled also sees its interval, deadlines and flags.
        timer.is_enabled.store(on, Ordering::Release);
        self.hits.host.timers_changed();
    }

    /// Sets the first deadline of a timer on each CPU: one interval from now.
    fn wind(&self, profile: &Profile, index: usize, timer: &Timer) {
        let first = self.hits.host.timestamp().saturating_add(timer.interval.get());
        profile.of(index).iter().for_each(|deadline| deadline.set(first));
    }

    /// Starts the timers that were enabled since the last start, when a consumer starts. There may be a long time between
    /// enabling and start, especially over a slow line, and `tick-1s` must fire a second after BEGIN. Called with the tables
    /// locked.
    pub(crate) fn start_timers(&self) {
        let Some(profile) = self.profile.get() else { return };
        for (index, timer) in profile.timers.iter().enumerate() {
            if timer.is_new.load(Ordering::Relaxed) {
                timer.is_new.store(false, Ordering::Relaxed);
                self.wind(profile, index, timer);
            }
        }
    }

    /// [`Dtrace::late_timers`](crate::Dtrace::late_timers).
    pub(crate) fn late_timers(&self) -> u32 {
        let Some(profile) = self.profile.get() else { return 0 };
        let now = self.hits.host.timestamp();
        let is_overdue = |deadline: &Word| deadline.get().saturating_add(LATE) < now;
        // A host may have room for more CPUs than there are. A CPU without any hit may not exist.
        let exists = |cpu: usize| {
            let cpus = self.shared().map_or(&[][..], |shared| shared.cpus);
            cpus.get(cpu).is_some_and(PerCpu::has_hits)
        };
        let is_late = |&(index, timer): &(usize, &Timer)| {
            if !timer.is_enabled.load(Ordering::Acquire) || timer.is_sampled.load(Ordering::Relaxed)
            {
                return false;
            }
            let cpus = if timer.everywhere.load(Ordering::Relaxed) { profile.cpus } else { 1 };
            let deadlines = profile.of(index).get(..cpus).unwrap_or_default();
            let is_late_here =
                |(cpu, deadline): (usize, &Word)| is_overdue(deadline) && exists(cpu);
            deadlines.iter().all(is_overdue) || deadlines.iter().enumerate().any(is_late_here)
        };
        let late = profile.timers.iter().enumerate().filter(is_late).count();
        u32::try_from(late).unwrap_or(u32::MAX)
    }

    /// [`Dtrace::tick`](crate::Dtrace::tick).
    pub(crate) fn tick(&self, kernel_pc: u64, process_pc: u64) -> Option<u64> {
        let profile = self.profile.get()?;
        self.hits.host.without_interrupts(|| {
            let cpu = self.hits.host.cpu();
            let mut next: Option<u64> = None;
            for (index, timer) in profile.timers.iter().enumerate() {
                let here = cpu == 0 || timer.everywhere.load(Ordering::Relaxed);
                if !here
                    || !timer.is_enabled.load(Ordering::Acquire)
                    || timer.is_sampled.load(Ordering::Relaxed)
                {
                    continue;
                }
                let Some(deadline) = profile.of(index).get(cpu) else { continue };
                let (now, mut due) = (self.hits.host.timestamp(), deadline.get());
                if now >= due {
                    let late = now - due;
                    // Skips the deadlines that have passed.
                    let interval = timer.interval.get().max(1);
                    due = now - late % interval + interval;
                    deadline.set(due);
                    if let Some(id) = ProbeId::new(timer.id.load(Ordering::Relaxed)) {
                        let args: [u64; ARGS] = [kernel_pc, process_pc, late, 0, 0, 0, 0, 0, 0, 0];
                        self.record(id.get(), Args::All(&args));
                    }
                }
                next = Some(next.map_or(due, |next| next.min(due)));
            }
            next
        })
    }
}

impl<H: Host> Control<H> {
    /// [`Dtrace::sample`](crate::Dtrace::sample).
    pub(crate) fn sample(&self, timer: usize, kernel_pc: u64, process_pc: u64, late: u64) {
        let Some(timer) = self.profile.get().and_then(|profile| profile.timers.get(timer)) else {
            return;
        };
        self.hits.host.without_interrupts(|| {
            let is_on = timer.is_enabled.load(Ordering::Acquire);
            if is_on
                && timer.is_sampled.load(Ordering::Relaxed)
                && let Some(id) = ProbeId::new(timer.id.load(Ordering::Relaxed))
            {
                let args: [u64; ARGS] = [kernel_pc, process_pc, late, 0, 0, 0, 0, 0, 0, 0];
                self.record(id.get(), Args::All(&args));
            }
        });
    }
}

impl Timer {
    const fn new() -> Self {
        Self {
            id: AtomicU32::new(0),
            is_enabled: AtomicBool::new(false),
            is_new: AtomicBool::new(false),
            interval: Word::new(),
            age: Word::new(),
            is_listed: AtomicBool::new(false),
            everywhere: AtomicBool::new(false),
            is_sampled: AtomicBool::new(false),
        }
    }
}

impl Profile {
    /// Returns the index of a timer without a probe.
    fn free_timer(&self) -> Option<usize> {
        self.timers.iter().position(|timer| timer.id.load(Ordering::Relaxed) == 0)
    }

    /// Returns the next deadlines of a timer, one for each CPU.
    fn of(&self, index: usize) -> &[Word] {
        let rest = self.deadlines.get(index * self.cpus..);
        rest.and_then(|rest| rest.get(..self.cpus)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_how_often() {
        let cases: [(&str, Option<(bool, u64)>); 24] = [
            ("profile-97", Some((true, 1_000_000_000 / 97))),
            ("profile-4999hz", Some((true, 200_040))),
            ("profile-5000", Some((true, 200_000))),
            ("profile-5001", None),
            ("tick-1", Some((false, 1_000_000_000))),
            ("tick-1s", Some((false, 1_000_000_000))),
            ("tick-3sec", Some((false, 3_000_000_000))),
            ("tick-10ms", Some((false, 10_000_000))),
            ("tick-10MSEC", Some((false, 10_000_000))),
            ("tick-250us", Some((false, 250_000))),
            ("tick-250usec", Some((false, 250_000))),
            ("tick-200000ns", Some((false, 200_000))),
            ("tick-200000nsec", Some((false, 200_000))),
            ("tick-199999ns", None),
            ("tick-2m", Some((false, 120_000_000_000))),
            ("tick-2min", Some((false, 120_000_000_000))),
            ("tick-1h", Some((false, 3_600_000_000_000))),
            ("tick-1hour", Some((false, 3_600_000_000_000))),
            ("tick-1d", Some((false, 86_400_000_000_000))),
            ("tick-2day", Some((false, 172_800_000_000_000))),
            ("tick-", None),
            ("tick-0", None),
            ("tick-99999999999999999999s", None),
            ("tock-1", None),
        ];
        for (name, expected) in cases {
            assert_eq!(parse(name.as_bytes()), expected, "{name}");
        }
        assert!(LISTED.iter().all(|name| parse(name.to_bytes()).is_some()));
    }
}
