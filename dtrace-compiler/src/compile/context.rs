//! The probe that a clause is compiled for (`dt_setcontext`, dt_cc.c; `dt_probe_info`, dt_provider.c).

use dtrace_abi::ErrTag;
use dtrace_abi::glob;
use dtrace_abi::stability::{Attribute, Stability};

use crate::error::Result;
use crate::sema::{Probe, Session};
use crate::surroundings::{Description, Matches, ProbeInfo, ProviderAttributes};

/// Names that get their attributes from the probe's provider.
const NAMES: [&str; 5] = ["probeprov", "probemod", "probefunc", "probename", "args"];

/// Enters the context of a probe description. `named` has the arguments that the clause uses by name.
pub(super) fn enter(
    session: &mut Session<'_>,
    description: &Description,
    named: Option<ProbeInfo>,
) -> Result<()> {
    let info = match session.surroundings.probes(description) {
        Matches::None if session.state.options.no_probes => None,
        Matches::None => {
            let Description { provider, module, function, name, .. } = description;
            let message = format!(
                "probe description {provider}:{module}:{function}:{name} does not match any probes"
            );
            return session.error(ErrTag::PdescZero, message);
        }
        Matches::One(info) => Some(info),
        Matches::Several(info) => Some(info).filter(|info| is_stable(info, description)),
    };
    if let Some(info) = named.as_ref().or(info.as_ref()) {
        look_in(session, &info.module)?;
    }
    let attributes = match &info {
        Some(info) if !is_glob(&description.provider) || description.id != 0 => info.attributes,
        _ => ProviderAttributes::all(Attribute::UNSTABLE),
    };
    let mut attr = attributes.provider;
    if info.is_some() {
        for (part, part_attr) in [
            (&description.module, attributes.module),
            (&description.function, attributes.function),
            (&description.name, attributes.name),
        ] {
            if !is_glob(part) {
                attr = attr.min(part_attr);
            }
        }
    }
    let each = match &info {
        Some(info) => info.attributes,
        None => ProviderAttributes::all(Attribute::UNSTABLE),
    };
    let values = [each.provider, each.module, each.function, each.name, each.args];
    for (name, attr) in NAMES.into_iter().zip(values) {
        set_attr(session, name, attr);
    }
    session.probe = Some(Probe { description: description.clone(), info, named, attr });
    Ok(())
}

/// Leaves the context.
pub(super) fn leave(session: &mut Session<'_>) {
    for name in NAMES {
        set_attr(session, name, Attribute::DEFAULT);
    }
    session.probe = None;
    session.state.types.look_in(None);
}

/// Selects the module whose declarations take precedence over those of other modules. Fails if they contain an error.
fn look_in(session: &mut Session<'_>, module: &str) -> Result<()> {
    let room = session.types().room(module);
    let failed = room.and_then(|room| session.state.modules.get(room)?.failed.clone());
    session.state.types.look_in(room);
    failed.map_or(Ok(()), Err)
}

/// Selects the declarations of the first probe's module, for names that are resolved before the probe is known.
pub(super) fn approach(session: &mut Session<'_>, description: Option<&Description>) {
    let module = description.and_then(|of| match session.surroundings.probes(of) {
        Matches::One(info) | Matches::Several(info) => Some(info.module),
        Matches::None => None,
    });
    let room = module.and_then(|module| session.types().room(&module));
    session.state.types.look_in(room);
}

fn set_attr(session: &mut Session<'_>, name: &str, attr: Attribute) {
    if let Some(id) = session.state.globals.get(name) {
        session.ident_mut(id).attr = attr;
    }
}

/// Returns whether a clause can be compiled once for several probes: the data of their arguments must be at least `Evolving`, and
/// each part of the description that is a pattern must select names less stable than `Evolving`.
fn is_stable(info: &ProbeInfo, description: &Description) -> bool {
    let attributes = &info.attributes;
    let open = [
        (attributes.module, &description.module),
        (attributes.function, &description.function),
        (attributes.name, &description.name),
    ];
    attributes.args.data >= Stability::Evolving
        && !open.iter().any(|(attr, part)| attr.name >= Stability::Evolving && is_glob(part))
}

fn is_glob(part: &str) -> bool {
    part.is_empty() || glob::is_glob(part.as_bytes())
}
