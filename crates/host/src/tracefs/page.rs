//! A page of the kernel's ring buffer, as `per_cpu/cpuN/trace_pipe_raw` gives it (`kernel/trace/ring_buffer.c`,
//! `include/linux/ring_buffer.h`).
//!
//! The header has the time of the page and how many bytes of it are in use (`commit`); the names and offsets of its
//! fields stand in `events/header_page`. Records follow, each behind a word with a type of 5 bits and the time since
//! the record before, 27 bits:
//!
//! | type | meaning |
//! |---|---|
//! | 1 to 28 | data of 4 times so many bytes |
//! | 0 | data; the next word counts itself and them, in bytes |
//! | 29 | padding: to the end of the page if its time is 0, else so many bytes as the next word says, of a record that was discarded |
//! | 30 | time only: the next word has its upper bits |
//! | 31 | a time by itself, 59 bits; the upper 5 stay those of the page |
//!
//! Whoever reads too slowly loses records. Then bit 31 of `commit` is set, and with bit 30 how many stands behind the
//! records.
//!
//! Any bytes may stand in a page: none of them make this panic, and none are read twice.

use super::format::{Field, Format};

/// Records were lost before this page.
const MISSED: u64 = 1 << 31;
/// How many stands behind the records.
const STORED: u64 = 1 << 30;
/// What a word of time holds.
const TIME_BITS: u32 = 27;
/// The bits of an absolute time that its record does not hold.
const ABSOLUTE: u64 = (1 << 59) - 1;

/// Where the header of a page has its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    time: Field,
    commit: Field,
    data: usize,
}

impl Header {
    /// From the text of `events/header_page`; `None` if it is another one than is known here.
    pub fn parse(text: &str) -> Option<Header> {
        let format = Format::parse(text);
        let (time, commit) = (format.field("timestamp")?, format.field("commit")?);
        (time.size == 8 && matches!(commit.size, 4 | 8)).then_some(())?;
        Some(Header { time, commit, data: format.field("data")?.offset })
    }

    /// The records of a page, and how many were lost before it: at least so many, as the kernel does not always say.
    pub fn read<'p>(&self, page: &'p [u8]) -> (Records<'p>, u64) {
        let none = Records { bytes: &[], time: 0 };
        let (Some(time), Some(commit)) = (self.time.number(page), self.commit.number(page)) else { return (none, 0) };
        let Some(data) = page.get(self.data..) else { return (none, 0) };
        // The upper half is the kernel's own.
        let used = ((commit & (STORED - 1)) as usize).min(data.len());
        let stored = (commit & STORED != 0)
            .then(|| Field { offset: used, size: size_of::<usize>() }.number(data))
            .flatten()
            .map_or(1, |count| count.max(1));
        (Records { bytes: &data[..used], time }, if commit & MISSED != 0 { stored } else { 0 })
    }
}

/// The records of a page with their times, in nanoseconds of the clock that the buffer was set to.
#[derive(Debug, Clone)]
pub struct Records<'p> {
    /// What is left.
    bytes: &'p [u8],
    time: u64,
}

impl<'p> Records<'p> {
    /// Takes a word off the front.
    #[inline]
    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.bytes.split_first_chunk::<4>()?;
        self.bytes = rest;
        Some(u32::from_ne_bytes(*word))
    }

    /// Takes so many bytes off the front, and those that fill up the last word. A record that ends behind the page is
    /// none.
    #[inline]
    fn take(&mut self, length: usize) -> Option<&'p [u8]> {
        let whole = length.checked_next_multiple_of(4)?;
        let record = self.bytes.get(..length)?;
        self.bytes = self.bytes.get(whole..).unwrap_or(&[]);
        Some(record)
    }
}

