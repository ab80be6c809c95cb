//! Tests of `src/input.rs`.

use super::*;

#[test]
fn what_has_no_end_is_not_read() {
    for path in ["/dev/zero", "/dev/null", "/"] {
        let error = format!("{:#}", read(Path::new(path)).unwrap_err());
        assert_eq!(error, format!("{path}: is not a regular file"));
    }
    let error = format!("{:#}", read(Path::new("/nowhere/x.ko")).unwrap_err());
    assert!(error.starts_with("/nowhere/x.ko: No such file"), "{error}");
}

#[test]
fn what_is_too_large_is_not_read() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), b"12345678").expect("it is written");
    assert_eq!(read_most(file.path(), 8).expect("all of it"), b"12345678");
    let error = read_most(file.path(), 7).unwrap_err().to_string();
    assert!(error.starts_with("is larger than 7 bytes, "), "{error}");
    // Without a byte of it on the disk.
    file.as_file().set_len(MOST + 1).expect("it is stretched");
    assert!(read(file.path()).is_err());
}

#[test]
fn text_is_utf8() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), [0xff]).expect("it is written");
    assert!(read_text(file.path()).is_err());
}
