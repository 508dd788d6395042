//! Members that keep checksums are replaced while they serve, and the array grows: sums go where the data go, and nothing is believed that
//! was not held against them.

mod common;

use std::cell::Cell;
use std::rc::Rc;

use array::geometry::{Copies, DoubleRotation, Level, Rotation};
use array::md::{self, Consistency, Superblock, Uuid};
use array::{Array, GrowError, MemberState, OpenOptions, Repair};
use array::{add_checksums, checksum_area, checksum_room, checksums_of, format};
use common::superblocks;
use device::filter::{Damage, Delay, Faulty, Latency, Medium};
use device::{Buffer, Data, Device, DeviceError, MemoryDevice, Request, Shape};
use runtime::Runtime;
use units::{Bytes, Duration};

const CHUNK: Bytes = Bytes::kib(16);
/// Of data on each member: sums of three pages, and an end within a region of sums, which is 64 KiB.
const ROOM: Bytes = Bytes::kib(1296);
const BLOCK: Bytes = Bytes::kib(4);

type Disk = Rc<Faulty<Medium<Delay<MemoryDevice>>>>;

const LEVELS: [(Level, usize, Consistency); 5] = [
    (Level::Raid1, 2, Consistency::Bitmap),
    (Level::Raid4, 3, Consistency::Resync),
    (Level::Raid5(Rotation::LeftSymmetric), 4, Consistency::Ppl),
    (Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric)), 4, Consistency::Bitmap),
    (Level::Raid10(Copies::near(2)), 3, Consistency::Bitmap),
];

fn disk(runtime: &Runtime, size: Bytes) -> Disk {
    let memory = MemoryDevice::new(runtime, Shape::new("disk", size));
    let slow = Delay::new(runtime, memory, Latency::Uniform(Duration::micros(5), Duration::micros(60)), 1);
    Rc::new(Faulty::new(runtime, Medium::new(runtime, slow), 1))
}

/// An array whose members keep checksums, its disks in the order of their roles.
struct Bed {
    runtime: Runtime,
    disks: Vec<Disk>,
    data_offset: Bytes,
    case: (Level, usize, Consistency),
}

impl Bed {
    fn new(case: (Level, usize, Consistency)) -> Bed {
        Bed::with_room(case, Bytes::ZERO)
    }

    /// On disks that have so much room that the array does not use.
    fn with_room(case: (Level, usize, Consistency), more: Bytes) -> Bed {
        let runtime = Runtime::simulated();
        let size = Bytes::mib(2) + ROOM;
        let superblocks = superblocks(case, CHUNK, size, 1);
        let disks: Vec<Disk> = superblocks.iter().map(|_| disk(&runtime, size + checksum_room(size) + more)).collect();
        runtime.block_on(async {
            add_checksums(&disks, &superblocks).await.unwrap();
            format(&disks, &superblocks).await.unwrap();
        });
        Bed { runtime, disks, data_offset: superblocks[0].data_offset, case }
    }

    fn open(&self) -> Rc<Array<Disk>> {
        let opened = Array::open(&self.runtime, "array", self.disks.clone(), OpenOptions::default());
        let array = self.runtime.block_on(opened).unwrap_or_else(|error| panic!("{:?}: {error}", self.case));
        assert!(array.has_checksums());
        Rc::new(array)
    }

    /// A disk as large as the first.
    fn spare(&self) -> Disk {
        disk(&self.runtime, self.disks[0].shape().size)
    }

    /// Turns a bit over in a sector of a disk's data.
    fn rot(&self, disk: &Disk, sector: u64) {
        let at = self.data_offset + Bytes::SECTOR * sector;
        disk.inner().damage(at..at + Bytes::SECTOR, Damage::Flipped(77));
    }

    fn rotten(&self, disk: &Disk) -> usize {
        disk.inner().damaged().len()
    }

    fn stop(&self, array: Rc<Array<Disk>>) {
        self.runtime.block_on(array.stop()).unwrap();
    }

