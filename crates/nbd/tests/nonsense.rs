//! Any bytes, any options, any requests: an answer of the protocol or the end of the connection, and never the end of
//! the server. And the other way: any words of a server, and never the end of its client.

mod common;

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;

use common::raw::{Raw, context, name, wish};
use common::{behind, export, house, memory, visit};
use device::filter::{Effect, Faulty, Rule};
use device::{AnyDevice, Buffer, Device, Request};
use futures_util::future::select;
use nbd::protocol::{OPTION_REPLY_MAGIC, RequestHeader, SIMPLE_REPLY_MAGIC, answer, info, option};
use nbd::{Client, Command, Export, Exports, Haggle, Next, Pipe, Terms, Tls, Wire};
use proptest::collection::vec;
use proptest::prelude::*;
use runtime::Runtime;
use units::{Bytes, Duration, Ratio};

const SIZE: Bytes = Bytes::mib(1);

fn any_option() -> impl Strategy<Value = (u32, Vec<u8>)> {
    let names = prop_oneof![Just("".to_owned()), Just("b".to_owned()), "\\PC{0,9}"];
    let data = prop_oneof![
        Just(vec![]),
        vec(any::<u8>(), 0..40),
        (names.clone(), vec(0u16..6, 0..5)).prop_map(|(export, kinds)| name(&export, &kinds)),
        (names, vec(prop_oneof![Just("base:allocation"), Just("base:"), Just("x:y")], 0..3))
            .prop_map(|(export, queries)| context(&export, &queries)),
    ];
    (prop_oneof![0u32..13, any::<u32>()], data)
}

/// A reply to `NBD_OPT_GO`.
fn told(kind: u32, data: &[u8]) -> Vec<u8> {
    let magic = OPTION_REPLY_MAGIC.to_be_bytes();
    [&magic[..], &option::GO.to_be_bytes(), &kind.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
}

/// Numbers that make trouble, beside those that chance makes.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(512),
        Just(1 << 12),
        Just(1 << 16),
        Just(1 << 20),
        Just(u64::from(u32::MAX)),
        Just(u64::MAX),
        any::<u64>()
    ]
}

