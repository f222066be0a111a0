//! The heap of the binary.
//!
//! musl's own allocator requests every larger piece from the kernel and gives it back at once, which takes longer than
//! everything else that a dry run does. dlmalloc joins and splits pieces with each call, which is a fifth of the instructions
//! of a whole run: thousands of small pieces live for a moment each. So small pieces come from lists, one for each size, which
//! dlmalloc fills a block at a time; it serves the larger ones itself. A block stays with the lists, so the heap never
//! shrinks below the most small pieces of a size that were there at once.
//!
//! A flag guards all of it: nearly all runs have one thread, and the lock of the C library costs more than the work.

use dlmalloc::Dlmalloc;
use std::{
    alloc::{GlobalAlloc, Layout},
    cell::UnsafeCell,
    ptr::{self, null_mut},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// Sizes of small pieces are multiples of this, which is also how they are aligned: as dlmalloc aligns its own.
const STEP: usize = 16;
/// The largest of the small pieces.
const SMALL: usize = 512;
/// What is taken of dlmalloc at a time.
const BLOCK: usize = 8 * 1024;

/// A heap that one thread at a time works on.
pub struct Allocator {
    is_busy: AtomicBool,
    heap: UnsafeCell<Heap>,
}

struct Heap {
    large: Dlmalloc,
    /// The free pieces of each size, the smallest size first.
    free: [*mut Free; SMALL / STEP],
    /// What is left of the last block.
    rest: *mut u8,
    rest_length: usize,
}

/// A small piece that is free.
struct Free {
    next: *mut Free,
}

/// The list that serves such pieces; `None` where dlmalloc does.
fn list_of(size: usize, align: usize) -> Option<usize> {
    (size <= SMALL && align <= STEP).then(|| size.saturating_sub(1) / STEP)
}

impl Heap {
    /// A piece from a list; null where there is no memory.
    fn take(&mut self, list: usize) -> *mut u8 {
        let first = self.free[list];
        if !first.is_null() {
            #[expect(unsafe_code, reason = "the list is kept in the pieces themselves")]
            // SAFETY: what is in a list is a free piece of this heap that `give` has written to.
            let next = unsafe { (*first).next };
            self.free[list] = next;
            return first.cast();
        }
        let size = (list + 1) * STEP;
        if self.rest_length < size && !self.refill() {
            return null_mut();
        }
        let piece = self.rest;
        self.rest = piece.wrapping_add(size);
        self.rest_length -= size;
        piece
    }

    /// Puts a piece into a list.
    fn give(&mut self, list: usize, piece: *mut u8) {
        let piece: *mut Free = piece.cast();
        #[expect(unsafe_code, reason = "the list is kept in the pieces themselves")]
        // SAFETY: the piece is free, belongs to this heap, and has at least `STEP` bytes at a multiple of `STEP`.
        unsafe {
            piece.write(Free { next: self.free[list] });
        }
        self.free[list] = piece;
    }

    /// Takes another block; what was left of the last one becomes a piece.
    fn refill(&mut self) -> bool {
        #[expect(unsafe_code, reason = "an allocator's call")]
        // SAFETY: neither the size is zero nor the alignment anything but a power of two.
        let block = unsafe { self.large.malloc(BLOCK, STEP) };
        if block.is_null() {
            return false;
        }
        if let Some(list) = (self.rest_length / STEP).checked_sub(1) {
            self.give(list, self.rest);
        }
        (self.rest, self.rest_length) = (block, BLOCK);
        true
    }
}

impl Allocator {
    /// An empty heap.
    #[expect(clippy::new_without_default, reason = "a default can't be made for a static")]
    pub const fn new() -> Self {
        let free = [null_mut(); SMALL / STEP];
        let heap = Heap { large: Dlmalloc::new(), free, rest: null_mut(), rest_length: 0 };
        Self { is_busy: AtomicBool::new(false), heap: UnsafeCell::new(heap) }
    }

    /// Works on the heap, alone.
    fn alone<T>(&self, work: impl FnOnce(&mut Heap) -> T) -> T {
        while self.is_busy.swap(true, Ordering::Acquire) {
            thread::yield_now();
        }
        #[expect(unsafe_code, reason = "what the flag guards")]
        // SAFETY: the thread that has set the flag has exclusive access to the heap until it clears the flag. `work` is one of
        // the calls below: they don't panic, and allocate nothing by this allocator, so they don't come back here.
        let result = work(unsafe { &mut *self.heap.get() });
        self.is_busy.store(false, Ordering::Release);
        result
    }
}

#[expect(unsafe_code, reason = "what the flag guards may be shared")]
// SAFETY: the heap is reached through `alone` only.
unsafe impl Sync for Allocator {}

#[expect(unsafe_code, reason = "what the flag guards may move")]
// SAFETY: no pointer of the heap leads to anything of a thread's own.
unsafe impl Send for Allocator {}

#[expect(unsafe_code, reason = "an allocator is promised to be one")]
// SAFETY: a small piece is a part of a block of dlmalloc's that no other piece overlaps, of at least the size that was asked
// for, at a multiple of `STEP`; it is in use or in the list of its size, and the caller's layout determines which list that is. All
// other calls are handed on to dlmalloc, which keeps the promises of an allocator, with the sizes and alignments that
// the caller has promised to be those of the piece.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match list_of(layout.size(), layout.align()) {
            Some(list) => self.alone(|heap| heap.take(list)),
            // SAFETY: the caller's promise.
            None => self.alone(|heap| unsafe { heap.large.malloc(layout.size(), layout.align()) }),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match list_of(layout.size(), layout.align()) {
            Some(list) => {
                let piece = self.alone(|heap| heap.take(list));
                if !piece.is_null() {
                    // SAFETY: the piece is the caller's from now on, and as long as was asked for.
                    unsafe { piece.write_bytes(0, layout.size()) };
                }
                piece
            }
            // SAFETY: the caller's promise.
            None => self.alone(|heap| unsafe { heap.large.calloc(layout.size(), layout.align()) }),
        }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        match list_of(layout.size(), layout.align()) {
            Some(list) => self.alone(|heap| heap.give(list, piece)),
            // SAFETY: the caller's promise.
            None => self.alone(|heap| unsafe { heap.large.free(piece, layout.size(), layout.align()) }),
        }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match (list_of(layout.size(), layout.align()), list_of(size, layout.align())) {
            (Some(list), Some(desired)) if list == desired => piece,
            (None, None) => {
                // SAFETY: the caller's promise.
                self.alone(|heap| unsafe { heap.large.realloc(piece, layout.size(), layout.align(), size) })
            }
            _ => {
                // SAFETY: the caller has promised that the new size is one that this alignment can have.
                let desired = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
                // SAFETY: the caller's promise.
                let moved = unsafe { self.alloc(desired) };
                if !moved.is_null() {
                    // SAFETY: both are in use, so they don't overlap, and have at least so many bytes; the old one is not
                    // used any more.
                    unsafe {
                        ptr::copy_nonoverlapping(piece, moved, layout.size().min(size));
                        self.dealloc(piece, layout);
                    }
                }
                moved
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A piece in use, filled with a byte of its own.
    struct Used<'a> {
        heap: &'a Allocator,
        start: *mut u8,
        layout: Layout,
        byte: u8,
    }

    #[expect(unsafe_code, reason = "an allocator's calls")]
    impl<'a> Used<'a> {
        fn new(heap: &'a Allocator, layout: Layout, byte: u8, zeroed: bool) -> Self {
            // SAFETY: the layout has a size.
            let start = unsafe { if zeroed { heap.alloc_zeroed(layout) } else { heap.alloc(layout) } };
            assert!(!start.is_null() && start.addr().is_multiple_of(layout.align()), "{layout:?}");
            let mut used = Self { heap, start, layout, byte };
            assert!(!zeroed || used.bytes().iter().all(|byte| *byte == 0), "{layout:?}");
            used.bytes().fill(byte);
            used
        }

        fn bytes(&mut self) -> &mut [u8] {
            // SAFETY: so many bytes are ours until the piece is given back.
            unsafe { std::slice::from_raw_parts_mut(self.start, self.layout.size()) }
        }

        fn resize(&mut self, size: usize) {
            // SAFETY: the piece is ours, and the size is not zero.
            self.start = unsafe { self.heap.realloc(self.start, self.layout, size) };
            let (byte, kept) = (self.byte, size.min(self.layout.size()));
            self.layout = Layout::from_size_align(size, self.layout.align()).expect("a layout");
            assert!(self.bytes()[..kept].iter().all(|kept| *kept == byte), "{:?}", self.layout);
            self.bytes().fill(byte);
        }
    }

    #[expect(unsafe_code, reason = "an allocator's calls")]
    impl Drop for Used<'_> {
        fn drop(&mut self) {
            let byte = self.byte;
            let is_whole = self.bytes().iter().all(|kept| *kept == byte);
            // SAFETY: the piece is ours, and not used any more.
            unsafe { self.heap.dealloc(self.start, self.layout) };
            assert!(is_whole || thread::panicking(), "another piece overlaps one of {:?}", self.layout);
        }
    }

    /// What is done with a heap: with which piece, and how.
    type Allocation = (usize, usize, u32, u8);

    /// Small sizes mostly, and those at the border between lists and dlmalloc.
    fn deeds() -> impl Strategy<Value = Vec<Allocation>> {
        let size = prop_oneof![6 => 1..=80_usize, 2 => SMALL - 20..=SMALL + 20, 1 => 1..=70_000_usize];
        proptest::collection::vec((0..40_usize, size, 0..6_u32, any::<u8>()), 1..300)
    }

    /// Makes, resizes and gives back pieces, none of which may touch another.
    fn work(heap: &Allocator, deeds: &[Allocation]) {
        let mut used: Vec<Option<Used<'_>>> = (0..40).map(|_| None).collect();
        for &(place, size, bits, byte) in deeds {
            match (used[place].as_mut(), byte % 3) {
                (Some(piece), 0) => piece.resize(size),
                (Some(_), _) => used[place] = None,
                (None, _) => {
                    let layout = Layout::from_size_align(size, 1 << bits).expect("a layout");
                    used[place] = Some(Used::new(heap, layout, byte, byte % 2 == 0));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn pieces_never_overlap_and_keep_what_they_hold(deeds in deeds()) {
            work(&Allocator::new(), &deeds);
        }

        #[test]
        fn threads_share_a_heap(one in deeds(), other in deeds()) {
            let heap = Allocator::new();
            thread::scope(|scope| {
                scope.spawn(|| work(&heap, &one));
                work(&heap, &other);
            });
        }
    }

    /// A program that runs for days must not grow by what it has given back.
    #[test]
    fn what_is_given_back_is_used_again() {
        let heap = Allocator::new();
        let layout = Layout::from_size_align(100, 8).expect("a layout");
        let place = |byte| Used::new(&heap, layout, byte, false).start.addr();
        let first = place(1);
        assert!((0..100).all(|byte| place(byte) == first));
    }
}
