//! Chooses how an evaluator gets a local: method resolution decides, by the local's type.

use core::marker::PhantomData;
use core::ops::Deref;

use super::{Borrowed, Copied};

/// A local variable that an argument expression names. `S` is zero-sized only if the variable is a `static mut`.
///
/// There are three methods `capture`, for three kinds of types. Method resolution calls the first that fits.
#[derive(Debug)]
pub struct Local<'a, T, S = Stack>(NotCopy<'a, T, S>);

/// A local whose type is not `Copy`.
#[derive(Debug)]
pub struct NotCopy<'a, T, S>(Other<'a, T, S>);

/// A local whose type is neither `Copy` nor an exclusive reference.
#[derive(Debug)]
pub struct Other<'a, T, S> {
    local: &'a T,
    is_static: PhantomData<S>,
}

/// Marks a local that is no static.
#[derive(Debug)]
pub struct Stack(#[expect(dead_code, reason = "for its size")] u8);

impl<'a, T> Local<'a, T> {
    /// Wraps a local, or a static that is not `mut`.
    #[inline(always)]
    pub const fn new(local: &'a T) -> Self {
        Self(NotCopy(Other { local, is_static: PhantomData }))
    }
}

impl<'a, T, S> Local<'a, T, S> {
    /// Wraps a local, or a `static mut` if `naming`, a closure that names it, captures nothing.
    #[inline(always)]
    pub fn unless_static(local: &'a T, naming: S) -> Self {
        _ = naming;
        Self(NotCopy(Other { local, is_static: PhantomData }))
    }
}

impl<T: Copy, S> Local<'_, T, S> {
    /// Captures the bits.
    #[inline(always)]
    pub fn capture(&self) -> Copied<T, S> {
        Copied::new(self.local)
    }
}

impl<'a, T, S> Deref for Local<'a, T, S> {
    type Target = NotCopy<'a, T, S>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'u, U: ?Sized, S> NotCopy<'_, &'u mut U, S> {
    /// Captures the pointer, behind a shared reference, so that the evaluator can only read through it.
    #[inline(always)]
    pub fn capture(&self) -> Copied<&'u mut U, S> {
        Copied::new(self.local)
    }
}

impl<'a, T, S> Deref for NotCopy<'a, T, S> {
    type Target = Other<'a, T, S>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'a, T, S> Other<'a, T, S> {
    /// Captures the address.
    #[inline(always)]
    pub fn capture(&self) -> Borrowed<'a, T> {
        Borrowed(self.local)
    }
}