    fn superblock(&self, disk: &Disk) -> Superblock {
        let reply = self.runtime.block_on(disk.submit(Request::read(md::SUPERBLOCK_AT, Buffer::zeroed(BLOCK))));
        Superblock::parse(reply.buffer.unwrap().bytes().unwrap()).unwrap()
    }

    /// What a disk's sums were given up for, and how many regions of it are marked.
    fn renewed_and_open(&self, disk: &Disk) -> (u64, u64) {
        let report =
            self.runtime.block_on(checksums_of(disk, &self.superblock(disk))).unwrap().expect("there are sums");
        (report.renewed, report.open_regions)
    }

    fn scrubbed(&self, array: &Array<Disk>) -> Vec<u64> {
        let found = self.runtime.block_on(array.scrub(Repair::No)).unwrap();
        assert_eq!((found.mismatches, found.unreadable), (0, 0), "{:?}", self.case);
        found.corrupt
    }
}

fn block(value: u64) -> Data {
    let mut buffer = Buffer::zeroed(BLOCK);
    let mixed = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    buffer.bytes_mut().unwrap().chunks_mut(8).for_each(|word| word.copy_from_slice(&mixed.to_le_bytes()));
    buffer.freeze()
}

fn write(bed: &Bed, array: &Array<Disk>, number: u64, value: u64) {
    bed.runtime.block_on(array.submit(Request::write(BLOCK * number, block(value)))).result.unwrap();
}

fn fill(bed: &Bed, array: &Array<Disk>, from: u64) -> Vec<u64> {
    let blocks = array.geometry().size() / BLOCK;
    (0..blocks).for_each(|number| write(bed, array, number, from + number));
    (from..from + blocks).collect()
}

fn assert_holds(bed: &Bed, array: &Array<Disk>, values: &[u64]) {
    for (number, value) in values.iter().enumerate() {
        let reply = bed.runtime.block_on(array.submit(Request::read(BLOCK * number as u64, Buffer::zeroed(BLOCK))));
        reply.result.unwrap_or_else(|error| panic!("{:?}, block {number}: {error}", bed.case));
        assert!(reply.buffer.unwrap().bytes() == block(*value).bytes(), "{:?}, block {number} is wrong", bed.case);
    }
}

#[test]
fn rot_is_not_copied_to_the_disk_that_replaces_a_member() {
    for case in LEVELS {
        let mut bed = Bed::new(case);
        let array = bed.open();
        let values = fill(&bed, &array, 1 << 20);
        [3, 40, 41, 900].iter().for_each(|sector| bed.rot(&bed.disks[1], *sector));
        let (new, old) = (bed.spare(), Rc::clone(&bed.disks[1]));
        let copied = bed.runtime.block_on(array.replace(1, Rc::clone(&new), bed.data_offset, Uuid([9; 16])));
        assert_eq!(copied.unwrap(), [], "{case:?}");
        assert_eq!(array.counts(1).corrupt, 4, "{case:?}");
        bed.disks[1] = Rc::clone(&new);
        // From here on it is the new disk's own sums that count.
        bed.rot(&new, 17);
        bed.rot(&new, 2000);
        let mut wrong = vec![0; case.1];
        wrong[1] = 2;
        assert_eq!(bed.scrubbed(&array), wrong, "{case:?}");
        assert_eq!((bed.rotten(&new), bed.rotten(&old)), (0, 4), "{case:?}");
        assert_holds(&bed, &array, &values);
        bed.stop(array);
        assert_eq!(bed.renewed_and_open(&new), (0, 0), "{case:?}");
        // After a restart, too, and without the others' help.
        let array = bed.open();
        bed.rot(&new, 18);
        assert_eq!(bed.scrubbed(&array).iter().sum::<u64>(), 1, "{case:?}");
        array.fail(0);
        assert_holds(&bed, &array, &values);
    }
}

