//! The raw file: rows on disk in the cheapest form, for when memory is used up or the process is killed.
//!
//! ```text
//! "arraylab rows\n"   14 bytes          what it is, also to a reader's eye
//! version             u16               1
//! row size            u32               56
//! length of meta      u32
//! meta                JSON, UTF-8       run, clock, origin, labels: the file stands alone
//! then blocks, each:
//!   "ROWS"            4 bytes
//!   log, zero         u16, u16          which thread's log
//!   rows              u32
//!   zero              u32
//!   rows x 56 bytes                     fields in the order of `Row`; the priority; the number of the request
//! ```
//! All numbers are little-endian. A block is appended by one `write`; after a kill the last one may be cut off, and the
//! rows that are whole are given. Checksums were left out: against a kill they add nothing, and after a power cut the
//! file is as good as the file system's promise for data that was not flushed.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use units::{Bytes, Instant};

use crate::{Labels, Meta, Phase, Row};

const MAGIC: &[u8; 14] = b"arraylab rows\n";
const VERSION: u16 = 1;
const ROW_BYTES: usize = size_of::<Row>();
const BLOCK_MAGIC: &[u8; 4] = b"ROWS";
const BLOCK_HEADER: usize = 16;

/// Why a raw file cannot be made or read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum RawError {
    /// The kernel refuses.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// Something else, or a header that was cut off.
    #[error("{} is not a raw file of rows: it does not start with the whole header of one; give the records.raw of a run folder", path.display())]
    NotRows { path: PathBuf },
    /// Written by a later version.
    #[error("{} is a raw file of version {version}; this program reads version {VERSION}: use the arraylab that wrote it, or a newer one", path.display())]
    Newer { path: PathBuf, version: u16 },
    /// Neither a row nor the end stands where one must.
    #[error("{} is damaged at byte {offset}: {what}; the rows before it can be read", path.display())]
    Damaged { path: PathBuf, offset: u64, what: &'static str },
}

/// Where the rows of one block lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    /// The log they came from.
    pub log: u16,
    /// Where the first row starts.
    offset: u64,
    rows: usize,
}

/// A raw file of rows, open for reading.
#[derive(Debug)]
pub struct RawFile {
    path: PathBuf,
    file: File,
    blocks: Vec<Block>,
    labels: Labels,
    /// Why reading ended before the file did, if it did.
    damage: Option<RawError>,
}

impl RawFile {
    /// Opens the file, also while it is being written, and finds its blocks. A tail that was cut off is left out; for
    /// anything worse see [`RawFile::damage`].
    pub fn open(path: &Path) -> Result<(RawFile, Meta), RawError> {
        let io = |source| RawError::Io { path: path.to_owned(), source };
        let not_rows = || RawError::NotRows { path: path.to_owned() };
        let mut file = File::open(path).map_err(io)?;
        let end = file.metadata().map_err(io)?.len();
        let mut head = [0; 24];
        file.read_exact(&mut head).map_err(|_| not_rows())?;
        if &head[..14] != MAGIC {
            return Err(not_rows());
        }
        let version = u16::from_le_bytes([head[14], head[15]]);
        if version > VERSION {
            return Err(RawError::Newer { path: path.to_owned(), version });
        }
        let row_bytes = u32::from_le_bytes(head[16..20].try_into().expect("four bytes"));
        let meta_bytes = u64::from(u32::from_le_bytes(head[20..24].try_into().expect("four bytes")));
        if row_bytes as usize != ROW_BYTES || meta_bytes > end - 24 {
            return Err(not_rows());
        }
        let mut meta = vec![0; meta_bytes as usize];
        file.read_exact(&mut meta).map_err(io)?;
        let meta: Meta = serde_json::from_slice(&meta).map_err(|_| not_rows())?;
        let labels = meta.labels.clone();
        let mut raw = RawFile { path: path.to_owned(), file, blocks: Vec::new(), labels, damage: None };
        raw.find_blocks(24 + meta_bytes, end).map_err(io)?;
        Ok((raw, meta))
    }

    fn find_blocks(&mut self, mut offset: u64, end: u64) -> io::Result<()> {
        while offset + BLOCK_HEADER as u64 <= end {
            let mut header = [0; BLOCK_HEADER];
            self.file.read_exact_at(&mut header, offset)?;
            if &header[..4] != BLOCK_MAGIC {
                let what = "no block of rows starts here";
                self.damage = Some(RawError::Damaged { path: self.path.clone(), offset, what });
                break;
            }
            let log = u16::from_le_bytes([header[4], header[5]]);
            let rows = u64::from(u32::from_le_bytes(header[8..12].try_into().expect("four bytes")));
            offset += BLOCK_HEADER as u64;
            let whole = rows.min((end - offset) / ROW_BYTES as u64);
            self.blocks.push(Block { log, offset, rows: whole as usize });
            offset += rows * ROW_BYTES as u64;
        }
        Ok(())
    }

    /// Where the file lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many rows can be read.
    pub fn rows(&self) -> u64 {
        self.blocks.iter().map(|block| block.rows as u64).sum()
    }

