//! Types whose layout depends on the size of enums: on bare ARM, an enum is as short as its constants allow.
#![no_std]

use sdt_core::arg::CType;

/// One byte on bare ARM, an `int` elsewhere.
#[derive(Clone, Copy, Debug, CType)]
#[repr(C)]
pub enum Phase {
    /// The largest value that fits into a byte.
    Idle = 255,
    /// The smallest value.
    Busy = 0,
}

/// Two bytes, with a sign.
#[derive(Clone, Copy, Debug, CType)]
#[repr(C)]
pub enum Level {
    /// Below zero.
    Low = -1,
    /// More than fits into a byte.
    High = 128,
}

/// A tag of one byte, directly in front of the fields.
#[derive(Clone, Copy, Debug, CType)]
#[repr(C)]
pub enum Reading {
    /// No data.
    None,
    /// Bytes, directly behind the tag.
    Raw {
        /// The bytes as read from the sensor.
        bytes: [u8; 2],
        /// The last phase of the sensor.
        phase: Phase,
    },
}

/// A tag of one byte, and fields at offsets that their alignment determines.
#[derive(Clone, Copy, Debug, CType)]
#[repr(C)]
pub enum Event {
    /// A number.
    Timer {
        /// The number of ticks.
        ticks: u32,
        /// The level.
        level: Level,
    },
    /// Less than a word.
    Failed(i16),
}