/// Writes and reads all over the array until it is told to end; what was read must be what was acknowledged.
fn load(
    bed: &Bed,
    array: &Rc<Array<Disk>>,
    values: &Rc<std::cell::RefCell<Vec<u64>>>,
    ending: &Rc<Cell<bool>>,
) -> Vec<runtime::JoinHandle<()>> {
    let one = |client: u64| {
        let (array, values, ending) = (Rc::clone(array), Rc::clone(values), Rc::clone(ending));
        let (own, case) = (bed.runtime.clone(), bed.case);
        bed.runtime.spawn(async move {
            let blocks = values.borrow().len() as u64;
            for round in 1u64.. {
                // Each has blocks of its own.
                let number = (round * 7919 % blocks) / 3 * 3 + client;
                if number < blocks && client < 2 {
                    array.submit(Request::write(BLOCK * number, block(round))).await.result.unwrap();
                    values.borrow_mut()[number as usize] = round;
                } else if number < blocks {
                    let reply = array.submit(Request::read(BLOCK * number, Buffer::zeroed(BLOCK))).await;
                    reply.result.unwrap();
                    let wanted = block(values.borrow()[number as usize]);
                    assert!(reply.buffer.unwrap().bytes() == wanted.bytes(), "{case:?}: block {number} is wrong");
                }
                own.sleep(Duration::micros(if client < 2 { 90 } else { 15 })).await;
                if ending.get() {
                    return;
                }
            }
        })
    };
    (0..3).map(one).collect()
}

#[test]
fn a_member_is_replaced_under_load_and_its_sums_with_it() {
    for case in LEVELS {
        for memory in [Bytes::mib(64), Bytes::kib(4)] {
            let mut bed = Bed::new(case);
            let array = bed.open();
            array.set_checksum_memory(memory);
            let values = Rc::new(std::cell::RefCell::new(fill(&bed, &array, 1 << 20)));
            let ending = Rc::new(Cell::new(false));
            let clients = load(&bed, &array, &values, &ending);
            let tending = bed.runtime.spawn({
                let array = Rc::clone(&array);
                async move { array.tend().await }
            });
            [5, 1111].iter().for_each(|sector| bed.rot(&bed.disks[0], *sector));
            let new = bed.spare();
            let copied = bed.runtime.block_on(array.replace(0, Rc::clone(&new), bed.data_offset, Uuid([9; 16])));
            assert_eq!(copied.unwrap(), [], "{case:?}");
            bed.disks[0] = Rc::clone(&new);
            bed.runtime.block_on(bed.runtime.sleep(Duration::millis(20)));
            ending.set(true);
            clients.into_iter().for_each(|client| bed.runtime.block_on(client));
            drop(tending);
            assert!((0..case.1).all(|member| array.state(member) == MemberState::Active), "{case:?}");
            // Healed where it was met, and found nowhere since.
            assert!(array.counts(0).corrupt <= 2, "{case:?}: {:?}", array.counts(0));
            assert_eq!(bed.scrubbed(&array).iter().sum::<u64>(), 0, "{case:?}");
            assert_holds(&bed, &array, &values.borrow());
            bed.rot(&new, 77);
            assert_eq!(bed.scrubbed(&array).iter().sum::<u64>(), 1, "{case:?}");
            bed.runtime.block_on(array.stop()).unwrap();
            assert_eq!(bed.renewed_and_open(&new), (0, 0), "{case:?}");
        }
    }
}

