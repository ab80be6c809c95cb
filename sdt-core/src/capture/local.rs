//! What a local is handed over as: method resolution decides, by its type.

use core::marker::PhantomData;
use core::ops::Deref;

use super::{Borrowed, Copied};

/// A local variable that an argument expression names. `S` has no size if it may be a `static mut`, and is one.
///
/// `capture` is there three times, for three kinds of types: the first that fits is the one that is called.
#[derive(Debug)]
pub struct Local<'a, T, S = Stack>(NotCopy<'a, T, S>);

/// A local whose type is not `Copy`.
#[derive(Debug)]
pub struct NotCopy<'a, T, S>(Other<'a, T, S>);

/// A local that is no exclusive reference either.
#[derive(Debug)]
pub struct Other<'a, T, S> {
    place: &'a T,
    is_static: PhantomData<S>,
}

/// Says that a local is no static.
#[derive(Debug)]
pub struct Stack(#[expect(dead_code, reason = "for its size")] u8);

impl<'a, T> Local<'a, T> {
    /// A local, or a static that is not `mut`.
    #[inline(always)]
    pub const fn new(place: &'a T) -> Self {
        Self(NotCopy(Other { place, is_static: PhantomData }))
    }
}

impl<'a, T, S> Local<'a, T, S> {
    /// A local, or, if `naming` captures nothing by naming it, a static.
    #[inline(always)]
    pub fn unless_static(place: &'a T, naming: S) -> Self {
        _ = naming;
        Self(NotCopy(Other { place, is_static: PhantomData }))
    }
}

impl<T: Copy, S> Local<'_, T, S> {
    /// The bits.
    #[inline(always)]
    pub fn capture(&self) -> Copied<T, S> {
        Copied::new(self.place)
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
    /// The pointer, behind a shared reference, so that the evaluator can only read through it.
    #[inline(always)]
    pub fn capture(&self) -> Copied<&'u mut U, S> {
        Copied::new(self.place)
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
    /// The address.
    #[inline(always)]
    pub fn capture(&self) -> Borrowed<'a, T> {
        Borrowed(self.place)
    }
}
