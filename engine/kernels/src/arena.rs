//! Memory for weights and keys: taken from the system once, zeroed, in huge pages where it gives them.
//!
//! A sweep over many small pages loses a quarter of the memory's bandwidth; a mapped file cannot have
//! large ones. So weights are copied into one anonymous mapping that asks for them. A page is taken
//! when it is first written: what is never written costs nothing.

use std::{
    io,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    ptr::NonNull,
    sync::Arc,
};

use crate::element::Element;

/// A huge page of x86-64, and of ARM with small pages of 4 KiB. Where they differ it is a good
/// alignment still.
const HUGE_PAGE: usize = 2 << 20;
/// Where slabs begin: a cache line, which is also the widest vector.
const LINE: usize = 64;

/// One region that slabs are cut from, front to back.
#[derive(Debug)]
pub struct Arena {
    region: Arc<Region>,
    /// Bytes that are given away; always a multiple of [`LINE`].
    used: usize,
}

/// A slab of an arena: zeroed at first, its own for as long as it lives, aligned to 64 bytes.
#[derive(Debug)]
pub struct Slab<T> {
    start: NonNull<T>,
    len: usize,
    /// Keeps the memory; the elements are this slab's.
    _region: Arc<Region>,
    _elements: PhantomData<T>,
}

impl Arena {
    /// Reserves `bytes`, in whole lines of 64; pages are taken as they are first written.
    ///
    /// # Errors
    /// The system has no such memory.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let lines = bytes.checked_next_multiple_of(LINE);
        let lines = lines.ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            region: Arc::new(Region::new(lines)?),
            used: 0,
        })
    }

    /// Cuts off `len` zeroed elements, in whole lines of 64 bytes; or none if the rest is too small.
    pub fn take<T: Element>(&mut self, len: usize) -> Option<Slab<T>> {
        let rest = self.region.bytes - self.used;
        let bytes = len.checked_mul(size_of::<T>()).filter(|it| *it <= rest)?;
        // SAFETY: `used` is at most the region's `bytes`, so this stays within it or at its end.
        let start = unsafe { self.region.start.add(self.used) };
        // What is left is a multiple of a line, so that it holds the last line too.
        self.used += bytes.next_multiple_of(LINE);
        Some(Slab {
            start: start.cast(),
            len,
            _region: Arc::clone(&self.region),
            _elements: PhantomData,
        })
    }
}

impl<T> Deref for Slab<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `Arena::take`, the only maker of slabs, checked that `len` elements from `start`
        // lie within the region, which lives as long as `_region`. `start` is aligned: the region is
        // to a huge page, `used` is a multiple of a line, and no `Element` is wider than that. The
        // bytes were zero, which is a value of every `Element`. No other slab has them, as `used`
        // only grows, so that `self` alone governs access to them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Slab<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

// SAFETY: a slab owns its elements as a `Box<[T]>` does; the region behind it is only freed.
unsafe impl<T: Send> Send for Slab<T> {}
// SAFETY: as above; through a shared slab there are only shared elements.
unsafe impl<T: Sync> Sync for Slab<T> {}

/// Zeroed memory from the system, given back when the last slab is gone.
#[derive(Debug)]
struct Region {
    /// Aligned to [`HUGE_PAGE`].
    start: NonNull<u8>,
    /// Bytes from there on, a multiple of [`LINE`].
    bytes: usize,
    _source: Source,
}

// SAFETY: the region is owned, and no code reads or writes through it but slabs, whose ranges are
// disjoint; freeing it needs no particular thread.
unsafe impl Send for Region {}
// SAFETY: as above; its fields never change.
unsafe impl Sync for Region {}

#[cfg(not(all(unix, not(miri))))]
use allocated::Source;
#[cfg(all(unix, not(miri)))]
use mapped::Source;

/// Memory mapped from the system.
#[cfg(all(unix, not(miri)))]
mod mapped {
    use std::{ffi::c_void, io, num::NonZeroUsize, ptr::NonNull};

    use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

    use super::{HUGE_PAGE, Region};

    /// The mapping as the system gave it, its alignment's padding included.
    #[derive(Debug)]
    pub(super) struct Source {
        start: NonNull<c_void>,
        bytes: usize,
    }

    impl Region {
        pub(super) fn new(bytes: usize) -> io::Result<Self> {
            // The system aligns to small pages only, so that some must be left unused in front.
            let whole = bytes.checked_add(HUGE_PAGE).and_then(NonZeroUsize::new);
            let whole = whole.ok_or(io::ErrorKind::OutOfMemory)?;
            let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
            // SAFETY: a new private mapping at a place of the system's choice touches no other.
            let start = unsafe { mmap_anonymous(None, whole, protection, MapFlags::MAP_PRIVATE) }?;
            let padding = start.as_ptr().addr().next_multiple_of(HUGE_PAGE) - start.as_ptr().addr();
            let source = Source {
                start,
                bytes: whole.get(),
            };
            // SAFETY: the padding is less than a huge page, by which the mapping is larger.
            let start = unsafe { start.cast::<u8>().add(padding) };
            ask_for_huge_pages(start, bytes);
            Ok(Self {
                start,
                bytes,
                _source: source,
            })
        }
    }

