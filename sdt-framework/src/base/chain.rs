//! Chains that probe context walks while a thread changes them.
//!
//! Nodes are in a fixed array and have indices. One thread at a time changes a chain; walks take no lock. An unlinked node keeps
//! its body and its link, so a walk that has reached it continues. It is filled again only after every CPU has left probe
//! context.

use core::mem::MaybeUninit;

use crate::base::sync::{AtomicU32, Ordering, UnsafeCell};

/// A link: 0 at the end of a chain, otherwise the index of a node plus 1.
#[derive(Debug)]
struct Link(AtomicU32);

impl Link {
    fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Returns the index.
    fn get(&self) -> Option<usize> {
        (self.raw() as usize).checked_sub(1)
    }

    /// Returns the link as a number. Acquire, with the Release of `set`: the node and its successors are initialised.
    #[inline(always)]
    fn raw(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self, node: Option<usize>) {
        self.0.store(node.map_or(0, |node| node as u32 + 1), Ordering::Release);
    }
}

/// A node of a chain: a value, and the link to the next node. The layout is C's, because readers of dumps use it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Node<T> {
    next: Link,
    body: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: only `fill` writes the body, and its callers guarantee that no thread reads it then. Any thread reads and copies the
// body, hence `Send`.
unsafe impl<T: Copy + Send> Sync for Node<T> {}

impl<T: Copy> Node<T> {
    /// The offset of the value, for dumps. The link is at the beginning.
    #[allow(dead_code, reason = "loom's models make no dumps")]
    pub(crate) const BODY: usize = core::mem::offset_of!(Self, body);

    /// Creates a node that is in no chain.
    pub(crate) fn new() -> Self {
        Self { next: Link::new(), body: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Writes the body of the node.
    ///
    /// # Safety
    /// The node is in no chain, and each walk that began while it was in one has ended.
    pub(crate) unsafe fn fill(&self, body: T) {
        self.next.set(None);
        // SAFETY: no thread reads the body, because `# Safety` requires that no walk can reach the node.
        self.body.with_mut(|cell| unsafe { (*cell).write(body) });
    }
}

/// An iterator over the nodes of a chain.
#[derive(Debug)]
pub(crate) struct Walk<'n, T> {
    nodes: &'n [Node<T>],
    /// The link to the next node.
    at: u32,
}

impl<T: Copy> Iterator for Walk<'_, T> {
    type Item = (usize, T);

    #[inline(always)]
    fn next(&mut self) -> Option<(usize, T)> {
        // At the end of the chain this is larger than every index.
        let index = self.at.wrapping_sub(1) as usize;
        let node = self.nodes.get(index)?;
        // SAFETY: `append` requires that a linked node is filled, and `fill` must not be called while a walk can reach the node.
        let body = node.body.with(|body| unsafe { (*body).assume_init() });
        self.at = node.next.raw();
        Some((index, body))
    }
}

/// The start of a chain.
#[derive(Debug)]
pub(crate) struct Chain {
    first: Link,
}

impl Chain {
    /// Creates an empty chain.
    pub(crate) fn new() -> Self {
        Self { first: Link::new() }
    }

    /// Returns whether there is no node. Probe context.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.get().is_none()
    }

    /// Returns the index and the body of every node, first to last. Probe context.
    ///
    /// The walk can miss a node that is appended during the walk, and can return one that is unlinked during the walk.
    #[inline(always)]
    pub(crate) fn walk<'n, T: Copy>(&self, nodes: &'n [Node<T>]) -> Walk<'n, T> {
        Walk { nodes, at: self.first.raw() }
    }

    /// Appends a node that has been filled.
    ///
    /// # Safety
    /// The node is in no chain, and [`fill`](Node::fill) was called after the node left its last chain. One thread at a
    /// time changes a chain.
    pub(crate) unsafe fn append<T: Copy>(&self, nodes: &[Node<T>], index: usize) {
        let mut link = &self.first;
        while let Some(node) = link.get().and_then(|at| nodes.get(at)) {
            link = &node.next;
        }
        link.set(Some(index));
    }

    /// Unlinks a node if it is in the chain. Walks of other CPUs can still reach it.
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
