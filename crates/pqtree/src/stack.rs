//! A stack with spare entries after its top, so that keeping or dropping an item needs no branch.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// A vector that initialises its memory once. Clearing it and changing its length only set the
/// length; items after the end are left over from earlier use.
#[derive(Debug)]
pub(crate) struct Stack<T> {
    items: Vec<T>,
    len: usize,
}

impl<T> Default for Stack<T> {
    fn default() -> Self {
        Self { items: Vec::new(), len: 0 }
    }
}

impl<T: Copy> Stack<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    pub(crate) fn iter(&self) -> core::slice::Iter<'_, T> {
        self.items[..self.len].iter()
    }

    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        self.items[..self.len].get(place as usize)
    }

    #[inline]
    pub(crate) fn push(&mut self, item: T) {
        match self.items.get_mut(self.len) {
            Some(free) => *free = item,
            None => self.items.push(item),
        }
        self.len += 1;
    }

    /// Returns all items, followed by `more` entries of unspecified content. To keep entries that
    /// it writes there, the caller calls [`set_len`](Self::set_len).
    #[inline]
    pub(crate) fn with_room(&mut self, more: usize, fill: T) -> &mut [T] {
        let needed = self.len + more;
        if self.items.len() < needed {
            self.grow(needed, fill);
        }
        &mut self.items[..needed]
    }

    #[cold]
    fn grow(&mut self, needed: usize, fill: T) {
        self.items.resize(needed.max(2 * self.items.len()), fill);
    }

    /// Sets the length, which keeps or drops items at the top.
    pub(crate) fn set_len(&mut self, len: usize) {
        debug_assert!(len <= self.items.len(), "the caller has made room");
        self.len = len;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.items.capacity() * size_of::<T>()
    }
}

impl<T> Index<u32> for Stack<T> {
    type Output = T;

    fn index(&self, place: u32) -> &T {
        debug_assert!((place as usize) < self.len, "the item is below the top");
        &self.items[place as usize]
    }
}

impl<T> IndexMut<u32> for Stack<T> {
    fn index_mut(&mut self, place: u32) -> &mut T {
        debug_assert!((place as usize) < self.len, "the item is below the top");
        &mut self.items[place as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::Stack;

    #[test]
    fn items_after_the_end_appear_only_when_the_length_grows() {
        let mut stack = Stack::default();
        stack.push(1);
        stack.with_room(3, 0)[1..].copy_from_slice(&[2, 3, 4]);
        assert_eq!((stack.len(), stack.get(1)), (1, None));
        stack.set_len(3);
        assert!(stack.iter().eq(&[1, 2, 3]));
        stack.push(5);
        assert_eq!((stack[3], stack.get(3)), (5, Some(&5)));
        stack.clear();
        assert_eq!((stack.len(), stack.iter().next()), (0, None));
    }
}
