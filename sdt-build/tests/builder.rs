//! The builder, with files.

use std::fs;

use sdt_build::{Builder, Error};

#[test]
fn declarations_are_written_as_rust() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("proc.d");
    fs::write(&file, "provider proc { probe exec__success(char *path, int type); };").unwrap();
    let expected = "::sdt_core::sdt_provider! {
    pub proc {
        #[name = \"exec-success\"]
        fn exec_success(path: &::core::ffi::CStr, r#type: i32);
    }
}
";
    assert_eq!(Builder::new(&file).public(true).generate().unwrap(), expected);
}

#[test]
fn errors_name_the_file_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("proc.d");
    let missing = Builder::new(&file).generate().unwrap_err();
    assert!(matches!(missing, Error::Read { .. }));
    assert_eq!(
        missing.to_string(),
        format!("{}: No such file or directory (os error 2)", file.display())
    );
    fs::write(&file, "provider proc {\n  probe exec(float x);\n};").unwrap();
    let wrong = Builder::new(&file).generate().unwrap_err().to_string();
    let expected = format!("{}:2:14: `float` cannot be an argument of a probe", file.display());
    assert!(wrong.starts_with(&expected), "{wrong}");
}
