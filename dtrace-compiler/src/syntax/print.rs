//! Prints trees as D; parsing the text again yields the same tree.

use std::fmt::{self, Display, Formatter, Write};

use super::*;
use crate::text;

fn list<T>(
    f: &mut Formatter<'_>,
    items: &[T],
    each: impl Fn(&mut Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        each(f, item)?;
    }
    Ok(())
}

fn string(f: &mut Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_char('"')?;
    f.write_str(&text::escape(bytes))?;
    f.write_char('"')
}

/// Prints an operand, in parentheses if necessary.
struct Operand<'a>(&'a Expr);

impl Display for Operand<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.kind {
            ExprKind::Int(_) | ExprKind::Str(_) | ExprKind::Ident(_) | ExprKind::Agg(_) => {
                self.0.fmt(f)
            }
            _ => write!(f, "({})", self.0),
        }
    }
}

/// An element of a list.
struct Element<'a>(&'a Expr);

impl Display for Element<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.kind {
            ExprKind::Binary(BinaryOp::Comma, ..) => write!(f, "({})", self.0),
            _ => self.0.fmt(f),
        }
    }
}

impl Display for IntLit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // A number that begins with 0 is octal; 0 itself differs only in this property.
        match (self.decimal, self.value) {
            (true, 0) => f.write_str("'\\0'")?,
            (true, value) => write!(f, "{value}")?,
            (false, value) => write!(f, "0x{value:x}")?,
        }
        if self.unsigned {
            f.write_char('u')?;
        }
        (0..self.longs).try_for_each(|_| f.write_char('l'))
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Int(int) => int.fmt(f),
            ExprKind::Str(bytes) => string(f, bytes),
            ExprKind::Ident(name) => f.write_str(name),
            ExprKind::Agg(name) => write!(f, "@{name}"),
            ExprKind::Unary(op @ (UnaryOp::PostInc | UnaryOp::PostDec), operand) => {
                write!(f, "{}{}", Operand(operand), op.text())
            }
            ExprKind::Unary(op @ (UnaryOp::Sizeof | UnaryOp::Stringof), operand) => {
                write!(f, "{} ({operand})", op.text())
            }
            ExprKind::Unary(op, operand) => write!(f, "{}({operand})", op.text()),
            ExprKind::Binary(op, left, right) => {
                write!(f, "{} {} {}", Operand(left), op.text(), Operand(right))
            }
            ExprKind::Assign(op, left, right) => {
                write!(f, "{} {}= {}", Operand(left), op.map_or("", BinaryOp::text), Operand(right))
            }
            ExprKind::Ternary(test, yes, no) => {
                write!(f, "{} ? {} : {}", Operand(test), Operand(yes), Operand(no))
            }
            ExprKind::Call(function, args) => {
                write!(f, "{}(", Operand(function))?;
                list(f, args, |f, arg| Element(arg).fmt(f))?;
                f.write_char(')')
            }
            ExprKind::Index(array, keys) => {
                write!(f, "{}[", Operand(array))?;
                list(f, keys, |f, key| Element(key).fmt(f))?;
                f.write_char(']')
            }
            ExprKind::Dot(base, name) => write!(f, "{}.{name}", Operand(base)),
            ExprKind::Arrow(base, name) => write!(f, "{}->{name}", Operand(base)),
            ExprKind::Cast(ty, value) => write!(f, "({ty})({value})"),
            ExprKind::SizeofType(ty) => write!(f, "sizeof ({ty})"),
            ExprKind::Offsetof(ty, member) => write!(f, "offsetof({ty}, {member})"),
            ExprKind::Xlate(ty, value) => write!(f, "xlate <{ty}>({value})"),
        }
    }
}

impl Display for Spec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base(base) => f.write_str(base.text()),
            Self::Short => f.write_str("short"),
            Self::Long => f.write_str("long"),
            Self::Signed => f.write_str("signed"),
            Self::Unsigned => f.write_str("unsigned"),
            Self::Userland => f.write_str("userland"),
            Self::Qualifier(qualifier) => f.write_str(qualifier.text()),
            Self::Name(name) => f.write_str(name),
            Self::Record { union, tag, fields, .. } => {
                f.write_str(if *union { "union" } else { "struct" })?;
                if let Some(tag) = tag {
                    write!(f, " {tag}")?;
                }
                let Some(fields) = fields else { return Ok(()) };
                f.write_str(" { ")?;
                for field in fields {
                    write!(f, "{} ", field.specs)?;
                    list(f, &field.declarators, |f, (declarator, bits, _)| {
                        if let Some(declarator) = declarator {
                            declarator.fmt(f)?;
                        }
                        bits.as_ref().map_or(Ok(()), |bits| write!(f, ":{}", Operand(bits)))
                    })?;
                    f.write_str("; ")?;
                }
                f.write_char('}')
            }
            Self::Enum(EnumDef { tag, enumerators }) => {
                f.write_str("enum")?;
                if let Some(tag) = tag {
                    write!(f, " {tag}")?;
                }
                let Some(enumerators) = enumerators else { return Ok(()) };
                f.write_str(" { ")?;
                list(f, enumerators, |f, Enumerator { name, value, .. }| {
                    f.write_str(name)?;
                    value.as_ref().map_or(Ok(()), |value| write!(f, " = {}", Operand(value)))
                })?;
                f.write_str(" }")
            }
        }
    }
}

