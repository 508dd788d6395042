//! What a job writes: random bytes, zeroes, a pattern, or bytes that compress and blocks that come again.
//!
//! A pattern is put together of strings (`"abc"`), of hexadecimal bytes as they are written (`0xdeadface`), of numbers,
//! lowest byte first and no longer than they need (`300` is `2c 01`, negative ones have four bytes), and of what stands
//! in files (`'name'`); it has 512 bytes at most, and what a file has more is left out. Tried out on fio 3.33.

use units::Bytes;

use crate::JobError;
use crate::job::Fill;
use crate::reader::Reader;

/// Bytes that are made for each write: `buffer_compress_percentage`, `dedupe_percentage` and their kin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// `buffer_pattern`; zeroes if empty.
    pub pattern: Vec<Piece>,
    /// So much of each segment is the pattern, in percent.
    pub compressible: u8,
    /// `buffer_compress_chunk`; the smallest block if absent.
    pub segment: Option<Bytes>,
    /// So many of the writes store what was stored before, in percent.
    pub duplicates: u8,
    /// So much of what there is to write is the set that duplicates are of, in percent; without, each is of the last
    /// write that was none: `dedupe_mode`.
    pub set: Option<u8>,
    /// All jobs have one set: `dedupe_global`.
    pub shared: bool,
}

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// These bytes.
    Bytes(Vec<u8>),
    /// Those of a file.
    File(String),
}

/// What a pattern may be, for messages.
const ACCEPTED: &str =
    "a string in quotes, hexadecimal bytes such as 0xdeadface, a number, 'file', or several of these";

impl Reader<'_> {
    /// `verify_pattern`.
    pub fn verify_pattern(&self) -> Result<Option<Vec<Piece>>, JobError> {
        self.read("verify_pattern", ACCEPTED, pattern)
    }

    pub fn fill(&mut self) -> Result<Fill, JobError> {
        let percent = |text: &str| text.trim_end_matches('%').parse::<u8>().ok().filter(|percent| *percent <= 100);
        let zeroes = self.flag("zero_buffers")?.unwrap_or(false);
        let anew = self.flag("refill_buffers")?.unwrap_or(false);
        let pattern = self.read("buffer_pattern", ACCEPTED, pattern)?;
        let compressible = self.read("buffer_compress_percentage", "a percentage", percent)?.unwrap_or(0);
        let segment = self.size("buffer_compress_chunk")?.filter(|chunk| !chunk.is_zero());
        let duplicates = self.read("dedupe_percentage", "a percentage", percent)?.unwrap_or(0);
        let of_set = self.read("dedupe_mode", "repeat or working_set", |text| match text {
            "repeat" => Some(false),
            "working_set" => Some(true),
            _ => None,
        })?;
        let set = self.read("dedupe_working_set_percentage", "a percentage", percent)?.unwrap_or(5);
        let set = of_set.unwrap_or(false).then_some(set);
        let shared = self.flag("dedupe_global")?.unwrap_or(false);
        if shared && set.is_none() {
            return Err(self.cannot(
                "dedupe_global",
                "is to share a set that it has not",
                "add dedupe_mode=working_set",
            ));
        }
        Ok(match (pattern, compressible, duplicates) {
            (None, 0, 0) if zeroes => Fill::Zero,
            (None, 0, 0) if !anew => Fill::Random,
            (Some(pattern), 0, 0) => Fill::Made(Made { pattern, compressible: 100, segment, duplicates, set, shared }),
            (pattern, ..) => {
                let pattern = pattern.unwrap_or_default();
                Fill::Made(Made { pattern, compressible, segment, duplicates, set, shared })
            }
        })
    }
}

/// fio takes so much of a pattern.
pub const LONGEST: usize = 512;

fn pattern(text: &str) -> Option<Vec<Piece>> {
    let (mut pieces, mut bytes, mut rest) = (Vec::new(), Vec::new(), text.trim());
    while !rest.is_empty() {
        let used = match rest.as_bytes() {
            [b'"', ..] => {
                let inner = rest[1..].split_once('"')?.0;
                bytes.extend(inner.bytes());
                inner.len() + 2
            }
            [b'\'', ..] => {
                let name = rest[1..].split_once('\'')?.0;
                pieces.extend([Piece::Bytes(std::mem::take(&mut bytes)), Piece::File(name.to_owned())]);
                name.len() + 2
            }
            [b'0', b'x' | b'X', ..] => {
                let digits = rest[2..].bytes().take_while(u8::is_ascii_hexdigit).count();
                let digits = without_next(&rest[2..], digits);
                let hex = &rest[2..2 + digits];
                let padded = if digits % 2 == 1 { format!("0{hex}") } else { hex.to_owned() };
                let pairs = padded.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
                for pair in pairs {
                    bytes.push(u8::from_str_radix(pair?, 16).ok()?);
                }
                if digits == 0 {
                    return None;
                }
                2 + digits
            }
            [first, ..] if first.is_ascii_digit() || *first == b'-' => {
                let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count() + 1;
                let digits = without_next(rest, digits);
                let number: i64 = rest[..digits].parse().ok()?;
                match i32::try_from(number) {
                    Ok(negative) if negative < 0 => bytes.extend(negative.to_le_bytes()),
                    _ => {
                        let number = u32::try_from(number).ok()?;
                        let length = (4 - number.leading_zeros() as usize / 8).max(1);
                        bytes.extend(&number.to_le_bytes()[..length]);
                    }
                }
                digits
            }
            _ => return None,
        };
        rest = &rest[used..];
    }
    pieces.push(Piece::Bytes(bytes));
    pieces.retain(|piece| *piece != Piece::Bytes(Vec::new()));
    let known = |piece: &Piece| match piece {
        Piece::Bytes(bytes) => bytes.len(),
        Piece::File(_) => 0,
    };
    (!pieces.is_empty() && pieces.iter().map(known).sum::<usize>() <= LONGEST).then_some(pieces)
}

/// So many digits are a number; one less if the last is the zero of a `0x` that follows.
fn without_next(text: &str, digits: usize) -> usize {
    let next = matches!(text.as_bytes()[digits.saturating_sub(1)..], [b'0', b'x' | b'X', ..]);
    digits - usize::from(next && digits > 1)
}

#[cfg(test)]
mod tests {
    use super::{Piece, pattern};

    #[test]
    fn patterns_are_those_of_fio() {
        let all: [(&str, &[u8]); 9] = [
            ("\"abcd\"-120xdeadface", &[b'a', b'b', b'c', b'd', 0xf4, 0xff, 0xff, 0xff, 0xde, 0xad, 0xfa, 0xce]),
            ("0xff0x14", &[0xff, 0x14]),
            ("\"abc\"", b"abc"),
            ("12", &[0x0c]),
            ("300", &[0x2c, 1]),
            ("-12", &[0xf4, 0xff, 0xff, 0xff]),
            ("0xdeadfac", &[0x0d, 0xea, 0xdf, 0xac]),
            ("0x1\"b\"300", &[1, b'b', 0x2c, 1]),
            ("0x00", &[0]),
        ];
        for (text, bytes) in all {
            assert_eq!(pattern(text), Some(vec![Piece::Bytes(bytes.to_vec())]), "{text}");
        }
        let pieces = vec![Piece::Bytes(vec![1]), Piece::File("a b".into()), Piece::Bytes(vec![2])];
        assert_eq!(pattern("1'a b'2"), Some(pieces));
        for text in ["", "abc", "\"abc", "0x", "'file", "99999999999", "-99999999999"] {
            assert_eq!(pattern(text), None, "{text}");
        }
    }
}
