//! Stamped sectors: written bytes that say what they are.
//!
//! Every 512 bytes that a verifying stream writes carry their own identity, so that a reader can tell what it holds in
//! its hand, whatever the device made of it:
//!
//! ```text
//! word  0         1    2       3       4        5         6 .. 63
//!       ARRAYLAB  run  device  offset  version  checksum  filling[i] xor checksum
//! ```
//!
//! All words are 64 bits, the lowest byte first. The *version* is the pass in the upper 16 bits and the number of the
//! write in the lower 48, so that the later of two writes has the larger one. The *checksum* is of the words before it,
//! and it is woven into every word behind it: the whole sector follows from its head, any word tells whether it belongs
//! to that head, and a fault can be shown to the bit. No two sectors are alike, so nothing is gained by deduplication,
//! nor, within a sector, by compression.
//!
//! 512 bytes, because no device stores less at a time: what tears, tears between them. A checksum over the data alone,
//! as fio's `crc32c`, was rejected: it finds a fault and cannot say which.

use units::Bytes;

/// The first word of each.
const MAGIC: u64 = u64::from_le_bytes(*b"ARRAYLAB");
const WORDS: usize = 64;
/// Where the checksum stands; filling follows.
const CHECKSUM: usize = 5;

/// Fixed words that are as good as random: no stored sector may depend on a generator that might change.
const FILLING: [u64; WORDS] = {
    let mut words = [0; WORDS];
    let mut index = 0;
    while index < WORDS {
        words[index] = mix((index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        index += 1;
    }
    words
};

/// Two unrelated sectors differ in 2000 of their 4096 bits, give or take 200; what differs in fewer than these is the
/// same sector, damaged.
const DAMAGED: u32 = 256;
/// As many words at one end of a sector as cannot agree by chance.
const ENOUGH: usize = 8;

/// The pass and the number of a write. Later ones are larger; zero is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, serde::Serialize, serde::Deserialize)]
pub struct Version(u64);

impl Version {
    /// The `sequence`-th write of a run, counted from 1, which is in `pass`. Panics beyond 2^48 writes: nine years at a
    /// million a second.
    pub fn new(pass: u16, sequence: u64) -> Version {
        assert!((1..1 << 48).contains(&sequence), "write number {sequence}");
        Version(u64::from(pass) << 48 | sequence)
    }

    /// As one number.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The version of that number; `None` if it is none.
    pub fn from_bits(bits: u64) -> Option<Version> {
        Some(Version(bits)).filter(|version| version.sequence() > 0)
    }

    /// Counted from 0.
    pub fn pass(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// Counted from 1 over all passes of the run, on one device.
    pub fn sequence(self) -> u64 {
        self.0 & ((1 << 48) - 1)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "write {} of pass {}", self.sequence(), self.pass())
    }
}

/// What stands behind the head of a sector.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Filling {
    /// Words that follow from the head.
    #[default]
    Woven,
    /// A pattern, the same in every sector (fio's `verify_pattern`): a fault is still shown to the bit, and sectors
    /// compress.
    Pattern(Box<[u64; WORDS]>),
}

impl Filling {
    /// The bytes of a pattern, again and again, from behind the head on. Zeroes if there are none.
    pub fn of(pattern: &[u8]) -> Filling {
        let mut words = Box::new([0; WORDS]);
        let mut bytes = pattern.iter().copied().cycle();
        for word in &mut words[CHECKSUM + 1..] {
            *word = u64::from_le_bytes(std::array::from_fn(|_| bytes.next().unwrap_or(0)));
        }
        Filling::Pattern(words)
    }
}

/// What a sector says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Stamp {
    /// Tells the runs of all times apart.
    pub run: u64,
    /// Index of the device within its run.
    pub device: u16,
    /// Byte address of the sector.
    pub offset: Bytes,
    /// By which write.
    pub version: Version,
}

/// What is wrong with a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Some bits are not as they were written; the first of them by its number, if what was written is known.
    Corrupt { first: Option<u32>, bits: u32 },
    /// An older write; `None` for zeroes.
    Stale(Option<Stamp>),
    /// Another place's.
    Misplaced(Stamp),
    /// Of this write at one end only.
    Torn,
    /// Of a later write than any that is known.
    Unexpected(Stamp),
    /// Nothing that was written here.
    Foreign,
}

type Words = [u64; WORDS];

