use proptest::prelude::*;

use super::*;

fn all(vocabulary: Vocabulary, source: &str) -> Vec<(TokenKind, &str)> {
    let (mut at, mut tokens) = (0, Vec::new());
    loop {
        let line_start = at == 0 || source.as_bytes()[at - 1] == b'\n';
        let token = token(vocabulary, &source.as_bytes()[at..], line_start);
        if token.kind == TokenKind::End {
            return tokens;
        }
        if token.kind != TokenKind::Blank {
            tokens.push((token.kind, &source[at..at + token.len]));
        }
        at += token.len;
    }
}

fn texts(source: &str) -> Vec<&str> {
    all(Vocabulary::Expr, source).into_iter().map(|(_, text)| text).collect()
}

#[test]
fn the_longest_token_is_taken() {
    assert_eq!(texts("a<<=b<<c<=d"), ["a", "<<=", "b", "<<", "c", "<=", "d"]);
    assert_eq!(texts("x++ + --y->z"), ["x", "++", "+", "--", "y", "->", "z"]);
    assert_eq!(texts("0x1fULL 089 1lu"), ["0x1fULL", "089", "1l", "u"]);
    assert_eq!(texts("@ @a @_b[1]"), ["@", "@a", "@_b", "[", "1", "]"]);
}

#[test]
fn numbers_with_a_point_are_tokens_of_their_own() {
    for source in ["1.5", ".5", "1e5", "1.", "2f", "1e+3"] {
        assert_eq!(all(Vocabulary::Expr, source), [(TokenKind::Float, source)]);
    }
    assert_eq!(texts("1e"), ["1", "e"]);
}

#[test]
fn a_slash_ends_a_predicate_before_a_brace() {
    let kinds =
        |source| -> Vec<_> { all(Vocabulary::Expr, source).into_iter().map(|t| t.0).collect() };
    let divide = TokenKind::Punct(Punct::Slash);
    assert_eq!(kinds("a / b"), [TokenKind::Word, divide, TokenKind::Word]);
    for end in ["/ {", "/\n\n{", "/;", "/", "/ /"] {
        assert_eq!(kinds(end)[0], TokenKind::EndPredicate, "{end:?}");
    }
    // dtrace(1) interprets the beginning of the comment as the beginning of the next predicate.
    assert_eq!(kinds("a / /* c */ b")[1], TokenKind::EndPredicate);
}

#[test]
fn strings_and_characters() {
    let one = |source| all(Vocabulary::Expr, source)[0];
    assert_eq!(one(r#""a\"b" c"#), (TokenKind::Str, r#""a\"b""#));
    assert_eq!(one("\"a\nb"), (TokenKind::StrCut, "\"a"));
    assert_eq!(one("\"a"), (TokenKind::Stray, "\""));
    assert_eq!(one(r"'\''"), (TokenKind::Char, r"'\''"));
    assert_eq!(one("''"), (TokenKind::Char, "''"));
}

#[test]
fn scopes_and_macros() {
    assert_eq!(texts("if_em.ko`x a.b `y"), ["if_em.ko`x", "a", ".", "b", "`y"]);
    assert_eq!(texts("$1 $$12 $pid $$target $"), ["$1", "$$12", "$pid", "$$target", "$"]);
}

#[test]
fn control_lines_begin_lines() {
    let tokens = all(Vocabulary::Clause, "#!/usr/sbin/dtrace -s\n  #pragma D option quiet\nBEGIN");
    assert_eq!(tokens[0], (TokenKind::Control, "  #pragma D option quiet"));
    assert_eq!(tokens[1], (TokenKind::ProbeSpec, "BEGIN"));
    assert_eq!(all(Vocabulary::Expr, "a # b")[1].0, TokenKind::Stray);
}

#[test]
fn probe_descriptions() {
    let tokens = all(Vocabulary::Clause, "syscall::*read*:entry,tick-1s,proc:::exec-success\n/x");
    let texts: Vec<_> = tokens.iter().map(|t| t.1).collect();
    assert_eq!(
        texts,
        ["syscall::*read*:entry", ",", "tick-1s", ",", "proc:::exec-success", "/", "x"]
    );
}

#[test]
fn comments() {
    assert_eq!(texts("a /* b\n * c */ d /* open"), ["a", "d"]);
    assert_eq!(all(Vocabulary::Expr, "/* /* */")[0].0, TokenKind::NestedComment);
    // `//` comments, which dtrace(1) does not have.
    assert_eq!(texts("a // b /* c\nd // e */"), ["a", "d"]);
    assert_eq!(texts("x//* c */ {"), ["x", "/", "{"]);
    let outside: Vec<_> = all(Vocabulary::Clause, "// a\nBEGIN").iter().map(|t| t.1).collect();
    assert_eq!(outside, ["BEGIN"]);
}

proptest! {
    #[test]
    fn any_text_ends(source: String) {
        for vocabulary in [Vocabulary::Clause, Vocabulary::Expr] {
            all(vocabulary, &source.replace(|c: char| !c.is_ascii(), "\u{7f}"));
        }
    }

    #[test]
    fn every_token_but_the_last_takes_something(source: Vec<u8>) {
        for vocabulary in [Vocabulary::Clause, Vocabulary::Expr] {
            let token = token(vocabulary, &source, true);
            prop_assert_eq!(token.len == 0, token.kind == TokenKind::End);
            prop_assert!(token.len <= source.len());
        }
    }
}
