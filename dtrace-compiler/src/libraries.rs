//! Libraries in the order in which they depend on each other (`dt_load_libs_sort`, dt_cc.c).

use std::fmt;

/// A library that has not been compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library<'a> {
    /// Its path. Other libraries refer to it by the last part of the path.
    pub name: &'a str,
    /// Its text.
    pub text: &'a [u8],
}

/// A cycle of libraries that depend on each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Their names: each depends on the next one, and the last on the first.
    pub names: Vec<String>,
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.names.first().map_or("", String::as_str);
        write!(f, "libraries depend on each other: {} -> {first}", self.names.join(" -> "))
    }
}

impl std::error::Error for Cycle {}

/// Returns the last part of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the libraries on which a text depends: `#pragma D depends_on library NAME` outside of comments.
fn dependencies(text: &[u8]) -> Vec<String> {
    let text = without_comments(text);
    let text = String::from_utf8_lossy(&text);
    let depends = |line: &str| {
        let line = line.trim_start().strip_prefix('#')?;
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["pragma", "D", "depends_on", "library", name, ..] => Some(name.to_string()),
            _ => None,
        }
    };
    text.lines().filter_map(depends).collect()
}

/// Returns a text with each comment replaced by a blank, with the same lines.
fn without_comments(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        if !rest.starts_with(b"/*") {
            out.push(byte);
            rest = after;
            continue;
        }
        let end = rest[2..].windows(2).position(|two| two == b"*/");
        let end = end.map_or(rest.len(), |end| end + 4);
        out.push(b' ');
        out.extend(rest[..end].iter().filter(|&&byte| byte == b'\n'));
        rest = &rest[end..];
    }
    out
}

/// The progress of ordering a library.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Done,
}

/// Returns the indices of libraries, each after its dependencies, otherwise in their order. Missing dependencies are
/// ignored: compiling the library reports them.
///
/// # Errors
///
/// If libraries depend on each other.
pub fn order(libraries: &[Library<'_>]) -> Result<Vec<usize>, Cycle> {
    let edges: Vec<Vec<usize>> = libraries
        .iter()
        .map(|library| {
            let names = dependencies(library.text).into_iter();
            let find = |name: String| {
                libraries.iter().position(|library| base_name(library.name) == base_name(&name))
            };
            names.filter_map(find).collect()
        })
        .collect();
    let mut states = vec![State::New; libraries.len()];
    let mut order = Vec::with_capacity(libraries.len());
    for root in 0..libraries.len() {
        // The open libraries, each with the number of processed dependencies.
        let mut path: Vec<(usize, usize)> = Vec::new();
        if states[root] == State::New {
            states[root] = State::Open;
            path.push((root, 0));
        }
        while let Some((library, looked_at)) = path.last_mut() {
            let Some(&next) = edges[*library].get(*looked_at) else {
                states[*library] = State::Done;
                order.push(*library);
                path.pop();
                continue;
            };
            *looked_at += 1;
            match states[next] {
                State::Done => {}
                State::New => {
                    states[next] = State::Open;
                    path.push((next, 0));
                }
                State::Open => {
                    let cycle = path.iter().skip_while(|(library, _)| *library != next);
                    let names = cycle.map(|(library, _)| libraries[*library].name.to_string());
                    return Err(Cycle { names: names.collect() });
                }
            }
        }
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library<'a>(name: &'a str, text: &'a str) -> Library<'a> {
        Library { name, text: text.as_bytes() }
    }

    #[test]
    fn what_is_depended_on_comes_first() {
        let libraries = [
            library(
                "/lib/a.d",
                "#pragma D depends_on library c.d\n#pragma D depends_on library b.d",
            ),
            library("/lib/b.d", " #  pragma D depends_on library c.d"),
            library(
                "/lib/c.d",
                "#pragma D depends_on provider ip\n#pragma D depends_on library x.d",
            ),
            library("/lib/d.d", "/* \n#pragma D depends_on library a.d\n*/"),
        ];
        assert_eq!(order(&libraries), Ok(vec![2, 1, 0, 3]));
    }

    #[test]
    fn circles_are_refused() {
        let libraries = [
            library("x.d", ""),
            library("a.d", "#pragma D depends_on library b.d"),
            library("b.d", "#pragma D depends_on library c.d"),
            library("c.d", "#pragma D depends_on library b.d"),
        ];
        let cycle = order(&libraries).unwrap_err();
        assert_eq!(cycle.to_string(), "libraries depend on each other: b.d -> c.d -> b.d");
        let own = [library("a.d", "#pragma D depends_on library a.d")];
        assert_eq!(order(&own).unwrap_err().names, ["a.d"]);
    }
}
