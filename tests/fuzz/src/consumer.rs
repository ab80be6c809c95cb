//! The consumer against a hostile kernel: `dtrace` sends its usual requests, and receives false answers.
//!
//! The answers of a kernel to each program are recorded once, from a real framework ([`honest`]). An input selects answers and
//! their changes: descriptions, records, formats, aggregations, symbols, declarations, options, or any bytes. The consumer then
//! runs in a [`sandbox`](crate::sandbox), where it can only read files and write to standard output and error, with little
//! memory.
//!
//! The target checks that the consumer has no effect that the user's own program does not request, that it uses no more memory
//! than is allowed for a kernel, and that it ends.

mod declared;
mod honest;
mod lies;

use std::collections::HashMap;
use std::collections::VecDeque;
use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use dtrace_compiler::Specifies;
use dtrace_compiler::options::OutputFormat;
use dtrace_consumer::consume::{self, Recorded};
use dtrace_consumer::job::Text;
use dtrace_consumer::render::{Order, Output, Request as Asked};
use dtrace_consumer::transport::{Transport, TransportError};
use dtrace_consumer::{Client, Interrupt, Job};
use dtrace_protocol::{Decoder, Frame, Header};

use self::declared::{Made, Part};
use self::honest::{SCENARIOS, Told};
use self::lies::Lie;
use crate::{counting, sandbox};

/// Bytes of memory that the data of a kernel may use in dtrace.
const MEMORY: u64 = 4 << 20;
/// The greatest number of bytes that all of dtrace may use then, including the text of one datum.
const MOST: usize = 192 << 20;
/// The greatest number of answers. The consumer must end before.
const ANSWERS: usize = 20_000;

/// The false answer of a kernel.
#[derive(Debug, Arbitrary)]
struct Input {
    /// The traced program, and the form of the output.
    scenario: u8,
    options: u8,
    /// The changes, each with the number of the answer that it changes. If `again` is set, they repeat after that number of
    /// answers.
    lies: Vec<(u8, Lie)>,
    again: Option<u8>,
    /// The declarations of its only module, if it has any.
    declares: Vec<Part>,
}

/// The number of programs; the first byte of an input selects one.
pub fn scenarios() -> u8 {
    SCENARIOS.len() as u8
}

/// Runs the target.
///
/// # Panics
/// dtrace performs an action that the program does not request, or uses too much memory.
pub fn run(input: &[u8]) {
    let Ok(input) = Input::arbitrary_take_rest(Unstructured::new(input)) else { return };
    let number = usize::from(input.scenario) % SCENARIOS.len();
    let (scenario, told) = (&SCENARIOS[number], honest::told(number));
    let mut job = scenario.job();
    job.memory = MEMORY;
    if input.options & 1 != 0 {
        let _ = job.set("quiet", None);
    }
    job.options.output_format = match input.options >> 1 & 3 {
        1 => OutputFormat::Json,
        2 => OutputFormat::Xml,
        _ => OutputFormat::Text,
    };
    job.terminal = input.options & 8 != 0;
    if input.options & 16 != 0 {
        let _ = job.set("flowindent", None);
    }
    let is_honest = input.lies.is_empty() && input.declares.is_empty();
    let made = (!input.declares.is_empty()).then(|| Made::new(&input.declares));
    let mut is_refused = false;
    if let Some(made) = made.as_ref().filter(|_| !job.programs.is_empty()) {
        job.programs.push(Text::Line(made.uses.clone(), Specifies::Name));
        is_refused = input.lies.is_empty() && made.is_refused;
    }
    let line = Liar::new(told, input, made.map(|made| made.text));
    let shown = sandbox::within(move || {
        let mut is_shown = false;
        let most = counting::peak(|| is_shown = show(line, &job, scenario.orders, is_honest));
        assert!(most < MOST, "{most} bytes");
        assert!(!(is_refused && is_shown), "a module has declared more than it may");
    });
    shown.expect("nothing is done, and nothing panics");
}

