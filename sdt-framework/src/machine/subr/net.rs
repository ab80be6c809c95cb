//! Addresses of the Internet as text.

use crate::kernel::Kernel;
use crate::machine::failure::Stop;
use crate::machine::firing::Firing;
use crate::machine::op::Width;

/// The kind of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    /// `AF_INET`, and `AF_INET6` of FreeBSD and of illumos (`sys/socket.h`).
    pub(super) const fn of(number: i32) -> Option<Self> {
        match number {
            2 => Some(Self::V4),
            26 | 28 => Some(Self::V6),
            _ => None,
        }
    }

    /// Room for the longest one (`INET_ADDRSTRLEN`, `INET6_ADDRSTRLEN`).
    const fn size(self) -> u64 {
        match self {
            Self::V4 => 16,
            Self::V6 => 46,
        }
    }
}

/// Text that is written from its end on.
struct Backward {
    bytes: [u8; 46],
    left: usize,
}

impl Backward {
    const fn new() -> Self {
        Self { bytes: [0; 46], left: 46 }
    }

    fn put(&mut self, byte: u8) {
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            if let Some(place) = self.bytes.get_mut(left) {
                *place = byte;
            }
        }
    }

    fn number(&mut self, mut number: u16, base: u16) {
        loop {
            let digit = (number % base) as u8;
            self.put(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
            number /= base;
            if number == 0 {
                break;
            }
        }
    }

    fn dotted(&mut self, bytes: [u8; 4]) {
        for (index, byte) in bytes.into_iter().rev().enumerate() {
            if index > 0 {
                self.put(b'.');
            }
            self.number(byte.into(), 10);
        }
    }

    fn text(&self) -> &[u8] {
        self.bytes.get(self.left..).unwrap_or_default()
    }
}

/// Returns the start and the length of the longest run of at least two groups that are 0; of equally long runs, the first.
fn zeroes(groups: &[u16; 8]) -> Option<(usize, usize)> {
    let mut longest = None;
    let (mut start, mut count) = (0, 0);
    for (index, group) in groups.iter().enumerate() {
        if *group != 0 {
            count = 0;
            continue;
        }
        if count == 0 {
            start = index;
        }
        count += 1;
        if count > longest.map_or(1, |(_, count)| count) {
            longest = Some((start, count));
        }
    }
    longest
}

/// Writes an IPv6 address. `only_dotted`: writes an IPv4-mapped address as an IPv4 address, without a prefix.
fn v6(address: u128, only_dotted: bool) -> Backward {
    let mut text = Backward::new();
    let groups: [u16; 8] = core::array::from_fn(|index| (address >> (112 - 16 * index)) as u16);
    let mapped = address >> 32 == 0xffff;
    let compatible = address >> 32 == 0 && address > 1;
    let mut end = groups.len();
    if mapped || compatible {
        text.dotted((address as u32).to_be_bytes());
        if only_dotted {
            return text;
        }
        end = 6;
    }
    let zeroes = zeroes(&groups);
    let mut index = end;
    while let Some(now) = index.checked_sub(1) {
        if let Some((start, _)) = zeroes.filter(|(start, count)| index == start + count) {
            text.put(b':');
            text.put(b':');
            index = start;
            continue;
        }
        // No colon after the last group, or before the two colons of a run of zeroes.
        let before_run = zeroes.is_some_and(|(start, _)| now + 1 == start);
        if now < 7 && !before_run {
            text.put(b':');
        }
        text.number(groups.get(now).copied().unwrap_or(0), 16);
        index = now;
    }
    text
}

impl<K: Kernel> Firing<'_, K> {
    pub(super) fn inet(
        &mut self,
        family: Family,
        from: u64,
        only_dotted: bool,
    ) -> Result<u64, Stop> {
        let text = match family {
            Family::V4 => {
                let mut text = Backward::new();
                text.dotted((self.load(Width::U32, from)? as u32).to_le_bytes());
                text
            }
            Family::V6 => {
                let mut bytes = [0; 16];
                self.read(from, &mut bytes)?;
                v6(u128::from_be_bytes(bytes), only_dotted)
            }
        };
        let size = family.size();
        let start = self.allocate(size, false)?;
        let text = text.text();
        let at = start.wrapping_add(size - 1).wrapping_sub(text.len() as u64);
        self.write(at, text)?;
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use proptest::prelude::*;

    use super::*;

    fn shown(address: u128, only_dotted: bool) -> String {
        String::from_utf8(v6(address, only_dotted).text().to_vec()).unwrap()
    }

    proptest! {
        /// Equal to `Ipv6Addr`, except for addresses that represent version 4: `Ipv6Addr` shortens only the mapped ones.
        #[test]
        fn addresses_are_written_as_usual(groups in prop::array::uniform8(prop_oneof![Just(0u16), any::<u16>()])) {
            let address = Ipv6Addr::from(groups);
            let number = u128::from(address);
            prop_assume!(number >> 32 != 0 || number <= 1);
            prop_assert_eq!(shown(number, false), address.to_string());
        }
    }

    #[test]
    fn version_4_within_version_6() {
        assert_eq!(shown(0xffff_0102_0304, false), "::ffff:1.2.3.4");
        assert_eq!(shown(0xffff_0102_0304, true), "1.2.3.4");
        assert_eq!(shown(0x7f00_0001, true), "127.0.0.1");
        assert_eq!(shown(0x7f00_0001, false), "::127.0.0.1");
        assert_eq!(shown(1, false), "::1");
        assert_eq!(shown(0, false), "::");
    }
}
