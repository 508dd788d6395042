//! Which places of the kernel's table of registered files are taken.
//!
//! A place is free again when its file is closed *and* no request names it: a request abandoned by its future is still
//! on its way, and would otherwise reach whichever file took the place.

/// The table of one ring.
pub(crate) struct Table {
    places: Vec<Place>,
}

#[derive(Clone, Copy, Default)]
struct Place {
    open: bool,
    users: u32,
}

impl Table {
    /// A table of `size` free places.
    pub fn new(size: u32) -> Table {
        Table { places: vec![Place::default(); size as usize] }
    }

    /// How many places there are.
    pub fn size(&self) -> u32 {
        self.places.len() as u32
    }

    /// A free place.
    pub fn free(&self) -> Option<u32> {
        self.places.iter().position(|place| !place.open && place.users == 0).map(|index| index as u32)
    }

    /// A file takes the place.
    pub fn open(&mut self, index: u32) {
        let place = &mut self.places[index as usize];
        assert!(!place.open && place.users == 0, "a place belongs to one file");
        place.open = true;
    }

    /// The file is closed. Returns the place if nothing names it any more: then the kernel must be told to forget it.
    #[must_use]
    pub fn close(&mut self, index: u32) -> Option<u32> {
        let place = &mut self.places[index as usize];
        assert!(place.open, "a file is closed once");
        place.open = false;
        (place.users == 0).then_some(index)
    }

    /// A request names the place.
    pub fn enter(&mut self, index: u32) {
        let place = &mut self.places[index as usize];
        assert!(place.open, "requests go to open files");
        place.users += 1;
    }

    /// Whether no request names the place.
    pub fn is_unused(&self, index: u32) -> bool {
        self.places[index as usize].users == 0
    }

    /// A request is over. Returns the place as [`close`](Table::close) does.
    #[must_use]
    pub fn leave(&mut self, index: u32) -> Option<u32> {
        let place = &mut self.places[index as usize];
        assert!(place.users > 0, "a request leaves once");
        place.users -= 1;
        (!place.open && place.users == 0).then_some(index)
    }
}
