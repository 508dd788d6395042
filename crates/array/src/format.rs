//! The first superblocks: what makes devices members of a new array.

use device::{Buffer, Device, DeviceError, Request};
use units::Bytes;

use crate::md::{BadBlocks, Bitmap, JournalBlock, MemberRole, PplHeader, Resync, SUPERBLOCK_AT, Superblock};

/// How much of a superblock is written: the sectors with something in them, as one block of the device.
pub(crate) fn written(superblock: &Superblock, block: Bytes) -> Buffer {
    let length = Bytes::new((256 + 2 * superblock.roles.len()) as u64).round_up(block);
    let mut buffer = Buffer::zeroed(length);
    let bytes = superblock.to_bytes();
    let length = length.as_usize().min(bytes.len());
    buffer.bytes_mut().expect("it is real")[..length].copy_from_slice(&bytes[..length]);
    buffer
}

/// Writes the superblocks of a new array (see [`crate::md::create`]) to its devices, and before them what they speak
/// of: the start of a log.
pub async fn format<D: Device>(devices: &[D], superblocks: &[Superblock]) -> Result<(), DeviceError> {
    assert_eq!(devices.len(), superblocks.len(), "a superblock for each device");
    for (device, superblock) in devices.iter().zip(superblocks) {
        if let Some((at, size)) = superblock.ppl_at().or(superblock.own_ppl_at()) {
            // All of it, as the device may have been a member before, and old headers would be followed behind the new
            // one.
            let mut log = Buffer::zeroed(size);
            // A header says that parity fits where nothing is logged: where it does not yet, there is none.
            if superblock.resync == Resync::Clean {
                let header = PplHeader::new(superblock.array, 1).to_bytes();
                log.bytes_mut().expect("it is real")[..header.len()].copy_from_slice(&header);
            }
            device.submit(Request::write(at, log.freeze()).with_fua()).await.result?;
        }
        let bytes = written(superblock, device.shape().logical_block).freeze();
        if let Some(at) = superblock.bad_blocks_at() {
            // So that there is room for it when there is none for anything else.
            let room = Bytes::SECTOR * u64::from(superblock.bad_block_sectors);
            let none = BadBlocks { shift: superblock.bad_block_shift, ranges: Vec::new() };
            let bytes = none.to_bytes(room).expect("nothing fits into any room");
            let mut buffer = Buffer::zeroed(room);
            buffer.bytes_mut().expect("it is real").copy_from_slice(&bytes);
            device.submit(Request::write(at, buffer.freeze()).with_fua()).await.result?;
        }
        if let Some(at) = superblock.bitmap_at() {
            let bitmap = Bitmap::of_new(superblock);
            let bytes = bitmap.to_bytes();
            let mut buffer = Buffer::zeroed(Bytes::new(bytes.len() as u64).round_up(Bytes::kib(4)));
            buffer.bytes_mut().expect("it is real")[..bytes.len()].copy_from_slice(&bytes);
            device.submit(Request::write(at, buffer.freeze()).with_fua()).await.result?;
        }
        if superblock.role() == MemberRole::Journal {
            let empty = JournalBlock { sequence: 1, position: Bytes::ZERO, payloads: Vec::new() };
            let block = empty.to_bytes(superblock.array).expect("it is empty");
            let mut buffer = Buffer::zeroed(Bytes::new(block.len() as u64));
            buffer.bytes_mut().expect("it is real").copy_from_slice(&block);
            device.submit(Request::write(superblock.data_offset, buffer.freeze()).with_fua()).await.result?;
        }
        device.submit(Request::write(SUPERBLOCK_AT, bytes).with_fua()).await.result?;
    }
    Ok(())
}