    impl Drop for Source {
        fn drop(&mut self) {
            // SAFETY: the mapping is exactly as it was made, and nobody is left who uses it: a
            // region goes with its last slab. It can't fail, and nothing could be done if it did.
            let _ = unsafe { munmap(self.start, self.bytes) };
        }
    }

    /// A wish, for the whole pages among `bytes`: the rest would take a huge page for little.
    /// Systems that refuse it give small pages.
    #[cfg(target_os = "linux")]
    fn ask_for_huge_pages(start: NonNull<u8>, bytes: usize) {
        use nix::sys::mman::{MmapAdvise, madvise};

        let whole = bytes / HUGE_PAGE * HUGE_PAGE;
        // SAFETY: the range lies within a mapping of ours, and this advice changes no content.
        let _ = unsafe { madvise(start.cast(), whole, MmapAdvise::MADV_HUGEPAGE) };
    }

    #[cfg(not(target_os = "linux"))]
    fn ask_for_huge_pages(_start: NonNull<u8>, _bytes: usize) {}
}

/// Memory of the allocator: elsewhere, and where an interpreter checks this crate.
#[cfg(not(all(unix, not(miri))))]
mod allocated {
    use std::{
        alloc::{Layout, alloc_zeroed, dealloc},
        io,
        ptr::NonNull,
    };

    use super::{HUGE_PAGE, Region};

    #[derive(Debug)]
    pub(super) struct Source {
        start: NonNull<u8>,
        layout: Layout,
    }

    impl Region {
        pub(super) fn new(bytes: usize) -> io::Result<Self> {
            let layout = Layout::from_size_align(bytes.max(1), HUGE_PAGE)
                .map_err(|_| io::ErrorKind::OutOfMemory)?;
            // SAFETY: the layout has a size that is not zero.
            let start = NonNull::new(unsafe { alloc_zeroed(layout) });
            let start = start.ok_or(io::ErrorKind::OutOfMemory)?;
            let source = Source { start, layout };
            Ok(Self {
                start,
                bytes,
                _source: source,
            })
        }
    }

    impl Drop for Source {
        fn drop(&mut self) {
            // SAFETY: allocated with this layout, and nobody is left who uses it.
            unsafe { dealloc(self.start.as_ptr(), self.layout) };
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use half::bf16;

    use super::*;

    #[test]
    fn slabs_are_zeroed_aligned_and_apart() {
        let mut arena = Arena::new(3 * LINE).unwrap();
        let mut a = arena.take::<bf16>(5).unwrap();
        let mut b = arena.take::<f32>(16).unwrap();
        assert!(a.iter().all(|it| *it == bf16::ZERO) && b.iter().all(|it| *it == 0.0));
        for address in [a.as_ptr().addr(), b.as_ptr().addr()] {
            assert!(address.is_multiple_of(LINE));
        }
        a.fill(bf16::ONE);
        b.fill(2.0);
        assert!(a.iter().all(|it| *it == bf16::ONE) && b.iter().all(|it| *it == 2.0));
        assert_eq!((a.len(), b.len()), (5, 16));
    }

    #[test]
    fn a_full_arena_gives_none() {
        let mut arena = Arena::new(2 * LINE + 1).unwrap();
        assert!(arena.take::<f32>(usize::MAX / 2).is_none());
        assert!(arena.take::<f32>(49).is_none());
        let first = arena.take::<f32>(17).unwrap();
        assert!(arena.take::<f32>(17).is_none());
        let last = arena.take::<bf16>(1).unwrap();
        assert!(arena.take::<bf16>(1).is_none());
        assert_eq!(arena.take::<f32>(0).unwrap().len(), 0);
        assert_eq!((first.len(), last.len()), (17, 1));
    }

    #[test]
    fn slabs_outlive_their_arena_and_move_between_threads() {
        let mut arena = Arena::new(HUGE_PAGE + LINE).unwrap();
        let mut slab = arena.take::<f32>(HUGE_PAGE / 4 + 16).unwrap();
        drop(arena);
        let last = std::thread::spawn(move || {
            let last = slab.last_mut().unwrap();
            *last += 1.0;
            *last
        });
        assert_eq!(last.join().unwrap(), 1.0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "an interpreter gives up where a system says no")]
    fn too_much_is_an_error() {
        assert!(Arena::new(usize::MAX).is_err());
        assert!(Arena::new(usize::MAX / 4).is_err());
        assert!(Arena::new(0).unwrap().take::<f32>(0).is_some());
    }
}