impl Display for Specs {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut blank = "";
        for class in &self.classes {
            write!(f, "{blank}{}", class.text())?;
            blank = " ";
        }
        for spec in &self.specs {
            write!(f, "{blank}{spec}")?;
            blank = " ";
        }
        Ok(())
    }
}

fn params(f: &mut Formatter<'_>, params: &[Param]) -> fmt::Result {
    list(f, params, |f, param| match param {
        Param::Type(specs, declarator) => write!(f, "{specs} {declarator}"),
        Param::Ellipsis => f.write_str("..."),
    })
}

impl Display for Declarator {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        struct Parts<'a>(&'a Declarator, usize);
        impl Display for Parts<'_> {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                let Self(declarator, count) = *self;
                let Some(inner) = count.checked_sub(1) else {
                    return f.write_str(declarator.name.as_deref().unwrap_or(""));
                };
                let within = Parts(declarator, inner);
                match &declarator.parts[inner] {
                    Part::Pointer(qualifiers) => {
                        f.write_char('*')?;
                        for qualifier in qualifiers {
                            write!(f, " {} ", qualifier.text())?;
                        }
                        return within.fmt(f);
                    }
                    // An inner pointer binds less tightly than a following array or function.
                    _ if inner > 0 && matches!(declarator.parts[inner - 1], Part::Pointer(_)) => {
                        write!(f, "({within})")?;
                    }
                    _ => within.fmt(f)?,
                }
                match &declarator.parts[inner] {
                    Part::Array(dim) => {
                        f.write_char('[')?;
                        match dim {
                            Dim::Open => {}
                            Dim::Size(size) => Operand(size).fmt(f)?,
                            Dim::Keys(keys) => params(f, keys)?,
                        }
                        f.write_char(']')
                    }
                    Part::Function(list) => {
                        f.write_char('(')?;
                        params(f, list)?;
                        f.write_char(')')
                    }
                    Part::Pointer(_) => Ok(()),
                }
            }
        }
        Parts(self, self.parts.len()).fmt(f)
    }
}

impl Display for TypeName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.specs, self.declarator)
    }
}

impl Display for ControlWord {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Str(bytes) => string(f, bytes),
            Self::Int(value) => value.fmt(f),
        }
    }
}

fn statements(f: &mut Formatter<'_>, body: &[Stmt]) -> fmt::Result {
    f.write_str("{\n")?;
    for stmt in body {
        stmt.fmt(f)?;
    }
    f.write_str("}\n")
}

impl Display for Stmt {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            StmtKind::Expr(expr) => writeln!(f, "{expr};"),
            StmtKind::If(test, yes, no) => {
                write!(f, "if ({test}) ")?;
                statements(f, yes)?;
                match no {
                    Some(no) => {
                        f.write_str("else ")?;
                        statements(f, no)
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

impl Display for Item {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ItemKind::Clause(clause) => {
                list(f, &clause.probes, |f, spec| match spec {
                    ProbeSpec::Description(text, _) => f.write_str(text),
                    ProbeSpec::Id(id, _) => id.fmt(f),
                })?;
                f.write_char('\n')?;
                if let Some(predicate) = &clause.predicate {
                    writeln!(f, "/ {predicate} /")?;
                }
                clause.body.as_ref().map_or(Ok(()), |body| statements(f, body))
            }
            ItemKind::Decl(specs, declarators) => {
                write!(f, "{specs} ")?;
                list(f, declarators, |f, declarator| declarator.fmt(f))?;
                f.write_str(";\n")
            }
            ItemKind::Inline(specs, declarator, value) => {
                writeln!(f, "inline {specs} {declarator} = {};", Operand(value))
            }
            ItemKind::Translator { output, input, param, members } => {
                writeln!(f, "translator {output} <{input} {param}> {{")?;
                for member in members {
                    writeln!(f, "{} = {};", member.name, Element(&member.value))?;
                }
                f.write_str("};\n")
            }
            ItemKind::Provider { name, probes } => {
                writeln!(f, "provider {name} {{")?;
                for probe in probes {
                    write!(f, "probe {}(", probe.name)?;
                    params(f, &probe.input)?;
                    f.write_char(')')?;
                    if let Some(output) = &probe.output {
                        f.write_str(":(")?;
                        params(f, output)?;
                        f.write_char(')')?;
                    }
                    f.write_str(";\n")?;
                }
                f.write_str("};\n")
            }
            ItemKind::Control(words) => {
                f.write_char('#')?;
                for word in words {
                    write!(f, " {word}")?;
                }
                f.write_char('\n')
            }
        }
    }
}

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.items.iter().try_for_each(|item| item.fmt(f))
    }
}
