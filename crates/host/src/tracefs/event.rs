//! The trace points of the block layer that a request passes, and what their records say.

use super::format::{Field, Format};
use crate::block::DeviceNumber;

/// Where in the block layer a request was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Point {
    /// The block layer was given it (`block_bio_queue`).
    Queued,
    /// The driver was (`block_rq_issue`).
    Issued,
    /// The driver gave it back undone (`block_rq_requeue`).
    Requeued,
    /// The block layer gave it back at once: it would have had to wait, or to be split, and was not to (`REQ_NOWAIT`).
    /// io_uring then asks again in a thread that may wait. (`block_bio_complete` with `EAGAIN`.)
    Returned,
    /// The device has completed it (`block_rq_complete`).
    Completed,
    /// A device without requests of its own has (`block_bio_complete`): zram, md, device mapper.
    BioCompleted,
}

impl Point {
    /// Those of trace points of their own, with the kernel's names.
    pub const ALL: [(Point, &str); 5] = [
        (Point::Queued, "block_bio_queue"),
        (Point::Issued, "block_rq_issue"),
        (Point::Requeued, "block_rq_requeue"),
        (Point::Completed, "block_rq_complete"),
        (Point::BioCompleted, "block_bio_complete"),
    ];
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Way {
    /// To read.
    Read,
    /// To write.
    Write,
    /// To discard.
    Discard,
    /// A flush, or what nobody here asks for.
    Other,
}

impl Way {
    /// From the letters of `rwbs`: perhaps F for a flush before, then the operation, then its flags (`blk_fill_rwbs` in
    /// `kernel/trace/blktrace.c`).
    fn of(rwbs: &[u8]) -> Way {
        let operation = match rwbs {
            [b'F', next @ (b'R' | b'W' | b'D'), ..] => *next,
            [first, ..] => *first,
            [] => 0,
        };
        match operation {
            b'R' => Way::Read,
            b'W' => Way::Write,
            b'D' => Way::Discard,
            _ => Way::Other,
        }
    }
}

/// A request at a trace point. 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at: u64,
    /// The first sector of 512 bytes; from the beginning of the disk, also where the device is a partition.
    pub sector: u64,
    /// How many.
    pub sectors: u32,
    /// The device: of a partition's requests some say the partition, some the disk.
    pub device: DeviceCode,
    /// Where it was.
    pub point: Point,
    /// What is asked for.
    pub way: Way,
}

const _: () = assert!(size_of::<Event>() <= 32, "millions are kept");

/// A device number as records have it: `major << 20 | minor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceCode(pub u32);

impl From<DeviceNumber> for DeviceCode {
    fn from(number: DeviceNumber) -> DeviceCode {
        DeviceCode(number.major << 20 | number.minor)
    }
}

/// `EAGAIN`.
const AGAIN: i32 = rustix::io::Errno::AGAIN.raw_os_error();

/// How the records of a trace point are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    id: u16,
    point: Point,
    device: Field,
    sector: Field,
    sectors: Field,
    rwbs: Field,
    error: Option<Field>,
}

impl Layout {
    /// Of this point, from the text of its `format`; `None` if it has not what is needed.
    pub fn parse(point: Point, text: &str) -> Option<Layout> {
        let format = Format::parse(text);
        Some(Layout {
            id: format.id?,
            point,
            device: format.field("dev").filter(|field| field.size == 4)?,
            sector: format.field("sector")?,
            sectors: format.field("nr_sector")?,
            rwbs: format.field("rwbs")?,
            error: format.field("error").filter(|field| field.size == 4),
        })
    }
}

/// What a record says; `None` if it is of no trace point that is known here.
#[inline]
pub(super) fn event(layouts: &[Layout], at: u64, record: &[u8]) -> Option<Event> {
    let id = u16::from_ne_bytes(*record.first_chunk()?);
    let layout = layouts.iter().find(|layout| layout.id == id)?;
    let error = || layout.error.and_then(|field| field.number(record)).map(|number| (number as u32).cast_signed());
    let point = match layout.point {
        Point::BioCompleted if error() == Some(-AGAIN) => Point::Returned,
        point => point,
    };
    Some(Event {
        at,
        sector: layout.sector.number(record)?,
        sectors: layout.sectors.number(record)? as u32,
        device: DeviceCode(layout.device.number(record)? as u32),
        point,
        way: Way::of(layout.rwbs.bytes(record)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FORMAT: &str = "ID: 2104\n\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n";

    #[test]
    fn a_record_is_read_by_the_fields_of_its_format() {
        let layout = Layout::parse(Point::Issued, FORMAT).unwrap();
        let mut record = vec![0; 44];
        record[0..2].copy_from_slice(&2104u16.to_ne_bytes());
        record[8..12].copy_from_slice(&(7u32 << 20 | 3).to_ne_bytes());
        record[16..24].copy_from_slice(&(1u64 << 40).to_ne_bytes());
        record[24..28].copy_from_slice(&8u32.to_ne_bytes());
        record[34..36].copy_from_slice(b"WS");
        let device = DeviceCode::from(DeviceNumber { major: 7, minor: 3 });
        let expected = Event { at: 5, sector: 1 << 40, sectors: 8, device, point: Point::Issued, way: Way::Write };
        assert_eq!(event(&[layout], 5, &record), Some(expected));
        record[0] ^= 1;
        assert_eq!(event(&[layout], 5, &record), None, "another event");
        assert!(Layout::parse(Point::Issued, &FORMAT.replace("rwbs", "flags")).is_none());
    }

    #[test]
    fn what_was_given_back_at_once_is_not_complete() {
        let format = format!("{FORMAT}\tfield:int error;\toffset:28;\tsize:4;\tsigned:1;\n");
        let layout = Layout::parse(Point::BioCompleted, &format).unwrap();
        let point = |error: i32| {
            let mut record = vec![0; 44];
            record[0..2].copy_from_slice(&2104u16.to_ne_bytes());
            record[28..32].copy_from_slice(&error.to_ne_bytes());
            event(&[layout], 0, &record).unwrap().point
        };
        assert_eq!([0, -5, -11].map(point), [Point::BioCompleted, Point::BioCompleted, Point::Returned]);
    }

    #[test]
    fn letters_tell_the_operation_also_behind_a_flush() {
        let told = [&b"RA\0"[..], b"WFS\0", b"FWFS\0", b"DS\0", b"FF\0", b"N\0", b""].map(Way::of);
        assert_eq!(told, [Way::Read, Way::Write, Way::Write, Way::Discard, Way::Other, Way::Other, Way::Other]);
    }

    proptest! {
        #[test]
        fn arbitrary_records_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let layout = Layout::parse(Point::Issued, FORMAT).unwrap();
            let mut named = bytes.clone();
            if let Some(id) = named.first_chunk_mut() {
                *id = 2104u16.to_ne_bytes();
            }
            prop_assert!(event(&[layout], 0, &named).is_none() || named.len() >= 44);
        }
    }
}
