//! Level 10: chunks in turn over all members, each stored several times.
//!
//! *Near* copies lie side by side in one row. *Far* copies lie in another part of the members, as many members on:
//! reads then go at the speed of level 0 from the fast outer part, writes seek. *Offset* is far with the parts
//! interleaved row by row. Near and far can be combined; the product is the number of copies. Members need not be a
//! multiple of the copies: chunks go round. (Where near copies go round in an offset layout, md puts two chunks in one
//! place; here they do not collide, and the metadata refuses to call that an md array.)

use super::GeometryError;

/// How far copies lie from one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Spread {
    /// Each member is cut into as many parts as there are far copies.
    Far,
    /// Each row is followed by its copies.
    Offset,
}

/// How often, and where, each chunk is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Copies {
    /// Copies side by side.
    pub near: u32,
    /// Copies elsewhere; 1 for none but the first.
    pub far: u32,
    /// Where the far ones lie; of no effect if there is one.
    pub spread: Spread,
}

impl Copies {
    /// `n` copies side by side: md's `n2`, `n3`.
    pub const fn near(n: u32) -> Copies {
        Copies { near: n, far: 1, spread: Spread::Far }
    }
    /// `n` copies in different parts of the members: md's `f2`, `f3`.
    pub const fn far(n: u32) -> Copies {
        Copies { near: 1, far: n, spread: Spread::Far }
    }
    /// `n` copies in successive rows: md's `o2`, `o3`.
    pub const fn offset(n: u32) -> Copies {
        Copies { near: 1, far: n, spread: Spread::Offset }
    }

    /// How many copies there are in all.
    pub fn count(self) -> u32 {
        self.near * self.far
    }

    pub(super) fn check(self, members: usize) -> Result<(), GeometryError> {
        let product = u64::from(self.near) * u64::from(self.far);
        if product == 0 || product > members as u64 {
            return Err(GeometryError::Copies { near: self.near, far: self.far, members });
        }
        if self.spread == Spread::Offset && self.far < 2 {
            return Err(GeometryError::OffsetOfOne);
        }
        Ok(())
    }

    /// How many chunks an array of `rows` rows holds.
    pub(super) fn chunks(self, members: usize, rows: u64) -> u64 {
        rows / u64::from(self.far) * members as u64 / u64::from(self.near)
    }

    /// Rows from one far copy to the next, where they lie in parts of their own. (md computes it from the number of
    /// chunks, rounded up; as near times far is at most the number of members, that is the same.)
    fn part(self, rows: u64) -> u64 {
        rows / u64::from(self.far)
    }

    /// Member and row of a copy: far copies of the first near one come first, as md lists them.
    pub(super) fn place(self, members: usize, rows: u64, chunk: u64, copy: u32) -> (usize, u64) {
        let (near, far) = (copy / self.far, copy % self.far);
        let position = chunk * u64::from(self.near) + u64::from(near);
        let (member, row) = (position % members as u64, position / members as u64);
        let shifted = (member + u64::from(far) * u64::from(self.near)) % members as u64;
        let row = match self.spread {
            Spread::Offset => row * u64::from(self.far) + u64::from(far),
            Spread::Far => row + u64::from(far) * self.part(rows),
        };
        (shifted as usize, row)
    }

    /// The members that hold a chunk: as many neighbours as there are copies, the first member after the last.
    pub(super) fn holders(self, members: usize, chunk: u64) -> impl Iterator<Item = usize> {
        let first = chunk * u64::from(self.near);
        (0..u64::from(self.count())).map(move |copy| ((first + copy) % members as u64) as usize)
    }

    /// The chunk of which a copy lies at a member's row, if one does.
    pub(super) fn chunk_at(self, members: usize, rows: u64, member: usize, row: u64) -> Option<u64> {
        let part = self.part(rows);
        let (far, row) = match self.spread {
            Spread::Offset => (row % u64::from(self.far), row / u64::from(self.far)),
            Spread::Far if part == 0 => return None,
            Spread::Far => (row / part, row % part),
        };
        if far >= u64::from(self.far) {
            return None;
        }
        let shift = far * u64::from(self.near) % members as u64;
        let first = (member as u64 + members as u64 - shift) % members as u64;
        let chunk = (row * members as u64 + first) / u64::from(self.near);
        (chunk < self.chunks(members, rows)).then_some(chunk)
    }
}
