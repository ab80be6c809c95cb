//! Effects of programs on the machine that runs dtrace.
//!
//! A record proves that a clause ran; it never decides an effect. Only a [`Permit`] makes an [`Order`], and only an action
//! that the compiler made in this run makes a permit ([`Permit::new`]). So no kernel, process or dump can cause an effect:
//! a program that another run compiled has no permits, and dtrace shows its effects as [`Request`]s.

use std::fmt;

use dtrace_abi::action::{Action, LibAction};
use dtrace_compiler::program::Act;

use crate::escape;

/// An effect that a program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// `system`: a command for the shell.
    System(&'a [u8]),
    /// `freopen`: data go to this file from now on; without a file, to the first one again.
    Freopen(Option<&'a [u8]>),
    /// `ftruncate`: empties the first file.
    Ftruncate,
}

impl Request<'_> {
    /// Returns the name of the function in D.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::System(_) => "system",
            Self::Freopen(_) => "freopen",
            Self::Ftruncate => "ftruncate",
        }
    }
}

impl fmt::Display for Request<'_> {
    /// Writes the call with its argument escaped, on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Self::System(text) | Self::Freopen(Some(text)) => {
                write!(f, "{name}(\"{}\")", escape::name(text))
            }
            Self::Freopen(None) => write!(f, "{name}(\"\")"),
            Self::Ftruncate => write!(f, "{name}()"),
        }
    }
}

/// A request of a program that this run compiled: an [`Output`](crate::render::Output) performs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order<'a>(Request<'a>);

impl<'a> Order<'a> {
    /// Returns the request.
    pub const fn request(&self) -> Request<'a> {
        self.0
    }
}

/// The effect that one compiled action may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    System,
    Freopen,
    Library(LibAction),
    Exit,
}

/// The permission of one compiled action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::render) struct Permit(Effect);

impl Permit {
    /// Returns the permission of a compiled action that has an effect. Without `-w`, `system` and `freopen` have none, as
    /// in dtrace(1).
    pub(in crate::render) fn new(act: &Act, destructive: bool) -> Option<Self> {
        if act.kind.is_destructive() && !destructive {
            return None;
        }
        let effect = match act.kind {
            Action::System => Effect::System,
            Action::Freopen => Effect::Freopen,
            Action::Exit => Effect::Exit,
            Action::LibAct => {
                Effect::Library(u16::try_from(act.arg).ok().and_then(LibAction::from_number)?)
            }
            _ => return None,
        };
        Some(Self(effect))
    }

    /// Turns a request into an order if this permission covers it.
    pub(in crate::render) fn order(self, request: Request<'_>) -> Option<Order<'_>> {
        let is_permitted = match request {
            Request::System(_) => self.0 == Effect::System,
            Request::Freopen(_) => self.0 == Effect::Freopen,
            Request::Ftruncate => self.0 == Effect::Library(LibAction::Ftruncate),
        };
        is_permitted.then_some(Order(request))
    }

    /// Returns whether it permits `exit` to set the exit status.
    pub(in crate::render) fn is_exit(self) -> bool {
        self.0 == Effect::Exit
    }

    /// Returns whether it permits `setopt`.
    pub(in crate::render) fn is_setopt(self) -> bool {
        self.0 == Effect::Library(LibAction::Setopt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn act(kind: Action, arg: u64) -> Act {
        Act { kind, difo: None, keys: 0, arg, name: None }
    }

    #[test]
    fn a_permit_is_for_its_own_action_only() {
        let library = |action: LibAction| act(Action::LibAct, action.number().into());
        let all = [Action::System, Action::Freopen, Action::Exit].map(|kind| act(kind, 0));
        let all = all.into_iter().chain(LibAction::ALL.iter().map(|action| library(*action)));
        let requests = [Request::System(b"x"), Request::Freopen(None), Request::Ftruncate];
        for act in all {
            let permit = Permit::new(&act, true).unwrap();
            let permitted: Vec<_> =
                requests.iter().filter(|of| permit.order(**of).is_some()).collect();
            let expected = match act.kind {
                Action::System => 1,
                Action::Freopen => 1,
                Action::LibAct if act.arg == u64::from(LibAction::Ftruncate.number()) => 1,
                _ => 0,
            };
            assert_eq!(permitted.len(), expected, "{act:?}");
            assert_eq!(permit.is_exit(), act.kind == Action::Exit);
        }
        for kind in Action::ALL {
            let needs = matches!(kind, Action::System | Action::Freopen);
            assert_eq!(
                Permit::new(&act(*kind, 0), false).is_some(),
                Permit::new(&act(*kind, 0), true).is_some() && !needs,
                "{kind:?}"
            );
        }
    }

    #[test]
    fn a_request_is_shown_on_one_line() {
        let shown = Request::System(b"rm -r /\n\x1b[2K").to_string();
        assert_eq!(shown, "system(\"rm -r /\\n\\u{1b}[2K\")");
        assert_eq!(Request::Freopen(None).to_string(), "freopen(\"\")");
        assert_eq!(Request::Ftruncate.to_string(), "ftruncate()");
    }
}
