//! The allowed orders of actions (`dt_stmt_append`, dt_cc.c).

use dtrace_abi::ErrTag;
use dtrace_abi::action::Action;
use dtrace_abi::dif::DifType;

use crate::error::Result;
use crate::place::Place;
use crate::program::Act;
use crate::sema::Session;

/// Returns whether an action needs `-w`.
fn is_destructive(act: &Act) -> bool {
    act.kind.is_destructive()
        || act.kind == Action::DifExpr && act.difo.as_ref().is_some_and(|difo| difo.destructive)
}

/// The restrictions that previous actions of a clause impose on later ones.
#[derive(Default)]
pub(super) struct Follow {
    commits: bool,
    speculates: bool,
    records: bool,
}

impl Follow {
    /// Checks that the actions of a statement may follow the previous actions, and adds them.
    pub fn add(&mut self, session: &Session<'_>, place: Place, actions: &[Act]) -> Result<()> {
        if self.commits && actions.iter().any(|act| act.kind.is_aggregation()) {
            let message = "aggregating actions may not follow commit( )";
            return session.error_at(place, ErrTag::AggComm, message);
        }
        actions.iter().try_for_each(|act| self.add_action(session, place, act))
    }

    fn add_action(&mut self, session: &Session<'_>, place: Place, act: &Act) -> Result<()> {
        let wrong = |tag, message: &str| session.error_at(place, tag, message);
        match act.kind {
            Action::Commit => {
                if self.commits {
                    return wrong(ErrTag::CommComm, "commit( ) may not follow commit( )");
                }
                if self.records {
                    let message = "commit( ) may not follow data-recording action(s)";
                    return wrong(ErrTag::CommDrec, message);
                }
                self.commits = true;
                return Ok(());
            }
            Action::Speculate => {
                if self.speculates {
                    return wrong(ErrTag::SpecSpec, "speculate( ) may not follow speculate( )");
                }
                if self.commits {
                    return wrong(ErrTag::SpecComm, "speculate( ) may not follow commit( )");
                }
                if self.records {
                    let message = "speculate( ) may not follow data-recording action(s)";
                    return wrong(ErrTag::SpecDrec, message);
                }
                self.speculates = true;
                return Ok(());
            }
            kind if kind.is_aggregation() => {
                if self.speculates {
                    let message = "aggregating actions may not follow speculate( )";
                    return wrong(ErrTag::AggSpec, message);
                }
                self.records = true;
                return Ok(());
            }
            _ => {}
        }
        if self.speculates {
            if is_destructive(act) {
                let message = "destructive actions may not follow speculate( )";
                return wrong(ErrTag::ActSpec, message);
            }
            if act.kind == Action::Exit {
                return wrong(ErrTag::ExitSpec, "exit( ) may not follow speculate( )");
            }
        }
        if is_destructive(act) || act.kind == Action::Discard {
            return Ok(());
        }
        let nothing = |returns: &DifType| !returns.is_string() && returns.size == 0;
        if act.kind == Action::DifExpr
            && act.difo.as_ref().is_some_and(|difo| nothing(&difo.returns))
        {
            return Ok(());
        }
        if self.commits {
            let message = "data-recording actions may not follow commit( )";
            return wrong(ErrTag::DrecComm, message);
        }
        self.records |= !self.speculates;
        Ok(())
    }
}
