//! The expected output of each kind of data.

use dtrace_abi::action::{Action, UstackArg};
use dtrace_abi::aggregation::{Llquantize, Lquantize, QUANTIZE_BUCKETS, quantize_bucket};
use dtrace_consumer::render::Text;

use crate::made::{Item, Made, item, printf};
use crate::printed::Printed;

fn key(number: i64) -> Item {
    item(Action::DifExpr, 0, &number.to_le_bytes())
}

fn text(text: &str) -> Item {
    let mut data = text.as_bytes().to_vec();
    data.resize(256, 0);
    item(Action::DifExpr, 0, &data)
}

fn quantize(values: &[(i64, i64)]) -> Vec<i64> {
    let mut words = vec![0; QUANTIZE_BUCKETS];
    for (value, count) in values {
        words[quantize_bucket(*value)] += count;
    }
    words
}

#[test]
fn buckets_of_both_signs() {
    let mut made = Made::default();
    let words = quantize(&[(-3, 1), (0, 2), (5, -1), (i64::MAX, 4)]);
    made.aggregate(0, 1, &[], Action::Quantize, 0, &quantize(&[(1, 3), (2, 1)]));
    made.aggregate(0, 2, &[], Action::Quantize, 0, &quantize(&[(1, -3), (2, -1)]));
    made.aggregate(0, 3, &[], Action::Quantize, 0, &words);
    made.aggregate(0, 4, &[], Action::Quantize, 0, &quantize(&[(i64::MAX, 1)]));
    let shown = made.quietly();
    let expected = "

           value  ------------- Distribution ------------- count    
               0 |                                         0        
               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@           3        
               2 |@@@@@@@@@@                               1        
               4 |                                         0        


           value  ------------- Distribution ------------- count    
               0                                         | 0        
               1           @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@| -3       
               2                               @@@@@@@@@@| -1       
               4                                         | 0        
";
    assert!(shown.starts_with(expected), "{shown}");
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines.contains(&"              -2                     |@@@                  1        ")
    );
    assert!(
        lines.contains(&"               4                  @@@|                     -1       ")
    );
    let last = "4611686018427387904                     |@@@@@@@@@@           4        ";
    assert!(lines.iter().any(|line| line.contains(last)), "{shown}");
    let full = format!("4611686018427387904 |{} 1        ", "@".repeat(40));
    assert!(lines.iter().any(|line| line.contains(&full)), "{shown}");
}

#[test]
fn bars_of_block_elements() {
    let mut made = Made::with(&[("encoding", "utf8")]);
    made.aggregate(0, 1, &[], Action::Quantize, 0, &quantize(&[(1, 5), (2, 3)]));
    let shown = made.quietly();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(
        lines[4],
        format!("               1 |{}{} 5        ", "█".repeat(25), " ".repeat(15))
    );
    let mut made = Made::with(&[("encoding", "utf8")]);
    made.aggregate(0, 1, &[], Action::Quantize, 0, &quantize(&[(1, 2), (2, 1)]));
    let shown = made.quietly();
    let lines: Vec<&str> = shown.lines().collect();
    // 26 and five eighths; 13 and two eighths.
    assert_eq!(
        lines[4],
        format!("               1 |{}▋{} 2        ", "█".repeat(26), " ".repeat(13))
    );
    assert_eq!(
        lines[5],
        format!("               2 |{}▎{} 1        ", "█".repeat(13), " ".repeat(26))
    );
}

#[test]
fn linear_buckets_and_increments() {
    let arguments = Lquantize { base: -10, step: 5, levels: 4 };
    let mut made = Made::default();
    let word = arguments.encode();
    let words = [word as i64, 1_000_000_000, 0, 0, 0, 7, 3];
    made.aggregate(0, 1, &[], Action::Lquantize, word, &words);
    made.aggregate(1, 1, &[], Action::Lquantize, word, &[word as i64, 0, 0, 0, 0, 1, 0]);
    let expected = "

           value  ------------- Distribution ------------- count    
           < -10 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 1000000000
             -10 |                                         0        
              -5 |                                         0        
               0 |                                         0        
               5 |                                         8        
           >= 10 |                                         3        

";
    assert_eq!(made.quietly(), expected);
}

