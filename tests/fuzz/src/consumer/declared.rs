//! The declarations of a module for D programs: types that refer to each other, inlines, translators, and text that is
//! not allowed.

use std::fmt::Write as _;

use arbitrary::Arbitrary;

/// A declaration. Its numbers refer to the declarations before it, and sometimes to itself.
#[derive(Debug, Arbitrary)]
pub(super) enum Part {
    /// A struct or union with two members, and `count` more, each of which contains the previous one twice.
    Pairs { union: bool, of: u8, count: u8 },
    /// The same as a table.
    Table { union: bool, of: u8, count: u8, size: u8 },
    /// Names, arrays and pointers, each of the previous type.
    Names { array: bool, pointer: bool, of: u8, count: u8 },
    /// A type that is mentioned before it is defined.
    Forward { of: u8 },
    /// Inlines, each of which uses the previous one twice or once.
    Inlines { twice: bool, of: u8, count: u8 },
    /// A translator from a pointer to a type.
    Translator { from: u8, inline: u8 },
    /// An enum as a table.
    Enum { values: u8 },
    /// A line that begins with `#`.
    Control { which: u8, before: bool },
    /// A clause.
    Clause { which: u8 },
    /// Any text.
    Text(Vec<u8>),
}

const CONTROLS: [&str; 6] = [
    "#pragma D option destructive",
    "#pragma D option strsize=1g",
    "# pragma D attributes Stable/Stable/Common t0",
    "#pragma D depends_on provider none",
    "#line 1 \"x\"",
    "#error",
];

const CLAUSES: [&str; 4] = [
    "BEGIN { system(\"touch made\"); }",
    "BEGIN",
    "1 { exit(0); }",
    "END /1/ { freopen(\"made\"); }",
];

/// A declaration as text, and programs that use it.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// The text, as an image has it.
    pub text: Vec<u8>,
    /// Programs that use the last declaration.
    pub uses: String,
    /// The text contains a control line or a clause.
    pub is_refused: bool,
    types: usize,
    inlines: usize,
}

impl Made {
    pub(super) fn new(parts: &[Part]) -> Self {
        let mut made = Self::default();
        made.line("typedef int t0;");
        made.line("inline int i0 = pid;");
        for part in parts {
            made.add(part);
        }
        let (ty, inline) = (made.types, made.inlines);
        let _ = write!(
            made.uses,
            "BEGIN {{ print(*(t{ty} *)arg0); }} BEGIN {{ trace(sizeof (t{ty}) + i{inline}); }}"
        );
        made
    }

    fn line(&mut self, line: &str) {
        self.text.extend(format!("text\t{line}\n").bytes());
    }

    /// Returns the number of a new type, and the number of an earlier type.
    fn next_type(&mut self, of: u8) -> (usize, usize) {
        let of = usize::from(of) % (self.types + 1);
        self.types += 1;
        (self.types, of)
    }

    fn add(&mut self, part: &Part) {
        match part {
            Part::Pairs { union, of, count } => {
                let word = if *union { "union" } else { "struct" };
                let mut of = usize::from(*of) % (self.types + 1);
                for _ in 0..=*count {
                    self.types += 1;
                    let new = self.types;
                    self.line(&format!("typedef {word} s{new} {{ t{of} a; t{of} b; }} t{new};"));
                    of = new;
                }
            }
            Part::Table { union, of, count, size } => {
                let word = if *union { "union" } else { "struct" };
                for n in 0..=u32::from(*count) {
                    let inner = match n.checked_sub(1) {
                        None if *size > 0 => "int".into(),
                        None => format!("{word} r{}", u32::from(*of)),
                        Some(before) => format!("{word} r{before}"),
                    };
                    let size = if *union { 4 } else { 4_u64.checked_shl(n).unwrap_or(u64::MAX) };
                    let text = format!(
                        "{word}\t{word} r{n}\t{size}\t4\nfield\ta\t0\t{0}\t0 0 0\t{inner}\nfield\tb\t{1}\t{0}\t0 0 0\t{inner}\n",
                        if *union || n == 0 { size } else { size / 2 },
                        if *union || n == 0 { 0 } else { size / 2 },
                    );
                    self.text.extend(text.bytes());
                }
                let (new, _) = self.next_type(0);
                self.line(&format!("typedef {word} r{count} t{new};"));
            }
            Part::Names { array, pointer, of, count } => {
                let mut of = usize::from(*of) % (self.types + 1);
                for _ in 0..=*count {
                    self.types += 1;
                    let new = self.types;
                    let (star, brackets) =
                        (if *pointer { "*" } else { "" }, if *array { "[1]" } else { "" });
                    self.line(&format!("typedef t{of} {star}t{new}{brackets};"));
                    of = new;
                }
            }
            Part::Forward { of } => {
                let (new, of) = self.next_type(*of);
                self.line(&format!("struct f{new}; typedef struct f{new} g{new}[2];"));
                let of = if of == 0 { format!("g{new}") } else { format!("t{of}") };
                self.line(&format!("typedef struct f{new} {{ int x; {of} y; }} t{new};"));
            }
            Part::Inlines { twice, of, count } => {
                let mut of = usize::from(*of) % (self.inlines + 1);
                for _ in 0..=*count {
                    self.inlines += 1;
                    let new = self.inlines;
                    let value = if *twice { format!("i{of} + i{of}") } else { format!("i{of}") };
                    self.line(&format!("inline int i{new} = {value};"));
                    of = new;
                }
            }
            Part::Translator { from, inline } => {
                let (new, of) = self.next_type(*from);
                let inline = usize::from(*inline) % (self.inlines + 1);
                self.line(&format!("typedef struct x{new} {{ int m; }} t{new};"));
                self.line(&format!("translator t{new} < t{of} *P > {{ m = i{inline}; }};"));
                let _ = write!(
                    self.uses,
                    "BEGIN {{ trace(xlate <t{new}>((t{of} *)arg0).m); print(xlate <t{new}>((t{of} *)arg0)); }} "
                );
            }
            Part::Enum { values } => {
                self.text.extend(b"enum\tenum e\n");
                for value in 0..*values {
                    self.text.extend(format!("constant\tE{value}\t{value}\n").bytes());
                }
            }
            Part::Control { which, before } => {
                let line = CONTROLS[usize::from(*which) % CONTROLS.len()];
                self.line(if *before { "/* before */" } else { "" });
                self.line(line);
                self.is_refused = true;
            }
            Part::Clause { which } => {
                self.line(CLAUSES[usize::from(*which) % CLAUSES.len()]);
                self.is_refused = true;
            }
            Part::Text(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                self.line(&text.replace('\n', "\ntext\t"));
            }
        }
    }
}
