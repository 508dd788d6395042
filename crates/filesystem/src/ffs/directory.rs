//! Names.
//!
//! A directory is a file of chunks of 512 bytes; an entry takes eight bytes and its name, and lies in one chunk. A new
//! name goes into the first chunk with room. The order of writes keeps names and inodes whole through a crash: a new
//! inode is on the disk before its name, and a name is gone before its inode.
//!
//! # Source
//! ufs_nami.c (namei, maknode, direnter, dirremove) and ufs_syscalls.c (mkdir, rmdir, unlink) of 4.2BSD; dir.h.

use super::{Ffs, FfsError, Inode, InodeNumber, ROOT};
use crate::{How, Touch, What};

/// Bytes that are written at once without being torn.
const CHUNK: u64 = 512;

/// The names in a directory, in the order of their entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// The directory that it is in.
    pub parent: InodeNumber,
    /// Of each chunk: its names.
    pub chunks: Vec<Vec<(String, InodeNumber)>>,
}

impl Directory {
    /// Its names but its own and its parent's.
    pub fn entries(&self) -> impl Iterator<Item = (usize, &str, InodeNumber)> {
        let chunks = self.chunks.iter().enumerate();
        chunks.flat_map(|(chunk, names)| names.iter().map(move |(name, inode)| (chunk, name.as_str(), *inode)))
    }

    fn find(&self, name: &str) -> Option<(usize, InodeNumber)> {
        self.entries().find(|(_, known, _)| *known == name).map(|(chunk, _, inode)| (chunk, inode))
    }

    /// Bytes that are left in a chunk.
    fn room(&self, chunk: usize) -> u64 {
        let own = if chunk == 0 { entry(".") + entry("..") } else { 0 };
        let names: u64 = self.chunks[chunk].iter().map(|(name, _)| entry(name)).sum();
        CHUNK - own - names
    }
}

/// What a name takes.
fn entry(name: &str) -> u64 {
    8 + (name.len() as u64 + 1).next_multiple_of(4)
}

impl Ffs {
    /// Looks a name up in a directory: its inode, and the blocks that are read on the way.
    pub fn look_up(&self, directory: InodeNumber, name: &str) -> Result<(InodeNumber, Vec<Touch>), FfsError> {
        let names = self.names(directory, name)?;
        let (chunk, inode) = names.find(name).ok_or_else(|| FfsError::Absent { name: name.to_owned() })?;
        let mut touches = self.scan(directory, chunk);
        touches.push(self.inode_touch(inode, How::Read));
        Ok((inode, touches))
    }

    /// Makes an empty file.
    pub fn create(&mut self, directory: InodeNumber, name: &str) -> Result<(InodeNumber, Vec<Touch>), FfsError> {
        self.may_enter(directory, name)?;
        let mut touches = self.scan_all(directory);
        let inode = self.take_inode(directory, false, &mut touches)?;
        self.inodes.insert(inode, Inode { links: 1, ..Inode::new(false) });
        self.update(inode, How::Synchronous, &mut touches);
        match self.enter(directory, name, inode, &mut touches) {
            Ok(()) => Ok((inode, touches)),
            Err(error) => {
                self.inodes.remove(&inode);
                self.give_inode(inode, false, &mut touches);
                Err(error)
            }
        }
    }

    /// Makes an empty directory.
    pub fn make_directory(
        &mut self,
        directory: InodeNumber,
        name: &str,
    ) -> Result<(InodeNumber, Vec<Touch>), FfsError> {
        self.may_enter(directory, name)?;
        let mut touches = self.scan_all(directory);
        let inode = self.new_directory(directory, &mut touches)?;
        if let Err(error) = self.enter(directory, name, inode, &mut touches) {
            self.drop_directory(inode, &mut touches);
            return Err(error);
        }
        self.inodes.get_mut(&directory).expect("it is there").links += 1;
        self.update(directory, How::Synchronous, &mut touches);
        Ok((inode, touches))
    }