#[test]
fn what_was_copied_before_an_interruption_has_its_sums_after_it() {
    for case in LEVELS {
        for without_old in [false, true] {
            let mut bed = Bed::new(case);
            let array = bed.open();
            let values = fill(&bed, &array, 1 << 20);
            bed.stop(array);
            let array = bed.open();
            let new = bed.spare();
            array.watch(|progress| progress.done < progress.of / 2);
            let copied = bed.runtime.block_on(array.replace(1, Rc::clone(&new), bed.data_offset, Uuid([9; 16])));
            assert_eq!(copied.unwrap(), [], "{case:?}");
            assert_eq!(array.replacing().map(|(member, _)| member), Some(1), "{case:?}");
            // The power goes: there is no stop. What the mark covers is on the disk with its sums.
            drop(array);
            assert_eq!(bed.renewed_and_open(&new), (0, 0), "{case:?}");
            let old = std::mem::replace(&mut bed.disks[1], Rc::clone(&new));
            bed.rot(&new, 8);
            if without_old {
                let array = bed.open();
                assert!(matches!(array.state(1), MemberState::Rebuilding(upto) if !upto.is_zero()), "{case:?}");
                assert_holds(&bed, &array, &values);
                assert_eq!(bed.runtime.block_on(array.resume_rebuild(1)).unwrap(), []);
                bed.scrubbed(&array);
                assert_eq!(found(&array), 1, "{case:?}");
                assert_holds(&bed, &array, &values);
            } else {
                bed.disks.push(old);
                let array = bed.open();
                assert_eq!(array.replacing().map(|(member, _)| member), Some(1), "{case:?}");
                assert_eq!(bed.runtime.block_on(array.resume_replace(1)).unwrap(), []);
                assert!(Rc::ptr_eq(&*array.device(1).unwrap(), &new));
                assert_eq!(bed.scrubbed(&array).iter().sum::<u64>(), 1, "{case:?}");
                assert_eq!(bed.rotten(&new), 0, "{case:?}");
                assert_holds(&bed, &array, &values);
            }
        }
    }
}

#[test]
fn a_disk_without_room_for_sums_replaces_no_member() {
    let bed = Bed::new(LEVELS[2]);
    let array = bed.open();
    let small = disk(&bed.runtime, bed.data_offset + array.geometry().used());
    let refused = bed.runtime.block_on(array.replace(1, small, bed.data_offset, Uuid([9; 16])));
    assert!(matches!(refused, Err(DeviceError::OutOfRange { .. })), "{refused:?}");
    assert_eq!(array.replacing(), None);
}

/// Blocks that did not fit since the array was opened: by a read, a resync, a scrub.
fn found(array: &Array<Disk>) -> u64 {
    (0..array.geometry().members()).map(|member| array.counts(member).corrupt).sum()
}

fn grown(bed: &Bed) -> Result<Bytes, GrowError> {
    let array = Rc::into_inner(bed.open()).unwrap();
    bed.runtime.block_on(array.grow())
}

#[test]
fn an_array_grows_and_its_members_sums_move_with_the_end_of_the_data() {
    for case in LEVELS {
        let bed = Bed::with_room(case, Bytes::mib(1));
        let array = bed.open();
        let (values, before) = (fill(&bed, &array, 1 << 20), array.geometry().used());
        bed.stop(array);
        // What is left behind the sums is anything.
        for disk in &bed.disks {
            let area = checksum_area(&bed.superblock(disk), Bytes::SECTOR);
            let mut buffer = Buffer::zeroed(disk.shape().size - area.end);
            buffer.bytes_mut().unwrap().fill(0xa5);
            bed.runtime.block_on(disk.submit(Request::write(area.end, buffer.freeze()))).result.unwrap();
        }
        let used = grown(&bed).unwrap_or_else(|error| panic!("{case:?}: {error}"));
        assert!(used > before + Bytes::kib(900), "{case:?}: {used}");
        let array = bed.open();
        // The old sums are known, and hold what is read against them.
        bed.rot(&bed.disks[1], 6);
        bed.rot(&bed.disks[0], 1500);
        assert!(bed.runtime.block_on(array.resync()).unwrap(), "{case:?}");
        bed.scrubbed(&array);
        assert_eq!(found(&array), 2, "{case:?}");
        assert_holds(&bed, &array, &values);
        // So are those of what it has grown by, now that all of it was read.
        let values = fill(&bed, &array, 1 << 30);
        bed.stop(array);
        bed.disks.iter().for_each(|disk| assert_eq!(bed.renewed_and_open(disk), (0, 0), "{case:?}"));
        let array = bed.open();
        let last = used / Bytes::SECTOR - 1;
        bed.rot(&bed.disks[1], last - 40);
        assert_eq!(bed.scrubbed(&array).iter().sum::<u64>(), 1, "{case:?}");
        assert_holds(&bed, &array, &values);
        bed.stop(array);
        assert!(matches!(grown(&bed), Err(GrowError::NoRoom { .. })), "{case:?}");
    }
}

