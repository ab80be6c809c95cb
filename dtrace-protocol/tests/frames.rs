//! Frames: the receiver gets the sent messages unchanged, detects damaged or other data, and receives the next frame after them.

use dtrace_protocol::frame::{OVERHEAD, channel_of, decoded_len, encoded_len};
use dtrace_protocol::{
    Datum, Decoder, Frame, FrameError, Header, Probe, Reply, Request, SnapshotOf, TooLong, Writer,
};
use proptest::prelude::*;

const HEADER: Header = Header { channel: 3, seq: 0x1234_5600 };

fn sealed(writer: Writer<'_>) -> Vec<u8> {
    let mut line = vec![0; 4096];
    let length = writer.seal(&mut line).unwrap();
    line.truncate(length);
    line
}

fn frame(request: &Request<'_>) -> Vec<u8> {
    let mut buffer = [0; 512];
    sealed(Writer::new(&mut buffer, HEADER, request).unwrap())
}

/// Returns the requests that a decoder with a buffer of `room` bytes finds in a line, and its errors.
fn arrived(room: usize, line: &[u8]) -> Vec<Result<(Header, String), FrameError>> {
    let mut decoder = Decoder::new(vec![0; room]);
    let mut all = Vec::new();
    for &byte in line {
        let Some(result) = decoder.push(byte) else { continue };
        all.push(result.and_then(|frame| {
            let (request, items) = frame.message::<Request<'_>>()?;
            assert!(items.is_empty());
            Ok((frame.header, format!("{request:?}")))
        }));
    }
    all
}

fn sample() -> (Vec<u8>, Result<(Header, String), FrameError>) {
    let request = Request::List { spec: "proc:::exec-*", after: 0 };
    (frame(&request), Ok((HEADER, format!("{request:?}"))))
}

#[test]
fn a_frame_comes_back() {
    let (bytes, expected) = sample();
    assert_eq!(arrived(512, &[&bytes[..], &bytes].concat()), [expected.clone(), expected]);
    assert_eq!(channel_of(&bytes), Some(3));
}

#[test]
fn channels_are_told_by_the_first_bytes() {
    for channel in 0..=255 {
        let mut buffer = [0; 64];
        let writer = Writer::new(&mut buffer, Header { channel, seq: 0 }, &Request::Go).unwrap();
        assert_eq!(channel_of(&sealed(writer)[..2]), Some(channel));
    }
    assert_eq!(channel_of(&[7]), None);
}

#[test]
fn joining_in_the_middle_loses_one_frame_only() {
    let (bytes, expected) = sample();
    let got = arrived(512, &[&bytes[5..], &bytes].concat());
    assert_eq!(got.len(), 2);
    assert!(got[0].is_err());
    assert_eq!(got[1], expected);
}

#[test]
fn a_frame_without_an_end_is_refused_and_the_next_one_read() {
    let (bytes, expected) = sample();
    let line = [&[1; 100][..], &[0], &bytes].concat();
    assert_eq!(arrived(64, &line), [Err(FrameError::TooLong), expected]);
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let (action, alignment, format) = (1, 8, 0);
    let datum = Datum { action, size: 8, offset: 16, alignment, format, arg: u64::MAX, uarg: 1 };
    // The reply takes 3 bytes and the datum 16, of which the largest number takes 10.
    let mut buffer = [0; OVERHEAD + 3 + 16 + 15];
    let reply = Reply::Eprobe { probe: 1, size: 24 };
    let mut writer = Writer::new(&mut buffer, HEADER, &reply).unwrap();
    writer.push(&datum).unwrap();
    let left = writer.left();
    assert_eq!(left, 15);
    assert_eq!(writer.push(&datum), Err(TooLong));
    assert_eq!(writer.left(), left);
    let mut bytes = sealed(writer);
    bytes.pop();
    let frame = Frame::decode(&mut bytes).unwrap();
    let (got, items) = frame.message::<Reply<'_>>().unwrap();
    assert_eq!(got, reply);
    assert_eq!(items.iter().collect::<Vec<_>>(), [Ok(datum)]);

    assert!(Writer::new(&mut [0; 8], HEADER, &Request::Go).is_err());
    let mut buffer = [0; 64];
    let writer = Writer::new(&mut buffer, HEADER, &Request::Go).unwrap();
    assert_eq!(writer.seal(&mut []), Err(TooLong));
}

