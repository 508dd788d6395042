//! Counting what is under way: whoever gives up is counted out as well.

use std::cell::Cell;

/// Counts one until it is dropped.
pub(crate) struct UnderWay<'a>(&'a Cell<u64>);

impl<'a> UnderWay<'a> {
    pub fn new(count: &'a Cell<u64>) -> UnderWay<'a> {
        count.set(count.get() + 1);
        UnderWay(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        assert!(self.0.get() > 0, "what is under way was counted");
        self.0.set(self.0.get() - 1);
    }
}
