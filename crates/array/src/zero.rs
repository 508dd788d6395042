//! What makes a device a member, found and erased: nothing else on it changes.
//!
//! A superblock of any version that md knows, wherever it belongs (`linux/raid/md_p.h`; mdadm, `super0.c` and
//! `super1.c`), and what would be taken for a part of an array beside it: the header of a bitmap, a partial parity log,
//! the first block of a journal, the headers of checksums. Superblocks go first: from then on the device is no member,
//! and the rest means nothing. (The other way round, a program that is killed in between leaves a member without its
//! log.)
//!
//! What a superblock says lies inside the data is not erased, nor is a superblock that lies in the data of another: it
//! belongs to an array within the array. Those of version 1 say for which sector they were written, so that those of
//! another device, such as a partition, are told from its own.

use std::ops::Range;

use device::{Buffer, Device, DeviceError, Request};
use units::Bytes;

use crate::integrity::area;
use crate::md::{Features, MemberRole, SUPERBLOCK_AT, SUPERBLOCK_SIZE, Superblock};

/// Something that makes a device a member, or belongs to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// What it is.
    pub what: String,
    /// Where it lies.
    pub range: Range<Bytes>,
}

const MD: u32 = 0xa92b_4efc;
const BITMAP: &[u8; 4] = b"bitm";
/// The size of a superblock of any version, with its table of roles.
const SIZE: Bytes = Bytes::kib(4);

/// A superblock, and what it says of the device.
struct Found {
    mark: Mark,
    /// Data, if it says where; of version 0.90 up to the superblock.
    data: Range<Bytes>,
    /// Where a bitmap would begin.
    bitmap: Option<Bytes>,
}

/// What makes a device a member, superblocks first; nothing, if it is none.
pub async fn marks<D: Device>(device: &D) -> Result<Vec<Mark>, DeviceError> {
    let found = superblocks(device).await?;
    let is_inside = |it: &Found, other: &Found| {
        let (start, end) = (it.mark.range.start, it.mark.range.end);
        start < other.data.end && end > other.data.start
    };
    // The data of the older versions begin at the beginning, where those of the newer have their superblock: these
    // count first.
    let own = found.iter().enumerate().filter(|(index, it)| !found[..*index].iter().any(|other| is_inside(it, other)));
    let own: Vec<&Found> = own.map(|(_, it)| it).collect();
    let mut marks: Vec<Mark> = own.iter().map(|it| it.mark.clone()).collect();
    for it in own {
        if let Some(at) = it.bitmap.filter(|at| *at + SIZE <= it.data.start || *at >= it.data.end) {
            let length = Bytes::new(256);
            if read(device, at, length).await?.is_some_and(|bytes| bytes.starts_with(BITMAP)) {
                marks.push(Mark { what: "header of a bitmap".into(), range: at..at + length });
            }
        }
    }
    // It is the first of all, if it is there.
    let superblock = read(device, SUPERBLOCK_AT, SUPERBLOCK_SIZE).await?.map(|bytes| Superblock::parse(&bytes));
    if let Some(Ok(superblock)) = superblock {
        marks.extend(beside(device, &superblock).await?);
    }
    Ok(marks)
}

/// What lies beside a superblock of version 1.2 that is sound.
async fn beside<D: Device>(device: &D, superblock: &Superblock) -> Result<Vec<Mark>, DeviceError> {
    let mut marks = Vec::new();
    let size = device.shape().size;
    let log = superblock.ppl_at().or(superblock.own_ppl_at());
    let before_data = |range: &Range<Bytes>| {
        range.start >= SUPERBLOCK_AT + SUPERBLOCK_SIZE && range.end <= superblock.data_offset.min(size)
    };
    // All of it: a header of an older write would count where the newest is gone.
    let log = log.map(|(at, length)| at..at + length).filter(before_data);
    marks.extend(log.map(|range| Mark { what: "partial parity log".into(), range }));
    if superblock.role() == MemberRole::Journal && superblock.features.has(Features::JOURNAL) {
        let tail = superblock.data_offset.checked_add(Bytes::SECTOR * superblock.recovery.min(1 << 54));
        for at in [Some(superblock.data_offset), tail].into_iter().flatten() {
            let is_known = marks.iter().any(|mark: &Mark| mark.range.start == at);
            if !is_known && read(device, at, SIZE).await?.is_some_and(|bytes| is_journal(&bytes)) {
                marks.push(Mark { what: "block of a journal".into(), range: at..at + SIZE });
            }
        }
    }
    for at in area::headers_of(superblock) {
        if read(device, at, SIZE).await?.is_some_and(|bytes| area::is_header(&bytes)) {
            marks.push(Mark { what: "header of checksums".into(), range: at..at + SIZE });
        }
    }
    Ok(marks)
}