#[test]
fn items_that_are_none_end_the_list() {
    let mut buffer = [0; 128];
    let probe = Probe { id: 1, provider: b"p", module: b"", function: b"\xff", name: b"n" };
    let mut writer = Writer::new(&mut buffer, HEADER, &Reply::Probes).unwrap();
    writer.push(&probe).unwrap();
    // An id, and no names.
    writer.push(&7u32).unwrap();
    let mut bytes = sealed(writer);
    bytes.pop();
    let frame = Frame::decode(&mut bytes).unwrap();
    let (_, items) = frame.message::<Reply<'_>>().unwrap();
    let items: Vec<_> = items.iter::<Probe<'_>>().collect();
    assert_eq!(items, [Ok(probe), Err(FrameError::Content)]);
    // A value without bytes is not an item.
    let (_, items) = frame.message::<Reply<'_>>().unwrap();
    assert_eq!(items.iter::<()>().count(), 1);
}

#[test]
fn a_frame_is_passed_on_under_another_header() {
    let (mut bytes, _) = sample();
    let room = bytes.len();
    bytes.pop();
    let frame = Frame::decode(&mut bytes).unwrap();
    let other = Header { channel: 0, seq: 1 };
    let (mut buffer, mut line) = (vec![0; OVERHEAD + frame.content.len()], vec![0; room]);
    let length = frame.pass_on(other, &mut buffer, &mut line).unwrap();
    let got = arrived(512, &line[..length]);
    let request = Request::List { spec: "proc:::exec-*", after: 0 };
    assert_eq!(got, [Ok((other, format!("{request:?}")))]);
}

fn requests() -> impl Strategy<Value = (String, u32, u8, u8)> {
    (".{0,40}", any::<u32>(), any::<u8>(), 0u8..14)
}

fn request(&(ref text, number, index, which): &(String, u32, u8, u8)) -> Request<'_> {
    match which {
        0 => Request::Hello { version: number },
        1 => Request::Open,
        2 => Request::Close,
        3 => Request::List { spec: text, after: number },
        4 => Request::Describe { probe: number },
        5 => Request::Argument { probe: number, index },
        6 => Request::Sites { probe: number, skip: u32::from(index) },
        7 => Request::Option { option: number, value: -i64::from(index) },
        8 => Request::Program { size: number, at: index.into(), bytes: text.as_bytes() },
        9 => Request::Go,
        10 => Request::Snapshot { cpu: number, buffer: SnapshotOf::Records, at: index.into() },
        11 => Request::SymbolNamed { module: text, name: text },
        12 => Request::Run,
        _ => Request::Status,
    }
}

proptest! {
    #[test]
    fn every_request_comes_back(of in requests(), channel in any::<u8>(), seq in any::<u32>()) {
        let (header, request) = (Header { channel, seq }, request(&of));
        let mut buffer = [0; 512];
        let line = sealed(Writer::new(&mut buffer, header, &request).unwrap());
        prop_assert_eq!(channel_of(&line), Some(channel));
        prop_assert_eq!(arrived(line.len() - 1, &line), [Ok((header, format!("{request:?}")))]);
    }

    #[test]
    fn no_flipped_bit_passes(bit in 0usize..8, at in any::<prop::sample::Index>()) {
        let (mut bytes, expected) = sample();
        let at = at.index(bytes.len() - 1);
        bytes[at] ^= 1 << bit;
        // A flipped bit can produce a zero byte, which splits the frame into two; neither is a valid message.
        let got = arrived(512, &bytes);
        prop_assert!(!got.contains(&expected));
        prop_assert!(got.iter().all(Result::is_err), "{:?}", got);
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let (frame, expected) = sample();
        let line = [&bytes[..], &[0], &frame].concat();
        let got = arrived(64, &line);
        prop_assert_eq!(got.last(), Some(&expected));
    }

    #[test]
    fn any_content_is_survived(content in prop::collection::vec(any::<u8>(), 0..80)) {
        let frame = Frame { header: HEADER, content: &content };
        if let Ok((Reply::Sites, items)) = frame.message() {
            prop_assert!(items.iter::<dtrace_protocol::Site<'_>>().count() <= 80);
        }
        let _ = frame.message::<Request<'_>>();
    }

    #[test]
    fn lengths_are_bounds(len in 0usize..3000, fill in 0u8..3) {
        let content = vec![fill; len];
        let frame = Frame { header: HEADER, content: &content };
        let (mut buffer, mut line) = (vec![0; len + OVERHEAD], vec![0; encoded_len(len + OVERHEAD)]);
        let encoded = frame.pass_on(HEADER, &mut buffer, &mut line).unwrap();
        prop_assert!(encoded <= encoded_len(len + OVERHEAD));
        prop_assert!(encoded_len(decoded_len(len)) <= len.max(2));
    }
}
