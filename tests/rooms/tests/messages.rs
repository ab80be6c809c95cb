//! x
use std::path::Path;
#[test]
fn dump() {
    for p in rooms::packages() {
        let mut out = String::new();
        for root in std::iter::once(&p.root).chain(&p.programs) {
            let folder = root.ancestors().find(|of| of.join("Cargo.toml").exists()).unwrap();
            for (f, t) in rooms::messages::messages(&rooms::tree::Tree::read(root), folder) {
                out.push_str(&format!("{f}: {t:?}\n"));
            }
        }
        std::fs::write(Path::new("/tmp/msg").join(&format!("{}.txt", p.name)), out).unwrap();
    }
}
