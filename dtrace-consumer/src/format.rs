//! The texts of dtrace(1), byte for byte (`cmd/dtrace/dtrace.c` and `dt_handle.c` of libdtrace).

use dtrace_abi::stability::Attribute;
use dtrace_compiler::program::Program;
use dtrace_protocol::SiteState;

use crate::client::{ArgType, Detail, Probe, Site};
use crate::escape;
use crate::objects::Line;

/// Returns the heading of a list.
pub(crate) fn list_header() -> String {
    list_row("ID", "PROVIDER", "MODULE", "FUNCTION", "NAME")
}

/// Returns the line of a probe in a list.
pub(crate) fn listed(probe: &Probe) -> String {
    let Probe { id, provider, module, function, name } = probe;
    list_row(&id.to_string(), provider, module, function, name)
}

fn list_row(id: &str, provider: &str, module: &str, function: &str, name: &str) -> String {
    format!("{id:>5} {provider:>10} {module:>17} {function:>33} {name}\n")
}

/// Returns the attributes and argument types that `-v` adds to a probe of a list.
pub(crate) fn detail(detail: &Detail) -> String {
    let mut text = format!(
        "\n\tProbe Description Attributes\n{}\n\tArgument Attributes\n{}\n\tArgument Types\n",
        attributes_of(detail.probe),
        attributes_of(detail.args)
    );
    for (index, argument) in detail.types.iter().enumerate() {
        let ArgType { native, translated, name, obstacle } = argument;
        let shown = match obstacle {
            Some(_) => "no value",
            None => translated.as_ref().unwrap_or(native),
        };
        let name = name.as_ref().map_or(String::new(), |name| format!(" (args.{name})"));
        let why = obstacle.as_ref().map_or(String::new(), |why| format!(": {why}"));
        text.push_str(&format!("\t\targs[{index}]: {shown}{name}{why}\n"));
    }
    if detail.types.is_empty() {
        let why = detail.untyped.as_ref().map_or(String::new(), |why| format!(": {why}"));
        text.push_str(&format!("\t\tNone{why}\n"));
    }
    text.push('\n');
    text
}

/// Returns the sites that `--sites` adds to a probe of a list. dtrace(1) has no such option.
pub(crate) fn sites(sites: &[Site], lines: impl Fn(u64) -> Vec<Line>) -> String {
    let mut text = String::from("\n\tSites\n");
    if sites.is_empty() {
        text.push_str("\t\tNot reported\n");
    }
    for site in sites {
        let function = site.function.as_ref().map_or_else(
            || "?".to_owned(),
            |(symbol, offset)| {
                // A name may hold any character once it is demangled.
                let name = format!("{:#}", rustc_demangle::demangle(symbol));
                format!("{}+{offset:#x}", escape::line(&name))
            },
        );
        let state = match site.state {
            SiteState::Nop => "nop",
            SiteState::Trap => "trap",
            SiteState::Jump => "jump",
        };
        let distance = i128::from(site.target) - i128::from(site.address);
        let reach = match site.in_reach {
            true => format!("in reach of a jump (within {})", binary(site.reach)),
            false => format!("out of reach of a jump (farther than {})", binary(site.reach)),
        };
        text.push_str(&format!(
            "\t\t{:#x} {state:<4} {function}\n\t\t\tto {:#x}, {distance:+} bytes, {reach}\n",
            site.address, site.target
        ));
        for line in &lines(site.address) {
            text.push_str(&source(line));
        }
    }
    text.push('\n');
    text
}

/// Returns a number of bytes in the largest binary unit of which it is a multiple.
fn binary(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "bytes")];
    let is_multiple = |shift: u32| bytes & ((1_u64 << shift) - 1) == 0;
    let (shift, unit) =
        units.into_iter().find(|&(shift, _)| is_multiple(shift)).unwrap_or(units[3]);
    format!("{} {unit}", bytes >> shift)
}

/// Returns the line of a site's function, with its place in the source.
fn source(Line { function, place }: &Line) -> String {
    let function = function
        .as_ref()
        .map_or_else(|| "?".to_owned(), |symbol| format!("{:#}", rustc_demangle::demangle(symbol)));
    let place = match place {
        Some((file, line)) => format!(", {file}:{line}"),
        None => String::new(),
    };
    format!("\t\t\tin {}\n", escape::line(&format!("{function}{place}")))
}

fn attributes_of([name, data, class]: [u8; 3]) -> String {
    format!(
        "\t\tIdentifier Names: {}\n\t\tData Semantics:   {}\n\t\tDependency Class: {}\n",
        stability_name(name),
        stability_name(data),
        dependency_class(class)
    )
}

fn stability_name(number: u8) -> &'static str {
    const NAMES: [&str; 8] = [
        "Internal", "Private", "Obsolete", "External", "Unstable", "Evolving", "Stable", "Standard",
    ];
    NAMES.get(usize::from(number)).unwrap_or(&"<unknown>")
}

fn dependency_class(number: u8) -> &'static str {
    const NAMES: [&str; 6] = ["Unknown", "CPU", "Platform", "Group", "ISA", "Common"];
    NAMES.get(usize::from(number)).unwrap_or(&"<unknown>")
}

/// Returns the message with the number of matched probes; `kind` is `description` or `script`.
pub(crate) fn matched(kind: &str, name: &str, probes: u32) -> String {
    format!("{kind} '{name}' matched {probes} probe{}", if probes == 1 { "" } else { "s" })
}

