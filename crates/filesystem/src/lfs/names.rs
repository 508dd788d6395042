//! Names.
//!
//! A directory is a file whose blocks hold names and inode numbers; an entry takes eight bytes and its name, rounded up
//! to four. A new name goes into the first block with room. A path is the names of directories and of a file, with '/'
//! between them; an empty path is the root.
//!
//! Nothing here goes to the log: blocks of directories become dirty, inodes are noted as created or removed, and the
//! next flush writes them.

use std::collections::BTreeMap;

use super::parameters::INODE;
use super::{Log, LogError, ROOT};

/// Bytes of a name, at most.
const NAME_MOST: usize = 255;

/// The names in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Directory {
    /// Of each block: its names, and the inodes that they name.
    pub blocks: Vec<BTreeMap<String, u64>>,
    /// Of each block: the bytes of its entries.
    used: Vec<u64>,
    /// The block that a name is in.
    places: BTreeMap<String, u64>,
}

fn entry(name: &str) -> u64 {
    8 + (name.len() as u64).next_multiple_of(4)
}

impl Directory {
    /// A directory whose blocks hold these names.
    pub fn read(blocks: Vec<BTreeMap<String, u64>>) -> Directory {
        let used = blocks.iter().map(|names| names.keys().map(|name| entry(name)).sum()).collect();
        let names = |(block, names): (u64, &BTreeMap<String, u64>)| {
            names.keys().map(move |name| (name.clone(), block)).collect::<Vec<_>>()
        };
        let places = (0..).zip(&blocks).flat_map(names).collect();
        Directory { blocks, used, places }
    }

    /// The inode that a name names.
    pub fn get(&self, name: &str) -> Option<u64> {
        let block = *self.places.get(name)?;
        self.blocks[block as usize].get(name).copied()
    }

    /// The inodes that its names name.
    pub fn files(&self) -> impl Iterator<Item = u64> {
        self.blocks.iter().flat_map(BTreeMap::values).copied()
    }

    /// The block that a new name would go into.
    fn room(&self, block: u64, name: &str) -> u64 {
        let fits = |used: &u64| used + entry(name) <= block;
        self.used.iter().position(fits).unwrap_or(self.used.len()) as u64
    }

    fn insert(&mut self, block: u64, name: &str, file: u64) {
        if block as usize == self.blocks.len() {
            self.blocks.push(BTreeMap::new());
            self.used.push(0);
        }
        self.blocks[block as usize].insert(name.to_owned(), file);
        self.used[block as usize] += entry(name);
        self.places.insert(name.to_owned(), block);
    }

    fn remove(&mut self, name: &str) -> u64 {
        let block = self.places.remove(name).expect("a name that is removed has been looked up");
        self.blocks[block as usize].remove(name);
        self.used[block as usize] -= entry(name);
        block
    }
}

/// The path of the directory that a path's last name is in, and that name.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl Log {
    /// Makes an empty file, and gives its inode number. The time that this takes at the disk comes with a flush.
    pub fn create(&mut self, path: &str) -> Result<u64, LogError> {
        self.make(path, None)
    }

    /// Makes an empty directory, and gives its inode number.
    pub fn create_directory(&mut self, path: &str) -> Result<u64, LogError> {
        self.make(path, Some(Directory::default()))
    }

    /// The inode number of what a path names.
    pub fn lookup(&self, path: &str) -> Result<u64, LogError> {
        let mut file = ROOT;
        for name in path.split('/').filter(|_| !path.is_empty()) {
            let found = self.directory(file, path)?.get(name);
            file = found.ok_or_else(|| LogError::Absent { path: path.to_owned() })?;
        }
        Ok(file)
    }

    /// Removes a file, or a directory that is empty. Its inode number may name another file after the next flush.
    pub fn remove(&mut self, path: &str) -> Result<(), LogError> {
        let file = self.lookup(path)?;
        if file == ROOT {
            return Err(LogError::Root);
        }
        let removed = self.file(file).expect("a name names a file");
        if removed.directory.as_ref().is_some_and(|directory| directory.files().next().is_some()) {
            return Err(LogError::NotEmpty { path: path.to_owned() });
        }
        self.claimed -= removed.claimed() * self.layout.block + INODE;
        let (parent, name) = split(path);
        let parent = self.lookup(parent)?;
        let block = self.directory_mut(parent).remove(name);
        self.make_dirty(parent, block);
        let dirty: Vec<(u64, u64)> = self.dirty.range((file, 0)..=(file, u64::MAX)).map(|(key, _)| *key).collect();
        dirty.iter().for_each(|key| _ = self.dirty.remove(key));
        if self.created.remove(&file) {
            assert_eq!(self.map.get(file), None, "a created file is not in the log");
            self.forget(file);
        } else {
            self.removed.insert(file);
        }
        Ok(())
    }

    /// The names in a directory, in the order of their blocks.
    pub fn names(&self, path: &str) -> Result<Vec<String>, LogError> {
        let directory = self.directory(self.lookup(path)?, path)?;
        Ok(directory.blocks.iter().flat_map(BTreeMap::keys).cloned().collect())
    }

    fn make(&mut self, path: &str, kind: Option<Directory>) -> Result<u64, LogError> {
        let (parent, name) = split(path);
        if name.is_empty() || name.len() > NAME_MOST {
            return Err(LogError::Name { length: name.len() });
        }
        let parent = self.lookup(parent)?;
        let directory = self.directory(parent, path)?;
        if directory.get(name).is_some() {
            return Err(LogError::Exists { path: path.to_owned() });
        }
        let block = directory.room(self.layout.block, name);
        let inodes = self.parameters.inodes;
        let next = Some(self.files.len() as u64).filter(|next| *next < inodes);
        let file = self.free.first().copied().or(next).ok_or(LogError::NoInodes { inodes })?;
        self.claim(parent, block, INODE)?;
        match self.free.remove(&file) {
            true => {}
            false => self.files.push(None),
        }
        self.files[file as usize] = Some(super::inode::File { directory: kind, ..Default::default() });
        self.created.insert(file);
        self.directory_mut(parent).insert(block, name, file);
        self.make_dirty(parent, block);
        Ok(file)
    }

    fn directory(&self, file: u64, path: &str) -> Result<&Directory, LogError> {
        let file = self.file(file).expect("a name names a file");
        file.directory.as_ref().ok_or_else(|| LogError::NotDirectory { path: path.to_owned() })
    }

    fn directory_mut(&mut self, file: u64) -> &mut Directory {
        self.file_mut(file).directory.as_mut().expect("names are changed in a directory")
    }
}
