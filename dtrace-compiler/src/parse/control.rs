//! Control lines: `#pragma D ...`, `#line`, and the like.

use dtrace_abi::ErrTag;

use super::Parser;
use crate::error::Result;
use crate::syntax::{ControlWord, Item, ItemKind};
use crate::text;

impl Parser<'_> {
    /// Parses a control line, and stores its words as an item. Control lines that affect parsing are processed here:
    /// `#line`, and two options.
    pub(super) fn control(&mut self, line: &[u8], start: usize) -> Result<()> {
        if self.context.only_declares() {
            let message = "the declarations of a module may not contain control lines, such as \
                #pragma";
            return self.error(ErrTag::PragctlInval, message);
        }
        let hash = line.iter().position(|&byte| byte == b'#').unwrap_or(0);
        let words = self.control_words(&line[hash + 1..])?;
        let line_words = match &words[..] {
            [ControlWord::Word(word), rest @ ..] if word == "line" => Some(rest),
            [ControlWord::Int(_), ..] => Some(&words[..]),
            _ => None,
        };
        match line_words {
            Some(words) => self.line_directive(words)?,
            None => {
                if let Some(option) = option_of(&words) {
                    match option {
                        "defaultargs" => self.default_arguments = true,
                        "pspec" => self.prefer_probes = true,
                        _ => {}
                    }
                }
                let place = self.place_from(start);
                self.items.push(Item { place, kind: ItemKind::Control(words) });
            }
        }
        Ok(())
    }

    fn control_words(&self, mut rest: &[u8]) -> Result<Vec<ControlWord>> {
        let mut words = Vec::new();
        loop {
            let blanks = rest.iter().take_while(|b| b" \t\r\x0b\x0c".contains(b)).count();
            rest = &rest[blanks..];
            let Some(&first) = rest.first() else { return Ok(words) };
            if first == b'"' {
                let Some(end) = string_end(rest) else {
                    return self.error(ErrTag::StrNl, "newline encountered in string literal");
                };
                words.push(ControlWord::Str(text::unescape(&rest[1..end])));
                rest = &rest[end + 1..];
                continue;
            }
            let end =
                rest.iter().position(|b| b" \t\r\x0b\x0c\"".contains(b)).unwrap_or(rest.len());
            let word = String::from_utf8_lossy(&rest[..end]).into_owned();
            words.push(match word.parse::<u64>() {
                Ok(value) if !word.starts_with('+') => ControlWord::Int(value),
                _ => ControlWord::Word(word),
            });
            rest = &rest[end..];
        }
    }

    /// Processes `line "file" state`, which sets the line number and the file of the next line.
    fn line_directive(&mut self, words: &[ControlWord]) -> Result<()> {
        let (line, rest) = match words {
            [ControlWord::Int(line), rest @ ..] => (*line, rest),
            _ => return self.error(ErrTag::PragmaMalform, MALFORMED_LINE),
        };
        match rest {
            [] => {}
            [ControlWord::Str(file)] | [ControlWord::Str(file), ControlWord::Int(_), ..] => {
                let file = String::from_utf8_lossy(file).into_owned();
                // If the preprocessor read its standard input, its name for the input is not the name of the source.
                self.file = (!file.starts_with("/dev/fd/")).then_some(file);
            }
            _ => return self.error(ErrTag::PragmaMalform, MALFORMED_LINE),
        }
        // Less one, because the newline after the control line is still to be read.
        self.line = u32::try_from(line).unwrap_or(u32::MAX).saturating_sub(1);
        Ok(())
    }
}

const MALFORMED_LINE: &str = "malformed #line <line> [ [\"file\"] state ]";

/// Returns the option of `#pragma D option name=value`.
fn option_of(words: &[ControlWord]) -> Option<&str> {
    match words {
        [
            ControlWord::Word(pragma),
            ControlWord::Word(d),
            ControlWord::Word(option),
            ControlWord::Word(name),
        ] if pragma == "pragma" && d == "D" && option == "option" => name.split('=').next(),
        _ => None,
    }
}

/// Returns the offset of the closing quote of the string at the beginning of `bytes`.
fn string_end(bytes: &[u8]) -> Option<usize> {
    let mut escaped = false;
    bytes.iter().enumerate().skip(1).find_map(|(at, &byte)| {
        let end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        end.then_some(at)
    })
}
