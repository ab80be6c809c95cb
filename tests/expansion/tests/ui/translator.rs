use sdt_core::sdt_translator;

sdt_translator!("inline int bell = '\u{7}';");
sdt_translator!(inline int bell = 7;);

fn main() {}
