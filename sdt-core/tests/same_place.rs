//! Providers of one name, declared at the same place of two files, and by one macro twice.

#[path = "same_place/first.rs"]
mod first;
#[path = "same_place/second.rs"]
mod second;

macro_rules! declare {
    ($module:ident, $probe:ident) => {
        mod $module {
            sdt_core::sdt_provider! {
                pub net {
                    fn $probe(len: u64);
                }
            }

            pub fn fire(len: u64) {
                sdt_core::sdt_probe!(self::net::$probe, len);
            }
        }
    };
}

declare!(third, forward);
declare!(fourth, drop);

#[test]
fn each_has_its_probes() {
    first::fire(1);
    second::fire(2);
    third::fire(3);
    fourth::fire(4);
    let probes = sdt_core::attach::probes().iter();
    let mut names: Vec<_> = probes.map(|probe| probe.name().to_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["drop", "forward", "receive", "send"]);
}
