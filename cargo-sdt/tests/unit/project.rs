//! Tests of `src/project.rs`.

use super::*;

#[test]
fn a_package_without_a_library_is_no_module() {
    let folder = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| std::fs::write(folder.path().join(file), text);
    std::fs::create_dir(folder.path().join("src")).unwrap();
    write("Cargo.toml", "[package]\nname = \"shop\"\nedition = \"2024\"\n[workspace]\n").unwrap();
    write("src/main.rs", "fn main() {}").unwrap();
    let error = Project::find(folder.path(), None).unwrap_err().to_string();
    assert!(error.starts_with("package shop has no library, "), "{error}");
    assert!(error.contains("use the crate sdt-process"), "{error}");
    write("src/lib.rs", "").unwrap();
    assert_eq!(Project::find(folder.path(), None).unwrap().package, "shop");
}
