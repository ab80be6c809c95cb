//! The system console: lines, on their way to the host.

use alloc::collections::VecDeque;
use alloc::string::String;

use crate::lock::IrqMutex;

struct Console {
    /// Text printed since the last newline.
    partial: String,
    lines: VecDeque<String>,
}

static CONSOLE: IrqMutex<Console> =
    IrqMutex::new(Console { partial: String::new(), lines: VecDeque::new() });

/// Prints text; each newline ends a line. Any CPU, interrupt handlers too; not in probe context.
pub(crate) fn print(text: &str) {
    let mut console = CONSOLE.lock();
    for piece in text.split_inclusive('\n') {
        console.partial.push_str(piece);
        if console.partial.ends_with('\n') {
            console.partial.pop();
            let line = core::mem::take(&mut console.partial);
            console.lines.push_back(line);
        }
    }
}

/// The oldest whole line that has not been taken yet.
pub(crate) fn take_line() -> Option<String> {
    CONSOLE.lock().lines.pop_front()
}
