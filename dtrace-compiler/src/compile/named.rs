//! Compiles clauses that use arguments by name, once for each group of probes.
//!
//! The positions of an argument depend on the probe. So a clause with names is compiled once for each provider and probe name, or
//! once for each module if the probes of that name have different arguments, or once for each function if the functions of a module
//! have different arguments. The descriptions of each match no other probes.

use std::collections::BTreeMap;

use dtrace_abi::ErrTag;
use dtrace_abi::glob;

use super::spec::literally;
use crate::arguments;
use crate::error::Result;
use crate::place::Place;
use crate::sema::{Node, Session, name_in};
use crate::suggest::closest;
use crate::surroundings::{Description, ProbeInfo};

/// The greatest number of probes that an error lists.
const LISTED: usize = 8;

/// A description for which a clause is compiled.
pub(super) struct Context {
    pub description: Description,
    pub place: Place,
    /// The properties of its probes, if the clause uses their arguments by name.
    pub named: Option<ProbeInfo>,
}

/// A name that a clause uses, and the part of the clause with its first use.
type Uses<'c> = BTreeMap<&'c str, (Place, &'static str)>;

/// Returns the descriptions for which a clause with these probes, predicate and statements is compiled.
pub(super) fn contexts(
    session: &mut Session<'_>,
    probes: &[(Description, Place)],
    predicate: Option<&Node>,
    statements: &[&Node],
) -> Result<Vec<Context>> {
    let mut uses = Uses::new();
    if let Some(predicate) = predicate {
        collect(predicate, "predicate", &mut uses);
    }
    for node in statements {
        collect(node, "action list", &mut uses);
    }
    let mut contexts = Vec::new();
    let mut lacking = Vec::new();
    for (description, place) in probes {
        let (description, place) = (description.clone(), *place);
        if uses.is_empty() {
            contexts.push(Context { description, place, named: None });
            continue;
        }
        let probes = session.surroundings.each(&description);
        let lacks = |(_, info): &&(Description, ProbeInfo)| {
            uses.keys().any(|name| arguments::find(&info.arguments, name).is_none())
        };
        lacking.extend(probes.iter().filter(lacks).cloned());
        match probes.is_empty() {
            // The context decides whether this is an error.
            true => contexts.push(Context { description, place, named: None }),
            false => group(&description, place, &probes, &mut contexts),
        }
    }
    check(session, &uses, &lacking)?;
    Ok(contexts)
}

/// Collects the names of arguments that a node uses.
fn collect<'c>(node: &'c Node, region: &'static str, uses: &mut Uses<'c>) {
    if let Some(name) = name_in(node) {
        uses.entry(name).or_insert((node.place, region));
    }
    for child in node.children() {
        collect(child, region, uses);
    }
}

/// Adds descriptions for the probes that a description matches: one for each provider and probe name, or one for each of their
/// modules if their arguments differ, or one for each function if those of a module differ.
fn group(
    description: &Description,
    place: Place,
    probes: &[(Description, ProbeInfo)],
    contexts: &mut Vec<Context>,
) {
    let is_literal = |part: &str| !part.is_empty() && !glob::is_glob(part.as_bytes());
    let are_same = |probes: &[&(Description, ProbeInfo)]| {
        probes.windows(2).all(|two| two[0].1.arguments == two[1].1.arguments)
    };
    let mut groups: BTreeMap<[&str; 2], Vec<&(Description, ProbeInfo)>> = BTreeMap::new();
    for probe in probes {
        groups.entry([&probe.0.provider, &probe.0.name]).or_default().push(probe);
    }
    let is_exact =
        description.id != 0 || is_literal(&description.provider) && is_literal(&description.name);
    for ([provider, name], probes) in groups {
        let mut context = |description: Description, info: &ProbeInfo| {
            contexts.push(Context { description, place, named: Some(info.clone()) });
        };
        let narrowed = Description {
            id: 0,
            provider: literally(provider),
            name: literally(name),
            ..description.clone()
        };
        match are_same(&probes) {
            true if is_exact => context(description.clone(), &probes[0].1),
            true => context(narrowed, &probes[0].1),
            // Modules or functions have probes of this name with different arguments.
            false => {
                let mut modules: Vec<Vec<&(Description, ProbeInfo)>> = Vec::new();
                for probe in probes {
                    let is_same =
                        |of: &&mut Vec<&(Description, ProbeInfo)>| of[0].0.module == probe.0.module;
                    match modules.iter_mut().find(is_same) {
                        Some(module) => module.push(probe),
                        None => modules.push(vec![probe]),
                    }
                }
                for probes in modules {
                    let module = literally(&probes[0].0.module);
                    if are_same(&probes) {
                        context(Description { module, ..narrowed.clone() }, &probes[0].1);
                        continue;
                    }
                    // Functions have arguments of their own.
                    for (probe, info) in probes {
                        let (module, function) = (module.clone(), literally(&probe.function));
                        context(Description { module, function, ..narrowed.clone() }, info);
                    }
                }
            }
        }
    }
}

/// Checks that each probe has each argument.
fn check(
    session: &mut Session<'_>,
    uses: &Uses<'_>,
    lacking: &[(Description, ProbeInfo)],
) -> Result<()> {
    let mut in_order: Vec<_> = uses.iter().collect();
    in_order.sort_by_key(|(_, (place, _))| (place.line, place.start));
    for (name, &(place, region)) in in_order {
        let missing: Vec<_> = lacking
            .iter()
            .filter(|(_, info)| arguments::find(&info.arguments, name).is_none())
            .collect();
        let mut probes: Vec<String> = missing
            .iter()
            .map(|(Description { provider, module, function, name, .. }, info)| {
                match info.is_function {
                    true => format!("{provider}:{module}:{function}:{name}"),
                    false => format!("{provider}:::{name}"),
                }
            })
            .collect();
        probes.sort();
        probes.dedup();
        let Some((_, info)) = missing.first() else { continue };
        let known = arguments::names(&info.arguments);
        let similar = closest(name, known.iter().copied());
        let message = match &probes[..] {
            [probe] if info.untyped.is_some() => {
                let why = info.untyped.as_deref().unwrap_or_default();
                format!("{probe} has no argument {name}: {why}")
            }
            [probe] if known.is_empty() && info.is_function => {
                format!("{probe} has no argument {name}: it has no arguments with names")
            }
            [probe] if known.is_empty() => {
                format!("{probe} has no argument {name}: its arguments have no names")
            }
            [probe] => format!("{probe} has no argument {name}, only {}", known.join(", ")),
            all => {
                let listed = all[..all.len().min(LISTED)].join(", ");
                let rest = all.len().saturating_sub(LISTED);
                let others = if rest > 0 { format!(" and {rest} others") } else { String::new() };
                format!("these probes have no argument {name}: {listed}{others}")
            }
        };
        session.place = place;
        session.region = Some(region);
        return session.unknown_name(ErrTag::ArgsIdx, message, similar);
    }
    Ok(())
}
