//! Which actions may follow which (`dt_stmt_append`, dt_cc.c).

use dtrace_abi::ErrTag;
use dtrace_abi::action::Action;

use crate::error::Result;
use crate::program::Act;
use crate::sema::Session;
use crate::syntax::Place;

/// Whether it needs `-w`.
fn is_destructive(act: &Act) -> bool {
    act.kind.is_destructive()
        || act.kind == Action::DifExpr && act.difo.as_ref().is_some_and(|difo| difo.destructive)
}

/// Checks all actions of a clause so far.
pub(super) fn check(session: &Session<'_>, place: Place, actions: &[Act]) -> Result<()> {
    let (mut commits, mut speculates, mut records) = (false, false, false);
    let wrong = |tag, message: &str| session.error_at(place, tag, message);
    for (index, act) in actions.iter().enumerate() {
        match act.kind {
            Action::Commit => {
                if commits {
                    return wrong(ErrTag::CommComm, "commit( ) may not follow commit( )");
                }
                if records {
                    let message = "commit( ) may not follow data-recording action(s)";
                    return wrong(ErrTag::CommDrec, message);
                }
                if actions[index..].iter().any(|later| later.kind.is_aggregation()) {
                    let message = "aggregating actions may not follow commit( )";
                    return wrong(ErrTag::AggComm, message);
                }
                commits = true;
                continue;
            }
            Action::Speculate => {
                if speculates {
                    return wrong(ErrTag::SpecSpec, "speculate( ) may not follow speculate( )");
                }
                if commits {
                    return wrong(ErrTag::SpecComm, "speculate( ) may not follow commit( )");
                }
                if records {
                    let message = "speculate( ) may not follow data-recording action(s)";
                    return wrong(ErrTag::SpecDrec, message);
                }
                speculates = true;
                continue;
            }
            kind if kind.is_aggregation() => {
                if speculates {
                    let message = "aggregating actions may not follow speculate( )";
                    return wrong(ErrTag::AggSpec, message);
                }
                records = true;
                continue;
            }
            _ => {}
        }
        if speculates {
            if is_destructive(act) {
                let message = "destructive actions may not follow speculate( )";
                return wrong(ErrTag::ActSpec, message);
            }
            if act.kind == Action::Exit {
                return wrong(ErrTag::ExitSpec, "exit( ) may not follow speculate( )");
            }
        }
        if is_destructive(act) || act.kind == Action::Discard {
            continue;
        }
        let nothing =
            |returns: &dtrace_abi::dif::DifType| !returns.is_string() && returns.size == 0;
        if act.kind == Action::DifExpr
            && act.difo.as_ref().is_some_and(|difo| nothing(&difo.returns))
        {
            continue;
        }
        if commits {
            let message = "data-recording actions may not follow commit( )";
            return wrong(ErrTag::DrecComm, message);
        }
        records |= !speculates;
    }
    Ok(())
}
