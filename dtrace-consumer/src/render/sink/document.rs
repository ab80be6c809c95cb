//! Documents: values with names, as JSON and as XML.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::escape::is_hidden;

/// A value in a document. It may borrow texts.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::render) enum Node<'t> {
    Text(Cow<'t, str>),
    Number(i128),
    List(Vec<Node<'t>>),
    Object(Vec<(&'static str, Node<'t>)>),
}

impl<'t> Node<'t> {
    pub fn text(text: impl Into<Cow<'t, str>>) -> Self {
        Self::Text(text.into())
    }

    pub fn one(name: &'static str, node: Self) -> Self {
        Self::Object(vec![(name, node)])
    }

    /// Appends the document as JSON.
    pub fn json(&self, out: &mut String) {
        match self {
            Self::Text(text) => json_text(text, out),
            Self::Number(number) => out.push_str(itoa::Buffer::new().format(*number)),
            Self::List(nodes) => {
                out.push('[');
                for (index, node) in nodes.iter().enumerate() {
                    out.push_str(if index > 0 { ", " } else { "" });
                    node.json(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (index, (name, node)) in members.iter().enumerate() {
                    out.push_str(if index > 0 { ", \"" } else { "\"" });
                    out.push_str(name);
                    out.push_str("\": ");
                    node.json(out);
                }
                out.push('}');
            }
        }
    }

    /// Appends the document as an XML element; a list becomes one element for each of its members.
    pub fn xml(&self, name: &str, out: &mut String) {
        if let Self::List(nodes) = self {
            return nodes.iter().for_each(|node| node.xml(name, out));
        }
        let mut inner = String::new();
        match self {
            Self::Text(text) => xml_text(text, &mut inner),
            Self::Number(number) => inner = number.to_string(),
            Self::List(_) => {}
            Self::Object(members) => {
                members.iter().for_each(|(name, node)| node.xml(name, &mut inner));
            }
        }
        let _ = match inner.as_str() {
            "" => write!(out, "<{name}/>"),
            _ => write!(out, "<{name}>{inner}</{name}>"),
        };
    }
}

pub(in crate::render) fn json_text(text: &str, out: &mut String) {
    out.push('"');
    // Most texts need no escape.
    let plain =
        text.bytes().position(|byte| !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\'));
    let (plain, rest) = text.split_at(plain.unwrap_or(text.len()));
    out.push_str(plain);
    for c in rest.chars() {
        let _ = match c {
            '"' | '\\' => write!(out, "\\{c}"),
            '\n' => write!(out, "\\n"),
            '\t' => write!(out, "\\t"),
            '\r' => write!(out, "\\r"),
            _ if is_hidden(c) => {
                let units = &mut [0; 2];
                c.encode_utf16(units).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
            }
            _ => write!(out, "{c}"),
        };
    }
    out.push('"');
}

/// Appends escaped text. XML cannot represent most ASCII control characters, so these become replacement characters.
fn xml_text(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\t' | '\n' => out.push(c),
            '\r' => out.push_str("&#13;"),
            '\0'..' ' | '\u{fffe}' | '\u{ffff}' => out.push(char::REPLACEMENT_CHARACTER),
            _ if is_hidden(c) => {
                // Writing to a string does not fail.
                let _ = write!(out, "&#x{:x};", u32::from(c));
            }
            _ => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let node =
            Node::Object(vec![("a", Node::text("<\"\n\u{1}\u{9b}>")), ("b", Node::List(vec![]))]);
        let (mut json, mut xml) = (String::new(), String::new());
        node.json(&mut json);
        node.xml("x", &mut xml);
        assert_eq!(json, "{\"a\": \"<\\\"\\n\\u0001\\u009b>\", \"b\": []}");
        assert_eq!(xml, "<x><a>&lt;\"\n\u{fffd}&#x9b;&gt;</a></x>");
    }

    #[test]
    fn no_character_that_a_terminal_obeys_or_hides_is_written_as_it_is() {
        let hidden =
            [0x7f..=0x9f, 0x200b..=0x200f, 0x202a..=0x202e, 0x2066..=0x2069, 0xfeff..=0xfeff]
                .into_iter()
                .chain([0xe0001..=0xe0001])
                .flatten()
                .filter_map(char::from_u32);
        for c in hidden {
            let (mut json, mut xml) = (String::new(), String::new());
            json_text(&c.to_string(), &mut json);
            xml_text(&c.to_string(), &mut xml);
            assert!(json.is_ascii() && xml.is_ascii(), "{c:?}: {json} {xml}");
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), c.to_string());
            assert_eq!(xml, format!("&#x{:x};", u32::from(c)));
            assert_eq!(crate::escape::line(&c.to_string()), format!("\\u{{{:x}}}", u32::from(c)));
        }
        let (mut json, mut xml) = (String::new(), String::new());
        json_text("\u{e9}\u{1f980}", &mut json);
        xml_text("\u{e9}\u{1f980}", &mut xml);
        assert_eq!((&*json, &*xml), ("\"\u{e9}\u{1f980}\"", "\u{e9}\u{1f980}"));
    }
}
