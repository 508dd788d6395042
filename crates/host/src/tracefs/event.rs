//! The trace points of io_uring and of the block layer that a request passes, and what their records say.

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
    /// A device that stands on others passes it on, or a part of it (`block_bio_remap`, `block_rq_remap`): what it is
    /// there. Always followed by [`Point::Handed`] on the same processor.
    Left,
    /// And what it is on the device that it goes to. If that is a partition, its sectors count from the partition's
    /// beginning.
    Handed,
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
    /// The trace points of what is passed on: of bios, and of requests.
    pub(super) const PASSED_ON: [&str; 2] = ["block_bio_remap", "block_rq_remap"];
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

/// Where in io_uring a call was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum RingPoint {
    /// The kernel took it out of the ring (`io_uring_submit_req`). What it asks of the block layer follows on the same
    /// processor, unless it would have to wait.
    Taken,
    /// Its result was put into the ring (`io_uring_complete`).
    Posted,
}

impl RingPoint {
    /// With the kernel's names; the first had another one before.
    pub const ALL: [(RingPoint, &str); 3] = [
        (RingPoint::Taken, "io_uring_submit_req"),
        (RingPoint::Taken, "io_uring_submit_sqe"),
        (RingPoint::Posted, "io_uring_complete"),
    ];
}

/// What was seen at a trace point. 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// In the block layer.
    Block(BlockEvent),
    /// In io_uring: the kernel took a call out of its ring.
    Taken(RingCall),
    /// The result of a call was put into its ring.
    Posted(RingCall),
}

impl Event {
    /// When, in nanoseconds.
    pub fn at(&self) -> u64 {
        match self {
            Event::Block(event) => event.at,
            Event::Taken(call) | Event::Posted(call) => call.at,
        }
    }

    /// Counts its time from a later moment on.
    pub fn since(&mut self, origin: u64) {
        let at = match self {
            Event::Block(event) => &mut event.at,
            Event::Taken(call) | Event::Posted(call) => &mut call.at,
        };
        *at = at.saturating_sub(origin);
    }
}

/// A call of a ring at a trace point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingCall {
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at: u64,
    /// The ring, by a number of the kernel's.
    pub ring: u64,
    /// The call, by the number that the program gave it; it may be given again when the result is posted.
    pub call: u64,
}

/// A request of the block layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockEvent {
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

impl BlockEvent {
    /// The sector behind its last.
    pub fn end(&self) -> u64 {
        self.sector.saturating_add(u64::from(self.sectors))
    }
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

impl From<DeviceCode> for DeviceNumber {
    fn from(code: DeviceCode) -> DeviceNumber {
        DeviceNumber { major: code.0 >> 20, minor: code.0 & 0xf_ffff }
    }
}

/// `EAGAIN`.
const AGAIN: i32 = rustix::io::Errno::AGAIN.raw_os_error();

/// How the records of a trace point are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    id: u16,
    fields: Fields,
}

#[derive(Debug, Clone, Copy)]
enum Fields {
    Block { point: Point, device: Field, sector: Field, sectors: Field, rwbs: Field, error: Option<Field> },
    Ring { point: RingPoint, ring: Field, call: Field },
    PassedOn { from: (Field, Field), to: (Field, Field), sectors: Field, rwbs: Field },
}

impl Layout {
    /// Of this point, from the text of its `format`; `None` if it has not what is needed.
    pub fn parse(point: Point, text: &str) -> Option<Layout> {
        let format = Format::parse(text);
        let fields = Fields::Block {
            point,
            device: format.field("dev").filter(|field| field.size == 4)?,
            sector: format.field("sector")?,
            sectors: format.field("nr_sector")?,
            rwbs: format.field("rwbs")?,
            error: format.field("error").filter(|field| field.size == 4),
        };
        Some(Layout { id: format.id?, fields })
    }

    /// Likewise of a point at which requests are passed on.
    pub fn of_passing_on(text: &str) -> Option<Layout> {
        let format = Format::parse(text);
        let device = |name| format.field(name).filter(|field| field.size == 4);
        let fields = Fields::PassedOn {
            from: (device("old_dev")?, format.field("old_sector")?),
            to: (device("dev")?, format.field("sector")?),
            sectors: format.field("nr_sector")?,
            rwbs: format.field("rwbs")?,
        };
        Some(Layout { id: format.id?, fields })
    }

    /// Likewise of a point of io_uring.
    pub fn of_ring(point: RingPoint, text: &str) -> Option<Layout> {
        let format = Format::parse(text);
        let fields = Fields::Ring { point, ring: format.field("ctx")?, call: format.field("user_data")? };
        Some(Layout { id: format.id?, fields })
    }
}