/// Returns the stability of a program for `-v`: the minimum of its descriptions and of its statements.
pub(crate) fn stability(kind: &str, name: &str, program: &Program) -> String {
    let statements = || program.ecbs.iter().flat_map(|ecb| &ecb.statements);
    let least = |attributes: &mut dyn Iterator<Item = Attribute>| {
        let least = attributes.fold(Attribute::MAX, Attribute::min);
        attributes_of([least.name.number(), least.data.number(), least.class.number()])
    };
    format!(
        "\nStability attributes for {kind} {name}:\n\n\tMinimum Probe Description Attributes\n{}\n\t\
         Minimum Statement Attributes\n{}",
        least(&mut statements().map(|statement| statement.probe_attr)),
        least(&mut statements().map(|statement| statement.attr))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // The output of FreeBSD 12.1's own dtrace.
    const GOLDEN_LIST: &str = "   ID   PROVIDER            MODULE                          FUNCTION NAME\n\
        25019       proc                rk                                   exec-success\n";
    const GOLDEN_DETAIL: &str = "\n\tProbe Description Attributes\n\
        \t\tIdentifier Names: Private\n\t\tData Semantics:   Private\n\
        \t\tDependency Class: Unknown\n\n\tArgument Attributes\n\
        \t\tIdentifier Names: Private\n\t\tData Semantics:   Private\n\
        \t\tDependency Class: ISA\n\n\tArgument Types\n\t\targs[0]: char *\n\n";

    fn probe() -> Probe {
        Probe {
            id: 25019,
            provider: "proc".into(),
            module: "rk".into(),
            function: String::new(),
            name: "exec-success".into(),
        }
    }

    #[test]
    fn lists_read_as_dtraces() {
        assert_eq!(format!("{}{}", list_header(), listed(&probe())), GOLDEN_LIST);
    }

    fn described(probe: [u8; 3], args: [u8; 3], types: Vec<ArgType>) -> Detail {
        Detail { probe, args, provider: [[5, 5, 4]; 5], privileges: 1, types, untyped: None }
    }

    #[test]
    fn details_read_as_dtraces() {
        let native =
            ArgType { native: "char *".into(), translated: None, name: None, obstacle: None };
        let some = described([1, 1, 0], [1, 1, 4], vec![native]);
        assert_eq!(detail(&some), GOLDEN_DETAIL);
        let none = detail(&Detail { types: Vec::new(), ..some });
        assert!(none.ends_with("\n\tArgument Types\n\t\tNone\n\n"), "{none}");
    }

    #[test]
    fn translated_types_are_shown() {
        let translated = Some("psinfo_t *".into());
        let types = vec![ArgType {
            native: "struct proc *".into(),
            translated,
            name: None,
            obstacle: None,
        }];
        let text = detail(&described([5, 5, 5], [7, 0, 1], types));
        assert!(text.contains("\t\targs[0]: psinfo_t *\n"), "{text}");
        assert!(text.contains("Names: Standard\n\t\tData Semantics:   Internal\n"), "{text}");
    }

    #[test]
    fn names_are_shown() {
        let of = |native: &str, name: &str| ArgType {
            native: native.into(),
            translated: None,
            name: Some(name.into()),
            obstacle: None,
        };
        let types = vec![of("int", "tries"), of("_Bool", "tries.is_some")];
        let text = detail(&described([5, 5, 5], [7, 0, 1], types));
        assert!(
            text.contains("args[0]: int (args.tries)\n\t\targs[1]: _Bool (args.tries.is_some)\n")
        );
    }

    #[test]
    fn distances_have_binary_units() {
        for (bytes, text) in
            [(2 << 30, "2 GiB"), (128 << 20, "128 MiB"), (1 << 20, "1 MiB"), (1536, "1536 bytes")]
        {
            assert_eq!(binary(bytes), text);
        }
    }

    #[test]
    fn sites_are_listed() {
        let site = Site {
            address: 0x1000,
            function: Some(("_ZN12proc_example7on_exec17h0123456789abcdefE".into(), 0x20)),
            state: SiteState::Trap,
            target: 0xff0,
            in_reach: true,
            reach: 1 << 20,
        };
        let known = site.clone();
        let unknown = Site { function: None, in_reach: false, ..site.clone() };
        assert_eq!(
            sites(&[site, unknown], |_| Vec::new()),
            "\n\tSites\n\
             \t\t0x1000 trap proc_example::on_exec+0x20\n\
             \t\t\tto 0xff0, -16 bytes, in reach of a jump (within 1 MiB)\n\
             \t\t0x1000 trap ?\n\
             \t\t\tto 0xff0, -16 bytes, out of reach of a jump (farther than 1 MiB)\n\n"
        );
        assert_eq!(sites(&[], |_| Vec::new()), "\n\tSites\n\t\tNot reported\n\n");
        let lines = |_| {
            let inlined = Some("_ZN4shop5query17h0123456789abcdefE".to_owned());
            let place = Some(("src/\u{1b}main.rs".to_owned(), 12));
            vec![Line { function: inlined, place }, Line { function: None, place: None }]
        };
        let text = sites(&[known], lines);
        assert!(
            text.contains("\t\t\tin shop::query, src/\\u{1b}main.rs:12\n\t\t\tin ?\n"),
            "{text}"
        );
    }

    #[test]
    fn numbers_agree() {
        assert_eq!(matched("description", "a", 1), "description 'a' matched 1 probe");
        assert_eq!(matched("script", "a", 0), "script 'a' matched 0 probes");
        assert_eq!(matched("description", "a", 2), "description 'a' matched 2 probes");
    }
}
