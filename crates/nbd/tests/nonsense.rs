//! Any bytes, any options, any requests: an answer of the protocol or the end of the connection, and never the end of the server.

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use common::raw::{Raw, context, name, wish};
use common::{behind, export, house, memory, visit};
use device::filter::{Effect, Faulty, Rule};
use device::{AnyDevice, Buffer, Device, Request};
use nbd::protocol::{OPTION_REPLY_MAGIC, RequestHeader};
use nbd::{Command, Export, Exports, Haggle, Next, Terms, Tls, Wire};
use proptest::collection::vec;
use proptest::prelude::*;
use runtime::Runtime;
use units::{Bytes, Ratio};

const SIZE: Bytes = Bytes::mib(1);

fn option() -> impl Strategy<Value = (u32, Vec<u8>)> {
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

proptest! {
    /// Each option gets replies that are well-formed, are to it, and end; and an agreement is about an export that there is.
    #[test]
    fn any_options(options in vec(option(), 0..20), tls in 0..3usize) {
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

    /// Bytes without sense, from the start, in the middle of haggling, or among requests: the server sees them to their end.
    #[test]
    fn any_bytes(stage in 0..3, bytes in vec(any::<u8>(), 0..400), whole in vec(option(), 0..4)) {
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

    /// Requests that make sense do what they do to a plain array of bytes, whatever goes wrong in the device on the way.
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
