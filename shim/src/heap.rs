//! The heap: memory of the program itself, from which pieces are taken one after the other, and are
//! never given back. A call needs some kilobytes. With an allocator for long-lived programs, half
//! of the page faults of a call that is passed through would be for its bookkeeping.
//!
//! What does not fit is left to the allocator of the C library.
#![allow(unsafe_code)] // each block says why it is sound

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::UnsafeCell,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Size in bytes. Pages that are not used cost nothing.
const SIZE: usize = 256 << 10;

// In this order, so that the first page has both.
#[repr(C)]
struct Heap {
    /// Offset of the first byte that was not given away.
    used: AtomicUsize,
    bytes: UnsafeCell<[u8; SIZE]>,
}

// SAFETY: `used` gives each byte away once, so no two threads get the same one.
unsafe impl Sync for Heap {}

#[global_allocator]
static HEAP: Heap = Heap { used: AtomicUsize::new(0), bytes: UnsafeCell::new([0; SIZE]) };

impl Heap {
    fn start(&self) -> *mut u8 {
        self.bytes.get().cast()
    }

    /// Returns memory of this heap; `None` if there is not enough.
    fn take(&self, layout: Layout) -> Option<*mut u8> {
        let start = self.start().addr();
        let begin =
            |used: usize| Some((start + used).checked_next_multiple_of(layout.align())? - start);
        let end = |used: usize| {
            let end = begin(used)?.checked_add(layout.size())?;
            (end <= SIZE).then_some(end)
        };
        let before = self.used.fetch_update(Relaxed, Relaxed, end).ok()?;
        Some(self.start().wrapping_add(begin(before)?))
    }

    fn has(&self, memory: *mut u8) -> bool {
        (self.start().addr()..self.start().addr() + SIZE).contains(&memory.addr())
    }
}

// SAFETY: each piece is aligned and of the size that is requested, since `take` counts from its
// begin to its end, and no other piece overlaps it, since `used` only grows. `System` has the same
// properties, and gets back only what it gave.
unsafe impl GlobalAlloc for Heap {
    /// # Safety
    /// See [`GlobalAlloc`].
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees that the size is not zero.
        self.take(layout).unwrap_or_else(|| unsafe { System.alloc(layout) })
    }

    /// # Safety
    /// See [`GlobalAlloc`].
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // Memory of a static that was never used is zero; to write that would be its first use.
        // SAFETY: the caller guarantees that the size is not zero.
        self.take(layout).unwrap_or_else(|| unsafe { System.alloc_zeroed(layout) })
    }

    /// # Safety
    /// See [`GlobalAlloc`].
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !self.has(memory) {
            // SAFETY: `alloc` got the memory from `System`, with this layout.
            return unsafe { System.realloc(memory, layout, size) };
        }
        // SAFETY: the caller guarantees that the size fits the alignment, and is not zero.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !new.is_null() {
            // SAFETY: both have this size, and the new memory is no part of the old one.
            unsafe { memory.copy_to_nonoverlapping(new, layout.size().min(size)) };
        }
        new
    }

    /// # Safety
    /// See [`GlobalAlloc`].
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if !self.has(memory) {
            // SAFETY: `alloc` got the memory from `System`, with this layout.
            unsafe { System.dealloc(memory, layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_separate_and_as_large_as_needed() {
        let heap = Heap { used: AtomicUsize::new(0), bytes: UnsafeCell::new([0; _]) };
        let mut end = heap.start();
        for (size, align) in [(1, 1), (3, 8), (1, 64), (100, 4096), (8, 8)] {
            let layout = Layout::from_size_align(size, align).unwrap();
            let memory = heap.take(layout).unwrap();
            assert!(memory.addr().is_multiple_of(align) && memory >= end && heap.has(memory));
            end = memory.wrapping_add(size);
        }
        let layout = |size| Layout::from_size_align(size, 1).unwrap();
        let left = SIZE - heap.used.load(Relaxed);
        assert_eq!(heap.take(layout(left + 1)), None);
        assert!(heap.take(layout(left)).is_some(), "a failure takes nothing");
        assert_eq!(heap.take(layout(1)), None);
        heap.used.store(SIZE - 12, Relaxed);
        // SAFETY: the sizes are not zero, and the memory has the layout that is given.
        unsafe {
            let memory = heap.alloc_zeroed(layout(4));
            assert_eq!(memory.cast::<[u8; 4]>().read(), [0; 4]);
            memory.cast::<[u8; 4]>().write(*b"abcd");
            let larger = heap.realloc(memory, layout(4), 8);
            assert!(heap.has(larger) && larger != memory);
            assert_eq!(larger.cast::<[u8; 4]>().read(), *b"abcd");
        }
        // SAFETY: the size is not zero, and the memory is freed with its layout.
        unsafe {
            let memory = heap.alloc(layout(1 << 20));
            assert!(!memory.is_null() && !heap.has(memory));
            memory.add((1 << 20) - 1).write(1);
            let larger = heap.realloc(memory, layout(1 << 20), 2 << 20);
            assert_eq!(larger.add((1 << 20) - 1).read(), 1);
            heap.dealloc(larger, layout(2 << 20));
        }
    }
}
