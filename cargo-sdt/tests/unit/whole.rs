//! Tests of `src/whole.rs`.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

#[test]
fn who_reads_has_one_or_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("module.ko");
    let [old, new] = [1, 2].map(|byte| vec![byte; 1 << 20]);
    write(&file, &old).unwrap();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers = [0; 2].map(|_| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let read = fs::read(&file).unwrap();
                    assert!(read == old || read == new, "{} bytes", read.len());
                }
            })
        });
        for _ in 0..50 {
            write(&file, &new).unwrap();
            write(&file, &old).unwrap();
        }
        ended.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn what_is_there_stays_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("module.ko"), folder.path().join("link.ko"));
    let made = folder.path().join("made");
    write(&file, b"1").unwrap();
    File::create(&made).unwrap();
    let mode = |file: &Path| fs::metadata(file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file), mode(&made), "as any file");
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    symlink("module.ko", &link).unwrap();
    write(&link, b"2").unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"2");
    assert_eq!(mode(&file), 0o640);
    assert!(link.is_symlink());
    write(Path::new("/dev/null"), b"3").unwrap();
    assert!(!Path::new("/dev/null").is_file());
    let nowhere = folder.path().join("none/module.ko");
    assert_eq!(write(&nowhere, b"4").unwrap_err().kind(), io::ErrorKind::NotFound);
}
