use sdt_core::sdt_provider;

sdt_provider! {
    empty { #[name = ""] fn start(); }
}
sdt_provider! {
    dash { #[name = "-start"] fn start(); }
}
sdt_provider! {
    underscores { #[name = "io__start"] fn start(); }
}
sdt_provider! {
    read_otherwise { #[name = "io_-start"] fn start(); }
}
sdt_provider! {
    twice { #[name = "start"] #[name = "begin"] fn start(); }
}
sdt_provider! {
    number { #[name = 7] fn start(); }
}

fn main() {}
