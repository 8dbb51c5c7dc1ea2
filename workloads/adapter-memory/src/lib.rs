//! Gives the adapter that makes a component of a WASI preview 1 program its memory from the program's own allocator.
//!
//! *In:* the adapter's wishes, through the export `cabi_realloc`. *Out:* memory that nobody else is given.
//! *Must never know:* what the adapter keeps there.
//! *Tested:* with `grow`, which fills all memory that it can get, end to end.
//!
//! The adapter lives in the program's memory. Without this export it grows that memory before the program has taken
//! any, and a C library that does not know the linker's `__heap_end` yet, such as Debian 12's of 2022, then counts the
//! new pages as its own heap: the program overwrites the adapter, which traps sooner or later. Programs built with a
//! newer one need nothing of this.

#[cfg(target_arch = "wasm32")]
mod export {
    use std::alloc::{Layout, alloc, handle_alloc_error, realloc};
    use std::ptr;

    /// The component model's allocation function: as C's `realloc`, with an alignment and the old size. Sizes in
    /// bytes, the alignment a power of two.
    ///
    /// # Safety
    /// `old` was returned by this function for `old_size` and `align`, or `old_size` is zero.
    #[expect(unsafe_code, reason = "the adapter finds the function by its name and speaks in raw pointers")]
    #[unsafe(no_mangle)]
    unsafe extern "C" fn cabi_realloc(old: *mut u8, old_size: usize, align: usize, size: usize) -> *mut u8 {
        let layout = |size| Layout::from_size_align(size, align).unwrap_or_else(|_| std::process::abort());
        if size == 0 {
            return ptr::without_provenance_mut(align);
        }
        let memory = match old_size {
            // SAFETY: the size is not zero.
            0 => unsafe { alloc(layout(size)) },
            // SAFETY: the caller says that `old` is from here with this layout, and the new size is not zero.
            _ => unsafe { realloc(old, layout(old_size), size) },
        };
        if memory.is_null() {
            handle_alloc_error(layout(size));
        }
        memory
    }
}
