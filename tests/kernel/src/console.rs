//! The system console: collects the printed lines until the host reads them.

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

/// Prints text; each newline ends a line. May be called on any CPU and in interrupt handlers, but not in probe context.
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

/// Removes and returns the oldest complete line.
pub(crate) fn take_line() -> Option<String> {
    CONSOLE.lock().lines.pop_front()
}
