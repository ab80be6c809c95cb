//! Types for which it matters that the enums of a bare ARM are as short as their constants allow.
#![no_std]

use sdt_core::arg::CType;

/// One byte there, an `int` elsewhere.
#[derive(Clone, Copy, Debug, CType)]
#[repr(C)]
pub enum Phase {
    /// As much as fits into a byte.
    Idle = 255,
    /// It has no work.
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
        /// As the sensor has it.
        bytes: [u8; 2],
        /// The last phase of the sensor.
        phase: Phase,
    },
}

/// A tag of one byte, and the fields where their alignment says.
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
