//! One slice that the tasks of a pool's run write to, each to parts of its own.

use std::{marker::PhantomData, ops::Range};

/// A slice lent to several tasks at once.
pub(crate) struct Disjoint<'a, T> {
    data: *mut T,
    len: usize,
    lent: PhantomData<&'a mut [T]>,
}

// SAFETY: the wrapper hands out nothing but mutable slices, which is sound across threads as long
// as they do not overlap: that is what `part` asks of its caller.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self {
            data: slice.as_mut_ptr(),
            len: slice.len(),
            lent: PhantomData,
        }
    }

    /// A part of the slice.
    ///
    /// # Safety
    /// While the part is in use, no other part that overlaps it is.
    ///
    /// # Panics
    /// `range` ends beyond the slice.
    #[expect(
        clippy::mut_from_ref,
        reason = "the point of it: parts that do not overlap"
    )]
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: within the slice (checked above), which is borrowed mutably for 'a and so longer
        // than `self`; the caller sees to it that nothing else refers to this part.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(range.start), range.len()) }
    }
}
