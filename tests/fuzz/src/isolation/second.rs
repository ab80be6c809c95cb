//! The second consumer: its secret, and the program that puts it everywhere.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::OnceLock;

use dtrace_abi::Platform;
use dtrace_abi::option::OptionId;
use dtrace_compiler::options::Options;
use dtrace_compiler::surroundings::EveryProbe;
use dtrace_compiler::{Compiler, Source, dof};
use sdt_framework::{ConsumerId, Rights};

use super::Small;

/// Eight bytes, none of them zero, that occur nowhere else.
pub(super) struct Secret([u8; 8]);

/// The number of consecutive bytes of the secret that cannot be a coincidence.
const TELLING: usize = 4;

impl Secret {
    pub(super) fn of(input: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        input.hash(&mut hasher);
        Self(hasher.finish().to_le_bytes().map(|byte| byte.max(1)))
    }

    /// # Panics
    /// When bytes hold a part of the secret, forward or backward.
    pub(super) fn check(&self, bytes: &[u8], what: &str) {
        let mut twice = [self.0, self.0].concat();
        for _ in 0..2 {
            for part in twice.windows(TELLING).take(self.0.len()) {
                let found = bytes.windows(TELLING).position(|window| window == part);
                assert!(found.is_none(), "{what} hold a part of the secret, at {found:?}");
            }
            twice.reverse();
        }
    }
}

/// The placeholders for the secret in the compiled program: a number, and twice a text.
const PLACE: [u8; 8] = *b"(secret)";

const TEXT: &str = r#"
    int64_t g; string gs; self int64_t t; self string ts; this int64_t l; this string ls;
    int64_t a[int]; string as[string]; self int64_t ta[int]; self int sp; int hits;

    proc:::a
    {
        g = NUMBER; self->t = NUMBER; this->l = NUMBER; a[1] = NUMBER; a[2] = NUMBER; self->ta[3] = NUMBER;
        gs = "TEXT"; self->ts = "TEXT"; this->ls = "TEXT"; as["TEXT"] = "TEXT";
        trace(g); trace(gs); trace(strjoin(gs, this->ls)); printf("TEXT %d", g);
        @s["TEXT", g] = sum(NUMBER); @m[a[1]] = max(NUMBER); @q[self->ts] = lquantize(3, 0, 10, 1);
        this->p = alloca(64); bcopy(gs, this->p, 16);
        trace(strtok("x,TEXT,TEXT", ","));
        a[2] = 0;
        self->sp = speculation();
    }
    proc:::a { speculate(self->sp); trace(NUMBER); trace("TEXT"); }
    proc:::b /hits++ % 2/ { commit(self->sp); self->sp = 0; self->ts = 0; }
    proc:::b { trace(substr("TEXTTEXT", 3)); trace(NUMBER); stack(); }
    ERROR { trace(NUMBER); }
"#;

/// The program, with places for the secret.
fn template() -> &'static [u8] {
    static DOF: OnceLock<Vec<u8>> = OnceLock::new();
    DOF.get_or_init(|| {
        let number = i64::from_le_bytes(PLACE);
        let text = std::str::from_utf8(&PLACE).expect("it is ASCII").repeat(2);
        let text = TEXT.replace("NUMBER", &number.to_string()).replace("TEXT", &text);
        let mut compiler = Compiler::new(Platform::Freebsd, Options::default());
        let program = compiler.compile(Source::file(text.as_bytes()), &EveryProbe);
        let program = program.unwrap_or_else(|error| panic!("{}", error.with_tag()));
        dof::program(&program, compiler.options()).expect("it is short")
    })
}

pub(super) struct Second {
    pub(super) secret: Secret,
    pub(super) id: Option<ConsumerId>,
    dof: Vec<u8>,
}

impl Second {
    pub(super) fn new(secret: Secret) -> Self {
        let mut dof = template().to_vec();
        let places: Vec<_> = (0..dof.len()).filter(|&at| dof[at..].starts_with(&PLACE)).collect();
        assert!(places.len() > 20);
        for at in places {
            dof[at..at + PLACE.len()].copy_from_slice(&secret.0);
        }
        Self { secret, id: None, dof }
    }

    /// Opens the consumer and starts its program, unless it is open. Does nothing if there is no room.
    pub(super) fn begin(&mut self, dtrace: &Small) {
        if self.id.is_some() {
            return;
        }
        let Ok(id) = dtrace.open_with(Rights::ALL) else { return };
        self.id = Some(id);
        for (option, value) in [
            (OptionId::Strsize, 48),
            (OptionId::Bufsize, 4 << 10),
            (OptionId::Aggsize, 4 << 10),
            (OptionId::Dynvarsize, 4 << 10),
            (OptionId::Specsize, 1 << 10),
            (OptionId::Nspec, 2),
        ] {
            _ = dtrace.set_option(id, option.number(), value);
        }
        if dtrace.enable_program(id, &self.dof).is_ok() {
            _ = dtrace.go(id);
        }
    }

    pub(super) fn end(&mut self, dtrace: &Small) {
        if let Some(id) = self.id.take() {
            dtrace.close(id).expect("it is open");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_secret_are_found() {
        let secret = Secret::of(b"input");
        let part = |range: std::ops::Range<usize>| [b"..", &secret.0[range], b".."].concat();
        let finds =
            |bytes: &[u8]| std::panic::catch_unwind(|| secret.check(bytes, "bytes")).is_err();
        assert!(finds(&part(0..8)) && finds(&part(2..6)));
        assert!(finds(&part(0..8).into_iter().rev().collect::<Vec<_>>()));
        // A text of the secret twice.
        assert!(finds(&[&secret.0[6..], &secret.0[..2]].concat()));
        assert!(!finds(&part(2..5)));
        assert!(!finds(&[0; 64]));
    }
}
