//! JSON and XML.

use dtrace_abi::action::Action;
use dtrace_abi::aggregation::{QUANTIZE_BUCKETS, quantize_bucket};
use dtrace_consumer::render::{Markup, Structured};

use crate::made::{Item, Made, item, printf};
use crate::printed::Printed;

fn document(markup: Markup) -> String {
    let words =
        |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut made = Made::default();
    let mut items = printf("x=%i \"%s\"", &[&(-5_i32).to_le_bytes(), b"a<b\0\0"]);
    items.push(Item { statement: 2, ..item(Action::Stack, 2, &words(&[0x1010, 0])) });
    items.push(Item { statement: 3, ..item(Action::Sym, 0, &words(&[0x9000])) });
    items.push(Item { statement: 4, ..item(Action::Tracemem, 0, &[0x40, 0x54]) });
    made.fired(9, "f", "probe", &items);
    // The datum of `exit` has no value, so the record is not in the document.
    made.fired(9, "f", "probe", &[item(Action::Exit, 0, &[0; 4])]);
    let mut buckets = vec![0; QUANTIZE_BUCKETS];
    buckets[quantize_bucket(1)] = 2;
    let key = item(Action::DifExpr, 0, &7_u64.to_le_bytes());
    made.aggregate(0, 1, &[key], Action::Quantize, 0, &buckets);
    made.aggregate(0, 2, &[], Action::Count, 0, &[3]);
    let mut sink = Structured::new(Printed::default(), markup);
    made.to(&mut sink).unwrap();
    String::from_utf8(sink.into_output().out).unwrap()
}

#[test]
fn json() {
    let expected = concat!(
        r#"{"dtrace": {"probes": [{"timestamp": 1, "cpu": 0, "id": 9, "provider": "test", "#,
        r#""module": "kernel", "function": "f", "name": "probe", "output": ["#,
        r#"{"message": "x=-5 \"a<b\""}, {"value": -5}, {"value": "a<b"}, "#,
        r#"{"stack-frames": [{"symbol": "kernel`kernel::exec::path+0x10", "module": "kernel", "#,
        r#""name": "kernel::exec::path", "offset": "0x10"}]}, "#,
        r#"{"sym": "0x9000", "offset": "0x9000"}, {"tracemem": "0x4054"}]}, "#,
        r#"{"output": [{"aggregation-data": [{"keys": [{"value": 7}], "buckets": ["#,
        r#"{"value": 0, "count": 0}, {"value": 1, "count": 2}, {"value": 2, "count": 0}]}], "#,
        r#""aggregation-name": "a1"}, {"aggregation-data": [{"keys": [], "count": 3}], "#,
        r#""aggregation-name": "a2"}]}]}}"#,
        "\n"
    );
    assert_eq!(document(Markup::Json), expected);
}

#[test]
fn xml() {
    let expected = concat!(
        "<?xml version=\"1.0\"?>\n<dtrace><probes><timestamp>1</timestamp><cpu>0</cpu><id>9</id>",
        "<provider>test</provider><module>kernel</module><function>f</function><name>probe</name>",
        "<output><message>x=-5 \"a&lt;b\"</message></output><output><value>-5</value></output>",
        "<output><value>a&lt;b</value></output><output><stack-frames>",
        "<symbol>kernel`kernel::exec::path+0x10</symbol><module>kernel</module>",
        "<name>kernel::exec::path</name><offset>0x10</offset></stack-frames></output>",
        "<output><sym>0x9000</sym><offset>0x9000</offset></output>",
        "<output><tracemem>0x4054</tracemem></output></probes>",
        "<probes><output><aggregation-data><keys><value>7</value></keys>",
        "<buckets><value>0</value><count>0</count></buckets>",
        "<buckets><value>1</value><count>2</count></buckets>",
        "<buckets><value>2</value><count>0</count></buckets></aggregation-data>",
        "<aggregation-name>a1</aggregation-name></output>",
        "<output><aggregation-data><count>3</count></aggregation-data>",
        "<aggregation-name>a2</aggregation-name></output></probes></dtrace>\n",
    );
    assert_eq!(document(Markup::Xml), expected);
}
