//! Lists probes, and enables them without a program.

use dtrace_protocol::{Reply, Request};

use super::answer::{probe, probes, sites};
use super::error::there;
use super::{ArgType, Client, ClientError, Detail, Probe, Site};
use crate::budget::Use;
use crate::escape::name;

impl Client {
    /// Returns the probes that a description matches, in the order of their IDs.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn list(&mut self, spec: &str) -> Result<Vec<Probe>, ClientError> {
        let mut all: Vec<Probe> = Vec::new();
        let mut share = self.budget.share(Use::Probes);
        loop {
            let after = all.last().map_or(0, |probe| probe.id);
            let more = self.list_after(spec, after)?;
            if more.is_empty() {
                return Ok(all);
            }
            // A kernel whose IDs do not increase would never end the list.
            if more.first().is_some_and(|probe| probe.id <= after)
                || !more.is_sorted_by_key(|probe| probe.id)
            {
                return Err(ClientError::Strange("list"));
            }
            share.add(more.iter().map(Probe::bytes).sum())?;
            all.extend(more);
        }
    }

    /// Returns the next probes that a description matches, with IDs greater than `after`, in the order of IDs. The result may be
    /// incomplete: repeat the request with the last ID, until it is empty.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn list_after(&mut self, spec: &str, after: u32) -> Result<Vec<Probe>, ClientError> {
        self.call("list", Request::List { spec, after }, |reply, items| {
            if reply == Reply::Probes { probes(items) } else { None }
        })
    }

    /// Returns the stability and argument types of a probe; `None` if it has disappeared, even if another probe has its ID now.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn describe(&mut self, probe: &Probe) -> Result<Option<Detail>, ClientError> {
        let Some(mut detail) = self.detail(probe)? else { return Ok(None) };
        let mut share = self.budget.share(Use::Probes);
        for index in 0..=u8::MAX {
            let request = Request::Argument { probe: probe.id, index };
            let argument = self.call("argument", request, |reply, _| {
                let Reply::Argument(argument) = reply else { return None };
                Some(argument.map(|of| ArgType {
                    native: name(of.native),
                    translated: (!of.translated.is_empty()).then(|| name(of.translated)),
                    name: None,
                    obstacle: None,
                }))
            });
            match there(argument)? {
                Some(Some(argument)) => {
                    share.add(argument.bytes())?;
                    detail.types.push(argument);
                }
                Some(None) => break,
                None => return Ok(None),
            }
        }
        // The types belong to this probe if it existed during all requests.
        let is_there = detail.types.is_empty() || self.detail(probe)?.is_some();
        Ok(is_there.then_some(detail))
    }

    /// Requests the attributes of a probe.
    fn detail(&mut self, wanted: &Probe) -> Result<Option<Detail>, ClientError> {
        let request = Request::Describe { probe: wanted.id };
        let found = self.call("describe", request, |reply, _| {
            let Reply::Detail(of) = reply else { return None };
            let (probe, args, provider) = (of.stability, of.args, of.provider);
            let types = Vec::new();
            let (privileges, untyped) = (of.privileges, None);
            let detail = Detail { probe, args, provider, privileges, types, untyped };
            Some((self::probe(of.probe) == *wanted).then_some(detail))
        });
        Ok(there(found)?.flatten())
    }

    /// Returns a probe by its ID.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn probe(&mut self, id: u32) -> Result<Option<Probe>, ClientError> {
        let request = Request::Describe { probe: id };
        let found = self.call("describe", request, |reply, _| match reply {
            Reply::Detail(of) => Some(probe(of.probe)),
            _ => None,
        });
        there(found)
    }

    /// Returns the sites of a probe in the order of their addresses; none if the probe has disappeared.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn sites(&mut self, probe: u32) -> Result<Vec<Site>, ClientError> {
        let mut all = Vec::new();
        let mut share = self.budget.share(Use::Probes);
        loop {
            let skip = all.len() as u32;
            let more = self.call("sites", Request::Sites { probe, skip }, |reply, items| {
                if reply == Reply::Sites { sites(items) } else { None }
            });
            let more = there(more)?.unwrap_or_default();
            if more.is_empty() {
                return Ok(all);
            }
            // A kernel that starts again would never end the list.
            let last = all.last().map(|site: &Site| site.address);
            if more.first().map(|site| site.address) <= last
                || !more.is_sorted_by_key(|site| site.address)
            {
                return Err(ClientError::Strange("sites"));
            }
            share.add(more.iter().map(Site::bytes).sum())?;
            all.extend(more);
        }
    }
}
