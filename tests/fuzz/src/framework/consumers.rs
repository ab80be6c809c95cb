//! Consumers open, list, enable, go, stop and close.

use sdt_framework::{ConsumerError, ConsumerId, Spec};

use super::host::Call;
use super::steps::Text;
use super::{CONSUMERS, Consumer, ECBS, ENABLINGS, Model};

impl Model<'_> {
    pub(super) fn open(&mut self) {
        let result = self.dtrace.open();
        if self.consumers.len() == CONSUMERS {
            assert_eq!(result, Err(ConsumerError::TooManyConsumers { max: CONSUMERS }));
            return;
        }
        if matches!(result, Err(ConsumerError::NoMemory { .. })) {
            assert!(self.retained.len() >= ENABLINGS);
            return;
        }
        let id = result.expect("there is room");
        assert!(self.opened(id).is_err());
        let (buffers, drops) = Default::default();
        self.consumers.push(Consumer { id, going: false, last_epid: 0, buffers, drops });
    }

    pub(super) fn close(&mut self, id: ConsumerId) {
        let expected = self.opened(id).map(drop);
        assert_eq!(self.dtrace.close(id), expected);
        let all: Vec<_> = self.probes.keys().copied().collect();
        self.take_away(id, &all);
        self.retained.retain(|(consumer, _)| *consumer != id);
        self.consumers.retain(|consumer| consumer.id != id);
    }

    /// Returns the probes that a description matches; `None` if the text is not a description.
    pub(super) fn list(&self, text: &Text) -> Option<(Spec, Vec<u32>)> {
        let spec = text.parse()?;
        let mut listed = Vec::new();
        let count =
            self.dtrace.for_each_probe(&spec, |probe| listed.push(probe.id().get())).unwrap();
        assert_eq!(count as usize, listed.len());
        assert!(listed.is_sorted());
        for (id, probe) in &self.probes {
            let provider = self.known(probe.provider).expect("a probe has a provider");
            let is_listed = listed.contains(id);
            match text.matches(provider.name, probe) {
                Some(matches) => assert_eq!(is_listed, matches && !provider.defunct),
                None => assert!(!is_listed || !provider.defunct),
            }
        }
        assert!(listed.iter().all(|id| self.probes.contains_key(id)));
        Some((spec, listed))
    }

    pub(super) fn enable(&mut self, id: ConsumerId, text: &Text) {
        let Some((spec, listed)) = self.list(text) else { return };
        let taken: usize = self.probes.values().map(|probe| probe.enabled.len()).sum();
        let (needed, left) = (listed.len(), ECBS - taken);
        let expected = match self.opened(id) {
            Err(error) => Err(error),
            Ok(_) if needed > left => Err(ConsumerError::TooManyEnablings { needed, left }),
            Ok(_) => Ok(needed as u32),
        };
        let result = self.dtrace.enable(id, &spec);
        if matches!(result, Err(ConsumerError::NoMemory { .. })) {
            assert!(expected.is_ok() && self.retained.len() >= ENABLINGS);
            return;
        }
        assert_eq!(result, expected);
        if expected.is_err() {
            return;
        }
        self.retained.push((id, spec));
        for probe in listed {
            let epid = self.next_epid(id);
            let enabled = &mut self.probes.get_mut(&probe).expect("it is listed").enabled;
            enabled.push((id, epid));
            if enabled.len() == 1 {
                self.calls.push(Call::Enable(probe));
            }
        }
    }

    pub(super) fn disable(&mut self, id: ConsumerId, text: &Text) {
        let Some((spec, listed)) = self.list(text) else { return };
        let result = self.dtrace.disable(id, &spec);
        match self.opened(id).map(drop) {
            Err(error) => assert_eq!(result, Err(error)),
            Ok(()) => {
                assert_eq!(result, Ok(self.take_away(id, &listed)));
                let is_all = spec == Spec::ALL;
                self.retained.retain(|(by, kept)| *by != id || !is_all && *kept != spec);
            }
        }
    }

    /// Removes a consumer's enablings of these probes. Returns the number of probes that had one.
    fn take_away(&mut self, id: ConsumerId, probes: &[u32]) -> u32 {
        let mut count = 0;
        for probe in probes {
            let enabled = &mut self.probes.get_mut(probe).expect("it is listed").enabled;
            let before = enabled.len();
            enabled.retain(|&(by, _)| by != id);
            let (changed, is_empty) = (enabled.len() != before, enabled.is_empty());
            count += u32::from(changed);
            if changed && is_empty {
                self.calls.push(Call::Disable(*probe));
            }
        }
        count
    }

    pub(super) fn set_going(&mut self, id: ConsumerId, going: bool) {
        let result = if going { self.dtrace.go(id) } else { self.dtrace.stop(id) };
        let enablings = self.retained.len();
        let expected = self.opened(id).map(|consumer| {
            if matches!(result, Err(ConsumerError::NoMemory { .. })) {
                assert!(going && enablings >= ENABLINGS);
                return false;
            }
            consumer.going = going;
            true
        });
        if expected != Ok(false) {
            assert_eq!(result, expected.map(drop));
        }
    }
}
