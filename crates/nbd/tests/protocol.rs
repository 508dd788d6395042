//! The protocol, byte by byte, in virtual time: what is right is answered as its document says, and so is what is
//! wrong.

mod common;

use std::cell::Cell;
use std::rc::Rc;

use common::raw::{Raw, context, name};
use common::{export, house, memory, visit};
use device::filter::{Effect, Faulty, Rule};
use device::{AnyDevice, Buffer, Device, DeviceError, Extent, MemoryDevice, Operation, Reply, Request, Shape};
use nbd::protocol::{answer, chunk, command, flag, option, transmission};
use nbd::{Export, ExportError, Exports, House, Limits};
use runtime::Runtime;
use units::{Bytes, Duration, Instant};

const SIZE: Bytes = Bytes::mib(4);

/// A conversation with a server of two exports: one of memory, one read-only of large blocks.
fn talk(conversation: impl AsyncFnOnce(&Raw, &House)) {
    let runtime = Runtime::simulated();
    let large = Shape { logical_block: Bytes::kib(4), ..Shape::new("large", SIZE) };
    let exports = vec![
        Export::new("", AnyDevice::new(memory(&runtime, SIZE)), false).unwrap(),
        Export::new("large", AnyDevice::new(MemoryDevice::new(&runtime, large)), true).unwrap(),
    ];
    let house = house(&runtime, exports);
    let raw = Raw(visit(&house));
    runtime.block_on(conversation(&raw, &house));
}

#[test]
fn a_list_names_all_exports() {
    talk(async |raw, _| {
        raw.greet().await;
        raw.ask(option::LIST, &[]).await;
        let answers = raw.answers(option::LIST).await;
        let server = |name: &str, about: &str| {
            let length = (name.len() as u32).to_be_bytes();
            (answer::SERVER, [&length[..], name.as_bytes(), about.as_bytes()].concat())
        };
        assert_eq!(answers, [server("", "memory"), server("large", "large"), (answer::ACK, vec![])]);
    });
}

#[test]
fn information_is_given_as_asked() {
    talk(async |raw, _| {
        raw.greet().await;
        raw.ask(option::INFO, &name("large", &[1, 2, 3, 77])).await;
        let answers = raw.answers(option::INFO).await;
        let flags =
            transmission::HAS_FLAGS | transmission::READ_ONLY | transmission::SEND_FLUSH | transmission::CAN_MULTI_CONN;
        let about = [&[0, 0][..], &SIZE.get().to_be_bytes(), &flags.to_be_bytes()].concat();
        let blocks = [1u32, 4096, 32 << 20].map(u32::to_be_bytes).concat();
        assert_eq!(
            answers,
            [
                (answer::INFO, about),
                (answer::INFO, b"\0\x01large".to_vec()),
                (answer::INFO, b"\0\x02large".to_vec()),
                (answer::INFO, [&[0, 3][..], &blocks].concat()),
                (answer::ACK, vec![])
            ]
        );
    });
}

#[test]
fn options_that_are_wrong_are_answered_and_haggling_goes_on() {
    talk(async |raw, _| {
        raw.greet().await;
        let wrong: [(u32, Vec<u8>, u32); 13] = [
            (4711, vec![], answer::ERR_UNSUP),
            (4711, vec![1; 300], answer::ERR_UNSUP),
            (4711, vec![1; 100_000], answer::ERR_TOO_BIG),
            (option::LIST, vec![0], answer::ERR_INVALID),
            (option::STRUCTURED_REPLY, vec![0], answer::ERR_INVALID),
            (option::STARTTLS, vec![], answer::ERR_POLICY),
            (option::STARTTLS, vec![0], answer::ERR_INVALID),
            (option::GO, vec![], answer::ERR_INVALID),
            (option::GO, [name("", &[]), vec![0]].concat(), answer::ERR_INVALID),
            (option::GO, name("a\0b", &[]), answer::ERR_INVALID),
            (option::GO, name("nobody", &[]), answer::ERR_UNKNOWN),
            // Structured replies first.
            (option::SET_META_CONTEXT, context("", &["base:allocation"]), answer::ERR_INVALID),
            (option::LIST_META_CONTEXT, vec![0xff; 12], answer::ERR_INVALID),
        ];
        for (code, data, error) in wrong {
            raw.ask(code, &data).await;
            let answers = raw.answers(code).await;
            assert_eq!(answers.len(), 1, "option {code}");
            assert_eq!(answers[0].0, error, "option {code}");
            assert!(!answers[0].1.is_empty(), "a sentence for the user");
        }
        raw.ask(option::GO, &name("large", &[3])).await;
        assert_eq!(raw.answers(option::GO).await.last().unwrap().0, answer::ACK);
    });
}

