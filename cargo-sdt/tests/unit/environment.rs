//! Tests of `src/environment.rs`.

use super::*;

fn environment(own: &[(&str, &str)], configured: &serde_json::Value) -> Environment {
    let find =
        |name: &str| own.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned());
    Environment::new(find, Some(configured))
}

#[test]
fn what_cargo_would_tell_the_build_script_is_heeded() {
    let configured = serde_json::json!({
        FREEBSD: "13", ROUTE: { "value": "provider" }, PATCH: { "value": "gate", "force": true },
    });
    let found = environment(&[(FREEBSD, "14"), (PATCH, "trap")], &configured);
    assert_eq!(found.freebsd().unwrap().unwrap().major(), 14, "our own is before cargo's");
    assert_eq!(found.route(), Ok(Some(Route::Provider)));
    assert_eq!(found.patch(), Ok(Some(Patch::Gate)), "unless that is forced");
    let found = environment(&[(ROUTE, "")], &serde_json::Value::Null);
    assert_eq!(found, Environment::default(), "empty variables count as unset");
    assert_eq!(found.route(), Ok(None));
}

#[test]
fn a_value_that_cannot_be_is_named() {
    let own = [(FREEBSD, "9"), (ROUTE, "own"), (PATCH, "hop")];
    let found = environment(&own, &serde_json::Value::Null);
    let error = found.freebsd().unwrap_err().to_string();
    assert!(error.starts_with("SDT_FREEBSD of the environment is `9`: \"9\" is not "), "{error}");
    let error = found.route().unwrap_err().to_string();
    assert_eq!(error, "SDT_ROUTE of the environment is `own`: allowed values are native, provider");
    let error = found.patch().unwrap_err().to_string();
    assert_eq!(error, "SDT_PATCH of the environment is `hop`: allowed values are trap, jump, gate");
}

#[test]
fn cargos_configuration_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join(".cargo")).unwrap();
    let config = folder.path().join(".cargo/config.toml");
    std::fs::write(config, "[env]\nSDT_FREEBSD = \"14\"\n").unwrap();
    let found = configured(folder.path()).unwrap();
    assert_eq!(found[FREEBSD], "14");
}