    /// Takes a name away, and with the last name the file, or an empty directory.
    pub fn remove(&mut self, directory: InodeNumber, name: &str) -> Result<Vec<Touch>, FfsError> {
        let (inode, mut touches) = self.look_up(directory, name)?;
        let is_directory = self.inodes[&inode].directory;
        if is_directory && self.directories[&inode].entries().next().is_some() {
            return Err(FfsError::NotEmpty { name: name.to_owned() });
        }
        let names = self.directories.get_mut(&directory).expect("a name was found in it");
        let (chunk, _) = names.find(name).expect("the name was found");
        names.chunks[chunk].retain(|(known, _)| known != name);
        touches.push(self.chunk_touch(directory, chunk, How::Synchronous));
        if is_directory {
            self.inodes.get_mut(&directory).expect("it is there").links -= 1;
            self.update(directory, How::Delayed, &mut touches);
            self.drop_directory(inode, &mut touches);
        } else {
            self.inodes.get_mut(&inode).expect("it has a name").links -= 1;
            self.truncate(inode, &mut touches);
            self.inodes.remove(&inode);
            self.give_inode(inode, false, &mut touches);
        }
        Ok(touches)
    }

    /// A directory without a name yet; the root is its own parent.
    pub(super) fn new_directory(
        &mut self,
        parent: InodeNumber,
        touches: &mut Vec<Touch>,
    ) -> Result<InodeNumber, FfsError> {
        let inode = self.take_inode(parent, true, touches)?;
        self.inodes.insert(inode, Inode { links: 2, ..Inode::new(true) });
        let first = self.place(inode, 0, CHUNK);
        let placed = first.inspect_err(|_| {
            self.inodes.remove(&inode);
            self.give_inode(inode, true, touches);
        })?;
        touches.extend(placed.touches);
        let parent = if inode == ROOT { ROOT } else { parent };
        self.directories.insert(inode, Directory { parent, chunks: vec![Vec::new()] });
        self.update(inode, How::Synchronous, touches);
        touches.push(self.chunk_touch(inode, 0, How::Synchronous));
        Ok(inode)
    }

    fn drop_directory(&mut self, inode: InodeNumber, touches: &mut Vec<Touch>) {
        self.truncate(inode, touches);
        self.directories.remove(&inode);
        self.inodes.remove(&inode);
        self.give_inode(inode, true, touches);
    }

    fn names(&self, directory: InodeNumber, name: &str) -> Result<&Directory, FfsError> {
        self.directories.get(&directory).ok_or_else(|| FfsError::NotDirectory { name: name.to_owned() })
    }

    fn may_enter(&self, directory: InodeNumber, name: &str) -> Result<(), FfsError> {
        let known = self.names(directory, name)?.find(name).is_some();
        if known || name == "." || name == ".." {
            return Err(FfsError::Exists { name: name.to_owned() });
        }
        match (1..=255).contains(&name.len()) && !name.contains('/') {
            true => Ok(()),
            false => Err(FfsError::Name { length: name.len() }),
        }
    }

    fn enter(
        &mut self,
        directory: InodeNumber,
        name: &str,
        inode: InodeNumber,
        touches: &mut Vec<Touch>,
    ) -> Result<(), FfsError> {
        let names = &self.directories[&directory];
        let chunk = (0..names.chunks.len()).find(|chunk| names.room(*chunk) >= entry(name));
        let chunk = match chunk {
            Some(chunk) => chunk,
            None => {
                let size = names.chunks.len() as u64 * CHUNK;
                let placed = self.place(directory, size / self.block(), size % self.block() + CHUNK)?;
                touches.extend(placed.touches);
                let chunks = &mut self.directories.get_mut(&directory).expect("it is there").chunks;
                chunks.push(Vec::new());
                chunks.len() - 1
            }
        };
        let names = self.directories.get_mut(&directory).expect("it is there");
        names.chunks[chunk].push((name.to_owned(), inode));
        touches.push(self.chunk_touch(directory, chunk, How::Synchronous));
        self.update(directory, How::Delayed, touches);
        Ok(())
    }

    /// The blocks of a directory up to that of a chunk are read.
    fn scan(&self, directory: InodeNumber, chunk: usize) -> Vec<Touch> {
        let per_block = self.block() / CHUNK;
        (0..=chunk as u64 / per_block)
            .map(|block| self.chunk_touch(directory, (block * per_block) as usize, How::Read))
            .collect()
    }

    fn scan_all(&self, directory: InodeNumber) -> Vec<Touch> {
        self.scan(directory, self.directories[&directory].chunks.len() - 1)
    }

    /// The block of a directory that holds a chunk.
    fn chunk_touch(&self, directory: InodeNumber, chunk: usize, how: How) -> Touch {
        let block = chunk as u64 * CHUNK / self.block();
        let (extent, _) = self.map(directory, block).expect("a directory has no holes");
        Touch { what: What::Directory, fragment: extent.fragment, fragments: extent.fragments, how }
    }
}