fn is_journal(bytes: &[u8]) -> bool {
    bytes.starts_with(&0x6433_c509u32.to_le_bytes())
}

/// The superblocks of all versions, each where it belongs.
async fn superblocks<D: Device>(device: &D) -> Result<Vec<Found>, DeviceError> {
    let size = device.shape().size;
    let sectors = size / Bytes::SECTOR;
    let places = [("1.2", Some(8)), ("1.1", Some(0)), ("1.0", sectors.checked_sub(16).map(|last| last & !7))];
    let mut found = Vec::new();
    for (version, sector) in places {
        let Some(sector) = sector else { continue };
        let at = Bytes::SECTOR * sector;
        let Some(bytes) = read(device, at, SIZE).await? else { continue };
        let said = u64::from_le_bytes(bytes[144..152].try_into().expect("eight bytes"));
        if u32_at(&bytes, 0) != MD || u32_at(&bytes, 4) != 1 || said != sector {
            continue;
        }
        let wide = |at: usize| {
            let sectors = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
            Bytes::SECTOR * sectors.min(1 << 54)
        };
        let has_bitmap = u32_at(&bytes, 8) & 1 != 0;
        let offset = i64::from(u32_at(&bytes, 96) as i32);
        let bitmap = i64::try_from(sector).ok().and_then(|sector| u64::try_from(sector + offset).ok());
        found.push(Found {
            mark: Mark { what: format!("md superblock of version {version}"), range: at..at + SIZE },
            data: wide(128)..wide(128).checked_add(wide(136)).unwrap_or(wide(128)),
            bitmap: bitmap.filter(|_| has_bitmap && offset != 0).map(|sector| Bytes::SECTOR * sector),
        });
    }
    // Version 0.90: the last 64 KiB that begin on a multiple of that, in the byte order of the machine that wrote it.
    let last = size.round_down(Bytes::kib(64));
    if !last.is_zero() {
        let at = last - Bytes::kib(64);
        let magic = read(device, at, SIZE).await?.map(|bytes| u32_at(&bytes, 0));
        if magic.is_some_and(|magic| magic == MD || magic.swap_bytes() == MD) {
            found.push(Found {
                mark: Mark { what: "md superblock of version 0.90".into(), range: at..at + SIZE },
                data: Bytes::ZERO..at,
                bitmap: Some(at + SIZE),
            });
        }
    }
    Ok(found)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Whole blocks around a range, if the device has them.
fn blocks<D: Device>(device: &D, range: &Range<Bytes>) -> Option<Range<Bytes>> {
    let block = device.shape().logical_block;
    let around = range.start.round_down(block)..range.end.round_up(block);
    (around.end <= device.shape().size).then_some(around)
}

async fn read<D: Device>(device: &D, at: Bytes, length: Bytes) -> Result<Option<Vec<u8>>, DeviceError> {
    let Some(around) = at.checked_add(length).and_then(|end| blocks(device, &(at..end))) else { return Ok(None) };
    let reply = device.submit(Request::read(around.start, Buffer::zeroed(around.end - around.start))).await;
    reply.result?;
    let buffer = reply.buffer.expect("a read gives its buffer back");
    let from = (at - around.start).as_usize();
    Ok(Some(buffer.bytes().expect("it is real")[from..from + length.as_usize()].to_vec()))
}

/// Writes zeroes over these, in order, each durable before the next; what shares a block with one stays.
pub async fn erase<D: Device>(device: &D, marks: &[Mark]) -> Result<(), DeviceError> {
    for Mark { range, .. } in marks {
        let around = blocks(device, range).ok_or(DeviceError::Gone)?;
        let mut buffer = Buffer::zeroed(around.end - around.start);
        if around != *range {
            let reply = device.submit(Request::read(around.start, buffer)).await;
            reply.result?;
            buffer = reply.buffer.expect("a read gives its buffer back");
            let from = (range.start - around.start).as_usize();
            let length = (range.end - range.start).as_usize();
            buffer.bytes_mut().expect("it is real")[from..from + length].fill(0);
        }
        device.submit(Request::write(around.start, buffer.freeze()).with_fua()).await.result?;
    }
    device.submit(Request::flush()).await.result
}
