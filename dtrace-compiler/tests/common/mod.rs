//! A description of the machine on which the real dtrace(1) ran: it has two providers, and no types or symbols.

use dtrace_abi::stability::{Attribute, Class, Stability};
use dtrace_compiler::surroundings::{
    Description, Matches, ProbeInfo, ProviderAttributes, Surroundings,
};

#[derive(Debug)]
pub struct Machine;

const STABLE: Attribute = Attribute::DEFAULT;
const UNSTABLE: Attribute = Attribute::UNSTABLE;
const PRIVATE: Attribute =
    Attribute { name: Stability::Private, data: Stability::Private, class: Class::Unknown };

/// Returns whether a glob without brackets matches.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        _ if pattern.is_empty() => true,
        None => pattern == text,
        Some((before, after)) => {
            text.starts_with(before)
                && text.len() >= before.len() + after.len()
                && text.ends_with(after)
        }
    }
}

impl Surroundings for Machine {
    fn probes(&self, description: &Description) -> Matches {
        let attributes = ProviderAttributes {
            provider: STABLE,
            module: PRIVATE,
            function: PRIVATE,
            name: STABLE,
            args: STABLE,
        };
        let info = ProbeInfo::new(String::new(), attributes, Vec::new());
        if description.id != 0 {
            return if description.id <= 3 { Matches::One(info) } else { Matches::None };
        }
        let none = description.module.is_empty() && description.function.is_empty();
        let ticks = ["tick-", "profile-"].iter().any(|prefix| {
            let rate = description.name.strip_prefix(prefix).unwrap_or("x");
            let unit = rate.trim_start_matches(|c: char| c.is_ascii_digit());
            unit.len() < rate.len()
                && ["", "hz", "s", "sec", "ms", "msec", "us", "usec", "ns", "nsec", "m", "min"]
                    .contains(&unit)
        });
        if ticks && none && matches(&description.provider, "profile") {
            let attributes = ProviderAttributes::all(UNSTABLE);
            let attributes =
                ProviderAttributes { args: STABLE, name: STABLE, provider: STABLE, ..attributes };
            return Matches::One(ProbeInfo::new(String::new(), attributes, Vec::new()));
        }
        if !none || !matches(&description.provider, "dtrace") {
            return Matches::None;
        }
        let names = ["BEGIN", "END", "ERROR"];
        match names.iter().filter(|name| matches(&description.name, name)).count() {
            0 => Matches::None,
            1 => Matches::One(info),
            _ => Matches::Several(info),
        }
    }

    fn probe(&self, id: u32) -> Option<Description> {
        let name = ["BEGIN", "END", "ERROR"].get(id.checked_sub(1)? as usize)?;
        Some(Description {
            id,
            provider: "dtrace".into(),
            name: (*name).into(),
            ..Description::default()
        })
    }

    fn has_type(&self, _: Option<&str>, _: &str) -> bool {
        false
    }

    fn macro_variable(&self, name: &str) -> Option<i64> {
        match name {
            "pid" | "ppid" => Some(100),
            "target" | "uid" | "euid" | "gid" | "egid" | "pgid" | "sid" | "projid" | "taskid" => {
                Some(0)
            }
            _ => None,
        }
    }
}
