//! An allocator with probes.

/// Declares a provider, and an allocator that fires its probes around another allocator.
///
/// | probe | fires when | arguments |
/// |---|---|---|
/// | `alloc` | memory was allocated, or is not available | address (0 if it is not), size, alignment |
/// | `realloc` | memory was resized, or could not be | old address, new address (0 if it could not), old size, new size |
/// | `free` | memory is about to be freed | address, size |
///
/// Sizes are in bytes.
///
/// ```
/// use std::alloc::System;
///
/// sdt_core::sdt_allocator! {
///     /// The system's allocator, with the probes of the provider `heap`.
///     struct Probed, provider heap;
/// }
///
/// #[global_allocator]
/// static ALLOCATOR: Probed<System> = Probed(System);
/// # assert_eq!(vec![1; 3].len(), 3);
/// ```
///
/// `dtrace -n 'heap:::alloc { @[stack(5)] = sum(arg1); }'` shows which code allocates most.
#[macro_export]
macro_rules! sdt_allocator {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident, provider $provider:ident;) => {
        $crate::sdt_provider! {
            /// Calls of the allocator.
            $visibility $provider {
                /// Memory was allocated, or is not available: its address, size and alignment.
                fn alloc(address: *const u8, size: usize, align: usize);
                /// Memory was resized, or could not be: the old and the new address, the old and the new size.
                fn realloc(old: *const u8, new: *const u8, old_size: usize, size: usize);
                /// Memory is about to be freed: its address and size.
                fn free(address: *const u8, size: usize);
            }
        }

        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default)]
        $visibility struct $name<A>(
            /// The allocator that does the work.
            pub A,
        );

        // SAFETY: each function calls the same function of the other allocator with the same arguments, and returns its result.
        unsafe impl<A: ::core::alloc::GlobalAlloc> ::core::alloc::GlobalAlloc for $name<A> {
            unsafe fn alloc(&self, layout: ::core::alloc::Layout) -> *mut u8 {
                // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which is that of the other allocator.
                let address = unsafe { self.0.alloc(layout) };
                $crate::sdt_probe!($provider::alloc, address.cast_const(), layout.size(), layout.align());
                address
            }

            unsafe fn alloc_zeroed(&self, layout: ::core::alloc::Layout) -> *mut u8 {
                // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc_zeroed`, which is that of the other allocator.
                let address = unsafe { self.0.alloc_zeroed(layout) };
                $crate::sdt_probe!($provider::alloc, address.cast_const(), layout.size(), layout.align());
                address
            }

            unsafe fn realloc(&self, old: *mut u8, layout: ::core::alloc::Layout, size: usize) -> *mut u8 {
                // SAFETY: `old` is from the other allocator, as all memory of this one; the caller keeps the rest of the contract.
                let new = unsafe { self.0.realloc(old, layout, size) };
                $crate::sdt_probe!($provider::realloc, old.cast_const(), new.cast_const(), layout.size(), size);
                new
            }

            unsafe fn dealloc(&self, address: *mut u8, layout: ::core::alloc::Layout) {
                $crate::sdt_probe!($provider::free, address.cast_const(), layout.size());
                // SAFETY: `address` is from the other allocator, as all memory of this one, with this layout by the caller's contract.
                unsafe { self.0.dealloc(address, layout) }
            }
        }
    };
}
