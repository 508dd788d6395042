//! Where the members of an array are: among the block devices of this machine, and the files and exports that are
//! named.
//!
//! An array is sought by its UUID or its name, as its superblocks have it (`home` finds `host:home`, too). Block
//! devices are those in `/sys/class/block`, partitions included. One that something else is built on (a partition
//! table's whole disk is not; device mapper, md, bcache) is left to that, as its bytes are seen through it. One store
//! is taken once, whatever its names: a loop device over a file that is named is that file, and two over one are one.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use array::md::{SUPERBLOCK_AT, SUPERBLOCK_SIZE, Superblock, Uuid};
use nbd::Uri;
use uring::{Live, LiveOptions};

use crate::examined::name_of;
use crate::given::reason;
use crate::members::{superblock, to_read};
use crate::{LeftOut, Place, RaidError};

/// What is sought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sought {
    /// The array with this identity.
    Array(Uuid),
    /// The array of this name.
    Name(String),
    /// What is in this place.
    Place(Place),
}

impl FromStr for Sought {
    type Err = nbd::UriError;
    fn from_str(text: &str) -> Result<Sought, nbd::UriError> {
        if let Some(uuid) = uuid(text).filter(|_| !Path::new(text).exists()) {
            return Ok(Sought::Array(uuid));
        }
        let is_place = Uri::is_meant(text) || text.contains('/') || Path::new(text).exists();
        if is_place { Ok(Sought::Place(text.parse()?)) } else { Ok(Sought::Name(text.to_owned())) }
    }
}

/// 32 hexadecimal digits in groups, as mdadm (by colons) and others (by hyphens) print them.
fn uuid(text: &str) -> Option<Uuid> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b':' | b'-')).collect();
    if digits.len() != 32 || !digits.is_ascii() {
        return None;
    }
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    Some(Uuid(bytes?.try_into().ok()?))
}

/// The devices of one array.
pub struct Candidates {
    /// Its identity.
    pub array: Uuid,
    /// Its name.
    pub name: String,
    /// Where they are.
    pub places: Vec<Place>,
}

/// What was found.
pub struct Sightings {
    /// By array, in the order in which they were met.
    pub arrays: Vec<Candidates>,
    /// What was named, or would have been taken, and was not.
    pub skipped: Vec<LeftOut>,
}

/// Looks for arrays: those that are sought, or all that are in the places named, and with `scan` all that this machine
/// has.
pub fn seek(sought: &[Sought], scan: bool) -> Result<Sightings, RaidError> {
    let live = Live::start(&LiveOptions::default());
    let mut found = Sightings { arrays: Vec::new(), skipped: Vec::new() };
    let named: Vec<&Place> =
        sought.iter().filter_map(|it| if let Sought::Place(place) = it { Some(place) } else { None }).collect();
    let by_identity = sought.iter().any(|it| !matches!(it, Sought::Place(_)));
    let wanted = |it: &Superblock| {
        let is_it = |sought: &Sought| match sought {
            Sought::Array(uuid) => *uuid == it.array,
            Sought::Name(name) => is_called(&name_of(it), name),
            Sought::Place(_) => false,
        };
        !by_identity || scan || sought.iter().any(is_it)
    };
    let mut taken: Vec<Place> = Vec::new();
    for place in named {
        if taken.iter().any(|other| other.is_same(place)) {
            continue;
        }
        taken.push(place.clone());
        let read = async { superblock(place, &to_read(&live, place).await?).await };
        match live.runtime().block_on(read) {
            Ok(it) if wanted(&it) => found.take(place.clone(), &it),
            Ok(it) => found.skip(place.clone(), format!("it belongs to the array {}, {}", it.array, name_of(&it))),
            Err(error) => found.skip(place.clone(), reason(&error)),
        }
    }
    if scan || by_identity {
        for block in block_devices() {
            let Some(it) = peek(&block.path).filter(&wanted) else { continue };
            let place = Place::Path(block.path.clone());
            if taken.iter().any(|other| other.is_same(&place)) {
                continue;
            }
            let over = block.backing.clone().map(Place::Path);
            if let Some(over) = over.as_ref().filter(|over| taken.iter().any(|other| other.is_same(over))) {
                found.skip(place, format!("it is a loop device over {over}, which is taken already"));
                continue;
            }
            if !block.holders.is_empty() {
                found.skip(place, format!("it is in use by {}", block.holders.join(", ")));
                continue;
            }
            taken.push(place.clone());
            taken.extend(over);
            found.take(place, &it);
        }
    }
    for name in sought.iter().filter_map(|it| if let Sought::Name(name) = it { Some(name) } else { None }) {
        let same: Vec<String> =
            found.arrays.iter().filter(|it| is_called(&it.name, name)).map(|it| it.array.to_string()).collect();
        if same.len() > 1 {
            return Err(RaidError::Ambiguous { name: name.clone(), arrays: same.join(", ") });
        }
    }
    if found.arrays.is_empty() {
        let skipped = found.skipped.iter().map(|it| format!("; {}: {}", it.path, it.why)).collect();
        return Err(RaidError::NoneFound { skipped });
    }
    Ok(found)
}

