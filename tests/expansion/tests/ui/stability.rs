use sdt_core::sdt_provider;

sdt_provider! {
    #[stability(provider = "Evolving/Evolved/Common")]
    wrong_stability {}
}
sdt_provider! {
    #[stability(args = "Stable/Stable/Host")]
    wrong_class {}
}
sdt_provider! {
    #[stability(arguments = "Stable/Stable/ISA")]
    wrong_part {}
}
sdt_provider! {
    #[stability(name = "Stable")]
    no_triple {}
}
sdt_provider! {
    #[stability(name = "Stable/Stable/ISA", name = "Stable/Stable/ISA")]
    part_twice {}
}
sdt_provider! {
    #[stability()]
    no_part {}
}
sdt_provider! {
    #[stability(name = "Stable/Stable/ISA")]
    #[stability(args = "Stable/Stable/ISA")]
    twice {}
}

fn main() {}
