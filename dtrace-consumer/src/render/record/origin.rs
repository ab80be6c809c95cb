//! The places in a program at which its instructions fail.

use std::rc::Rc;

use dtrace_compiler::Place;
use dtrace_compiler::program::{Difo, Ecb};

/// Bytes of an instruction of DIF.
const INSTRUCTION: usize = 4;

/// The places of the instructions of a compiled clause.
#[derive(Debug)]
pub(in crate::render) struct Origins {
    source: Rc<[u8]>,
    /// By the number of the action; the first is the predicate.
    actions: Vec<Vec<Place>>,
}

/// The place in a program at which an instruction fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The line, counted from 1.
    pub line: u32,
    /// The line's text, and below it a mark under the expression.
    pub frame: String,
}

impl Origins {
    /// Returns the places of a clause of a program with this source.
    pub fn of(ecb: &Ecb, source: &Rc<[u8]>) -> Self {
        let places = |difo: Option<&Difo>| difo.map_or(Vec::new(), |difo| difo.places.clone());
        let predicate = places(ecb.predicate.as_ref());
        let actions = ecb.actions.iter().map(|act| places(act.difo.as_ref()));
        Self {
            source: source.clone(),
            actions: std::iter::once(predicate).chain(actions).collect(),
        }
    }

    /// Returns the place of an instruction by the number of its action and its offset in bytes, as a kernel reports them.
    pub fn find(&self, action: i32, offset: i32) -> Option<Origin> {
        let places = self.actions.get(usize::try_from(action).ok()?)?;
        let place = places.get(usize::try_from(offset).ok()? / INSTRUCTION)?;
        (place.line != 0).then_some(())?;
        Some(Origin { line: self.line(*place), frame: place.frame(&self.source)? })
    }

    /// Returns the line in which a place begins. The line of the place itself may be a later one, as in libdtrace.
    fn line(&self, place: Place) -> u32 {
        let before = self.source.get(..place.start as usize).unwrap_or_default();
        // cpp(1) adds line markers, which begin with `# `, so the lines of this text are not the lines of the script.
        if before.starts_with(b"# ") || before.windows(3).any(|three| three == b"\n# ") {
            return place.line;
        }
        let lines = before.iter().filter(|byte| **byte == b'\n').count();
        u32::try_from(lines + 1).unwrap_or(place.line)
    }
}

#[cfg(test)]
mod tests {
    use dtrace_abi::Platform;
    use dtrace_compiler::options::Options;
    use dtrace_compiler::surroundings::EveryProbe;
    use dtrace_compiler::{Compiler, Source};

    use super::*;

    #[test]
    fn an_instruction_has_the_place_of_its_expression() {
        let text = b"inline int far = *(int *)8;\nBEGIN\n/ *(int *)1/\n{\n\ttrace(1);\n\ttrace(2 + *(int *)16);\n\ttrace(far);\n}\n";
        let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
        let program = compiler.compile(Source::file(text), &EveryProbe).unwrap();
        let ecb = &program.ecbs[0];
        let origins = Origins::of(ecb, &program.source.as_slice().into());
        let load = |difo: &Difo| {
            let is_load = |op: &dtrace_abi::dif::Instr| {
                op.opcode().is_some_and(|op| op == dtrace_abi::dif::Opcode::Ldsw)
            };
            4 * difo.code.iter().position(is_load).unwrap() as i32
        };
        let at = |action: i32| {
            let difo = match action {
                0 => ecb.predicate.as_ref(),
                _ => ecb.actions[action as usize - 1].difo.as_ref(),
            };
            origins.find(action, load(difo.unwrap())).map(|Origin { line, frame }| (line, frame))
        };
        assert_eq!(at(0), Some((3, "/ *(int *)1/\n  ^".into())));
        assert_eq!(at(2), Some((6, "\ttrace(2 + *(int *)16);\n\t          ^".into())));
        // The value of an inline fails where the program uses it.
        assert_eq!(at(3), Some((7, "\ttrace(far);\n\t      ^".into())));
        for (action, offset) in [(2, 4000), (9, 0), (-1, 0), (1, -1)] {
            assert_eq!(origins.find(action, offset), None);
        }
    }
}
