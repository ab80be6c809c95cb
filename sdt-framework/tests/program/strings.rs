//! String subroutines at the limit of strings: the results of illumos's dtrace.c for texts that are longer than `strsize`.

use dtrace_abi::option::OptionId;

use crate::run::Kernel;

/// Returns the strings of this size that a clause traces, up to their NUL.
fn traced(string_size: usize, clause: &str) -> Vec<String> {
    let kernel = Kernel::new();
    let consumer = kernel.consumer();
    consumer.set(OptionId::Strsize, string_size as i64);
    consumer.enable(&format!(
        "#pragma D option strsize={string_size}\nthis string s;\nproc:::a {{ {clause} }}"
    ));
    consumer.go();
    kernel.hit(0, 0);
    consumer.stop();
    let (records, drops) = consumer.records(0);
    assert_eq!((records.len(), drops), (1, 0), "{clause}");
    let text = |datum: &Vec<u8>| {
        let text = datum.split(|&byte| byte == 0).next().unwrap();
        String::from_utf8(text.into()).unwrap()
    };
    records[0].data.iter().map(text).collect()
}

#[test]
fn strtok_ends_where_its_text_ends() {
    let parts = "trace(strtok(\"aaaa,bbbb,cccc,dddd,eeee,ffff\", \",\"));
         trace(strtok(NULL, \",\")); trace(strtok(NULL, \",\")); trace(strtok(NULL, \",\"));";
    assert_eq!(traced(16, parts), ["aaaa", "bbbb", "cccc", "d"]);
    // A NUL before that limit also ends the text.
    assert_eq!(traced(64, parts), ["aaaa", "bbbb", "cccc", "dddd"]);
    let no_more = "this->s = strtok(NULL, \",\"); trace(this->s == NULL ? \"none\" : \"some\");";
    assert_eq!(traced(16, &format!("{parts} {no_more}")), ["aaaa", "bbbb", "cccc", "d", "none"]);
    // Separators up to the last byte: an empty part, and none after that.
    let full = format!("trace(strtok(\",,,,,,,,,,,,,,,,,,,x\", \",\")); {no_more}");
    assert_eq!(traced(16, &full), ["", "none"]);
}

#[test]
fn strtok_without_a_part_left_is_null() {
    let none = "this->s = strtok(\"ll\", \"l\"); trace(this->s == NULL ? \"none\" : \"some\");";
    assert_eq!(traced(32, none), ["none"]);
    let again = "this->s = strtok(NULL, \"l\"); trace(this->s == NULL ? \"none\" : \"some\");";
    assert_eq!(traced(32, &format!("{none} {again}")), ["none", "none"]);
    let last = "trace(strtok(\"hello\", \"l\")); trace(strtok(NULL, \"l\"));";
    assert_eq!(traced(32, &format!("{last} {again} {again}")), ["he", "o", "none", "none"]);
}

#[test]
fn cleanpath_reads_no_more_than_a_string() {
    let path = |size| traced(size, "trace(cleanpath(\"/usr/lib/../lib//amd64/./libc.so.1\"));");
    assert_eq!(path(64), ["/usr/lib/amd64/libc.so.1"]);
    assert_eq!(path(32), ["/usr/lib/amd64/libc.so"]);
}

#[test]
fn substr_gives_as_many_characters_as_a_string_has() {
    let part = |rest| traced(8, &format!("trace(substr(\"ZZZZZZZZZ\", {rest}));"));
    assert_eq!(part("0"), ["ZZZZZZZZ"]);
    assert_eq!(part("1"), ["ZZZZZZZ"]);
    assert_eq!(part("0, 9"), ["ZZZZZZZZ"]);
    assert_eq!(part("0, 7"), ["ZZZZZZZ"]);
    assert_eq!(part("-3"), ["ZZZ"]);
    assert_eq!(part("7, 9"), ["Z"]);
}
