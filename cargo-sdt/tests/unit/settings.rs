//! Tests of `src/settings.rs`.

use serde_json::json;

use super::*;

fn read(settings: serde_json::Value) -> Result<Settings, String> {
    Settings::read("driver", &json!({ "sdt": settings, "docs": { "rs": true } }))
        .map_err(|error| error.to_string())
}

#[test]
fn without_settings_all_is_as_usual() {
    assert_eq!(Settings::read("driver", &serde_json::Value::Null).unwrap(), Settings::default());
    assert_eq!(read(json!({})).unwrap(), Settings::default());
}

#[test]
fn settings_are_said_as_options_are() {
    let settings = read(json!({
        "os": "illumos", "arch": "amd64", "route": "provider", "patch": "jump",
        "module": "my_driver", "features": ["six"], "default-features": false,
    }));
    let expected = Settings {
        os: Some(Os::Illumos),
        arch: Some(Arch::X86_64),
        freebsd: None,
        route: Some(Route::Provider),
        patch: Some(Patch::Jump),
        module: Some("my_driver".into()),
        features: vec!["six".into()],
        default_features: Some(false),
    };
    assert_eq!(settings.unwrap(), expected);
    for release in [json!("14"), json!(14), json!(1_400_000)] {
        let settings = read(json!({ "freebsd": release })).unwrap();
        assert_eq!(settings.freebsd.map(FreeBsd::major), Some(14));
    }
}

#[test]
fn what_is_wrong_is_named() {
    for (settings, reason) in [
        (json!({ "rout": "native" }), "unknown field `rout`, expected one of `os`, "),
        (json!({ "route": "own" }), "`own` is unknown; allowed are `native`, `provider`"),
        (json!({ "os": 3 }), "invalid type: integer `3`, expected a string"),
        (json!({ "freebsd": "9" }), "\"9\" is not a supported release of FreeBSD"),
        (json!({ "freebsd": true }), "a release of FreeBSD, such as 14"),
        (json!("native"), "invalid type: string \"native\", expected struct Settings"),
    ] {
        let error = read(settings).unwrap_err();
        let expected = format!("[package.metadata.sdt] of driver: {reason}");
        assert!(error.starts_with(&expected), "{error}");
    }
}
