//! The error for a probe that its provider does not declare.

use proc_macro2::Ident;
use syn::parse::ParseStream;
use syn::{Error, Result};

/// The greatest number of probes that the error lists. With more, it lists only similar names.
const MOST_LISTED: usize = 12;

/// Parses the provider's probes, and the unknown one.
pub(crate) fn error(
    provider: &str,
    declared: ParseStream<'_>,
    input: ParseStream<'_>,
) -> Result<Error> {
    let list;
    syn::braced!(list in declared);
    let mut known = Vec::new();
    while !list.is_empty() {
        known.push(list.parse::<Ident>()?.to_string());
    }
    let probe: Ident = input.parse()?;
    let message = message(provider, &probe.to_string(), &known);
    // The rest of the input is not used.
    input.parse::<proc_macro2::TokenStream>()?;
    Ok(Error::new(probe.span(), message))
}

fn message(provider: &str, probe: &str, known: &[String]) -> String {
    let list: Vec<_> = known.iter().map(|known| format!("`{known}`")).collect();
    let has = match list.len() {
        0 => "none".to_owned(),
        1..=MOST_LISTED => list.join(", "),
        more => format!("{more}"),
    };
    let mut message = format!("provider `{provider}` declares no probe `{probe}`; it has {has}");
    let nearest = known.iter().map(|known| (distance(probe, known), known)).min();
    if let Some((distance, nearest)) = nearest
        && distance <= probe.len().max(nearest.len()) / 3
    {
        message += &format!("; did you mean `{nearest}`?");
    }
    message
}

/// Returns the edit distance: how many letters must be inserted, removed or changed to turn one name into the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(probe: &str, known: &[&str]) -> String {
        message("disk", probe, &known.iter().map(|&known| known.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn what_may_have_been_meant_is_named() {
        assert_eq!(
            of("ful", &["full", "geom"]),
            "provider `disk` declares no probe `ful`; it has `full`, `geom`; did you mean `full`?"
        );
        assert_eq!(of("x", &[]), "provider `disk` declares no probe `x`; it has none");
        let many: Vec<_> = (0..20).map(|i| format!("probe_{i}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(
            of("prob_7", &many),
            "provider `disk` declares no probe `prob_7`; it has 20; did you mean `probe_7`?"
        );
        assert!(!of("start", &many).contains("mean"));
    }

    #[test]
    fn distances() {
        for (from, to, expected) in
            [("", "", 0), ("abc", "abc", 0), ("abc", "ac", 1), ("ab", "ba", 2), ("", "xyz", 3)]
        {
            assert_eq!(distance(from, to), expected, "{from} {to}");
        }
    }
}
