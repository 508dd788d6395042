//! A client that says what it is told to, byte by byte.
#![allow(dead_code)] // each test uses some of it

use device::Buffer;
use nbd::protocol::{OPTION_MAGIC, OPTION_REPLY_MAGIC, RequestHeader, option};
use nbd::{Pipe, Wire};
use units::Bytes;
use uring::Parcel;

/// One end of a pipe.
pub struct Raw(pub Pipe);

impl Raw {
    pub async fn send(&self, bytes: &[u8]) {
        self.0.send(vec![Parcel::head(bytes.to_vec())]).await.1.expect("the server listens");
    }

    /// So many bytes; fewer if the server ends before.
    pub async fn up_to(&self, count: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < count {
            let (buffer, received) = self.0.receive(Buffer::zeroed(Bytes::new((count - all.len()) as u64))).await;
            let received = received.unwrap();
            if received == 0 {
                break;
            }
            all.extend(&buffer.bytes().unwrap()[..received]);
        }
        all
    }

    pub async fn exactly(&self, count: usize) -> Vec<u8> {
        let all = self.up_to(count).await;
        assert_eq!(all.len(), count, "the server has ended");
        all
    }

    /// True if the server says nothing more.
    pub async fn has_ended(&self) -> bool {
        self.up_to(1).await.is_empty()
    }

    /// From the greeting to the first option.
    pub async fn greet(&self) {
        assert_eq!(self.exactly(18).await, b"NBDMAGICIHAVEOPT\0\x03");
        self.send(&[0, 0, 0, 3]).await;
    }

    pub async fn ask(&self, code: u32, data: &[u8]) {
        self.send(&wish(code, data)).await;
    }

    /// The next reply to an option: which, what kind, and its data.
    pub async fn answer(&self) -> (u32, u32, Vec<u8>) {
        let head = self.exactly(20).await;
        assert_eq!(head[..8], OPTION_REPLY_MAGIC.to_be_bytes());
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        (number(8), number(12), self.exactly(number(16) as usize).await)
    }

    /// All replies to an option, up to an acknowledgement or an error: kinds and data.
    pub async fn answers(&self, code: u32) -> Vec<(u32, Vec<u8>)> {
        let mut all = Vec::new();
        loop {
            let (option, kind, data) = self.answer().await;
            assert_eq!(option, code);
            all.push((kind, data));
            if kind == 1 || kind >= 1 << 31 {
                return all;
            }
        }
    }

    /// Up to the requests, with structured replies and `base:allocation` or without.
    pub async fn go(&self, structured: bool) {
        self.greet().await;
        if structured {
            self.ask(option::STRUCTURED_REPLY, &[]).await;
            assert_eq!(self.answers(option::STRUCTURED_REPLY).await, [(1, vec![])]);
            self.ask(option::SET_META_CONTEXT, &context("", &["base:allocation"])).await;
            assert_eq!(self.answers(option::SET_META_CONTEXT).await.len(), 2);
        }
        self.ask(option::GO, &name("", &[3])).await;
        assert_eq!(self.answers(option::GO).await.last().unwrap().0, 1);
    }

    pub async fn request(&self, command: u16, flags: u16, offset: u64, length: u32, payload: &[u8]) {
        let header = RequestHeader { flags, command, cookie: 0xc00_c1e, offset, length };
        self.send(&[&header.to_bytes()[..], payload].concat()).await;
    }

    /// The error of a simple reply.
    pub async fn simple(&self) -> u32 {
        let head = self.exactly(16).await;
        assert_eq!((&head[..4], &head[8..]), (&[0x67, 0x44, 0x66, 0x98][..], &0xc00_c1eu64.to_be_bytes()[..]));
        u32::from_be_bytes(head[4..8].try_into().unwrap())
    }

    /// Kind and data of a chunk, which is the last.
    pub async fn chunk(&self) -> (u16, Vec<u8>) {
        let head = self.exactly(20).await;
        assert_eq!((&head[..6], &head[8..16]), (&[0x66, 0x8e, 0x33, 0xef, 0, 1][..], &0xc00_c1eu64.to_be_bytes()[..]));
        let length = u32::from_be_bytes(head[16..].try_into().unwrap());
        (u16::from_be_bytes([head[6], head[7]]), self.exactly(length as usize).await)
    }
}

/// An option as it is sent.
pub fn wish(code: u32, data: &[u8]) -> Vec<u8> {
    [&OPTION_MAGIC.to_be_bytes()[..], &code.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
}

/// The data of `INFO` and `GO`.
pub fn name(name: &str, kinds: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((kinds.len() as u16).to_be_bytes());
    data.extend(kinds.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

/// The data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
pub fn context(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend((query.len() as u32).to_be_bytes());
        data.extend(query.as_bytes());
    }
    data
}