#[test]
fn a_growth_that_is_too_small_for_the_sums_to_move_is_refused_and_one_with_rot_at_its_edge() {
    let bed = Bed::with_room(LEVELS[2], Bytes::ZERO);
    let array = bed.open();
    let values = fill(&bed, &array, 5);
    bed.stop(array);
    let error = grown(&bed).unwrap_err();
    // Two headers and three pages, of which the chunk is 16 KiB, and there was a page left over.
    assert!(matches!(error, GrowError::SumsInTheWay { member: 0, more } if more <= CHUNK), "{error}");
    let array = bed.open();
    assert_holds(&bed, &array, &values);
    bed.stop(array);
    let bed = Bed::with_room(LEVELS[2], Bytes::mib(1));
    let array = bed.open();
    let (values, used) = (fill(&bed, &array, 5), array.geometry().used());
    bed.stop(array);
    bed.rot(&bed.disks[2], used / Bytes::SECTOR - 1);
    assert!(!used.is_multiple_of(Bytes::kib(64)));
    let refused = grown(&bed);
    assert!(matches!(refused, Err(GrowError::Unsound { member: 2 })), "{refused:?}");
    let array = bed.open();
    assert_holds(&bed, &array, &values);
}

#[test]
fn a_growth_that_the_power_cut_meets_has_happened_or_not_and_sums_are_there() {
    for case in LEVELS {
        let mut happened = [false; 2];
        for after in (0..30).map(|step| Duration::micros(40) * step * step) {
            let bed = Bed::with_room(case, Bytes::kib(256));
            let array = bed.open();
            let (values, before) = (fill(&bed, &array, 1 << 20), array.geometry().used());
            bed.stop(array);
            {
                let array = Rc::into_inner(bed.open()).unwrap();
                let (growing, cut) = (std::pin::pin!(array.grow()), std::pin::pin!(bed.runtime.sleep(after)));
                _ = bed.runtime.block_on(futures_util::future::select(growing, cut));
            }
            let array = bed.open();
            happened[usize::from(array.geometry().used() > before)] = true;
            bed.rot(&bed.disks[1], 6);
            bed.runtime.block_on(array.resync()).unwrap();
            bed.scrubbed(&array);
            assert_eq!(found(&array), 1, "{case:?}, after {after}");
            assert_holds(&bed, &array, &values);
        }
        assert_eq!(happened, [true; 2], "{case:?}");
    }
}

#[test]
fn what_an_array_has_grown_by_is_not_computed_from_parity_that_does_not_fit_yet() {
    // Four blocks of data, so that a small write changes parity by the difference.
    let bed = Bed::with_room((Level::Raid4, 5, Consistency::Resync), Bytes::mib(1));
    for disk in &bed.disks {
        let area = checksum_area(&bed.superblock(disk), Bytes::SECTOR);
        let mut buffer = Buffer::zeroed(disk.shape().size - area.end);
        buffer.bytes_mut().unwrap().fill(0xa5);
        bed.runtime.block_on(disk.submit(Request::write(area.end, buffer.freeze()))).result.unwrap();
    }
    grown(&bed).unwrap();
    let array = bed.open();
    let last = array.geometry().size() - BLOCK;
    write(&bed, &array, last / BLOCK, 4711);
    let place = array.geometry().place(last);
    let at = bed.data_offset + place.offset;
    bed.disks[place.member].inner().damage(at..at + Bytes::SECTOR, Damage::Unreadable);
    assert!(!bed.runtime.block_on(array.resync()).unwrap(), "what was written there was invented");
    assert_eq!(bed.rotten(&bed.disks[place.member]), 1);
}