proptest! {
    /// A client of any server: what it says of its export, and what it answers, end in a device that serves or fails,
    /// or in an error.
    #[test]
    fn any_server(size in number(), flags: u16, blocks in (number(), number(), number()), ends: bool,
                  replies in vec((any::<bool>(), prop_oneof![Just(0u32), any::<u32>()], 0u64..3, 0..6000usize), 0..6), rest in vec(any::<u8>(), 0..60)) {
        let runtime = Runtime::simulated();
        let (ours, theirs) = Pipe::pair();
        let theirs = Raw(theirs);
        let export = [&info::EXPORT.to_be_bytes()[..], &size.to_be_bytes(), &flags.to_be_bytes()].concat();
        let sizes = [blocks.0, blocks.1, blocks.2].map(|number| (number as u32).to_be_bytes());
        let sizes = [&info::BLOCK_SIZE.to_be_bytes()[..], &sizes.concat()].concat();
        let mut said = b"NBDMAGICIHAVEOPT\0\x03".to_vec();
        said.extend([told(answer::INFO, &export), told(answer::INFO, &sizes), told(answer::ACK, &[])].concat());
        for (sound, error, cookie, length) in replies {
            let magic = if sound { SIMPLE_REPLY_MAGIC } else { !SIMPLE_REPLY_MAGIC };
            said.extend([&magic.to_be_bytes()[..], &error.to_be_bytes(), &cookie.to_be_bytes(), &vec![7; length]].concat());
        }
        said.extend(rest);
        let theirs = Rc::new(theirs);
        let speaker = Rc::clone(&theirs);
        runtime.spawn_detached(async move {
            // The client may end first, and may have to be the one that does.
            let _ = speaker.0.send(vec![uring::Parcel::head(said)]).await;
            if ends {
                speaker.0.stop_sending();
            }
        });
        runtime.spawn_detached(async move { while !theirs.up_to(1).await.is_empty() {} });
        runtime.block_on(async {
            let Ok(client) = Client::over(&runtime, ours, "foreign", "", None).await else { return };
            let (block, size) = (client.shape().logical_block, client.shape().size);
            assert_ne!(block, Bytes::ZERO);
            if size < block {
                return;
            }
            let requests = async {
                let _ = client.submit(Request::read(Bytes::ZERO, Buffer::zeroed(block))).await;
                let _ = client.submit(Request::write(size - block, Buffer::zeroed(block).freeze()).with_fua()).await;
                let _ = client.submit(Request::write_zeroes(Bytes::ZERO, block)).await;
                let _ = client.submit(Request::flush()).await;
            };
            // Whom nobody answers, nor leaves, waits: time-outs are the array's.
            select(pin!(requests), pin!(runtime.sleep(Duration::seconds(1)))).await;
        });
    }

    /// Each option gets replies that are well-formed, are to it, and end; and an agreement is about an export that
    /// there is.
    #[test]
    fn any_options(options in vec(any_option(), 0..20), tls in 0..3usize) {
        let runtime = Runtime::simulated();
        let device = || AnyDevice::new(memory(&runtime, SIZE));
        let exports = ["", "b"].map(|name| Export::new(name, device(), name.is_empty()).unwrap());
        let exports = Exports::new(exports.into()).unwrap();
        let tls = [Tls::Absent, Tls::Required, Tls::Begun][tls];
        let mut haggle = Haggle::new(&exports, tls, true);
        for (code, data) in options {
            let mut replies = Vec::new();
            let next = haggle.option(code, &data, &mut replies);
            if let Next::Transmit(agreement) = next {
                prop_assert!(agreement.export < exports.all().len());
                prop_assert!(tls != Tls::Required && (agreement.structured || !agreement.allocation));
            }
            if code == 1 {
                prop_assert!([0, 134].contains(&replies.len()));
            } else {
                let mut last = 0;
                let mut rest = &replies[..];
                while !rest.is_empty() {
                    let number = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap());
                    prop_assert_eq!(&rest[..8], &OPTION_REPLY_MAGIC.to_be_bytes()[..]);
                    prop_assert_eq!(number(8), code);
                    prop_assert!(last != 1 && last < 1 << 31, "nothing comes after the last reply");
                    last = number(12);
                    rest = &rest[20 + number(16) as usize..];
                }
                prop_assert!(last == 1 || last >= 1 << 31, "the last reply says that it is");
            }
            if next != Next::Haggle {
                break;
            }
        }
    }

    /// What passes lies within the export, and writes only where that is allowed.
    #[test]
    fn any_request(flags in prop_oneof![0u16..20, any::<u16>()], command in 0u16..9, offset in prop_oneof![0u64..2 << 20, any::<u64>()],
                   length in prop_oneof![0u32..2 << 20, any::<u32>()], aligned: bool, read_only: bool, structured: bool) {
        let block = Bytes::kib(4);
        let mask = if aligned { !4095 } else { !0 };
        let header = RequestHeader { flags, command, cookie: 1, offset: offset & mask, length: length & mask as u32 };
        let terms = Terms { size: SIZE, block, read_only, structured, allocation: structured };
        if let Ok(judged) = terms.judge(&header) {
            let (range, writes) = match judged {
                Command::Read { offset, length } | Command::BlockStatus { offset, length, .. } => (Some((offset, length)), false),
                Command::Write { offset, length, .. }
                | Command::Trim { offset, length, .. }
                | Command::WriteZeroes { offset, length, .. } => (Some((offset, length)), true),
                Command::Disconnect | Command::Flush => (None, false),
            };
            prop_assert!(!(writes && read_only));
            if let Some((offset, length)) = range {
                prop_assert!(offset + length <= SIZE);
                let whole = offset.is_multiple_of(block) && length.is_multiple_of(block);
                prop_assert_eq!(judged.fits(block), whole);
            }
        }
        prop_assert_eq!(RequestHeader::parse(header.to_bytes()[..].try_into().unwrap()), Some(header));
    }

    /// Bytes without sense, from the start, in the middle of haggling, or among requests: the server sees them to their
    /// end.
    #[test]
    fn any_bytes(stage in 0..3, bytes in vec(any::<u8>(), 0..400), whole in vec(any_option(), 0..4)) {
        let runtime = Runtime::simulated();
        let house = house(&runtime, export(memory(&runtime, SIZE)));
        let raw = Raw(visit(&house));
        runtime.block_on(async {
            match stage {
                0 => {}
                1 => {
                    raw.greet().await;
                    for (code, data) in &whole {
                        let _ = raw.0.send(vec![uring::Parcel::head(wish(*code, data))]).await;
                    }
                }
                _ => raw.go(true).await,
            }
            let _ = raw.0.send(vec![uring::Parcel::head(bytes)]).await;
            raw.0.stop_sending();
            while !raw.has_ended().await {}
        });
    }

    /// Requests that make sense do what they do to a plain array of bytes, whatever goes wrong in the device on the
    /// way.
    #[test]
    fn a_served_device_is_the_device(seed: u64, steps in vec((0..5u8, 0u64..60, 1u64..9, any::<u8>()), 1..60), failing: bool) {
        let runtime = Runtime::simulated();
        let size = Bytes::kib(64);
        let faulty = Faulty::new(&runtime, memory(&runtime, size), seed);
        if failing {
            let error = device::DeviceError::Medium { offset: Bytes::ZERO, length: Bytes::SECTOR };
            faulty.add(Rule::new(Effect::Fail(error)).with_chance(Ratio::new(0.2)));
        }
        let client = behind(&runtime, faulty);
        let model = Rc::new(RefCell::new(vec![0u8; size.as_usize()]));
        runtime.block_on(async {
            for (what, block, blocks, byte) in steps {
                let (offset, length) = (Bytes::SECTOR * block, Bytes::SECTOR * blocks);
                let range = offset.as_usize()..(offset + length).as_usize();
                let mut data = Buffer::zeroed(length);
                data.bytes_mut().unwrap().fill(byte);
                let request = match what {
                    0 | 1 => Request::read(offset, Buffer::zeroed(length)),
                    2 => Request::write(offset, data.freeze()),
                    3 => Request::write_zeroes(offset, length),
                    _ => Request::flush(),
                };
                let reply = client.submit(request).await;
                match reply.result {
                    Ok(()) => match what {
                        0 | 1 => assert_eq!(reply.buffer.unwrap().bytes().unwrap(), &model.borrow()[range]),
                        2 => model.borrow_mut()[range].fill(byte),
                        3 => model.borrow_mut()[range].fill(0),
                        _ => {}
                    },
                    Err(error) => {
                        assert!(failing, "{error}");
                        assert!(matches!(error, device::DeviceError::Medium { .. }), "{error}");
                    }
                }
            }
        });
    }
}
