//! Traces of others that are known by their look and cannot be read yet: so that none of them is taken for what it is
//! not.
//!
//! | format | a line |
//! |---|---|
//! | Tencent's block storage (CBS) | `1538323200,12910952,128,0,1283`: seconds, offset and size in sectors, 0 for a read and 1 for a write, volume |
//! | Alibaba's block storage | `419,W,8792731648,16384,1577808144360767`: volume, direction, offset and size in bytes, microseconds |
//! | biosnoop of BCC | `0.000004 supervise 1950 xvda1 W 13092560 4096 0.74`: seconds, program, process, disk, direction, sector, bytes, ms |
//! | ftrace | `fio-4242 [001] .... 1234.567890: block_rq_issue: 8,16 R 4096 () 786 + 8 [fio]` |
//!
//! A line of Tencent's has as many columns as a log of fio has. A log has a direction in its third column, 0 to 2, and
//! a blank behind each comma; Tencent's has 0 or 1 in its fourth and begins with seconds since 1970.

use super::{ImportError, TraceFormat, TraceText};

/// Refuses a text of a format that is known and cannot be read, unless its format was given.
pub(super) fn refuse(text: &TraceText, format: Option<TraceFormat>) -> Result<(), ImportError> {
    let mut lines = text.text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let Some(line) = lines.find(|line| line.starts_with(|c: char| c.is_ascii_digit()) || is_ftrace(line)) else {
        return Ok(());
    };
    const AGAIN: &str = "make an iolog of fio of it, which `arraylab replay` takes: 'fio version 3 iolog', then 'us file read offset bytes' line by line";
    let (what, columns, next) = match line {
        _ if format.is_some() => return Ok(()),
        line if is_tencent(line) => (
            "Tencent's block storage",
            "seconds, offset and size in sectors of 512 bytes, 0 for a read or 1 for a write, and the volume",
            AGAIN,
        ),
        line if is_alibaba(line) => {
            ("Alibaba's block storage", "volume, R or W, offset and size in bytes, and microseconds", AGAIN)
        }
        line if is_biosnoop(line) => (
            "biosnoop",
            "seconds, program, process, disk, R or W, sector, bytes and milliseconds",
            "trace with blktrace and give what `blkparse` prints",
        ),
        line if is_ftrace(line) => (
            "the kernel's ftrace",
            "a task, seconds and an event such as block_rq_issue",
            "trace with blktrace and give what `blkparse` prints",
        ),
        _ => return Ok(()),
    };
    Err(ImportError::Foreign { file: text.name.to_owned(), what, columns, next })
}

fn is_tencent(line: &str) -> bool {
    const YEAR_2001: u64 = 1_000_000_000;
    /// Milliseconds since 1970, which a log of fio may have there.
    const MILLIS: u64 = 100_000_000_000;
    let cells: Option<Vec<u64>> = line.split(',').map(|cell| cell.parse().ok()).collect();
    cells.is_some_and(|cells| match cells[..] {
        [seconds, _, size, kind, _] => (YEAR_2001..MILLIS).contains(&seconds) && size > 0 && kind <= 1,
        _ => false,
    })
}

fn is_alibaba(line: &str) -> bool {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    let number = |cell: &str| cell.parse::<u64>().is_ok();
    match cells[..] {
        [volume, kind, offset, size, micros] => {
            number(volume) && ["R", "W"].contains(&kind) && number(offset) && number(size) && number(micros)
        }
        _ => false,
    }
}

fn is_biosnoop(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    // With -Q there is a ninth column; a program's name may hold blanks.
    let kind = words.iter().rposition(|word| ["R", "W"].contains(word));
    let seconds = words.first().is_some_and(|word| word.contains('.') && word.parse::<f64>().is_ok());
    let number = |word: Option<&&str>| word.is_some_and(|word| word.parse::<f64>().is_ok());
    seconds && kind.is_some_and(|at| at >= 4 && words.len() - at >= 4 && number(words.get(at + 1)))
}

fn is_ftrace(line: &str) -> bool {
    line.contains(": block_rq_") || line.contains(": block_bio_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Option<&'static str> {
        match refuse(&TraceText { name: "t", text }, None) {
            Err(ImportError::Foreign { what, .. }) => Some(what),
            Err(error) => panic!("{error}"),
            Ok(()) => None,
        }
    }

    #[test]
    fn what_looks_like_a_log_of_fio_and_is_none_is_called_by_its_name() {
        let tencent = Some("Tencent's block storage");
        assert_eq!(refused("1538323200,12910952,128,0,1283\n1538323200,6338688,8,1,1360\n"), tencent);
        // One sector, and two: the third column might be a direction.
        assert_eq!((refused("1538323201,2410104,1,0,1283\r\n"), refused("1538323201,8,2,1,7\n")), (tencent, tencent));
        for log in [
            "4, 1093, 0, 4096, 0\n",
            "37, 13118722, 0, 65536, 4026531840, 0x0000, 24602001\n",
            "1538323200123, 1093, 0, 4096, 0\n",
        ] {
            assert_eq!(refused(log), None, "{log}");
        }
    }

    #[test]
    fn the_other_known_ones_are_told_apart_and_what_is_read_is_left_alone() {
        assert_eq!(refused("419,W,8792731648,16384,1577808144360767\n"), Some("Alibaba's block storage"));
        let biosnoop =
            "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.000004 supervise 1950 xvda1 W 13092560 4096 0.74\n";
        assert_eq!(refused(biosnoop), Some("biosnoop"));
        let ftrace =
            "# tracer: nop\n#\n fio-4242 [001] .... 1234.567890: block_rq_issue: 8,16 R 4096 () 786 + 8 [fio]\n";
        assert_eq!(refused(ftrace), Some("the kernel's ftrace"));
        for read in [
            "0,20941264,8192,W,0.551706\n",
            "0.551706 0 20941264 16 1\n",
            "128166372003061629,hm,1,Read,383496192,32768,113736\n",
            "  8,16 1 110 0.024600123 4122 Q R 7864320 + 128 [reader]\n",
            "fio version 2 iolog\n",
        ] {
            assert_eq!(refused(read), None, "{read}");
        }
    }
}