impl<'p> Iterator for Records<'p> {
    type Item = (u64, &'p [u8]);

    #[inline]
    fn next(&mut self) -> Option<(u64, &'p [u8])> {
        loop {
            let word = self.word()?;
            let (kind, delta) = if cfg!(target_endian = "little") {
                (word & 31, u64::from(word >> 5))
            } else {
                (word >> TIME_BITS, u64::from(word & ((1 << TIME_BITS) - 1)))
            };
            match kind {
                29 => {
                    if delta == 0 {
                        self.bytes = &[];
                        return None;
                    }
                    self.time = self.time.wrapping_add(delta);
                    let length = self.word()? as usize;
                    self.take(length.saturating_sub(4))?;
                }
                30 => {
                    let upper = u64::from(self.word()?) << TIME_BITS;
                    self.time = self.time.wrapping_add(upper | delta);
                }
                31 => {
                    let upper = u64::from(self.word()?) << TIME_BITS;
                    self.time = self.time & !ABSOLUTE | (upper | delta) & ABSOLUTE;
                }
                _ => {
                    let length = match kind {
                        0 => (self.word()? as usize).checked_sub(4)?,
                        words => words as usize * 4,
                    };
                    let record = self.take(length)?;
                    self.time = self.time.wrapping_add(delta);
                    return Some((self.time, record));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As Linux 6.18 prints it on a machine of 64 bits.
    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn word(kind: u32, delta: u32) -> Vec<u8> {
        let word = if cfg!(target_endian = "little") { delta << 5 | kind } else { kind << TIME_BITS | delta };
        word.to_ne_bytes().to_vec()
    }

    fn page(time: u64, flags: u64, parts: &[&[u8]]) -> Vec<u8> {
        let data = parts.concat();
        let mut page = [time.to_ne_bytes(), (data.len() as u64 | flags).to_ne_bytes()].concat();
        page.extend(data);
        page.resize(4096, 0xaa);
        page
    }

    fn read(page: &[u8]) -> (Vec<(u64, Vec<u8>)>, u64) {
        let (records, lost) = Header::parse(HEADER).unwrap().read(page);
        (records.map(|(time, record)| (time, record.to_vec())).collect(), lost)
    }

    #[test]
    fn each_kind_of_record_moves_the_time_as_the_kernel_says() {
        let parts: [&[u8]; 9] = [
            &[word(2, 5), vec![1; 8]].concat(),
            &[word(0, 10), 10u32.to_ne_bytes().to_vec(), vec![2; 6], vec![0; 2]].concat(),
            &[word(30, 7), 1u32.to_ne_bytes().to_vec()].concat(),
            &[word(1, 1), vec![3; 4]].concat(),
            &[word(29, 2), 12u32.to_ne_bytes().to_vec(), vec![9; 8]].concat(),
            &[word(31, 3), 4u32.to_ne_bytes().to_vec()].concat(),
            &[word(1, 0), vec![4; 4]].concat(),
            &word(29, 0),
            &[word(1, 1), vec![5; 4]].concat(),
        ];
        let upper = 1 << 59;
        let (records, lost) = read(&page(upper + 100, 0, &parts));
        let extended = upper + 115 + (1 << 27) + 7 + 1;
        let expected = [
            (upper + 105, vec![1; 8]),
            (upper + 115, vec![2; 6]),
            (extended, vec![3; 4]),
            (upper + (4 << 27) + 3, vec![4; 4]),
        ];
        assert_eq!((records, lost), (expected.to_vec(), 0));
    }

    #[test]
    fn lost_records_are_counted_also_where_their_number_is_not_said() {
        let record = [word(1, 1), vec![3; 4]].concat();
        let mut counted = page(1, MISSED | STORED, &[&record]);
        counted[24..32].copy_from_slice(&77u64.to_ne_bytes());
        assert_eq!(read(&counted), (vec![(2, vec![3; 4])], 77));
        assert_eq!(read(&page(1, MISSED, &[&record])), (vec![(2, vec![3; 4])], 1));
    }

    #[test]
    fn a_record_that_ends_behind_its_page_is_none() {
        assert_eq!(read(&page(1, 0, &[&word(28, 1), &[0; 8]])).0, []);
        assert_eq!(read(&page(1, 0, &[&word(0, 1), &3u32.to_ne_bytes()])).0, [], "a length that does not count itself");
        assert_eq!(read(&[0; 12]).0, [], "no header");
        assert_eq!(Header::parse("field: u64 timestamp; offset:0; size:8;"), None);
    }

    proptest! {
        /// Whatever is read ends, and no more comes of it than went in.
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), used: u16) {
            let mut bytes = bytes;
            if bytes.len() > 12 {
                // Otherwise most say that they hold nothing.
                bytes[8..10].copy_from_slice(&(used % 600).to_ne_bytes());
            }
            let (records, _) = read(&bytes);
            prop_assert!(records.iter().map(|(_, record)| record.len() + 4).sum::<usize>() <= bytes.len());
        }
    }
}