#[test]
fn log_linear_buckets() {
    // The numbers from 0 to 1499: the example that llquantize() was introduced with.
    let arguments = Llquantize { factor: 10, low: 0, high: 6, steps: 20 };
    let mut begins = vec![i64::MIN];
    for magnitude in 0..=6 {
        let (from, to) = (10_i64.pow(magnitude), 10_i64.pow(magnitude + 1));
        let step = if to > 20 { to / 20 } else { 1 };
        begins.extend((from..to).step_by(step as usize));
    }
    begins.push(10_000_000);
    let mut words = vec![0_i64; begins.len() + 1];
    words[0] = arguments.encode() as i64;
    for value in 0..1500 {
        let bucket = begins.iter().rposition(|&begin| begin <= value).unwrap();
        words[1 + bucket] += 1;
    }
    let mut made = Made::default();
    made.aggregate(0, 1, &[], Action::Llquantize, arguments.encode(), &words);
    let shown = made.quietly();
    let lines: Vec<&str> = shown.lines().collect();
    let bar = |label: &str, depth: usize, count: u32| {
        format!("{label:>16} |{}{} {count:<9}", "@".repeat(depth), " ".repeat(40 - depth))
    };
    assert_eq!(lines[3], bar("< 1", 0, 1));
    assert_eq!(lines[4], bar("1", 0, 1));
    assert_eq!(lines[12], bar("9", 0, 1));
    assert_eq!(lines[13], bar("10", 0, 5));
    assert_eq!(lines[14], bar("15", 0, 5));
    assert_eq!(lines[31], bar("100", 1, 50));
    assert_eq!(lines[48], bar("950", 1, 50));
    assert_eq!(lines[49], bar("1000", 13, 500));
    assert_eq!(lines[50], bar("1500", 0, 0));
    assert_eq!(lines[51], "");
}

#[test]
fn histograms_packed_and_zoomed() {
    let zoomed = &[("agghist", "1"), ("aggzoom", "1")];
    let mut made = Made::with(zoomed);
    made.aggregate(0, 1, &[key(7)], Action::Count, 0, &[40]);
    made.aggregate(0, 1, &[key(-1)], Action::Count, 0, &[80]);
    let expected = "

              key  ------------- Distribution ------------- count    
                7 |@@@@@@@@@@@@@@@@@@@                      40       
               -1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@   80       
";
    assert_eq!(made.quietly(), expected);
    let mut made = Made::with(&[("aggpack", "1"), ("encoding", "ascii")]);
    made.aggregate(0, 1, &[text("a")], Action::Quantize, 0, &quantize(&[(1, 2), (9, 1)]));
    made.aggregate(0, 1, &[text("b")], Action::Quantize, 0, &quantize(&[(70, -2), (4, 1)]));
    let expected = "

              key  min .---------. max  | count
                b    0 :    _   V: 128  | -1
                a    0 : x  x    : 128  | 3
";
    let shown = made.quietly();
    assert_eq!(shown.lines().count(), expected.lines().count());
    assert_eq!(shown.lines().nth(2), expected.lines().nth(2), "{shown}");
    assert_eq!(shown.lines().nth(4), expected.lines().nth(4), "{shown}");
}

