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
    let write = || target.write_to(&folder.path().join("targets"), "1.96.0").unwrap();
    let file = write();
    assert!(file.ends_with("targets/x86_64-illumos-kmod.json"));
    let written = std::fs::metadata(&file).unwrap().modified().unwrap();
    assert_eq!(write(), file);
    assert_eq!(std::fs::metadata(&file).unwrap().modified().unwrap(), written);
    // A target file with other contents is replaced.
    std::fs::write(&file, "{}").unwrap();
    write();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), target.text());
}

#[test]
fn a_release_that_refuses_the_abi_of_aarch64_does_not_get_it() {
    let field = |arch, release| {
        let text = text_for(Target::of(Os::FreeBsd, arch).text(), release);
        let file: serde_json::Value = serde_json::from_str(&text).unwrap();
        file.get("rustc-abi").is_some()
    };
    assert!(!field(Arch::Aarch64, "1.95.0"));
    for release in ["1.96.0", "1.100.0", "1.97.0-nightly", "2.0.0", "unknown"] {
        assert!(field(Arch::Aarch64, release), "{release}");
    }
    assert!(field(Arch::X86_64, "1.95.0"));
}
