//! Memory that the kernel has been told of once, so that it need not look it up and pin it for every request.
//!
//! A registered region is one allocation, cut into [`Buffer`]s that keep their addresses wherever they are moved. A
//! request whose memory lies within a region uses the `FIXED` opcodes; nobody has to say so. The kernel knows a region
//! by its *pages*, not by its addresses: were the allocation freed and its addresses given to someone else, a `FIXED`
//! request for them would reach the old pages. So the ring keeps one page of each region for itself, which keeps the
//! allocation alive for as long as the ring lives.

use device::Buffer;
use units::Bytes;

/// The most that the kernel takes as one registered buffer.
const LARGEST: Bytes = Bytes::gib(1);
/// How many regions one ring takes.
pub(crate) const TABLE: u32 = 64;
const PAGE: Bytes = Bytes::kib(4);

/// The registered regions of one ring.
#[derive(Default)]
pub(crate) struct Regions {
    regions: Vec<Region>,
}

struct Region {
    start: usize,
    end: usize,
    _keeper: Buffer,
}

impl Regions {
    /// The index under which the kernel knows this memory, if it does.
    pub fn of(&self, start: *const u8, length: usize) -> Option<u16> {
        let start = start.addr();
        self.regions
            .iter()
            .position(|region| region.start <= start && start + length <= region.end)
            .map(|index| index as u16)
    }

    /// How many of `count` buffers of `size` bytes go into one region.
    pub fn capacity(size: Bytes) -> usize {
        // The ring's own page belongs to the region.
        ((LARGEST - PAGE) / size.round_up(PAGE)) as usize
    }

    /// Cuts `count` buffers of `size` bytes out of one allocation, and offers that to `register` under an index.
    ///
    /// If it is refused, the buffers are as good as any others, and the error says why they are not registered.
    pub fn add<E>(
        &mut self,
        count: usize,
        size: Bytes,
        register: impl FnOnce(u32, libc::iovec) -> Result<(), E>,
    ) -> (Vec<Buffer>, Result<(), E>) {
        let stride = size.round_up(PAGE);
        let mut rest = Buffer::zeroed(stride * count as u64 + PAGE);
        let memory = rest.bytes_mut().expect("a zeroed buffer has memory");
        let (start, end) = (memory.as_ptr().addr(), memory.as_ptr().addr() + memory.len());
        let whole = libc::iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: memory.len() };
        let buffers = (0..count)
            .map(|_| {
                let mut buffer = rest.split_to(stride);
                buffer.split_to(size)
            })
            .collect();
        let registered = register(self.regions.len() as u32, whole);
        if registered.is_ok() {
            assert_eq!(rest.len(), PAGE, "the ring keeps a page, and with it the allocation");
            self.regions.push(Region { start, end, _keeper: rest });
        }
        (buffers, registered)
    }
}

#[test]
fn a_full_region_with_its_page_is_not_larger_than_the_kernel_takes() {
    for size in [Bytes::SECTOR, Bytes::kib(4), Bytes::mib(1), Bytes::mib(300)] {
        let region = size.round_up(PAGE) * Regions::capacity(size) as u64 + PAGE;
        assert!(region <= LARGEST && region + size.round_up(PAGE) > LARGEST, "{region:#} for buffers of {size}");
    }
}