    /// What stands in the way of reading the rest, if the file is damaged and not merely cut off.
    pub fn damage(&self) -> Option<&RawError> {
        self.damage.as_ref()
    }

    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Replaces the contents of `rows` by those of a block.
    pub(crate) fn read(&self, block: usize, rows: &mut Vec<Row>) -> Result<(), RawError> {
        let block = self.blocks[block];
        rows.clear();
        let mut file = &self.file;
        let io = |source| RawError::Io { path: self.path.clone(), source };
        file.seek(SeekFrom::Start(block.offset)).map_err(io)?;
        let mut reader = BufReader::with_capacity(1 << 18, file);
        let mut bytes = [0; ROW_BYTES];
        for row in 0..block.rows as u64 {
            reader.read_exact(&mut bytes).map_err(io)?;
            rows.push(decode(&bytes).filter(|row| self.labels.fit(row)).ok_or_else(|| RawError::Damaged {
                path: self.path.clone(),
                offset: block.offset + row * ROW_BYTES as u64,
                what: "this is no row of the run that the header describes",
            })?);
        }
        Ok(())
    }
}

/// A raw file of rows, being written.
#[derive(Debug)]
pub(crate) struct RawWriter {
    file: RawFile,
    end: u64,
    /// One block's bytes; kept, so that its memory is touched once.
    buffer: Vec<u8>,
}

impl RawWriter {
    /// Makes the file, which must not exist.
    pub fn create(path: &Path, meta: &Meta) -> Result<RawWriter, RawError> {
        let io = |source| RawError::Io { path: path.to_owned(), source };
        let labels = meta.labels.clone();
        let meta = serde_json::to_vec(meta).expect("labels are text");
        let mut head = Vec::with_capacity(24 + meta.len());
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.extend_from_slice(&(ROW_BYTES as u32).to_le_bytes());
        head.extend_from_slice(&u32::try_from(meta.len()).expect("labels below 4 GiB").to_le_bytes());
        head.extend_from_slice(&meta);
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(path).map_err(io)?;
        file.write_all(&head).map_err(io)?;
        let file = RawFile { path: path.to_owned(), file, blocks: Vec::new(), labels, damage: None };
        Ok(RawWriter { file, end: head.len() as u64, buffer: Vec::new() })
    }

    /// Appends a block. After an error the file ends where it ended before.
    pub fn append(&mut self, log: u16, rows: &[Row]) -> io::Result<()> {
        self.buffer.clear();
        self.buffer.extend_from_slice(BLOCK_MAGIC);
        self.buffer.extend_from_slice(&log.to_le_bytes());
        self.buffer.extend_from_slice(&[0; 2]);
        self.buffer.extend_from_slice(&(rows.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(&[0; 4]);
        for row in rows {
            assert!(self.file.labels.fit(row), "a row's stream and device have labels, and its stamps are in order");
            self.buffer.extend_from_slice(&encode(row));
        }
        if let Err(error) = self.file.file.write_all_at(&self.buffer, self.end) {
            // If even this fails, the reader finds a block that is cut off.
            let _ = self.file.file.set_len(self.end);
            return Err(error);
        }
        self.file.blocks.push(Block { log, offset: self.end + BLOCK_HEADER as u64, rows: rows.len() });
        self.end += self.buffer.len() as u64;
        Ok(())
    }

    pub fn into_file(self) -> RawFile {
        self.file
    }
}

impl Row {
    /// Bytes of a row in the raw file, and wherever else rows are handed on as they are.
    pub const BYTES: usize = ROW_BYTES;

    /// The row as the raw file has it.
    pub fn to_bytes(&self) -> [u8; Row::BYTES] {
        encode(self)
    }

    /// The row with these bytes; `None` if no row has them.
    pub fn from_bytes(bytes: &[u8; Row::BYTES]) -> Option<Row> {
        decode(bytes)
    }
}

/// The fields of a row in order, little-endian. On a little-endian machine this compiles to a copy.
fn encode(row: &Row) -> [u8; ROW_BYTES] {
    let mut bytes = [0; ROW_BYTES];
    bytes[0..8].copy_from_slice(&row.intended.as_nanos().to_le_bytes());
    bytes[8..16].copy_from_slice(&row.submitted.as_nanos().to_le_bytes());
    bytes[16..24].copy_from_slice(&row.completed.as_nanos().to_le_bytes());
    bytes[24..32].copy_from_slice(&row.offset.get().to_le_bytes());
    bytes[32..36].copy_from_slice(&row.length.to_le_bytes());
    bytes[36..38].copy_from_slice(&row.stream.to_le_bytes());
    bytes[38..40].copy_from_slice(&row.device.to_le_bytes());
    bytes[40..42].copy_from_slice(&row.depth.to_le_bytes());
    bytes[42..44].copy_from_slice(&row.cpu.to_le_bytes());
    bytes[44..46].copy_from_slice(&row.errno.to_le_bytes());
    bytes[46..48].copy_from_slice(&row.pass.to_le_bytes());
    bytes[48] = row.operation as u8;
    bytes[49] = row.phase as u8;
    // Where files of before had zeroes.
    bytes[50..52].copy_from_slice(&row.priority.to_le_bytes());
    bytes[52..56].copy_from_slice(&row.request.to_le_bytes());
    bytes
}

/// The row, unless no row has these bytes.
fn decode(bytes: &[u8; ROW_BYTES]) -> Option<Row> {
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    Some(Row {
        intended: Instant::from_nanos(long(0)),
        submitted: Instant::from_nanos(long(8)),
        completed: Instant::from_nanos(long(16)),
        offset: Bytes::new(long(24)),
        length: u32::from_le_bytes(bytes[32..36].try_into().expect("four bytes")),
        request: u32::from_le_bytes(bytes[52..56].try_into().expect("four bytes")),
        stream: short(36),
        device: short(38),
        depth: short(40),
        cpu: short(42),
        errno: short(44),
        pass: short(46),
        priority: short(50),
        operation: *device::Operation::ALL.get(usize::from(bytes[48]))?,
        phase: *Phase::ALL.get(usize::from(bytes[49]))?,
    })
}