fn words(sector: &[u8]) -> Words {
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(sector.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn checksum(head: &[u64]) -> u64 {
    head.iter().fold(MAGIC, |sum, word| mix(sum.rotate_left(5) ^ word))
}

impl Stamp {
    /// The same of another write.
    fn with(self, version: Version) -> Stamp {
        Stamp { version, ..self }
    }

    fn image(&self, filling: &Filling) -> Words {
        let mut words = match filling {
            Filling::Woven => FILLING,
            Filling::Pattern(words) => **words,
        };
        words[..CHECKSUM].copy_from_slice(&[MAGIC, self.run, self.device.into(), self.offset.get(), self.version.0]);
        let sum = checksum(&words[..CHECKSUM]);
        words[CHECKSUM] = sum;
        if let Filling::Woven = filling {
            words[CHECKSUM + 1..].iter_mut().for_each(|word| *word ^= sum);
        }
        words
    }

    /// Makes `sector`, of 512 bytes, what this says.
    pub fn fill(&self, filling: &Filling, sector: &mut [u8]) {
        assert_eq!(sector.len() as u64, Bytes::SECTOR.get(), "a sector is stamped whole");
        for (bytes, word) in sector.as_chunks_mut::<8>().0.iter_mut().zip(self.image(filling)) {
            *bytes = word.to_le_bytes();
        }
    }

    /// What the head of a sector says, if its checksum holds.
    fn head(words: &Words) -> Option<Stamp> {
        let [magic, run, device, offset, version, sum] = *words.first_chunk().expect("a sector has a head");
        let good = magic == MAGIC && sum == checksum(&words[..CHECKSUM]) && device <= u16::MAX.into();
        let stamp = Stamp { run, device: device as u16, offset: Bytes::new(offset), version: Version(version) };
        good.then_some(stamp)
    }

    /// What a sector is, if every bit of it is as it was written.
    pub fn read(sector: &[u8]) -> Option<Stamp> {
        let words = words(sector);
        Stamp::head(&words).filter(|stamp| stamp.image(&Filling::Woven) == words)
    }
}

/// How far what is read may be from what is expected, for no fault of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Leeway {
    /// The write was under way while it was read: anything older will do.
    pub racing: bool,
    /// The run was killed, and went on writing for a while after what is known of it: anything later will do, of the
    /// same run and place.
    pub cut: bool,
}

/// Whether `sector`, read at `offset`, is what was written there: `expected`, or as much older or later as the leeway
/// allows. With nothing expected, it must be whole and of this place. A sound sector gives its version.
pub(crate) fn judge(
    sector: &[u8],
    offset: Bytes,
    expected: Option<Stamp>,
    leeway: Leeway,
    filling: &Filling,
) -> Result<Option<Version>, Fault> {
    let Leeway { racing, cut } = leeway;
    let words = words(sector);
    if let Some(expected) = expected.filter(|expected| expected.image(filling) == words) {
        return Ok(Some(expected.version));
    }
    let head = Stamp::head(&words);
    if let Some(found) = head.filter(|stamp| stamp.image(filling) == words) {
        let Some(expected) = expected else {
            return if found.offset == offset { Ok(Some(found.version)) } else { Err(Fault::Misplaced(found)) };
        };
        return match found {
            _ if found.run != expected.run && racing => Ok(None),
            _ if found.run != expected.run => Err(Fault::Stale(Some(found))),
            _ if (found.device, found.offset) != (expected.device, expected.offset) => Err(Fault::Misplaced(found)),
            _ if found.version < expected.version && !racing => Err(Fault::Stale(Some(found))),
            _ if found.version > expected.version && !cut => Err(Fault::Unexpected(found)),
            _ => Ok(Some(found.version)),
        };
    }
    // Not whole. While a write is under way a read may see some of each, down to the byte where it goes through the
    // page cache.
    if racing {
        return Ok(None);
    }
    let later = |found: &Stamp| {
        let of_this = |expected: Stamp| found.version > expected.version && found.with(expected.version) == expected;
        cut && expected.is_some_and(of_this)
    };
    Err(broken(&words, head.filter(later).or(expected).or(head), filling))
}

/// Whether `sector` is a pattern, which began `from` bytes before it.
pub(crate) fn compare(sector: &[u8], pattern: &[u8], from: u64) -> Result<Option<Version>, Fault> {
    let wanted = pattern.iter().cycle().skip((from % pattern.len() as u64) as usize);
    let differ = sector.iter().zip(wanted).map(|(found, wanted)| found ^ wanted).enumerate();
    let (mut first, mut bits) = (None, 0);
    for (index, byte) in differ.filter(|(_, byte)| *byte != 0) {
        first = first.or(Some(index as u32 * 8 + byte.trailing_zeros()));
        bits += byte.count_ones();
    }
    match bits {
        0 => Ok(None),
        bits if bits < DAMAGED => Err(Fault::Corrupt { first, bits }),
        _ if sector.iter().all(|byte| *byte == 0) => Err(Fault::Stale(None)),
        _ => Err(Fault::Foreign),
    }
}

/// What a sector is that is not whole; `meant` is what it should be, or what its head says.
fn broken(words: &Words, meant: Option<Stamp>, filling: &Filling) -> Fault {
    if let Some(meant) = meant {
        let image = meant.image(filling);
        let differ = |index: usize| (words[index] ^ image[index]).to_le();
        let bits: u32 = (0..WORDS).map(|index| differ(index).count_ones()).sum();
        if bits < DAMAGED {
            let index = (0..WORDS).find(|index| differ(*index) != 0).expect("a whole sector is not judged broken");
            return Fault::Corrupt { first: Some(index as u32 * 64 + differ(index).trailing_zeros()), bits };
        }
        // Of the version that is meant, the head alone is no evidence: it is nearly the same in every version.
        let begins = words[CHECKSUM..].iter().zip(&image[CHECKSUM..]).take_while(|(a, b)| a == b).count();
        let ends = words.iter().rev().zip(image.iter().rev()).take_while(|(a, b)| a == b).count();
        if (begins >= ENOUGH || ends >= ENOUGH) && *filling == Filling::Woven {
            return Fault::Torn;
        }
    }
    if words.iter().all(|word| *word == 0) {
        return Fault::Stale(None);
    }
    // The filling of some stamped sector, whose head is lost.
    if let Filling::Pattern(pattern) = filling {
        let agreeing = (CHECKSUM + 1..WORDS).filter(|index| words[*index] == pattern[*index]).count();
        return if agreeing > WORDS / 2 { Fault::Corrupt { first: None, bits: 0 } } else { Fault::Foreign };
    }
    let key = words[WORDS - 1] ^ FILLING[WORDS - 1];
    let agreeing = (CHECKSUM + 1..WORDS).filter(|index| words[*index] ^ FILLING[*index] == key).count();
    if agreeing > WORDS / 2 { Fault::Corrupt { first: None, bits: 0 } } else { Fault::Foreign }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(offset: u64, sequence: u64) -> Stamp {
        Stamp { run: 7, device: 2, offset: Bytes::new(offset), version: Version::new(1, sequence) }
    }

    fn image(stamp: Stamp) -> [u8; 512] {
        let mut sector = [0; 512];
        stamp.fill(&Filling::Woven, &mut sector);
        sector
    }

    fn judged(sector: &[u8]) -> Result<Option<Version>, Fault> {
        let expected = stamp(4096, 9);
        judge(sector, expected.offset, Some(expected), Leeway::default(), &Filling::Woven)
    }

    #[test]
    fn a_sector_says_what_it_is() {
        let sector = image(stamp(4096, 9));
        assert_eq!(&sector[..8], b"ARRAYLAB");
        assert_eq!(Stamp::read(&sector), Some(stamp(4096, 9)));
        assert_eq!(judged(&sector), Ok(Some(Version::new(1, 9))));
    }

    /// Every single bit, head and filling, is found and named; and with nothing expected but a place, it is no whole
    /// sector.
    #[test]
    fn every_flipped_bit_is_named() {
        let good = image(stamp(4096, 9));
        for bit in 0..4096u32 {
            let mut sector = good;
            sector[bit as usize / 8] ^= 1 << (bit % 8);
            assert_eq!(judged(&sector), Err(Fault::Corrupt { first: Some(bit), bits: 1 }));
            assert_eq!(Stamp::read(&sector), None);
            let blind = judge(&sector, Bytes::kib(4), None, Leeway::default(), &Filling::Woven);
            assert!(matches!(blind, Err(Fault::Corrupt { .. })), "{bit}: {blind:?}");
        }
    }

    #[test]
    fn behind_its_head_a_sector_may_hold_a_pattern_of_which_each_bit_is_checked() {
        let filling = Filling::of(&[0xaa, 0x55, 0x5a]);
        let mut good = [0; 512];
        stamp(4096, 9).fill(&filling, &mut good);
        assert_eq!(good[48..54], [0xaa, 0x55, 0x5a, 0xaa, 0x55, 0x5a]);
        let judged = |sector: &[u8], expected| judge(sector, Bytes::kib(4), expected, Leeway::default(), &filling);
        for expected in [Some(stamp(4096, 9)), None] {
            assert_eq!(judged(&good, expected), Ok(Some(Version::new(1, 9))));
            for bit in [385u32, 4095] {
                let mut sector = good;
                sector[bit as usize / 8] ^= 1 << (bit % 8);
                assert_eq!(judged(&sector, expected), Err(Fault::Corrupt { first: Some(bit), bits: 1 }));
            }
        }
        assert_eq!(judged(&[0xa5; 512], None), Err(Fault::Foreign));
        // Of the other filling is of another program.
        assert!(judged(&image(stamp(4096, 9)), None).is_err());
    }

    #[test]
    fn other_sectors_are_told_apart() {
        assert_eq!(judged(&image(stamp(4096, 8))), Err(Fault::Stale(Some(stamp(4096, 8)))));
        assert_eq!(judged(&image(stamp(4096, 10))), Err(Fault::Unexpected(stamp(4096, 10))));
        assert_eq!(judged(&image(stamp(8192, 9))), Err(Fault::Misplaced(stamp(8192, 9))));
        let earlier = Stamp { run: 6, ..stamp(4096, 9) };
        assert_eq!(judged(&image(earlier)), Err(Fault::Stale(Some(earlier))), "an earlier run had the same versions");
        assert_eq!(judged(&[0; 512]), Err(Fault::Stale(None)));
        assert_eq!(judged(&[0xa5; 512]), Err(Fault::Foreign));
    }

    #[test]
    fn a_sector_of_two_writes_is_torn_wherever_the_seam() {
        let (new, old) = (image(stamp(4096, 9)), image(stamp(4096, 8)));
        for seam in (112..400).step_by(8) {
            let mut sector = old;
            sector[..seam].copy_from_slice(&new[..seam]);
            assert_eq!(judged(&sector), Err(Fault::Torn), "new up to {seam}");
            let mut sector = new;
            sector[..seam].copy_from_slice(&old[..seam]);
            assert_eq!(judged(&sector), Err(Fault::Torn), "old up to {seam}");
        }
    }

    #[test]
    fn while_a_write_is_under_way_older_ones_will_do() {
        let racing = Leeway { racing: true, cut: false };
        let judged =
            |stamp| judge(&image(stamp), Bytes::kib(4), Some(super::tests::stamp(4096, 9)), racing, &Filling::Woven);
        assert!(judged(stamp(4096, 9)).is_ok() && judged(stamp(4096, 5)).is_ok());
        assert_eq!(judged(stamp(8192, 5)), Err(Fault::Misplaced(stamp(8192, 5))));
        assert_eq!(judged(stamp(4096, 10)), Err(Fault::Unexpected(stamp(4096, 10))));
    }

    /// What is later is held against what it says of itself: every single bit of it is found.
    #[test]
    fn after_a_kill_later_ones_will_do_and_damaged_ones_will_not() {
        let cut = Leeway { racing: false, cut: true };
        let judged = |sector: &[u8]| judge(sector, Bytes::kib(4), Some(stamp(4096, 9)), cut, &Filling::Woven);
        assert_eq!(judged(&image(stamp(4096, 9))), Ok(Some(Version::new(1, 9))));
        assert_eq!(judged(&image(stamp(4096, 12))), Ok(Some(Version::new(1, 12))));
        assert_eq!(judged(&image(stamp(4096, 8))), Err(Fault::Stale(Some(stamp(4096, 8)))));
        assert_eq!(judged(&image(stamp(8192, 12))), Err(Fault::Misplaced(stamp(8192, 12))));
        let other = Stamp { run: 8, ..stamp(4096, 12) };
        assert_eq!(judged(&image(other)), Err(Fault::Stale(Some(other))));
        for bit in 0..4096u32 {
            let mut sector = image(stamp(4096, 12));
            sector[bit as usize / 8] ^= 1 << (bit % 8);
            let first = (bit >= 384).then_some(bit);
            let found = judged(&sector);
            assert!(matches!(found, Err(Fault::Corrupt { first: named, .. }) if named == first), "{bit}: {found:?}");
        }
    }
}