#[test]
fn contexts_are_listed_and_selected_by_name() {
    talk(async |raw, _| {
        raw.greet().await;
        raw.ask(option::STRUCTURED_REPLY, &[]).await;
        raw.answers(option::STRUCTURED_REPLY).await;
        let found = async |code: u32, queries: &[&str]| {
            raw.ask(code, &context("", queries)).await;
            raw.answers(code).await
        };
        let allocation = |id: u8| (answer::META_CONTEXT, [&[0, 0, 0, id][..], b"base:allocation"].concat());
        let done = || (answer::ACK, vec![]);
        assert_eq!(found(option::LIST_META_CONTEXT, &[]).await, [allocation(0), done()]);
        assert_eq!(found(option::LIST_META_CONTEXT, &["base:"]).await, [allocation(0), done()]);
        assert_eq!(found(option::LIST_META_CONTEXT, &["qemu:"]).await, [done()]);
        assert_eq!(found(option::SET_META_CONTEXT, &["x-a:b", "base:allocation"]).await, [allocation(1), done()]);
        // A later selection takes the place of an earlier one, and of another export's.
        assert_eq!(found(option::SET_META_CONTEXT, &[]).await, [done()]);
        raw.ask(option::GO, &name("", &[])).await;
        raw.answers(option::GO).await;
        raw.request(command::BLOCK_STATUS, 0, 0, 512, &[]).await;
        assert_eq!(raw.chunk().await.0, chunk::ERROR);
    });
}

#[test]
fn clients_of_old_get_an_export_by_its_name() {
    talk(async |raw, _| {
        raw.exactly(18).await;
        // Without the wish to leave the padding out.
        raw.send(&[0, 0, 0, 1]).await;
        raw.ask(option::EXPORT_NAME, b"").await;
        let reply = raw.exactly(10 + 124).await;
        assert_eq!(reply[..8], SIZE.get().to_be_bytes());
        assert!(reply[10..].iter().all(|byte| *byte == 0));
        raw.request(command::FLUSH, 0, 0, 0, &[]).await;
        assert_eq!(raw.simple().await, 0);
    });
}

