//! The partitions that a partition table lists, read from the table itself: also of a file, for which the kernel knows
//! none.
//!
//! MBR (with the chain of extended boot records) and GPT, whose header is in block 1 for both sizes of block. Sources:
//! UEFI 2.10, chapter 5; for extended boot records the Linux kernel (`block/partitions/msdos.c`). Checksums are not
//! compared: who looks for what a partition holds looks there, and an entry that leads nowhere leads to nothing.

use std::io;

use units::Bytes;

/// A partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    /// Its number, as Linux counts.
    pub number: u32,
    /// Where it begins.
    pub start: Bytes,
    /// How large it is.
    pub size: Bytes,
}

/// More entries are a damaged table.
const MOST: u32 = 256;
const SECTOR: u64 = 512;

/// The partitions of a device or file of this size; none where there is no table, or a damaged one. `read_at` fills its
/// buffer from an address that is a multiple of 512 bytes.
pub fn partitions(
    size: Bytes,
    mut read_at: impl FnMut(Bytes, &mut [u8]) -> io::Result<()>,
) -> io::Result<Vec<Partition>> {
    let mut sector = |at: u64| -> io::Result<Option<[u8; 512]>> {
        let mut bytes = [0; 512];
        if at.checked_add(SECTOR).is_none_or(|end| end > size.get()) {
            return Ok(None);
        }
        read_at(Bytes::new(at), &mut bytes)?;
        Ok(Some(bytes))
    };
    let inside = |partition: &Partition| {
        let end = partition.start.get().checked_add(partition.size.get());
        !partition.size.is_zero() && end.is_some_and(|end| end <= size.get())
    };
    for block in [512, 4096] {
        let header = sector(block)?.filter(|header| header.starts_with(b"EFI PART"));
        if let Some(header) = header {
            let found = gpt(block, &header, &mut sector)?;
            return Ok(found.into_iter().filter(inside).collect());
        }
    }
    Ok(mbr(&mut sector)?.into_iter().filter(inside).collect())
}

fn u32_at(bytes: &[u8], at: usize) -> u64 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")).into()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

type Sector<'s> = dyn FnMut(u64) -> io::Result<Option<[u8; 512]>> + 's;

fn gpt(block: u64, header: &[u8], sector: &mut Sector) -> io::Result<Vec<Partition>> {
    let (at, count, length) = (u64_at(header, 72).saturating_mul(block), u32_at(header, 80), u32_at(header, 84));
    let mut found = Vec::new();
    // Entries of 128 bytes, or of that by a power of two.
    if !(128..=4096).contains(&length) || !length.is_power_of_two() {
        return Ok(found);
    }
    for index in 0..count.min(MOST.into()) {
        let entry = at.saturating_add(index * length);
        let Some(bytes) = sector(entry / SECTOR * SECTOR)? else { break };
        let entry = &bytes[(entry % SECTOR) as usize..];
        let (first, last) = (u64_at(entry, 32), u64_at(entry, 40));
        if entry[..16] != [0; 16] && first <= last {
            let size = (last - first).saturating_add(1).saturating_mul(block);
            let start = Bytes::new(first.saturating_mul(block));
            found.push(Partition { number: index as u32 + 1, start, size: Bytes::new(size) });
        }
    }
    Ok(found)
}

