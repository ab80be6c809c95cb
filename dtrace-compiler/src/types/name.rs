//! The names of types in errors: C declarations without a variable.

use super::store::Types;
use super::ty::{Type, TypeId};

impl Types {
    /// Returns the name of a type.
    pub fn name(&self, id: TypeId) -> String {
        if id == self.special().function_pointer {
            return "function pointer".into();
        }
        if id == self.special().function {
            return "function".into();
        }
        if id == self.special().dynamic {
            return "dynamic variable".into();
        }
        self.c_name(id)
    }

    /// Returns the name in C; [`name`](Self::name) has other words for types that C cannot express.
    pub(crate) fn c_name(&self, id: TypeId) -> String {
        // Follows pointers and arrays to the base type. `before` and `behind` are the texts around a variable's name.
        let (mut before, mut behind, mut at) = (String::new(), String::new(), id);
        let mut pointed = false;
        let base = loop {
            match self.get(at) {
                Type::Pointer(to) => {
                    before.insert(0, '*');
                    pointed = true;
                    at = *to;
                }
                Type::Array(of, count) => {
                    if std::mem::take(&mut pointed) {
                        before.insert(0, '(');
                        behind.push(')');
                    }
                    behind.push_str(&format!("[{count}]"));
                    at = *of;
                }
                Type::Function => {
                    if std::mem::take(&mut pointed) {
                        before.insert(0, '(');
                        behind.push(')');
                    }
                    behind.push_str("()");
                    break "void".to_string();
                }
                Type::Int { name, .. } | Type::Float { name, .. } | Type::Typedef(name, _) => {
                    break name.clone();
                }
                Type::Record { union, tag, .. } => {
                    let word = if *union { "union" } else { "struct" };
                    break format!("{word} {}", tag.as_deref().unwrap_or(""));
                }
                Type::Enum { tag, .. } => break format!("enum {}", tag.as_deref().unwrap_or("")),
                Type::Forward(kind, tag) => break format!("{} {tag}", kind.name()),
            }
        };
        if before.is_empty() && behind.is_empty() {
            base
        } else {
            format!("{base} {before}{behind}")
        }
    }
}
