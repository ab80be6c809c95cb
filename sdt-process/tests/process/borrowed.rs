//! Programs in D read text that a site borrows: by loads if its type proves it, and otherwise as any address.

use crate::consumer::Subject;
use crate::program::{copies_for, run};

/// Returns whether Linux tells which mappings have a file (`PROCMAP_QUERY`): since 6.11.
fn tells_mappings() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(11))
}

/// Constants, the thread's own stack and borrowed memory are read without the kernel. It copies text in a file, which can be
/// truncated while the text is borrowed.
#[test]
fn borrowed_text_is_loaded() {
    let by_argument = "printf(\"%s;%d;\", args[0], strlen(args[0]));";
    let by_address = "this->text = substr(stringof((char *)arg0), 0, arg1);
        printf(\"%s;%d;\", this->text, strlen(this->text));";
    let mut subject = Subject::new("jump");
    for statements in [by_argument, by_address] {
        let text = format!("subject:::said {{ {statements} }}");
        for (place, expected) in
            [("constant", 0), ("heap", 0), ("stack", 0), ("file", 1), ("copied", 1)]
        {
            let (copies, shown) = copies_for(&mut subject, &text, &format!("said {place}"));
            assert_eq!(shown.trim(), "a text of this size;19;", "{place}");
            if tells_mappings() || expected == 1 {
                assert_eq!(copies, expected, "{place}");
            }
        }
    }
    subject.end();
}

/// Safe code can give its own type the words and the types of a text; that proves nothing.
#[test]
fn text_that_a_program_claims_is_read_as_any_address() {
    let mut subject = Subject::new("jump");
    for address in [1, 0x1000, u64::MAX - 4, 0xffff_8000_0000_0000, 0x1234_5678_9abc_def0] {
        for length in [0, 1, 20, u64::MAX] {
            let text = "subject:::claimed { @ = count(); trace(args[0]); }";
            let [shown, said] = run(&mut subject, text, |subject| {
                subject.ask(&format!("said claim {address} {length}"));
            });
            assert_eq!(shown.trim(), "1", "{address:#x} {length}");
            assert_eq!(said.contains("invalid address"), length > 0, "{said}");
        }
    }
    subject.end();
}
