//! A slice whose parts several tasks write at once.

use std::{marker::PhantomData, ops::Range};

/// An exclusively borrowed slice that tasks of a [pool](crate::pool) share out among them.
pub(crate) struct Parts<'a, T> {
    start: *mut T,
    len: usize,
    _slice: PhantomData<&'a mut [T]>,
}

// SAFETY: it only hands out exclusive slices of elements that may go to another thread; that they
// don't overlap is promised by who takes them.
unsafe impl<T: Send> Sync for Parts<'_, T> {}

impl<'a, T> Parts<'a, T> {
    /// All of `slice` is to be shared out.
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self {
            start: slice.as_mut_ptr(),
            len: slice.len(),
            _slice: PhantomData,
        }
    }

    /// One part of it.
    ///
    /// # Safety
    /// No other part that overlaps this one is in use as long as it is.
    ///
    /// # Panics
    /// The part ends beyond the slice.
    #[expect(
        clippy::mut_from_ref,
        reason = "parts that don't overlap are exclusive"
    )]
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: within the slice, which is borrowed for longer than `self`, and by the caller's
        // promise nobody else has these elements.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}