/// Shows the output of a program. Returns whether this succeeded without an error.
fn show(line: Liar, job: &Job, orders: &'static [&'static str], is_honest: bool) -> bool {
    let mut output = Watched { orders, done: 0 };
    let Ok(client) = Client::connect(line) else { return false };
    let shown = consume::run(client, job, &Interrupt::new(), &mut Recorded, &mut output);
    let is_shown = shown.is_ok();
    if is_honest {
        shown.expect("true answers are shown");
        // Other output formats are one file, for which only commands are run.
        let is_all = output.done == orders.len() || job.options.output_format != OutputFormat::Text;
        assert!(is_all, "what the program asks for is done: {} of {orders:?}", output.done);
    }
    is_shown
}

/// An output that performs no action, and checks that each requested action is expected.
#[derive(Debug)]
struct Watched {
    orders: &'static [&'static str],
    done: usize,
}

impl Output for Watched {
    fn line(&mut self, text: &[u8]) -> std::io::Result<()> {
        self.write(text)
    }

    fn write(&mut self, _: &[u8]) -> std::io::Result<()> {
        Ok(())
    }

    fn message(&mut self, text: &str) -> std::io::Result<()> {
        // Standard output and error take what they are given; a terminal obeys none of the peer's text.
        assert!(text.ends_with('\n'), "{text:?}");
        Ok(())
    }

    fn listing(&mut self, _: &str) -> std::io::Result<()> {
        Ok(())
    }

    fn perform(&mut self, order: &Order<'_>) -> std::io::Result<()> {
        let asked = match order.request() {
            Asked::System(text) | Asked::Freopen(Some(text)) => {
                String::from_utf8_lossy(text).into_owned()
            }
            other => other.to_string(),
        };
        assert!(self.orders.contains(&&*asked), "{asked} is not the program's");
        self.done += 1;
        Ok(())
    }
}

/// A kernel that repeats recorded answers, and changes some of them.
struct Liar {
    told: &'static Told,
    /// The number of times that each request was made.
    asked: HashMap<String, usize>,
    decoder: Decoder<Vec<u8>>,
    answers: VecDeque<u8>,
    given: usize,
    input: Input,
    /// The declarations of its module.
    declared: Option<Vec<u8>>,
}

impl Liar {
    fn new(told: &'static Told, input: Input, declared: Option<Vec<u8>>) -> Self {
        Self {
            told,
            asked: HashMap::new(),
            decoder: Decoder::new(vec![0; 4 << 10]),
            answers: VecDeque::new(),
            given: 0,
            input,
            declared,
        }
    }

    /// Returns the content of the answer to a request.
    fn answer(&mut self, asked: String) -> Vec<u8> {
        let times = self.asked.entry(asked.clone()).or_default();
        let mut content = self.told.answer(&asked, *times);
        *times += 1;
        if let Some(at) = asked.strip_prefix("Declared { index: 0, at: ")
            && let Some(text) = &self.declared
        {
            let at = at.trim_end_matches(" }").parse().unwrap_or(0);
            content = lies::declared(text, at);
        }
        let number = match self.input.again {
            Some(period @ 1..) => self.given % usize::from(period),
            _ => self.given,
        };
        for (_, lie) in self.input.lies.iter().filter(|(at, _)| usize::from(*at) == number) {
            content = lie.instead_of(content);
        }
        self.given += 1;
        content
    }
}

impl Transport for Liar {
    fn read(&mut self, buffer: &mut [u8], _: Duration) -> Result<usize, TransportError> {
        if self.answers.is_empty() || self.given > ANSWERS {
            // No more data will arrive; waiting takes real time.
            return Err(TransportError::Closed(None));
        }
        let count = buffer.len().min(self.answers.len());
        buffer.iter_mut().zip(self.answers.drain(..count)).for_each(|(to, byte)| *to = byte);
        Ok(count)
    }

    fn write(&mut self, bytes: &[u8], _: Duration) -> Result<(), TransportError> {
        for &byte in bytes {
            let Some(Ok(frame)) = self.decoder.push(byte) else { continue };
            let (header, asked) = (frame.header, honest::asked(&frame));
            let content = self.answer(asked);
            self.answers.extend(sealed(header, &content));
        }
        Ok(())
    }
}

/// A frame with this content.
fn sealed(header: Header, content: &[u8]) -> Vec<u8> {
    let frame = Frame { header, content };
    let (mut buffer, mut line) = (vec![0; content.len() + 16], vec![0; content.len() * 2 + 64]);
    let length = frame.pass_on(header, &mut buffer, &mut line).expect("there is room");
    line.truncate(length);
    line
}
