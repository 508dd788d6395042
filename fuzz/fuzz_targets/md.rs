//! Any bytes as md's structures: what is read is written back to the same, or an error with a sentence; never a panic.
//!
//! The first byte says which structure; checksums are made good, as a fuzzer does not find them by chance.

#![no_main]

use array::areas;
use array::md::{BadBlocks, Bitmap, JournalBlock, PplHeader, Superblock, Uuid};
use libfuzzer_sys::fuzz_target;
use units::Bytes;

const ARRAY: Uuid = Uuid([7; 16]);

fuzz_target!(|input: &[u8]| {
    let Some((kind, rest)) = input.split_first() else { return };
    let mut bytes = rest.to_vec();
    match kind % 5 {
        0 => {
            if bytes.len() < 256 {
                return;
            }
            bytes[..8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
            let roles = u32::from_le_bytes(bytes[220..224].try_into().expect("four bytes")) as usize;
            let length = bytes.len().min(256 + 2 * roles.min(1920)) & !1;
            bytes[216..220].fill(0);
            let words = bytes[..length].chunks(4);
            let sum: u64 = words.map(|w| w.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))).sum();
            bytes[216..220].copy_from_slice(&(sum as u32).wrapping_add((sum >> 32) as u32).to_le_bytes());
            if let Ok(superblock) = Superblock::parse(&bytes) {
                if let Some((at, size)) = superblock.own_ppl_at() {
                    assert!(at + size <= superblock.data_offset, "a log ends before the data");
                }
                _ = (superblock.ppl_at(), superblock.bitmap_at(), superblock.bad_blocks_at());
                // Whatever the offsets are, it is said where they cannot be.
                if let Err(error) = areas::check(&superblock, Bytes::mib(64), Bytes::SECTOR) {
                    assert!(!error.to_string().is_empty());
                }
                assert_eq!(Superblock::parse(&superblock.to_bytes()), Ok(superblock));
            }
        }
        1 => {
            if let Ok(bitmap) = Bitmap::parse(&bytes) {
                assert_eq!(Bitmap::parse(&bitmap.to_bytes()), Ok(bitmap));
            }
        }
        2 => {
            bytes.resize(4096, 0);
            bytes[512..516].copy_from_slice(&PplHeader::signature(ARRAY).to_le_bytes());
            bytes[532..536].fill(0);
            let sum = PplHeader::checksum(&bytes);
            bytes[532..536].copy_from_slice(&sum.to_le_bytes());
            if let Ok(header) = PplHeader::parse(&bytes, ARRAY) {
                assert_eq!(PplHeader::parse(&header.to_bytes(), ARRAY), Ok(header));
            }
        }
        3 => {
            bytes.resize(4096, 0);
            bytes[..4].copy_from_slice(&0x6433_c509u32.to_le_bytes());
            bytes[4..8].fill(0);
            bytes[8] = 1;
            let sum = JournalBlock::checksum(ARRAY, &bytes);
            bytes[4..8].copy_from_slice(&sum.to_le_bytes());
            if let Ok(block) = JournalBlock::parse(&bytes, ARRAY) {
                let written = block.to_bytes(ARRAY).expect("what was in one block fits into one");
                assert_eq!(JournalBlock::parse(&written, ARRAY), Ok(block));
            }
        }
        _ => {
            if let Ok(log) = BadBlocks::parse(&bytes, kind / 5) {
                let _ = log.to_bytes(Bytes::kib(64));
            }
        }
    }
});