#[test]
fn what_cannot_be_answered_ends_the_connection() {
    let ends: [(&str, &[u8]); 3] = [
        ("flags that nobody offered", &[0, 0, 1, 3]),
        ("no option", b"\0\0\0\x03GET / HTTP/1.1\r\n"),
        ("an unknown export by the old option", b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x01x"),
    ];
    for (what, bytes) in ends {
        talk(async |raw, _| {
            raw.exactly(18).await;
            raw.send(bytes).await;
            assert!(raw.has_ended().await, "{what}");
        });
    }
    talk(async |raw, _| {
        raw.go(false).await;
        raw.send(&[0; 28]).await;
        assert!(raw.has_ended().await, "a request without its number");
    });
    talk(async |raw, _| {
        raw.greet().await;
        raw.ask(option::ABORT, &[]).await;
        assert_eq!(raw.answers(option::ABORT).await, [(answer::ACK, vec![])]);
        assert!(raw.has_ended().await, "an abort");
    });
}

#[test]
fn who_does_not_haggle_is_sent_away() {
    talk(async |raw, house| {
        raw.greet().await;
        assert!(raw.has_ended().await);
        let waited = house.runtime.now().since(units::Instant::START);
        assert_eq!(waited, Duration::seconds(10));
    });
}

#[test]
fn reads_and_writes_with_simple_replies() {
    talk(async |raw, house| {
        raw.go(false).await;
        raw.request(command::WRITE, 0, 512, 1024, &[7; 1024]).await;
        assert_eq!(raw.simple().await, 0);
        raw.request(command::READ, flag::FUA, 0, 2048, &[]).await;
        assert_eq!(raw.simple().await, 0);
        assert_eq!(raw.exactly(2048).await, [&[0; 512][..], &[7; 1024], &[0; 512]].concat());
        raw.request(command::DISCONNECT, 0, 0, 0, &[]).await;
        assert!(raw.has_ended().await);
        let totals = &house.totals;
        assert_eq!((totals.requests.get(), totals.read.get(), totals.written.get()), (2, 2048, 1024));
    });
}

#[test]
fn reads_with_structured_replies_come_in_one_piece() {
    talk(async |raw, _| {
        raw.go(true).await;
        raw.request(command::WRITE, flag::FUA, 512, 512, &[7; 512]).await;
        assert_eq!(raw.simple().await, 0);
        for flags in [0, flag::DF] {
            raw.request(command::READ, flags, 512, 1024, &[]).await;
            let data = [&512u64.to_be_bytes()[..], &[7; 512], &[0; 512]].concat();
            assert_eq!(raw.chunk().await, (chunk::OFFSET_DATA, data));
        }
        raw.request(command::READ, 0, 512, 0, &[]).await;
        assert_eq!(raw.chunk().await, (chunk::NONE, vec![]));
    });
}

#[test]
fn status_tells_holes_from_data() {
    talk(async |raw, _| {
        raw.go(true).await;
        // Whole pages of the memory device, however large they are.
        raw.request(command::WRITE, 0, 128 << 10, 64 << 10, &[1; 64 << 10]).await;
        raw.simple().await;
        raw.request(command::BLOCK_STATUS, 0, 0, 512 << 10, &[]).await;
        let extents = |list: &[(u32, u32)]| {
            let numbers = list.iter().flat_map(|(length, kind)| [length.to_be_bytes(), kind.to_be_bytes()]);
            (chunk::BLOCK_STATUS, [vec![0, 0, 0, 1], numbers.flatten().collect()].concat())
        };
        assert_eq!(raw.chunk().await, extents(&[(128 << 10, 3), (64 << 10, 0), (320 << 10, 3)]));
        raw.request(command::BLOCK_STATUS, flag::REQ_ONE, 64 << 10, 512 << 10, &[]).await;
        assert_eq!(raw.chunk().await, extents(&[(64 << 10, 3)]));
        raw.request(command::TRIM, 0, 128 << 10, 64 << 10, &[]).await;
        assert_eq!(raw.simple().await, 0);
        raw.request(command::BLOCK_STATUS, 0, 128 << 10, 64 << 10, &[]).await;
        assert_eq!(raw.chunk().await, extents(&[(64 << 10, 3)]));
    });
}

/// A device that knows what it holds by sectors, and counts how often it is asked.
struct Grained(Rc<Cell<u32>>, Shape);

impl Device for Grained {
    fn shape(&self) -> &Shape {
        &self.1
    }
    async fn submit(&self, request: Request) -> Reply {
        request.refuse(DeviceError::Unsupported, Instant::START)
    }
    fn extent(&self, _: Bytes, length: Bytes) -> Extent {
        self.0.set(self.0.get() + 1);
        Extent::hole(length.min(Bytes::SECTOR))
    }
}

#[test]
fn a_status_that_takes_long_is_told_in_parts() {
    let runtime = Runtime::simulated();
    let asked = Rc::<Cell<u32>>::default();
    let house = house(&runtime, export(Grained(Rc::clone(&asked), Shape::new("grained", Bytes::mib(16)))));
    let raw = Raw(visit(&house));
    runtime.block_on(async {
        raw.go(true).await;
        let status = async |flags, offset, length| {
            asked.set(0);
            raw.request(command::BLOCK_STATUS, flags, offset, length, &[]).await;
            let (kind, data) = raw.chunk().await;
            assert_eq!((kind, data.len()), (chunk::BLOCK_STATUS, 12), "one extent");
            (u32::from_be_bytes(data[4..8].try_into().unwrap()), asked.get())
        };
        for flags in [0, flag::REQ_ONE] {
            assert_eq!(status(flags, 0, 16 << 20).await, (512 << 10, 1024));
            assert_eq!(status(flags, 512 << 10, 8192).await, (8192, 16));
        }
    });
}

#[test]
fn requests_that_are_wrong_get_the_error_of_the_protocol_and_nothing_is_lost_behind_them() {
    let end = SIZE.get();
    let wrong: [(u16, u16, u64, u32, u32); 13] = [
        (99, 0, 0, 512, 22),
        (command::READ, 1 << 9, 0, 512, 22),
        (command::READ, flag::DF, 0, 512, 22),
        (command::WRITE, flag::NO_HOLE, 0, 512, 22),
        (command::READ, 0, end, 512, 22),
        (command::READ, 0, u64::MAX - 511, 1024, 22),
        (command::WRITE, 0, end - 512, 1024, 28),
        (command::TRIM, 0, end, 512, 22),
        (command::WRITE, 0, end - 100, 101, 28),
        (command::FLUSH, 0, 512, 0, 22),
        (command::FLUSH, 0, 0, 512, 22),
        (command::BLOCK_STATUS, 0, 0, 512, 22),
        (command::WRITE, 0, end, 40 << 20, 28),
    ];
    talk(async |raw, house| {
        raw.go(false).await;
        for (index, (code, flags, offset, length, error)) in wrong.into_iter().enumerate() {
            let payload = if code == command::WRITE { vec![0xee; length as usize] } else { vec![] };
            raw.request(code, flags, offset, length, &payload).await;
            assert_eq!(raw.simple().await, error, "request {index}");
        }
        raw.request(command::READ, 0, 0, 512, &[]).await;
        assert_eq!((raw.simple().await, raw.exactly(512).await), (0, vec![0; 512]));
        assert_eq!(house.totals.errors.get(), wrong.len() as u64);
    });
}

#[test]
fn nothing_is_written_to_what_is_read_only() {
    talk(async |raw, _| {
        raw.greet().await;
        raw.ask(option::GO, &name("large", &[3])).await;
        raw.answers(option::GO).await;
        for code in [command::WRITE, command::TRIM, command::WRITE_ZEROES] {
            let payload = if code == command::WRITE { vec![1; 4096] } else { vec![] };
            raw.request(code, 0, 0, 4096, &payload).await;
            assert_eq!(raw.simple().await, 1);
        }
        raw.request(command::READ, 0, 0, 4096, &[]).await;
        assert_eq!((raw.simple().await, raw.exactly(4096).await), (0, vec![0; 4096]));
    });
}

/// Errors of a device reach the client under the protocol's numbers, with their place where it is known.
#[test]
fn errors_of_the_device_reach_the_client() {
    let cases: [(DeviceError, u32); 5] = [
        (DeviceError::Medium { offset: Bytes::new(4608), length: Bytes::SECTOR }, 5),
        (DeviceError::NoSpace, 28),
        (DeviceError::Kernel { errno: 12 }, 12),
        (DeviceError::Gone, 5),
        (DeviceError::ReadOnly, 1),
    ];
    for (error, number) in cases {
        let runtime = Runtime::simulated();
        let faulty = Rc::new(Faulty::new(&runtime, memory(&runtime, SIZE), 1));
        let house = house(&runtime, export(Rc::clone(&faulty)));
        let raw = Raw(visit(&house));
        runtime.block_on(async {
            raw.go(true).await;
            faulty.add(Rule::new(Effect::Fail(error.clone())).times(3));
            for code in [command::READ, command::WRITE, command::WRITE_ZEROES] {
                let payload = if code == command::WRITE { vec![1; 4096] } else { vec![] };
                raw.request(code, 0, 4096, 4096, &payload).await;
                let (kind, data) = raw.chunk().await;
                assert_eq!(data[..4], number.to_be_bytes(), "{error}");
                let length = u16::from_be_bytes([data[4], data[5]]) as usize;
                assert_eq!(data[6..6 + length], *error.to_string().as_bytes());
                let placed = matches!(error, DeviceError::Medium { .. }) && code != command::WRITE_ZEROES;
                assert_eq!(kind, if placed { chunk::ERROR_OFFSET } else { chunk::ERROR });
                assert_eq!(data[6 + length..], if placed { 4608u64.to_be_bytes().to_vec() } else { vec![] });
            }
            raw.request(command::READ, 0, 4096, 512, &[]).await;
            assert_eq!(raw.chunk().await.0, chunk::OFFSET_DATA, "and the next request is a good one");
        });
    }
}

/// A device that cannot zero a range is written zeroes; one that cannot discard forgets nothing.
#[test]
fn zeroes_are_written_where_a_device_knows_no_better() {
    let runtime = Runtime::simulated();
    let inner = Rc::new(memory(&runtime, SIZE));
    let poor = Faulty::new(&runtime, Rc::clone(&inner), 1);
    for operation in [Operation::WriteZeroes, Operation::Discard] {
        poor.add(Rule::new(Effect::Fail(DeviceError::Unsupported)).on(operation));
    }
    let house = house(&runtime, export(poor));
    let raw = Raw(visit(&house));
    runtime.block_on(async {
        raw.go(false).await;
        let data = Buffer::zeroed(SIZE);
        let mut data = data;
        data.bytes_mut().unwrap().fill(9);
        inner.submit(Request::write(Bytes::ZERO, data.freeze())).await.result.unwrap();
        raw.request(command::TRIM, flag::FUA, 0, 512, &[]).await;
        assert_eq!(raw.simple().await, 0);
        raw.request(command::WRITE_ZEROES, flag::FUA | flag::NO_HOLE, 512, 3 << 20, &[]).await;
        assert_eq!(raw.simple().await, 0);
        raw.request(command::READ, 0, 0, SIZE.get() as u32, &[]).await;
        assert_eq!(raw.simple().await, 0);
        let found = raw.exactly(SIZE.as_usize()).await;
        let zeroes = 512..512 + (3 << 20);
        assert!(found.iter().enumerate().all(|(at, byte)| (*byte == 0) == zeroes.contains(&at)));
    });
}

/// A client that sends and does not read stops only itself, and takes no more memory than it may.
#[test]
fn what_is_under_way_is_limited() {
    let runtime = Runtime::simulated();
    let exports = Exports::new(export(memory(&runtime, SIZE))).unwrap();
    let limits = Limits { requests: 8, memory: Bytes::mib(1), ..Limits::default() };
    let house = Rc::new(House::new(&runtime, exports, None, limits));
    let (greedy, other) = (Raw(visit(&house)), Raw(visit(&house)));
    runtime.block_on(async {
        greedy.go(false).await;
        other.go(false).await;
        for _ in 0..100 {
            greedy.request(command::READ, 0, 0, 256 << 10, &[]).await;
        }
        runtime.sleep(Duration::seconds(1)).await;
        // One reply may be on its way into the full pipe; what has been answered is what fits into the budget.
        assert!(house.totals.requests.get() <= 5, "{:?}", house.totals);
        other.request(command::READ, 0, 0, 512, &[]).await;
        assert_eq!((other.simple().await, other.exactly(512).await.len()), (0, 512));
        for _ in 0..100 {
            assert_eq!((greedy.simple().await, greedy.exactly(256 << 10).await.len()), (0, 256 << 10));
        }
    });
}

#[test]
fn exports_have_names_of_their_own_and_blocks_that_the_protocol_knows() {
    let runtime = Runtime::simulated();
    let device = || AnyDevice::new(memory(&runtime, SIZE));
    let one = || Export::new("one", device(), false).unwrap();
    assert_eq!(Exports::new(vec![one(), one()]).err(), Some(ExportError::Twice { name: "one".into() }));
    let name = "n".repeat(5000);
    assert_eq!(Export::new(&name, device(), false).err(), Some(ExportError::Name { name }));
    let huge = Shape { logical_block: Bytes::kib(128), ..Shape::new("huge", SIZE) };
    let huge = AnyDevice::new(MemoryDevice::new(&runtime, huge));
    assert!(matches!(Export::new("", huge, false).err(), Some(ExportError::Block { .. })));
}