#[test]
fn cpus_become_one() {
    let mut made = Made::default();
    for (cpu, value) in [(0, 3), (1, -5), (3, 4)] {
        made.aggregate(cpu, 1, &[], Action::Sum, 0, &[value]);
        made.aggregate(cpu, 2, &[], Action::Min, 0, &[value]);
        made.aggregate(cpu, 3, &[], Action::Max, 0, &[value]);
        made.aggregate(cpu, 4, &[], Action::Avg, 0, &[2, value]);
        made.aggregate(cpu, 5, &[], Action::Stddev, 0, &[1, value, value * value, 0]);
    }
    // The sum of the squares is 50, and the average 0: the root of 50/3 is 4.
    let expected = "\n\n                2\n\n               -5\n\n                4\n\n                0\n\n                4\n";
    let shown = made.quietly();
    let numbers: Vec<&str> = shown.split_whitespace().collect();
    assert_eq!(numbers, expected.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn orders() {
    let sorted = |options: &[(&str, &str)]| {
        let mut made = Made::with(options);
        for (left, right, value) in [(1, 9, 5), (2, 8, 5), (3, 7, 1)] {
            made.aggregate(0, 1, &[key(left), key(right)], Action::Sum, 0, &[value]);
        }
        let shown = made.quietly();
        let firsts = shown.lines().filter_map(|line| line.split_whitespace().next());
        firsts.map(|first| first.parse().unwrap()).collect::<Vec<u32>>()
    };
    assert_eq!(sorted(&[]), [3, 1, 2]);
    assert_eq!(sorted(&[("aggsortrev", "1")]), [2, 1, 3]);
    assert_eq!(sorted(&[("aggsortkey", "1")]), [1, 2, 3]);
    assert_eq!(sorted(&[("aggsortkeypos", "1")]), [3, 2, 1]);
    assert_eq!(sorted(&[("aggsortkey", "1"), ("aggsortkeypos", "1")]), [3, 2, 1]);
    assert_eq!(sorted(&[("aggsortkey", "1"), ("aggsortkeypos", "2")]), [1, 2, 3]);
    let joined = |options: &[(&str, &str)]| {
        let mut made = Made::with(options);
        for (name, left, right) in [(1, 1, 3), (2, 2, 2), (3, 3, 1)] {
            made.aggregate(0, 1, &[key(name)], Action::Sum, 0, &[left]);
            made.aggregate(0, 2, &[key(name)], Action::Sum, 0, &[right]);
        }
        let printa = |variable: u64| Item {
            format: Some("%lli %@lli %@lli\n"),
            ..item(Action::Printa, 0, &variable.to_le_bytes())
        };
        made.fired(1, "", "BEGIN", &[printa(1), printa(2)]);
        made.quietly()
    };
    assert_eq!(joined(&[]), "1 1 3\n2 2 2\n3 3 1\n\n");
    assert_eq!(joined(&[("aggsortpos", "1")]), "3 3 1\n2 2 2\n1 1 3\n\n");
    assert_eq!(joined(&[("aggsortpos", "2")]), "1 1 3\n2 2 2\n3 3 1\n\n");
}

#[test]
fn stacks_and_symbols() {
    let words =
        |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut made = Made::default();
    made.fired(1, "f", "probe", &[item(Action::Stack, 4, &words(&[0x1010, 0x1200, 0x9000, 0]))]);
    let argument = UstackArg { frames: 3, string_size: 16 };
    let mut user = words(&[7, 0x44, 0x99, 0x55]);
    user.extend(b"\0lua:f\0@note\0\0\0\0");
    made.fired(1, "f", "probe", &[item(Action::Ustack, argument.encode(), &user)]);
    let places = [
        item(Action::Sym, 0, &words(&[0x1010])),
        item(Action::Mod, 0, &words(&[0x1010])),
        item(Action::Usym, 0, &words(&[7, 0x44])),
        item(Action::Uaddr, 0, &words(&[7, 0x44])),
        item(Action::Umod, 0, &words(&[7, 0x44])),
    ];
    made.fired(1, "f", "probe", &places);
    made.aggregate(0, 1, &[item(Action::Stack, 2, &words(&[0x1001, 0]))], Action::Count, 0, &[3]);
    let printa = Item { format: Some("[%-4k%@i]"), ..item(Action::Printa, 0, &[1]) };
    made.fired(1, "f", "probe", &[printa]);
    let expected = "
              kernel`kernel::exec::path+0x10
              kernel`0x1200
              0x9000

              a.out`main+0x4
              lua:f
              a.out`main+0x15
                [ note ]
  kernel`kernel::exec::path                           kernel                                              a.out`main                                          a.out`main+0x4                                      0x44                                              [
    kernel`kernel::exec::path+0x1
3]
";
    assert_eq!(made.quietly(), expected);
}

#[test]
fn conversions() {
    let mut made = Made::default();
    let number = 0x1010_u64.to_le_bytes();
    let user = [7_u64.to_le_bytes(), 0x44_u64.to_le_bytes()].concat();
    let wide: Vec<u8> = "é€".chars().flat_map(|c| (c as u32).to_le_bytes()).collect();
    let float = 1.5_f64.to_le_bytes();
    let long: Vec<u8> = [1_u64 << 63, 0x3fff].iter().flat_map(|word| word.to_le_bytes()).collect();
    let half = 0.5_f32.to_le_bytes();
    made.fired(
        1,
        "",
        "BEGIN",
        &printf(
            "%a|%A|%P %P|%lc|%ls|%I\n",
            &[
                &number,
                &user,
                &22_u16.to_le_bytes(),
                &23_u16.to_le_bytes(),
                &0x20ac_u32.to_le_bytes(),
                &wide,
                b"10.0.0.1\0",
            ],
        ),
    );
    made.fired(
        1,
        "",
        "BEGIN",
        &printf(
            "%f|%.2e|%G|%Lf|%%|%+i|% i|%#x|%#o|%X\n",
            &[
                &float,
                &half,
                &1e-10_f64.to_le_bytes(),
                &long,
                &5_u32.to_le_bytes(),
                &5_u32.to_le_bytes(),
                &255_u32.to_le_bytes(),
                &8_u32.to_le_bytes(),
                &255_u32.to_le_bytes(),
            ],
        ),
    );
    made.fired(
        1,
        "",
        "BEGIN",
        &printf(
            "[%*i][%-*s][%.*s][%0*.*i]\n",
            &[
                &(-4_i32).to_le_bytes(),
                &7_u32.to_le_bytes(),
                &4_u32.to_le_bytes(),
                b"ab\0",
                &1_u32.to_le_bytes(),
                b"ab\0",
                &6_u32.to_le_bytes(),
                &3_u32.to_le_bytes(),
                &9_u32.to_le_bytes(),
            ],
        ),
    );
    made.fired(1, "", "BEGIN", &printf("%Y|%T", &[&number, &number]));
    let expected = "kernel`kernel::exec::path+0x10|a.out`main+0x4|ssh 23|€|é€|10.0.0.1
1.500000|5.00e-01|1E-10|1.000000|%|+5| 5|0xff|010|FF
[7   ][ab  ][a][   009]
1970 Jan  1 00:00:00|Thu, 01 Jan 1970 00:00:00 UTC
";
    assert_eq!(made.quietly(), expected);
}

#[test]
fn dumps_of_memory() {
    let bytes: Vec<u8> = (0..18).collect();
    let size = |size: u64| item(Action::TracememDynsize, 0, &size.to_le_bytes());
    let dump = |items: &[Item]| {
        let mut made = Made::default();
        made.fired(1, "", "BEGIN", items);
        made.quietly()
    };
    let memory = item(Action::Tracemem, 0, &bytes);
    let head = "\n             0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f  0123456789abcdef\n";
    let first = "         0: 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f  ................\n";
    let second = format!("        10: 10 11{}  ..\n", " ".repeat(42));
    let all = format!("{head}{first}{second}\n");
    assert_eq!(dump(std::slice::from_ref(&memory)), all);
    assert_eq!(dump(&[size(0), memory.clone()]), all);
    assert_eq!(dump(&[size(99), memory.clone()]), all);
    let two = format!("{head}         0: 00 01{}  ..\n", " ".repeat(42));
    assert_eq!(dump(&[size(2), memory.clone(), memory.clone()]), format!("{two}{all}"));
    let printm = [&2_u64.to_le_bytes()[..], b"hi"].concat();
    let hi = format!("{head}         0: 68 69{}  hi\n\n", " ".repeat(42));
    assert_eq!(dump(&[item(Action::Printm, 0, &printm)]), hi);
}

#[test]
fn flow_is_indented() {
    let mut made = Made::with(&[("flowindent", "1")]);
    let value = [item(Action::DifExpr, 0, &1_u32.to_le_bytes())];
    made.fired(10, "open", "entry", &value);
    // A record of a second clause of the same probe.
    made.fired(10, "open", "entry", &value);
    made.fired(11, "copyin", "entry", &value);
    made.fired(12, "copyin", "fault", &value);
    made.fired(13, "copyin", "return", &value);
    made.fired(14, "open", "return", &value);
    made.fired(14, "open", "return", &value);
    let out = String::from_utf8(made.printed().out).unwrap();
    let (first, second) = (out.lines().next().unwrap(), out.lines().nth(1).unwrap());
    assert_eq!(first, "CPU FUNCTION                                 ");
    assert_eq!(second, "  0  -> open                                          1");
    let names = |text: &str| -> Vec<String> {
        text.lines().skip(1).filter_map(|l| l.get(4..45)).map(|n| n.trim_end().into()).collect()
    };
    assert_eq!(
        names(&out),
        [
            " -> open",
            "  | open:entry",
            "   -> copyin",
            "    | copyin:fault",
            "   <- copyin",
            "  | open:return",
            " <- open"
        ]
    );
}

/// Records without a compiled program perform no action: the request is shown, and one message says that it is not performed.
#[test]
fn what_is_asked_for_without_a_program_is_shown() {
    let printf = |format, statement| Item { statement, ..printf(format, &[])[0].clone() };
    let action = |action, format, statement| Item { action, ..printf(format, statement) };
    let mut made = Made::default();
    made.fired(
        1,
        "",
        "BEGIN",
        &[
            printf("one\n", 1),
            action(Action::Freopen, "out.txt", 2),
            printf("two\n", 3),
            action(Action::Freopen, ".", 4),
            action(Action::System, "echo three", 5),
            printf("four\n", 6),
        ],
    );
    made.options.set("quiet", None).unwrap();
    let printed = made.printed();
    let expected = "one\nfreopen(\"out.txt\") (not performed)\ntwo\nfreopen(\"\") (not performed)\n\
        system(\"echo three\") (not performed)\nfour\n\n";
    assert_eq!(String::from_utf8(printed.out).unwrap(), expected);
    assert_eq!(printed.files, []);
    let said = |name| {
        format!(
            "dtrace: {name}( ) not performed: another run compiled the program that recorded it\n"
        )
    };
    assert_eq!(printed.err, said("freopen") + &said("system"));
    let mut made = Made::default();
    made.fired(1, "", "BEGIN", &[item(Action::Exit, 0, &3_u32.to_le_bytes())]);
    let out = String::from_utf8(made.printed().out).unwrap();
    assert_eq!(out.lines().nth(1), Some("  0      1                           :BEGIN "));
}

/// Data are written as dtrace(1) does; on a terminal, control characters except newlines are escaped.
#[test]
fn data_on_a_terminal_are_escaped() {
    let hidden = b"a\x1b[2J\x07\nb\0";
    let bell = b"bell\x07\0";
    let made = |terminal| {
        let mut made = Made::default();
        made.terminal = terminal;
        let mut items = printf("\x1b[1m%s|%c|", &[hidden, &[7]]);
        items.push(Item { statement: 2, ..item(Action::DifExpr, 0, bell) });
        made.fired(1, "f", "probe", &items);
        made.quietly()
    };
    // A format of a program of another run is always escaped.
    assert_eq!(made(false), "\\u{1b}[1ma\x1b[2J\x07\nb|\x07|bell\x07\n");
    assert_eq!(made(true), "\\u{1b}[1ma\\u{1b}[2J\\u{7}\nb|\\u{7}|bell\\u{7}\n");
}

/// The remedy follows dtrace(1)'s message, on a terminal only. A script that reads standard error gets only dtrace(1)'s message.
#[test]
fn drops_on_a_terminal_have_a_remedy_once() {
    let said = |terminal| {
        let mut made = Made::default();
        (made.terminal, made.drops) = (terminal, 3);
        let mut sink = Text::new(Printed::default());
        made.to(&mut sink).unwrap();
        made.to(&mut sink).unwrap();
        sink.into_output().err
    };
    let message = "dtrace: 3 drops on CPU 0\n";
    assert_eq!(said(false), message.repeat(2));
    let shown = said(true);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[2]), (3, message.trim_end(), message.trim_end()));
    assert!(lines[1].starts_with("dtrace: to lose fewer records: ") && lines[1].contains("-b 16m"));
}
