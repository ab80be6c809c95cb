//! `-x help`: the list of all options.

use std::fmt::Write as _;

use dtrace_compiler::options::{ALL, OptionInfo, User};

/// Returns the list of all options: the values, the default, the user, and a description.
pub(crate) fn options() -> String {
    let (unused, used): (Vec<&OptionInfo>, Vec<_>) =
        ALL.iter().partition(|option| option.user == User::Unused);
    let mut text = String::from(
        "Set an option with -x option or -x option=value, or in a program with #pragma D option option=value.\n\
         A size has an optional unit k, m, g or t; a rate has a unit ns, us, ms, s, m, h, d or hz.\n\n",
    );
    row(&mut text, ["option", "takes", "default", "used by", "description"]);
    for option in used {
        let takes = option.takes.to_string();
        row(&mut text, [option.name, &takes, option.default, option.user.name(), option.help]);
    }
    text.push_str("\nAccepted for compatibility with dtrace(1), without effect:\n");
    for option in unused {
        let _ = writeln!(text, "{:<14} {}", option.name, option.help);
    }
    text
}

fn row(text: &mut String, [name, takes, default, user, help]: [&str; 5]) {
    let _ = writeln!(text, "{name:<14} {takes:<16} {default:<12} {user:<8} {help}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_options_are_listed_on_a_line_each() {
        let text = options();
        for option in ALL {
            let lines = text.lines().filter(|line| line.split(' ').next() == Some(option.name));
            assert_eq!(lines.count(), 1, "{}", option.name);
            assert!(!option.help.is_empty() && !option.help.ends_with('.'), "{}", option.name);
        }
        let row = "strsize        size             256          kernel   Size of a string, with its terminating zero";
        assert!(text.contains(row), "{text}");
    }
}
