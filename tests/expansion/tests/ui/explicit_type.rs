use sdt_core::sdt_provider;

struct Foreign;

sdt_provider! {
    no_text { fn start(bio: u64 as bufinfo_t); }
}
sdt_provider! {
    no_c_type { fn start(bio: u64 as "bufinfo_t, devinfo_t"); }
}
sdt_provider! {
    empty { fn start(bio: u64 => ""); }
}
sdt_provider! {
    no_type { fn start(bio: u64 =>); }
}
sdt_provider! {
    order { fn start(bio: u64 => "a" as "b"); }
}
sdt_provider! {
    attribute { fn start(#[inline] bio: u64); }
}
sdt_provider! {
    receiver { fn start(&self); }
}
sdt_provider! {
    keyword { fn start(type: u64); }
}
sdt_provider! {
    two_words { fn start(text: &str as "string"); }
}
sdt_provider! {
    by_value { fn start(bio: Foreign as "struct bio"); }
}

fn main() {}