/// What a record says, one event or two; `None` if it is of no trace point that is known here.
#[inline]
pub(super) fn event(layouts: &[Layout], at: u64, record: &[u8]) -> Option<(Event, Option<Event>)> {
    let id = u16::from_ne_bytes(*record.first_chunk()?);
    let layout = layouts.iter().find(|layout| layout.id == id)?;
    match layout.fields {
        Fields::Ring { point, ring, call } => {
            let call = RingCall { at, ring: ring.number(record)?, call: call.number(record)? };
            Some((if point == RingPoint::Taken { Event::Taken(call) } else { Event::Posted(call) }, None))
        }
        Fields::Block { point, device, sector, sectors, rwbs, error } => {
            let error = || error.and_then(|field| field.number(record)).map(|number| (number as u32).cast_signed());
            let point = match point {
                Point::BioCompleted if error() == Some(-AGAIN) => Point::Returned,
                point => point,
            };
            let event = BlockEvent {
                at,
                sector: sector.number(record)?,
                sectors: sectors.number(record)? as u32,
                device: DeviceCode(device.number(record)? as u32),
                point,
                way: Way::of(rwbs.bytes(record)?),
            };
            Some((Event::Block(event), None))
        }
        Fields::PassedOn { from, to, sectors, rwbs } => {
            let (sectors, way) = (sectors.number(record)? as u32, Way::of(rwbs.bytes(record)?));
            let side = |(device, sector): (Field, Field), point| {
                let (sector, device) = (sector.number(record)?, DeviceCode(device.number(record)? as u32));
                Some(Event::Block(BlockEvent { at, sector, sectors, device, point, way }))
            };
            Some((side(from, Point::Left)?, side(to, Point::Handed)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FORMAT: &str = "ID: 2104\n\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n";

    /// Where it was before it was passed on.
    const FROM: &str = "\tfield:dev_t old_dev;\toffset:28;\tsize:4;\tsigned:0;\n\
        \tfield:sector_t old_sector;\toffset:48;\tsize:8;\tsigned:0;\n";

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
        let (point, way) = (Point::Issued, Way::Write);
        let expected = BlockEvent { at: 5, sector: 1 << 40, sectors: 8, device, point, way };
        assert_eq!(event(&[layout], 5, &record), Some((Event::Block(expected), None)));
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
            let Some((Event::Block(event), None)) = event(&[layout], 0, &record) else { panic!("a request") };
            event.point
        };
        assert_eq!([0, -5, -11].map(point), [Point::BioCompleted, Point::BioCompleted, Point::Returned]);
    }

    #[test]
    fn a_call_of_a_ring_is_known_by_its_ring_and_its_number() {
        let format = "ID: 2141\n\tfield:void * ctx;\toffset:8;\tsize:8;\tsigned:0;\n\
            \tfield:u64 user_data;\toffset:24;\tsize:8;\tsigned:0;\n";
        let layout = Layout::of_ring(RingPoint::Posted, format).unwrap();
        let mut record = vec![0; 56];
        record[0..2].copy_from_slice(&2141u16.to_ne_bytes());
        record[8..16].copy_from_slice(&77u64.to_ne_bytes());
        record[24..32].copy_from_slice(&3u64.to_ne_bytes());
        let posted = Event::Posted(RingCall { at: 5, ring: 77, call: 3 });
        assert_eq!(event(&[layout], 5, &record), Some((posted, None)));
        assert_eq!(event(&[layout], 5, &record[..20]), None, "cut short");
    }

    #[test]
    fn what_is_passed_on_is_told_by_where_it_was_and_where_it_goes() {
        let layout = Layout::of_passing_on(&format!("{FORMAT}{FROM}")).unwrap();
        let mut record = vec![0; 56];
        record[0..2].copy_from_slice(&2104u16.to_ne_bytes());
        record[8..12].copy_from_slice(&(8u32 << 20).to_ne_bytes());
        record[16..24].copy_from_slice(&2056u64.to_ne_bytes());
        record[24..28].copy_from_slice(&8u32.to_ne_bytes());
        record[28..32].copy_from_slice(&(9u32 << 20).to_ne_bytes());
        record[34..36].copy_from_slice(b"R\0");
        record[48..56].copy_from_slice(&16u64.to_ne_bytes());
        let side = |major, sector, point| {
            let device = DeviceCode::from(DeviceNumber { major, minor: 0 });
            Event::Block(BlockEvent { at: 5, sector, sectors: 8, device, point, way: Way::Read })
        };
        let expected = (side(9, 16, Point::Left), Some(side(8, 2056, Point::Handed)));
        assert_eq!(event(&[layout], 5, &record), Some(expected));
        assert!(Layout::of_passing_on(FORMAT).is_none(), "it does not say from where");
    }

    #[test]
    fn letters_tell_the_operation_also_behind_a_flush() {
        let told = [&b"RA\0"[..], b"WFS\0", b"FWFS\0", b"DS\0", b"FF\0", b"N\0", b""].map(Way::of);
        assert_eq!(told, [Way::Read, Way::Write, Way::Write, Way::Discard, Way::Other, Way::Other, Way::Other]);
    }

    proptest! {
        #[test]
        fn arbitrary_records_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut named = bytes.clone();
            if let Some(id) = named.first_chunk_mut() {
                *id = 2104u16.to_ne_bytes();
            }
            let layout = Layout::parse(Point::Issued, FORMAT).unwrap();
            prop_assert!(event(&[layout], 0, &named).is_none() || named.len() >= 44);
            let passing = Layout::of_passing_on(&format!("{FORMAT}{FROM}")).unwrap();
            prop_assert!(event(&[passing], 0, &named).is_none() || named.len() >= 56);
        }
    }
}
