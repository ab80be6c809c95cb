//! Probe descriptions (`dtrace_xstr2desc`, dt_subr.c).

use dtrace_abi::spec::{Field, pieces};
use dtrace_abi::{ErrTag, limits};

use crate::error::Result;
use crate::place::Place;
use crate::sema::Session;
use crate::surroundings::Description;
use crate::syntax::ProbeSpec;

/// The meaning of the last part of a description: with `-n` and in files a name, with `-P` a provider, and so on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Specifies {
    /// `-P`
    Provider,
    /// `-m`
    Module,
    /// `-f`
    Function,
    /// `-n`
    #[default]
    Name,
}

/// The program's arguments, and whether it uses each.
pub(super) struct Arguments<'a> {
    pub all: &'a [String],
    pub used: Vec<bool>,
}

pub(super) fn describe(
    session: &mut Session<'_>,
    spec: &ProbeSpec,
    arguments: &mut Arguments<'_>,
    specifies: Specifies,
) -> Result<(Description, Place)> {
    match spec {
        ProbeSpec::Id(id, place) => {
            session.place = *place;
            Ok((by_id(session, *id, specifies)?, *place))
        }
        ProbeSpec::Description(text, place) => {
            session.place = *place;
            match by_name(session, text, arguments, specifies) {
                Ok(description) => Ok((description, *place)),
                Err(why) => {
                    let message = format!("invalid probe description \"{text}\": {why}");
                    session.error(ErrTag::PdescInval, message)
                }
            }
        }
    }
}

fn by_id(session: &Session<'_>, id: u64, specifies: Specifies) -> Result<Description> {
    let Ok(number) = u32::try_from(id) else {
        let message = format!("identifier {id} exceeds maximum probe id");
        return session.error(ErrTag::PdescInval, message);
    };
    let what = match specifies {
        Specifies::Provider => "providers",
        Specifies::Module => "modules",
        Specifies::Function => "functions",
        Specifies::Name => {
            if let Some(Description { provider, module, function, name, .. }) =
                session.surroundings.probe(number)
            {
                let [provider, module, function, name] =
                    [provider, module, function, name].map(|part| literally(&part));
                return Ok(Description { id: number, provider, module, function, name });
            }
            let message = format!("invalid probe identifier {id}: Unknown probe identifier");
            return session.error(ErrTag::PdescInval, message);
        }
    };
    let message = format!("probe identifier {id} not permitted when specifying {what}");
    session.error(ErrTag::PdescInval, message)
}

/// Returns the pattern that matches only this name: names of functions in Rust contain brackets and stars.
pub(super) fn literally(name: &str) -> String {
    let mut pattern = String::new();
    for character in name.chars() {
        if matches!(character, '*' | '?' | '[' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

fn by_name(
    session: &Session<'_>,
    text: &str,
    arguments: &mut Arguments<'_>,
    specifies: Specifies,
) -> std::result::Result<Description, &'static str> {
    let mut description = Description::default();
    let count = specifies as usize + 1;
    let fields = [
        (&mut description.provider, limits::PROVIDER_NAME),
        (&mut description.module, limits::MODULE_NAME),
        (&mut description.function, limits::FUNCTION_NAME),
        (&mut description.name, limits::PROBE_NAME),
    ];
    // Fills parts from the last one on; missing leading parts are empty.
    let last = match specifies {
        Specifies::Provider => Field::Provider,
        Specifies::Module => Field::Module,
        Specifies::Function => Field::Function,
        Specifies::Name => Field::Name,
    };
    let mut parts = pieces(text, last);
    for (field, limit) in fields.into_iter().take(count).rev() {
        let Some(part) = parts.next() else { break };
        *field = substitute(session, part, arguments)?;
        if field.len() >= limit {
            return Err("File name too long");
        }
    }
    if parts.next().is_some() {
        return Err("Overspecified probe description");
    }
    Ok(description)
}

/// Returns a part with its macro argument or variable replaced.
fn substitute(
    session: &Session<'_>,
    part: &str,
    arguments: &mut Arguments<'_>,
) -> std::result::Result<String, &'static str> {
    const UNDEFINED: &str = "Undefined macro variable in probe description";
    let Some((before, name)) = part.split_once('$') else { return Ok(part.into()) };
    let name = name.strip_prefix('$').unwrap_or(name);
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        let end = name.find(|c: char| !c.is_ascii_digit()).unwrap_or(name.len());
        let index: usize = name[..end].parse().map_err(|_| UNDEFINED)?;
        let argument = arguments.all.get(index).ok_or(UNDEFINED)?;
        arguments.used[index] = true;
        return Ok(format!("{before}{argument}{}", &name[end..]));
    }
    let value = session.surroundings.macro_variable(name).ok_or(UNDEFINED)?;
    Ok(format!("{before}{value}"))
}
