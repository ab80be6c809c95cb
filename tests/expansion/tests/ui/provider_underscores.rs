use sdt_core::sdt_provider;

sdt_provider!(_driver);
sdt_provider!(driver_);
sdt_provider! {
    my__driver {
        fn started();
    }
}
sdt_provider!(my_driver);

fn main() {}
