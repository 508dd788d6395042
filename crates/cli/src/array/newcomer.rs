//! What is to become part of an array that exists: named by an option, twice if what it carries may be lost.

use raid::{NewPlace, Permits, Place};
use units::Bytes;

use crate::array::refused;
use crate::fail::Failure;
use crate::permit;

/// A file or device, and what the user said of it.
pub struct Newcomer<'a> {
    /// What was named.
    pub place: &'a Place,
    times_named: u32,
    size: Option<Bytes>,
    destroy_data: bool,
}

impl<'a> Newcomer<'a> {
    /// What an option names; `None` if it was not given. It may name one thing, any number of times.
    pub fn named(
        option: &str,
        names: &'a [Place],
        size: Option<Bytes>,
        destroy_data: bool,
    ) -> Result<Option<Newcomer<'a>>, Failure> {
        let Some(place) = names.first() else { return Ok(None) };
        if let Some(other) = names.iter().find(|other| *other != place) {
            let once = match place.is_same(other) {
                true => "spelled differently: spell it the same if what it carries may be lost, or name it once",
                false => "which are two: name one; name it twice only if what it carries may be lost",
            };
            return Err(refused(format!("{option} names {place} and {other}, {once}")));
        }
        Ok(Some(Newcomer { place, times_named: names.len() as u32, size, destroy_data }))
    }

    /// The same for the array's server.
    pub fn for_server(&self) -> NewPlace {
        NewPlace {
            place: self.place.absolute().to_string(),
            size: self.size,
            destroy_data: self.destroy_data,
            times_named: self.times_named,
        }
    }

    /// Leave to write to it; a file is made if there is none.
    pub fn permit(&self) -> Result<Permits, Failure> {
        let place = self.place;
        match (place.path().filter(|path| !path.exists()), self.size) {
            (None, _) => permit::places((0..self.times_named).map(|_| place), self.destroy_data),
            (Some(path), Some(size)) => permit::create(path, size),
            (Some(_), None) => {
                let next = "name one that exists, or give --size to have a file made";
                Err(refused(format!("{place}: there is no such file or device; {next}")))
            }
        }
    }
}
