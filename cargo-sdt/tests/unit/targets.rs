//! Tests of `src/targets.rs`.

use super::*;

#[test]
fn all_targets_have_one_shape_of_code() {
    let illumos = Target::of(Os::Illumos, Arch::X86_64);
    let freebsd = Arch::ALL.map(|arch| Target::of(Os::FreeBsd, arch));
    for target in freebsd.into_iter().chain([illumos]) {
        let file: serde_json::Value = serde_json::from_str(target.text()).unwrap();
        assert_eq!(file["frame-pointer"], "always", "{}", target.name);
        let llvm = file["llvm-args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
        let options = format!("-Cllvm-args={}", llvm.collect::<Vec<_>>().join(" "));
        assert_eq!(options, CODE_SHAPE[1], "{}", target.name);
    }
}

#[test]
fn a_target_is_written_once_and_mended() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::of(Os::Illumos, Arch::X86_64);
    let file = target.write_to(&folder.path().join("targets")).unwrap();
    assert!(file.ends_with("targets/x86_64-illumos-kmod.json"));
    let written = std::fs::metadata(&file).unwrap().modified().unwrap();
    assert_eq!(target.write_to(&folder.path().join("targets")).unwrap(), file);
    assert_eq!(std::fs::metadata(&file).unwrap().modified().unwrap(), written);
    // One of another version is not left there.
    std::fs::write(&file, "{}").unwrap();
    target.write_to(&folder.path().join("targets")).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), target.text());
}
