use sdt_core::sdt_provider;

sdt_provider! {
    #[privileges(user, root)]
    wrong_privilege {}
}
sdt_provider! {
    #[privileges(user, kernel)]
    refused_by_the_kernel {}
}
sdt_provider! {
    #[privileges(kernel, owner)]
    refused_too {}
}
sdt_provider! {
    #[privileges(user, user)]
    twice {}
}
sdt_provider! {
    #[privileges()]
    no_privilege {}
}
sdt_provider! {
    #[privileges]
    none
}

fn main() {}
