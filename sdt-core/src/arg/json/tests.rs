//! Any value, in a buffer of any size: the output is JSON, marks what is missing, and stays within the buffer.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::json as expected;

use super::*;

/// Any value of serde's data model.
#[derive(Clone, Debug, Serialize)]
enum Any {
    Unit,
    Bool(bool),
    Char(char),
    Small(i8, u16),
    Large { signed: i64, unsigned: u64 },
    Float(f64),
    Text(String),
    Bytes(#[serde(serialize_with = "as_bytes")] Vec<u8>),
    Shown(#[serde(serialize_with = "as_text")] String),
    Maybe(Option<Box<Any>>),
    List(Vec<Any>),
    Tuple(Box<(Any, Any)>),
    Texts(BTreeMap<String, Any>),
    Numbers(BTreeMap<i32, Any>),
    Fails,
}

fn as_bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

fn as_text<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(text)
}

fn values() -> impl Strategy<Value = Any> {
    let leaf = prop_oneof![
        Just(Any::Unit),
        any::<bool>().prop_map(Any::Bool),
        any::<char>().prop_map(Any::Char),
        any::<(i8, u16)>().prop_map(|(a, b)| Any::Small(a, b)),
        any::<(i64, u64)>().prop_map(|(signed, unsigned)| Any::Large { signed, unsigned }),
        // Values that serde_json reads back unchanged.
        any::<i32>().prop_map(|eighths| Any::Float(f64::from(eighths) / 8.0)),
        any::<String>().prop_map(Any::Text),
        any::<Vec<u8>>().prop_map(Any::Bytes),
        any::<String>().prop_map(Any::Shown),
    ];
    leaf.prop_recursive(6, 60, 8, |inner| {
        prop_oneof![
            inner.clone().prop_map(|value| Any::Maybe(Some(Box::new(value)))),
            prop::collection::vec(inner.clone(), 0..8).prop_map(Any::List),
            (inner.clone(), inner.clone()).prop_map(|both| Any::Tuple(Box::new(both))),
            prop::collection::btree_map(any::<String>(), inner.clone(), 0..5).prop_map(Any::Texts),
            prop::collection::btree_map(any::<i32>(), inner, 0..5).prop_map(Any::Numbers),
        ]
    })
}

/// Writes a value into a buffer of this size, between bytes that must stay unchanged.
fn written<T: Serialize + ?Sized>(value: &T, size: usize) -> String {
    let mut bytes = vec![0xa5; size + 16];
    let len = write(&mut bytes[8..][..size], value);
    assert!(bytes[..8].iter().chain(&bytes[size + 8..]).all(|&byte| byte == 0xa5), "outside");
    let text = &bytes[8..][..size];
    assert!(len < size && text[len..].iter().all(|&byte| byte == 0), "no NUL: {text:?}");
    String::from_utf8(text[..len].to_vec()).expect("UTF-8")
}

/// Returns whether `part` is `whole` with its end cut off.
fn is_part(part: &serde_json::Value, whole: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Null, Object, String};
    match (part, whole) {
        (Null, _) => true,
        (String(part), String(whole)) => whole.starts_with(part.as_str()),
        (Array(part), Array(whole)) => {
            part.len() <= whole.len() && part.iter().zip(whole).all(|(p, w)| is_part(p, w))
        }
        (Object(part), Object(whole)) => {
            part.iter().all(|(key, p)| whole.get(key).is_some_and(|w| is_part(p, w)))
        }
        _ => part == whole,
    }
}

fn parsed(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

proptest! {
    #[test]
    fn any_value_in_any_room_is_json(value in values(), size in LEAST..600_usize) {
        let whole = serde_json::to_value(&value).expect("serde_json takes it");
        let got = parsed(&written(&value, size));
        let ok = got.get("ok").expect("nothing has failed");
        match got.get("truncated") {
            None => prop_assert_eq!(ok, &whole),
            Some(mark) => {
                prop_assert_eq!(mark, &expected!(true));
                prop_assert!(is_part(ok, &whole), "{} of {}", ok, whole);
            }
        }
    }

    #[test]
    fn any_float_is_read_back(value in any::<f64>()) {
        let text = written(&value, 64);
        let digits = text.strip_prefix("{\"ok\":").and_then(|text| text.strip_suffix('}'));
        prop_assert_eq!(digits.expect("the frame").parse(), Ok(value));
    }

    /// A value that fits exactly is not cut.
    #[test]
    fn what_fits_is_whole(value in values()) {
        let text = written(&value, 1 << 16);
        prop_assert!(parsed(&text).get("truncated").is_none());
        let least = (text.len() + 1).max(LEAST);
        prop_assert_eq!(written(&value, least), text);
    }
}

proptest! {
    #[test]
    fn any_failure_is_an_error(before in values(), size in LEAST..600_usize) {
        /// Fails after a value.
        struct Failing(Any);
        impl Serialize for Failing {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut list = serializer.serialize_seq(None)?;
                list.serialize_element(&self.0)?;
                Err(serde::ser::Error::custom("the lock is \"held\"\n"))
            }
        }
        let text = written(&Failing(before), size);
        let got = parsed(&text);
        match got.get("err") {
            Some(why) => prop_assert!("the lock is \"held\"\n".starts_with(why.as_str().expect("text"))),
            // The failure was not reached.
            None => prop_assert_eq!(&got["truncated"], &expected!(true)),
        }
    }
}

