//! Stacks and single addresses: the data of `stack ustack jstack sym mod usym umod uaddr`.

use dtrace_abi::action::{Action, UstackArg};
use dtrace_abi::option::OptionId;

use crate::escape;
use crate::render::data::bits::{u64_of, until_zero, words};
use crate::render::data::cprintf::Spec;
use crate::render::data::symbol::Names;
use crate::render::data::view::View;

/// A code address, or a stack of them, in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Frames of the kernel.
    Stack(Frames),
    /// Frames of a process, the innermost first.
    UserStack {
        /// The process.
        pid: u64,
        /// The frames.
        frames: Frames,
        /// The names of frames from the process's helper; may be fewer.
        names: Vec<Vec<u8>>,
    },
    /// `sym`
    Symbol(u64),
    /// `mod`
    Module(u64),
    /// `usym`
    UserSymbol(u64, u64),
    /// `umod`
    UserModule(u64, u64),
    /// `uaddr`
    UserAddress(u64, u64),
}

/// The frames of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Their addresses, the innermost first.
    pub addresses: Vec<u64>,
    /// Whether the record is full, so that more frames may be missing.
    pub is_full: bool,
}

impl Frames {
    fn new(words: impl Iterator<Item = u64>) -> Self {
        let mut is_full = true;
        let addresses = words.take_while(|word| {
            is_full = *word != 0;
            is_full
        });
        let addresses = addresses.collect();
        Self { addresses, is_full }
    }

    /// Returns the frames whose callers have room in the record.
    fn with_callers(&self) -> &[u64] {
        match self.addresses.split_last() {
            Some((_, others)) if self.is_full => others,
            _ => &self.addresses,
        }
    }
}

impl Place {
    /// Decodes the datum of an action with this argument; `None` for other actions.
    pub fn read(action: Action, argument: u64, data: &[u8]) -> Option<Self> {
        let second = u64_of(data.get(8..).unwrap_or_default());
        Some(match action {
            Action::Stack => {
                // A kernel of 32 bits records frames of 32 bits.
                let narrow = argument != 0 && data.len() as u64 / argument == 4;
                Self::Stack(match narrow {
                    true => Frames::new(data.chunks_exact(4).map(u64_of)),
                    false => Frames::new(words(data)),
                })
            }
            Action::Ustack | Action::Jstack => user_stack(UstackArg::decode(argument), data),
            Action::Sym => Self::Symbol(u64_of(data)),
            Action::Mod => Self::Module(u64_of(data)),
            Action::Usym => Self::UserSymbol(u64_of(data), second),
            Action::Umod => Self::UserModule(u64_of(data), second),
            Action::Uaddr => Self::UserAddress(u64_of(data), second),
            _ => return None,
        })
    }

    /// Returns the frames, or the single address, as text. Inlined functions are frames of their own.
    pub fn names(&self, view: &View<'_>) -> Vec<String> {
        let names = view.names();
        if let Self::Stack(frames) | Self::UserStack { frames, .. } = self {
            names.symbols.note_stack(frames.with_callers());
        }
        match self {
            Self::Stack(frames) => {
                let named = |&frame: &u64| names.frame(frame, names.address(frame));
                frames.addresses.iter().flat_map(named).collect()
            }
            // A helper gives one name to each frame, so inlined functions are shown only without such names.
            Self::UserStack { pid, frames, names: given } if given.is_empty() => {
                let named = |&frame: &u64| names.frame(frame, names.user_address(*pid, frame));
                frames.addresses.iter().flat_map(named).collect()
            }
            Self::UserStack { pid, frames, names: given } => {
                let given = given.iter().map(Some).chain(std::iter::repeat(None));
                let frames = frames.addresses.iter().zip(given);
                frames.map(|(&frame, given)| user_frame(names, *pid, frame, given)).collect()
            }
            Self::Symbol(address) => vec![names.symbol(*address)],
            Self::Module(address) => vec![names.module(*address)],
            Self::UserSymbol(pid, address) => vec![names.user_symbol(*pid, *address)],
            Self::UserModule(pid, address) => vec![names.user_module(*pid, *address)],
            Self::UserAddress(pid, address) => vec![names.user_address(*pid, *address)],
        }
    }

    /// Writes the format of `stack()` and similar actions: one line for each frame, an address in 50 columns.
    pub(in crate::render) fn show(&self, out: &mut Vec<u8>, view: &View<'_>) {
        match self {
            Self::Stack(_) | Self::UserStack { .. } => {
                let indent = view.options.number(OptionId::Stackindent).unwrap_or_default();
                let indent =
                    usize::try_from(indent).unwrap_or(0).min(crate::render::data::cprintf::COLUMNS);
                self.show_frames(out, view, indent, Spec::default());
            }
            _ => {
                for name in self.names(view) {
                    out.extend_from_slice(b"  ");
                    Spec::wide(-50).text(out, name.as_bytes());
                }
            }
        }
    }

    /// Writes frames, each on a line.
    pub(in crate::render) fn show_frames(
        &self,
        out: &mut Vec<u8>,
        view: &View<'_>,
        indent: usize,
        spec: Spec,
    ) {
        out.push(b'\n');
        let notes: &[Vec<u8>] = match self {
            Self::UserStack { names, .. } => names,
            _ => &[],
        };
        for (index, name) in self.names(view).into_iter().enumerate() {
            let mut line = |text: &[u8]| {
                out.resize(out.len() + indent, b' ');
                spec.string(out, text);
                out.push(b'\n');
            };
            line(name.as_bytes());
            // An annotation of the helper follows its frame on a line of its own.
            if let Some([b'@', note @ ..]) = notes.get(index).map(Vec::as_slice) {
                line(format!("  [ {} ]", escape::name(note)).as_bytes());
            }
        }
    }
}

fn user_stack(argument: UstackArg, data: &[u8]) -> Place {
    let depth = argument.frames as usize;
    let mut numbers = words(data);
    let pid = numbers.next().unwrap_or(0);
    let frames = Frames::new(numbers.take(depth));
    let strings = depth.saturating_add(1).saturating_mul(8);
    let strings = data.get(strings..).unwrap_or_default();
    let strings = &strings[..strings.len().min(argument.string_size as usize)];
    let mut names = Vec::new();
    let mut rest = strings;
    while names.len() < frames.addresses.len() && !rest.is_empty() {
        let name = until_zero(rest);
        names.push(name.to_vec());
        rest = rest.get(name.len() + 1..).unwrap_or_default();
    }
    Place::UserStack { pid, frames, names }
}

/// Returns the name of a frame of a process: its symbol, otherwise the helper's name, otherwise its address.
fn user_frame(names: Names<'_>, pid: u64, frame: u64, given: Option<&Vec<u8>>) -> String {
    if names.symbols.user_symbol(pid, frame).is_none()
        && let Some(given) = given.filter(|given| !matches!(given[..], [] | [b'@', ..]))
    {
        return escape::name(given);
    }
    names.user_address(pid, frame)
}