fn mbr(sector: &mut Sector) -> io::Result<Vec<Partition>> {
    let mut found = Vec::new();
    let Some(table) = sector(0)?.filter(|table| table[510..] == [0x55, 0xaa]) else { return Ok(found) };
    let entries = |table: &[u8; 512]| -> Vec<(u8, u64, u64)> {
        let entry = |bytes: &[u8]| (bytes[4], u32_at(bytes, 8) * SECTOR, u32_at(bytes, 12) * SECTOR);
        table[446..510].chunks_exact(16).map(entry).collect()
    };
    let is_extended = |kind: u8| matches!(kind, 0x05 | 0x0f | 0x85);
    let mut extended = None;
    for (number, (kind, start, size)) in (1..).zip(entries(&table)) {
        match kind {
            // Nothing, or all of a disk with GPT.
            0 | 0xee => {}
            kind if is_extended(kind) => extended = extended.or(Some(start)),
            _ => found.push(Partition { number, start: Bytes::new(start), size: Bytes::new(size) }),
        }
    }
    let Some(outer) = extended else { return Ok(found) };
    let mut at = outer;
    for number in 5..MOST {
        let Some(record) = sector(at)?.filter(|record| record[510..] == [0x55, 0xaa]) else { break };
        let entries = entries(&record);
        let logical = entries.iter().find(|(kind, ..)| *kind != 0 && !is_extended(*kind));
        if let Some((_, start, size)) = logical {
            found.push(Partition { number, start: Bytes::new(at + start), size: Bytes::new(*size) });
        }
        match entries.iter().find(|(kind, ..)| is_extended(*kind)) {
            Some((_, next, _)) => at = outer + next,
            None => break,
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(disk: &[u8]) -> Vec<(u32, u64, u64)> {
        let read = |at: Bytes, into: &mut [u8]| {
            into.copy_from_slice(&disk[at.as_usize()..at.as_usize() + into.len()]);
            Ok(())
        };
        let found = partitions(Bytes::new(disk.len() as u64), read).unwrap();
        found.iter().map(|it| (it.number, it.start.get() / SECTOR, it.size.get() / SECTOR)).collect()
    }

    fn entry(disk: &mut [u8], record: usize, index: usize, kind: u8, start: u32, size: u32) {
        let at = record * 512 + 446 + index * 16;
        disk[at + 4] = kind;
        disk[at + 8..at + 12].copy_from_slice(&start.to_le_bytes());
        disk[at + 12..at + 16].copy_from_slice(&size.to_le_bytes());
        disk[record * 512 + 510..record * 512 + 512].copy_from_slice(&[0x55, 0xaa]);
    }

    #[test]
    fn primary_and_logical_partitions_of_an_mbr_are_found() {
        let mut disk = vec![0; 64 * 512];
        assert_eq!(of(&disk), []);
        entry(&mut disk, 0, 0, 0xfd, 8, 8);
        entry(&mut disk, 0, 1, 0x05, 16, 32);
        entry(&mut disk, 16, 0, 0x83, 2, 6);
        entry(&mut disk, 16, 1, 0x05, 8, 8);
        entry(&mut disk, 24, 0, 0x83, 2, 6);
        // It ends behind the disk.
        entry(&mut disk, 0, 2, 0x83, 60, 8);
        assert_eq!(of(&disk), [(1, 8, 8), (5, 18, 6), (6, 26, 6)]);
    }

    #[test]
    fn partitions_of_a_gpt_are_found_with_both_sizes_of_block() {
        for block in [512, 4096] {
            let mut disk = vec![0; 64 * block];
            entry(&mut disk, 0, 0, 0xee, 1, 63);
            disk[block..block + 8].copy_from_slice(b"EFI PART");
            disk[block + 72..block + 80].copy_from_slice(&2u64.to_le_bytes());
            disk[block + 80..block + 84].copy_from_slice(&128u32.to_le_bytes());
            disk[block + 84..block + 88].copy_from_slice(&128u32.to_le_bytes());
            let second = 2 * block + 128;
            disk[second] = 1;
            disk[second + 32..second + 40].copy_from_slice(&40u64.to_le_bytes());
            disk[second + 40..second + 48].copy_from_slice(&47u64.to_le_bytes());
            let sectors = block as u64 / 512;
            assert_eq!(of(&disk), [(2, 40 * sectors, 8 * sectors)]);
        }
    }

    #[test]
    fn a_chain_of_extended_records_that_is_a_ring_ends() {
        let mut disk = vec![0; 64 * 512];
        entry(&mut disk, 0, 0, 0x0f, 16, 32);
        entry(&mut disk, 16, 1, 0x05, 0, 8);
        assert_eq!(of(&disk), []);
    }
}
