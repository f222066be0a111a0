//! The heap of the binary.
//!
//! musl's own allocator asks the kernel for every larger piece and gives it back at once, which takes longer than
//! everything else that a dry run does. dlmalloc's takes a lock of the C library twice for each piece, which takes longer
//! than the work between; nearly all runs have one thread.

use dlmalloc::Dlmalloc;
use std::{
    alloc::{GlobalAlloc, Layout},
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// A heap that one thread at a time works on.
pub struct Allocator {
    is_busy: AtomicBool,
    heap: UnsafeCell<Dlmalloc>,
}

impl Allocator {
    /// An empty heap.
    #[expect(clippy::new_without_default, reason = "a default can't be made for a static")]
    pub const fn new() -> Self {
        Self { is_busy: AtomicBool::new(false), heap: UnsafeCell::new(Dlmalloc::new()) }
    }

    /// Works on the heap, alone.
    fn alone<T>(&self, work: impl FnOnce(&mut Dlmalloc) -> T) -> T {
        while self.is_busy.swap(true, Ordering::Acquire) {
            thread::yield_now();
        }
        #[expect(unsafe_code, reason = "what the flag guards")]
        // SAFETY: whoever has set the flag has the heap for itself until it takes the flag back. `work` is one of the calls
        // below: they don't panic, and allocate nothing by way of this allocator, so they don't come back here.
        let result = work(unsafe { &mut *self.heap.get() });
        self.is_busy.store(false, Ordering::Release);
        result
    }
}

#[expect(unsafe_code, reason = "what the flag guards may be shared")]
// SAFETY: the heap is reached through `alone` only.
unsafe impl Sync for Allocator {}

#[expect(unsafe_code, reason = "an allocator is promised to be one")]
// SAFETY: each call is handed on to dlmalloc, which keeps the promises of an allocator, with the sizes and alignments that
// the caller has promised to be those of the piece.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        self.alone(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        self.alone(|heap| unsafe { heap.calloc(layout.size(), layout.align()) })
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        self.alone(|heap| unsafe { heap.free(piece, layout.size(), layout.align()) });
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        self.alone(|heap| unsafe { heap.realloc(piece, layout.size(), layout.align(), size) })
    }
}
