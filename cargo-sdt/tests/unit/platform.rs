//! Tests of `src/platform.rs`.

use super::*;

#[test]
fn releases_are_parsed_and_said_alike() {
    for (text, version, highest) in [
        ("10", 1_000_000, 1_099_999),
        ("15", 1_500_000, 1_599_999),
        ("1404000", 1_404_000, 1_499_999),
        ("1500000", 1_500_000, 1_599_999),
    ] {
        let release: FreeBsd = text.parse().unwrap();
        assert_eq!((release.version(), release.highest_version()), (version, highest));
        let kernel = if version == 1_404_000 { version } else { highest };
        assert_eq!(release.kernel_version(), kernel);
        assert_eq!(release.to_string(), text.strip_suffix("00000").unwrap_or(text));
    }
    assert_eq!("15".parse(), Ok(FreeBsd::default()));
}

#[test]
fn illumos_has_one_architecture_and_no_release() {
    let release = FreeBsd::major_release(14).unwrap();
    assert_eq!(Os::FreeBsd.release(Some(release)), Ok(release));
    assert_eq!(Os::FreeBsd.release(None), Ok(FreeBsd::default()));
    assert_eq!(Os::Illumos.release(None), Ok(FreeBsd::default()));
    assert_eq!(Os::Illumos.release(Some(release)), Err(NoSuchKernel::Release(release)));
    for arch in Arch::ALL {
        assert_eq!(Os::FreeBsd.runs_on(arch), Ok(()));
        assert_eq!(Os::Illumos.runs_on(arch).is_ok(), arch == Arch::X86_64);
    }
}

#[test]
fn other_releases_are_refused() {
    for text in ["", "9", "16", "14.1", "+15", "-1", "99999", "902001", "1600000", "99999999999"] {
        let error = text.parse::<FreeBsd>().unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("{text:?} is not a supported release of FreeBSD")),
            "{error}"
        );
    }
    let error = "9".parse::<FreeBsd>().unwrap_err().to_string();
    assert!(
        error
            .ends_with("a major release, 10 to 15, or an exact __FreeBSD_version, such as 1500000"),
        "{error}"
    );
}

#[test]
fn what_differs_between_releases() {
    let release = |text: &str| text.parse::<FreeBsd>().unwrap();
    let of = |text| {
        let release = release(text);
        (release.generation().probe_size(), release.sysinit_size(), release.takes_plt32())
    };
    assert_eq!(of("10"), (96, 24, false));
    assert_eq!(of("11"), (96, 24, false));
    assert_eq!(of("1201000"), (96, 24, true));
    assert_eq!(of("13"), (96, 24, true));
    assert_eq!(of("14"), (96, 32, true));
    assert_eq!(of("1500068"), (112, 32, true));
    assert!(!release("10").has_provider_route() && release("11").has_provider_route());
}
