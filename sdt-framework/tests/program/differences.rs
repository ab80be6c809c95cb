//! Programs for which illumos's dtrace.c is wrong (docs/d.md lists them), and their records here.

use crate::run::{Kernel, number};

/// Returns the record of a clause of `proc:::a` for one hit, if it records anything.
fn recorded(clause: &str) -> Vec<Vec<u8>> {
    let kernel = Kernel::new();
    let consumer = kernel.consumer();
    consumer.enable(clause);
    consumer.go();
    kernel.hit(0, 0);
    consumer.records(0).0.into_iter().flat_map(|record| record.data).collect()
}

#[test]
fn a_predicate_has_64_bits() {
    let data = recorded("proc:::a /1LL << 32/ { trace(7); }");
    assert_eq!(data.iter().map(|datum| number(datum)).collect::<Vec<_>>(), [7]);
}

#[test]
fn json_without_such_an_element_is_null() {
    let clause = "this string s;
         proc:::a { this->s = json(\"x\", \"nope\"); trace(this->s == NULL ? 1 : 0); }";
    assert_eq!(number(&recorded(clause)[0]), 1);
}

#[test]
fn strjoin_may_fill_a_string() {
    for (length, fits) in [(254, true), (255, true), (256, false)] {
        let (one, other) = ("a".repeat(length - 100), "b".repeat(100));
        let data = recorded(&format!("proc:::a {{ trace(strjoin(\"{one}\", \"{other}\")); }}"));
        let text = [one, other].concat().into_bytes();
        assert_eq!(data.first().is_some_and(|datum| datum.starts_with(&text)), fits, "{length}");
    }
}

#[test]
fn a_dynamic_size_is_of_one_tracemem() {
    let clause = "this char *p;
         proc:::a { this->p = (char *)alloca(32); this->p[20] = 5; tracemem(this->p, 24, 32); tracemem(this->p, 24); }";
    let data = recorded(clause);
    let last = data.last().unwrap();
    assert_eq!((last.len(), last[20]), (24, 5));
}
