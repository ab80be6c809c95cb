//! Providers that a program declares (`dt_node_provider`, dt_parser.c).

use dtrace_abi::{ErrTag, limits};

use super::Session;
use super::prototype::Allowed;
use super::state::Provider;
use crate::error::Result;
use crate::syntax::{Item, ItemKind};

impl Session<'_> {
    /// Checks the declaration of a provider. Such declarations are for providers in C; this compiler generates nothing
    /// from them.
    pub fn declare_provider(&mut self, item: &Item) -> Result<()> {
        let ItemKind::Provider { name, probes } = &item.kind else { return Ok(()) };
        let mut provider = Provider { name: name.clone(), probes: Vec::new() };
        for probe in probes {
            self.place = probe.place;
            let shown = format!("::{}", probe.name.replace("__", "-"));
            if shown.contains('`') {
                let message = format!("probe name may not contain scoping operator: {shown}");
                return self.error(ErrTag::ProvBadname, message);
            }
            if shown.len() - 2 >= limits::PROBE_NAME {
                let message = format!(
                    "probe name may not exceed {} characters: {shown}",
                    limits::PROBE_NAME - 1
                );
                return self.error(ErrTag::ProvBadname, message);
            }
            let input = self.parameters(&probe.input, "probe input", Allowed::INPUT)?;
            let mut counts = vec![("input", input.len())];
            if let Some(output) = &probe.output {
                let names: Vec<_> = input.iter().filter_map(|(_, name)| name.clone()).collect();
                let output = self.parameters(output, "probe output", Allowed::OUTPUT)?;
                for (index, (_, name)) in output.iter().enumerate() {
                    if let Some(name) = name.as_ref().filter(|name| !names.contains(name)) {
                        let message = format!(
                            "parameter is not declared in probe output prototype: {name}, parameter #{}",
                            index + 1
                        );
                        return self.error(ErrTag::DeclProtoForm, message);
                    }
                }
                counts.push(("output", output.len()));
            }
            for (what, count) in counts {
                if count > u8::MAX.into() {
                    let message = format!(
                        "probe {shown} {what} prototype exceeds {} parameters: {count} params used",
                        u8::MAX
                    );
                    return self.error(ErrTag::ProvPrarglen, message);
                }
            }
            if provider.probes.contains(&shown) {
                let message = format!("probe redeclared: {name}:{shown}");
                return self.error(ErrTag::ProvPrdup, message);
            }
            provider.probes.push(shown);
        }
        self.place = item.place;
        if name.contains('`') {
            let message = format!("provider name may not contain scoping operator: {name}");
            return self.error(ErrTag::ProvBadname, message);
        }
        if name.len() >= limits::PROVIDER_NAME {
            let message = format!(
                "provider name may not exceed {} characters: {name}",
                limits::PROVIDER_NAME - 1
            );
            return self.error(ErrTag::ProvBadname, message);
        }
        if name.ends_with(|c: char| c.is_ascii_digit()) {
            let message = format!("provider name may not end with a digit: {name}");
            return self.error(ErrTag::ProvBadname, message);
        }
        let known = self.state.providers.iter().find(|known| known.name == *name);
        if let Some(known) = known {
            if let Some(probe) = provider.probes.iter().find(|probe| !known.probes.contains(probe))
            {
                let message = format!(
                    "provider interface mismatch: {name}\n\t current: probe {name}:{probe} defined\n\tprevious: probe {name}:{probe} not defined"
                );
                return self.error(ErrTag::ProvIncompat, message);
            }
        } else {
            self.state.providers.push(provider);
        }
        Ok(())
    }
}
