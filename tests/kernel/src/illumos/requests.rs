//! What the host asks of illumos's kernel, where that is not what it asks of FreeBSD's.

use alloc::format;
use alloc::string::ToString;

use sdt_protocol::{Module, Refusal, Reply, Request, Sites};
use stand_in_illumos::marking::Marking;
use stand_in_illumos::modctl::Info;
use stand_in_illumos::refusal;

use super::{MODULES, choose, is_chosen};
use crate::freebsd::machine::LINKER;
use crate::requests::read_text;

/// The answer to a request; `None` for one that this is nothing to.
pub(crate) fn answer(request: &Request) -> Option<Result<Reply, Refusal>> {
    if let Request::Illumos { sites } = *request {
        return Some(illumos(match sites {
            Sites::Nops => Marking::Nops,
            Sites::LongNop => Marking::LongNop,
        }));
    }
    if !is_chosen() {
        return None;
    }
    Some(match request {
        Request::KldLoad { file, image } => done(MODULES.load(file, image)),
        Request::KldUnload { file } => done(MODULES.unload(file)),
        Request::KldStat => {
            let module = |of: Info| Module {
                id: of.id,
                file: of.name,
                address: of.base,
                size: of.size as u64,
            };
            Ok(Reply::Modules(MODULES.modules().into_iter().map(module).collect()))
        }
        Request::Kstat { name } => super::kstat::read(name),
        Request::Sysctl { name, .. } => {
            let message = format!("{name}: illumos has no sysctls");
            Err(Refusal { errno: stand_in_illumos::errno::EINVAL, message })
        }
        Request::ReadText { file } => match MODULES.segments(file) {
            Some((base, segments)) => Ok(read_text(base, &segments)),
            None => {
                let errno = stand_in_illumos::errno::ENOENT;
                Err(Refusal { errno, message: format!("there is no module {file}") })
            }
        },
        _ => return None,
    })
}

fn illumos(marking: Marking) -> Result<Reply, Refusal> {
    if !LINKER.files().is_empty() {
        let message = "a module of FreeBSD's is loaded".into();
        return Err(Refusal { errno: stand_in_illumos::errno::EBUSY, message });
    }
    if is_chosen() && super::marking() != marking {
        let message = "this is illumos's kernel already, with other sites".into();
        return Err(Refusal { errno: stand_in_illumos::errno::EBUSY, message });
    }
    choose(marking)
        .map_err(|error| Refusal { errno: error.errno(), message: error.to_string() })?;
    Ok(Reply::Done)
}

fn done(result: Result<(), refusal::Refusal>) -> Result<Reply, Refusal> {
    let refused = |refusal: refusal::Refusal| Refusal {
        errno: refusal.errno(),
        message: refusal.to_string(),
    };
    result.map(|()| Reply::Done).map_err(refused)
}