/// Whether an array has this name, with or without the host that made it before a colon.
fn is_called(it: &str, name: &str) -> bool {
    it == name || it.split_once(':').is_some_and(|(_, own)| own == name)
}

impl Sightings {
    fn take(&mut self, place: Place, it: &Superblock) {
        match self.arrays.iter_mut().find(|array| array.array == it.array) {
            Some(array) => array.places.push(place),
            None => self.arrays.push(Candidates { array: it.array, name: name_of(it), places: vec![place] }),
        }
    }
    fn skip(&mut self, path: Place, why: String) {
        self.skipped.push(LeftOut { path, why });
    }
}

/// A block device of this machine.
struct BlockDevice {
    path: PathBuf,
    /// The file that a loop device begins with.
    backing: Option<PathBuf>,
    /// What is built on it.
    holders: Vec<String>,
}

fn block_devices() -> Vec<BlockDevice> {
    let entries = |path: &Path| -> Vec<String> {
        let all = fs::read_dir(path).into_iter().flatten().flatten();
        let mut names: Vec<String> = all.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let class = Path::new("/sys/class/block");
    let text = |path: PathBuf| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let device = |name: String| {
        let folder = class.join(&name);
        // Without a medium, or a loop device that nothing was given to.
        if text(folder.join("size"))? == "0" {
            return None;
        }
        let at_start = text(folder.join("loop/offset")).is_none_or(|offset| offset == "0");
        Some(BlockDevice {
            // The kernel writes a slash of the name as an exclamation mark.
            path: Path::new("/dev").join(name.replace('!', "/")),
            backing: text(folder.join("loop/backing_file")).filter(|_| at_start).map(PathBuf::from),
            holders: entries(&folder.join("holders")),
        })
    };
    entries(class).into_iter().filter_map(device).collect()
}

/// The superblock on a block device, if it has one and may be read.
fn peek(path: &Path) -> Option<Superblock> {
    let mut bytes = vec![0; SUPERBLOCK_SIZE.as_usize()];
    File::open(path).ok()?.read_exact_at(&mut bytes, SUPERBLOCK_AT.get()).ok()?;
    Superblock::parse(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_uuid_a_path_or_a_name() {
        let one = Uuid([0x0b, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(one.to_string().parse(), Ok(Sought::Array(one)));
        assert_eq!("0b010203-0405-0607-0809-0a0b0c0d0e0f".parse(), Ok(Sought::Array(one)));
        assert_eq!("home".parse(), Ok(Sought::Name("home".into())));
        assert!(matches!("./home".parse(), Ok(Sought::Place(_))));
        assert!(matches!("nbd://host/a".parse(), Ok(Sought::Place(_))));
        assert!(matches!("Cargo.toml".parse(), Ok(Sought::Place(_))));
    }

    #[test]
    fn a_name_is_found_with_and_without_its_host() {
        assert!(is_called("host:home", "home") && is_called("host:home", "host:home") && is_called("home", "home"));
        assert!(
            !is_called("host:home", "host") && !is_called("host:home", "other:home") && !is_called("homer", "home")
        );
    }
}
