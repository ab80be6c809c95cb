//! Circles in a graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A graph: from each node to those on which it depends.
pub type Graph<T> = BTreeMap<T, BTreeSet<T>>;

/// Returns a circle of at least `least` different nodes, in order, if there is one. `least` is 2 or 3.
pub fn find<T: Clone + Ord>(graph: &Graph<T>, least: usize) -> Option<Vec<T>> {
    graph.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to))).find_map(
        |(from, to)| {
            let mut circle = path(graph, to, from, least > 2)?;
            circle.rotate_right(1);
            (from != to).then_some(circle)
        },
    )
}

/// The shortest path between two nodes, both included; without the edge between them if it has to be `indirect`.
fn path<T: Clone + Ord>(graph: &Graph<T>, from: &T, to: &T, indirect: bool) -> Option<Vec<T>> {
    let mut before: BTreeMap<&T, &T> = BTreeMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for next in graph.get(at).into_iter().flatten() {
            if (indirect && at == from && next == to) || next == from || before.contains_key(next) {
                continue;
            }
            before.insert(next, at);
            if next == to {
                let mut path = vec![to.clone()];
                let mut at = to;
                while let Some(&previous) = before.get(at) {
                    path.push(previous.clone());
                    at = previous;
                }
                path.reverse();
                return Some(path);
            }
            queue.push_back(next);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(char, char)]) -> Graph<char> {
        let mut graph = Graph::new();
        for &(from, to) in edges {
            graph.entry(from).or_insert_with(BTreeSet::new).insert(to);
        }
        graph
    }

    #[test]
    fn circles_are_found_by_their_size() {
        let tree = graph(&[('a', 'b'), ('a', 'c'), ('b', 'c')]);
        assert_eq!((find(&tree, 2), find(&tree, 3)), (None, None));
        let pairs = graph(&[('a', 'b'), ('b', 'a'), ('b', 'c'), ('c', 'b')]);
        assert_eq!(find(&pairs, 2), Some(vec!['a', 'b']));
        assert_eq!(find(&pairs, 3), None);
        let three = graph(&[('a', 'b'), ('b', 'a'), ('b', 'c'), ('c', 'a')]);
        let mut found = find(&three, 3).unwrap();
        found.sort();
        assert_eq!(found, ['a', 'b', 'c']);
    }
}
