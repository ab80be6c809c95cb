//! Chains that probe context walks while others change them.
//!
//! Nodes come from a fixed array and are named by index. Changes are made by one thread at a time;
//! walkers take no lock. A node that has been unlinked keeps its body and its link, so a walker that
//! stands on it goes on; only when every walker is known to have left is it filled again.

use core::mem::MaybeUninit;

use crate::base::sync::{AtomicU32, Ordering, UnsafeCell};

/// A link: 0 is the end, otherwise a node's index and one.
#[derive(Debug)]
struct Link(AtomicU32);

impl Link {
    fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Acquire, with the Release of `set`: the node and all behind it are there.
    fn get(&self) -> Option<usize> {
        (self.0.load(Ordering::Acquire) as usize).checked_sub(1)
    }

    fn set(&self, node: Option<usize>) {
        self.0.store(node.map_or(0, |node| node as u32 + 1), Ordering::Release);
    }
}

/// One node.
#[derive(Debug)]
pub(crate) struct Node<T> {
    next: Link,
    body: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the body is written by `fill` only, when by its contract nobody reads it; it is read and
// copied from any thread, hence Send.
unsafe impl<T: Copy + Send> Sync for Node<T> {}

impl<T: Copy> Node<T> {
    /// A node that is in no chain.
    pub(crate) fn new() -> Self {
        Self { next: Link::new(), body: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Gives the node its body.
    ///
    /// # Safety
    /// The node is in no chain, and nobody who walked one when it still was is still walking.
    pub(crate) unsafe fn fill(&self, body: T) {
        self.next.set(None);
        // SAFETY: nobody else looks at it, by the contract above.
        self.body.with_mut(|cell| unsafe { (*cell).write(body) });
    }
}

/// Who walks a chain.
#[derive(Debug)]
pub(crate) struct Walk<'n, T> {
    nodes: &'n [Node<T>],
    at: Option<usize>,
}

impl<T: Copy> Iterator for Walk<'_, T> {
    type Item = (usize, T);

    #[inline(always)]
    fn next(&mut self) -> Option<(usize, T)> {
        let index = self.at?;
        let node = self.nodes.get(index)?;
        // SAFETY: a node that a link leads to has been filled before, and is not filled again while somebody walks.
        let body = node.body.with(|body| unsafe { (*body).assume_init() });
        self.at = node.next.get();
        Some((index, body))
    }
}

/// The start of a chain.
#[derive(Debug)]
pub(crate) struct Chain {
    first: Link,
}

impl Chain {
    /// An empty chain.
    pub(crate) fn new() -> Self {
        Self { first: Link::new() }
    }

    /// Whether there is no node. Probe context.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.get().is_none()
    }

    /// The index and the body of every node, first to last. Probe context.
    ///
    /// A node that is appended meanwhile may be left out, one that is unlinked meanwhile may be met.
    #[inline(always)]
    pub(crate) fn walk<'n, T: Copy>(&self, nodes: &'n [Node<T>]) -> Walk<'n, T> {
        Walk { nodes, at: self.first.get() }
    }

    /// Puts a node that has been filled at the end.
    ///
    /// # Safety
    /// The node is in no chain, and `fill` was called since it last was. One thread at a time changes
    /// a chain.
    pub(crate) unsafe fn append<T: Copy>(&self, nodes: &[Node<T>], index: usize) {
        let mut link = &self.first;
        while let Some(node) = link.get().and_then(|at| nodes.get(at)) {
            link = &node.next;
        }
        link.set(Some(index));
    }

    /// Takes a node out, if it is there. Those who walk the chain may still be on it.
    ///
    /// # Safety
    /// One thread at a time changes a chain.
    pub(crate) unsafe fn unlink<T: Copy>(&self, nodes: &[Node<T>], index: usize) {
        let mut link = &self.first;
        while let Some(at) = link.get() {
            let Some(node) = nodes.get(at) else { return };
            if at == index {
                link.set(node.next.get());
                return;
            }
            link = &node.next;
        }
    }
}
