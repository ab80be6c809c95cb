//! Names and messages that differ between Oracle's port and FreeBSD and illumos.

/// Pairs of error tags for the same check: our tag, and the tag of Oracle's port.
const TAGS: [(&str, &str); 35] = [
    ("D_LLQUANT_LOWTYPE", "D_LLQUANT_LMAGTYPE"),
    ("D_LLQUANT_LOWVAL", "D_LLQUANT_LMAGVAL"),
    ("D_LLQUANT_LOWMATCH", "D_LLQUANT_MATCHLMAG"),
    ("D_LLQUANT_HIGHTYPE", "D_LLQUANT_HMAGTYPE"),
    ("D_LLQUANT_HIGHVAL", "D_LLQUANT_HMAGVAL"),
    ("D_LLQUANT_HIGHMATCH", "D_LLQUANT_MATCHHMAG"),
    ("D_LLQUANT_FACTORMATCH", "D_LLQUANT_MATCHFACTOR"),
    ("D_LLQUANT_FACTORSMALL", "D_LLQUANT_FACTORVAL"),
    ("D_LLQUANT_NSTEPTYPE", "D_LLQUANT_STEPTYPE"),
    ("D_LLQUANT_NSTEPVAL", "D_LLQUANT_STEPVAL"),
    ("D_LLQUANT_FACTORNSTEPS", "D_LLQUANT_STEPVAL"),
    ("D_LLQUANT_FACTOREVEN", "D_LLQUANT_STEPVAL"),
    ("D_LLQUANT_NSTEPMATCH", "D_LLQUANT_MATCHSTEPS"),
    ("D_LLQUANT_NSTEPMATCH", "D_LLQUANT_MATCHSTEP"),
    ("D_LLQUANT_MAGRANGE", "D_LLQUANT_HMAGVAL"),
    ("D_LLQUANT_MAGTOOBIG", "D_LLQUANT_HMAGVAL"),
    ("D_NORMALIZE_PROTO", "D_PROTO_LEN"),
    ("D_NORMALIZE_SCALAR", "D_PROTO_ARG"),
    ("D_NORMALIZE_AGGARG", "D_PROTO_ARG"),
    ("D_TRUNC_PROTO", "D_PROTO_LEN"),
    ("D_TRUNC_SCALAR", "D_PROTO_ARG"),
    ("D_TRUNC_AGGARG", "D_PROTO_ARG"),
    ("D_CLEAR_PROTO", "D_PROTO_LEN"),
    ("D_CLEAR_AGGARG", "D_PROTO_ARG"),
    ("D_STACK_PROTO", "D_PROTO_LEN"),
    ("D_STACK_SIZE", "D_PROTO_ARG"),
    ("D_USTACK_PROTO", "D_PROTO_LEN"),
    ("D_USTACK_FRAMES", "D_PROTO_ARG"),
    ("D_USTACK_STRSIZE", "D_PROTO_ARG"),
    ("D_TRACEMEM_ARGS", "D_PROTO_LEN"),
    ("D_TRACEMEM_ADDR", "D_PROTO_ARG"),
    ("D_TRACEMEM_SIZE", "D_PROTO_ARG"),
    ("D_TRACEMEM_DYNSIZE", "D_PROTO_ARG"),
    ("D_PRINTA_PROTO", "D_PROTO_LEN"),
    ("D_PRINTF_ARG_PROTO", "D_PROTO_LEN"),
];

/// Returns whether a text contains one of our tags for this tag of Oracle's port.
pub fn has_tag_for(text: &str, tag: &str) -> bool {
    TAGS.iter().any(|(ours, theirs)| *theirs == tag && text.contains(&format!("[{ours}]")))
}

/// Translates the messages that the suite's filters match into those of Oracle's port.
pub fn translate(text: &str) -> String {
    let text = text
        .replace(
            "Duplicate member name definition",
            "Duplicate member, enumerator, or variable name",
        )
        .replace("dtrace: Sun D ", "dtrace: D ");
    let lines: Vec<String> = text.lines().map(without_column).collect();
    lines.join("\n") + "\n"
}

/// Removes the column from a line of the preprocessor.
fn without_column(line: &str) -> String {
    let parts: Vec<&str> = line.splitn(4, ':').collect();
    match parts[..] {
        ["/dev/stdin", number, column, rest]
            if !column.is_empty() && column.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            format!("/dev/stdin:{number}:{rest}")
        }
        _ => line.to_owned(),
    }
}

/// Why a program was refused: the tag and the line, each if the message contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refusal<'a> {
    tag: Option<&'a str>,
    line: Option<&'a str>,
}

impl<'a> Refusal<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let error = text.lines().find_map(|line| {
            line.strip_prefix("dtrace: failed to compile script ")?.split_once(": ")
        })?;
        let (tag, error) = match error.1.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
            Some((tag, error)) => (Some(tag), error),
            None => (None, error.1),
        };
        let line = error.strip_prefix("line ").and_then(|rest| rest.split(':').next());
        Some(Self { tag, line })
    }
}

/// Returns whether two texts report that a program was refused with the same tag, or in the same line.
pub fn same_refusal(left: &str, right: &str) -> bool {
    match (Refusal::read(left), Refusal::read(right)) {
        (Some(left), Some(right)) => match (left.tag, right.tag) {
            (Some(left), Some(right)) => left == right,
            _ => left.line.is_some() && left.line == right.line,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_stand_for_others() {
        assert!(has_tag_for("x: [D_STACK_PROTO] line 1: y", "D_PROTO_LEN"));
        assert!(!has_tag_for("x: [D_STACK_PROTO] line 1: y", "D_PROTO_ARG"));
    }

    #[test]
    fn refusals_are_the_same_by_tag_or_by_line() {
        let text = |rest: &str| format!("dtrace: failed to compile script a.d: {rest}");
        let same = |left: &str, right: &str| same_refusal(&text(left), &text(right));
        assert!(same("[D_X] line 1: a", "[D_X] line 2: b"));
        assert!(!same("[D_X] line 1: a", "[D_Y] line 1: a"));
        assert!(same("line 1: a", "line 1: b"));
        assert!(!same("line 1: a", "line 2: a"));
        assert!(!same("no line", "no line either"));
        assert!(!same_refusal("line 1: a", "line 1: a"));
    }

    #[test]
    fn columns_of_the_preprocessor_are_removed() {
        assert_eq!(translate("/dev/stdin:17:8: error: a:b"), "/dev/stdin:17: error: a:b\n");
        assert_eq!(translate("/dev/stdin:17: error: a"), "/dev/stdin:17: error: a\n");
    }
}
