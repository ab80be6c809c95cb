//! Paths.

use super::Output;
use crate::kernel::Kernel;
use crate::machine::access::Cursor;
use crate::machine::failure::Stop;
use crate::machine::firing::Firing;

/// The positions of the parts of a path; ends are exclusive.
struct Parts {
    /// The last component, without trailing slashes.
    base: (u64, u64),
    /// The end of the part before it, if there is one.
    dir_end: Option<u64>,
}

impl<K: Kernel> Firing<'_, K> {
    /// Finds the parts of a path, from its end. `None` if the path contains only slashes.
    fn parts(&mut self, path: u64, length: u64) -> Result<Option<Parts>, Stop> {
        let mut cursor = Cursor::default();
        let mut at = length;
        let mut is_slash =
            |this: &mut Self, at: u64| Ok(this.byte(&mut cursor, path.wrapping_add(at))? == b'/');
        while at > 0 && is_slash(self, at - 1)? {
            at -= 1;
        }
        if at == 0 {
            return Ok(None);
        }
        let end = at;
        while at > 0 && !is_slash(self, at - 1)? {
            at -= 1;
        }
        let base = (at, end);
        if at == 0 {
            return Ok(Some(Parts { base, dir_end: None }));
        }
        while at > 0 && is_slash(self, at - 1)? {
            at -= 1;
        }
        Ok(Some(Parts { base, dir_end: Some(at) }))
    }

    fn part(&mut self, path: u64, start: u64, end: u64) -> Result<u64, Stop> {
        let mut output = self.string()?;
        let mut cursor = Cursor::default();
        for at in start..end.min(start.saturating_add(self.limit() - 1)) {
            let byte = self.byte(&mut cursor, path.wrapping_add(at))?;
            self.put(&mut output, byte)?;
        }
        Ok(output.start)
    }

    fn whole(&mut self, text: u8) -> Result<u64, Stop> {
        let mut output = self.string()?;
        if self.limit() > 1 {
            self.put(&mut output, text)?;
        }
        Ok(output.start)
    }

    /// `basename`: for an empty path `.`, for slashes only the first one.
    pub(super) fn basename(&mut self, path: u64) -> Result<u64, Stop> {
        let length = self.length(path, self.limit())?;
        if length == 0 {
            return self.whole(b'.');
        }
        match self.parts(path, length)? {
            Some(Parts { base: (start, end), .. }) => self.part(path, start, end),
            None => self.part(path, 0, 1),
        }
    }

    /// `dirname`: of a bare name, and of nothing, it is `.`.
    pub(super) fn dirname(&mut self, path: u64) -> Result<u64, Stop> {
        let length = self.length(path, self.limit())?;
        if length == 0 {
            return self.whole(b'.');
        }
        match self.parts(path, length)? {
            Some(Parts { dir_end: Some(end), .. }) => self.part(path, 0, end.max(1)),
            Some(_) => self.whole(b'.'),
            None => self.part(path, 0, 1),
        }
    }

    /// `cleanpath`: removes `//`, `/./` and `/../`. For a `..` without a component before it, the result is that of dtrace.c. A
    /// path has at most `strsize` bytes.
    pub(super) fn cleanpath(&mut self, path: u64) -> Result<u64, Stop> {
        let size = self.limit();
        let mut output = self.string()?;
        let mut cursor = Cursor::default();
        let mut at = 0;
        let mut next = |this: &mut Self, at: &mut u64| {
            if *at >= size {
                return Ok(0);
            }
            let byte = this.byte(&mut cursor, path.wrapping_add(*at));
            *at += 1;
            byte
        };
        let mut byte = next(self, &mut at)?;
        loop {
            if output.length + 5 >= size {
                break;
            }
            if byte != b'/' {
                if byte == 0 {
                    break;
                }
                self.put(&mut output, byte)?;
                byte = next(self, &mut at)?;
                continue;
            }
            byte = next(self, &mut at)?;
            if byte == b'/' {
                continue;
            }
            if byte == b'.' {
                byte = next(self, &mut at)?;
                if byte == b'/' {
                    continue;
                }
                if byte == b'.' {
                    byte = next(self, &mut at)?;
                    if matches!(byte, b'/' | 0) {
                        self.forget_component(&mut output)?;
                        if byte == 0 {
                            output.length += 1;
                        }
                        continue;
                    }
                    self.put(&mut output, b'/')?;
                    self.put(&mut output, b'.')?;
                    self.put(&mut output, b'.')?;
                } else {
                    self.put(&mut output, b'/')?;
                    self.put(&mut output, b'.')?;
                }
            } else {
                self.put(&mut output, b'/')?;
            }
            if byte == 0 {
                break;
            }
            self.put(&mut output, byte)?;
            byte = next(self, &mut at)?;
        }
        self.write(output.start.wrapping_add(output.length), &[0])?;
        Ok(output.start)
    }

    /// Removes the last component, from the slash before it on.
    fn forget_component(&mut self, output: &mut Output) -> Result<(), Stop> {
        self.charge(output.length)?;
        let mut byte = [0];
        while output.length != 0 && byte != *b"/" {
            output.length -= 1;
            self.read(output.start.wrapping_add(output.length), &mut byte)?;
        }
        Ok(())
    }
}
