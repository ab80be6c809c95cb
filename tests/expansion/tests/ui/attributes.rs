use sdt_core::sdt_provider;

sdt_provider! {
    inlined {
        #[inline]
        fn probe();
    }
}

sdt_provider! {
    expected {
        #[expect(dead_code)]
        fn probe();
    }
}

sdt_provider! {
    after_conditions {
        #[cfg_attr(all(), inline)]
        fn probe();
    }
}

sdt_provider! {
    unfinished {
        #[cfg(all())]
        fn probe()
    }
}

fn main() {}