#[test]
fn values_are_as_serde_json_writes_them() {
    for value in [
        Any::Large { signed: i64::MIN, unsigned: u64::MAX },
        Any::Small(-128, 0),
        Any::Float(-1.5e300),
        Any::Float(f64::NAN),
        Any::Text("a\u{0}\u{1f}\"\\/\u{2028}😀".to_owned()),
        Any::Numbers(BTreeMap::from([(-1, Any::Unit)])),
        Any::Maybe(None),
        Any::Fails,
    ] {
        let got = parsed(json(&value).as_str());
        assert_eq!(got, expected!({ "ok": value }), "{value:?}");
    }
    assert_eq!(json(&u128::MAX).as_str(), format!("{{\"ok\":{}}}", u128::MAX));
    assert_eq!(json(&i128::MIN).as_str(), format!("{{\"ok\":{}}}", i128::MIN));
    assert_eq!(json(&BTreeMap::from([(true, 'x')])).as_str(), r#"{"ok":{"true":"x"}}"#);
}

#[test]
fn what_is_missing_is_the_end() {
    let list: Vec<u32> = (0..100).collect();
    assert_eq!(Json::<40>::new(&list).as_str(), r#"{"ok":[0,1,2,3,4,5,6],"truncated":true}"#);
    let text = "x".repeat(100);
    assert_eq!(Json::<40>::new(&text).as_str(), r#"{"ok":"xxxxxxxxxxxxx","truncated":true}"#);
    let map = BTreeMap::from([("a", "b".repeat(9)), ("long", "c".repeat(9))]);
    assert_eq!(Json::<40>::new(&map).as_str(), r#"{"ok":{"a":"bbbbbbb"},"truncated":true}"#);
    assert_eq!(Json::<32>::new(&u128::MAX).as_str(), r#"{"ok":null,"truncated":true}"#);
}

#[test]
fn what_is_too_deep_is_left_out() {
    struct Deep(u32);
    impl Serialize for Deep {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut list = serializer.serialize_seq(None)?;
            if self.0 > 0 {
                list.serialize_element(&Deep(self.0 - 1))?;
            }
            list.end()
        }
    }
    assert!(!json(&Deep(99)).as_str().contains("truncated"));
    let deeper = json(&Deep(100));
    assert!(deeper.as_str().ends_with("]],\"truncated\":true}"), "{deeper:?}");
}

/// A violation of serde's rules is an error, or at least valid JSON.
#[test]
fn odd_values_are_errors() {
    /// A map that violates a rule of serde. The number selects the rule.
    struct Odd(u8);
    impl Serialize for Odd {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(None)?;
            match self.0 {
                0 => map.serialize_value(&1)?,
                1 => {
                    map.serialize_key("a")?;
                    map.serialize_key("b")?;
                }
                2 => map.serialize_key("a")?,
                3 => map.serialize_entry(&[1], &2)?,
                // An ignored error.
                _ => {
                    _ = map.serialize_entry("a", &"x".repeat(500));
                    _ = map.serialize_entry("b", &1);
                }
            }
            map.end()
        }
    }
    let of = |odd| parsed(json(&Odd(odd)).as_str());
    assert_eq!(of(0), expected!({ "err": "a map has a value without a key" }));
    assert_eq!(of(1), expected!({ "err": "a map has a key without a value" }));
    assert_eq!(of(2), expected!({ "err": "a map has a key without a value" }));
    assert_eq!(of(3), expected!({ "err": "a key of a map is not a string" }));
    assert_eq!(of(4)["truncated"], expected!(true));

    /// `Display` that fails in the middle.
    struct Half;
    impl fmt::Display for Half {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("half")?;
            Err(fmt::Error)
        }
    }
    impl Serialize for Half {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }
    assert_eq!(
        parsed(json(&Half).as_str()),
        expected!({ "err": "the Display implementation returned an error" })
    );
}

/// A value whose `Serialize` continues after a part failed.
#[test]
fn what_has_failed_half_way_is_an_error_whoever_swallows_it() {
    struct Fails;
    impl Serialize for Fails {
        fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("it is locked"))
        }
    }
    struct Goes(u8);
    impl Serialize for Goes {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            if self.0 == 1 {
                let mut map = serializer.serialize_map(None)?;
                _ = map.serialize_entry(&Fails, &1);
                _ = map.serialize_entry("a", &Fails);
                _ = map.serialize_entry("b", &1);
                return map.end();
            }
            let mut list = serializer.serialize_seq(None)?;
            match self.0 {
                0 => _ = list.serialize_element(&(1, Fails)),
                _ => _ = list.serialize_element(&Goes(self.0 - 1)),
            }
            _ = list.serialize_element(&"x".repeat(500));
            list.end()
        }
    }
    for odd in 0..4 {
        let text = json(&Goes(odd));
        assert_eq!(parsed(text.as_str()), expected!({ "err": "it is locked" }));
    }
}
