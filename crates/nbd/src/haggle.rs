//! Haggling over options: from the greeting to the moment at which a client has an export.
//!
//! A state and one function from an option to the bytes of its replies, without any I/O: so it can be tested with every
//! sequence of options. What a client gets wrong is answered as the protocol says, and haggling goes on; only what
//! cannot be answered ends it.

use crate::export::{Export, Exports};
use crate::protocol::{OPTION_REPLY_MAGIC, Reader, allocation, answer, info, option, text};

/// Whether the connection is encrypted, and has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// There is none.
    Absent,
    /// Nothing is said before it has begun.
    Required,
    /// It has begun.
    Begun,
}

/// Where a client is in its haggling.
pub struct Haggle<'e> {
    exports: &'e Exports,
    tls: Tls,
    /// The reply to `EXPORT_NAME` ends with 124 zeroes, for clients that did not ask to leave them out.
    padded: bool,
    structured: bool,
    /// The export for which `base:allocation` was selected.
    allocation: Option<usize>,
}

/// What comes after an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The next option.
    Haggle,
    /// Requests, on these terms.
    Transmit(Agreement),
    /// The handshake of TLS.
    StartTls,
    /// The end of the connection.
    Close,
}

/// What a client has agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreement {
    /// The place of the export among the others.
    pub export: usize,
    /// Replies come in chunks.
    pub structured: bool,
    /// `base:allocation` may be asked for.
    pub allocation: bool,
}

impl<'e> Haggle<'e> {
    /// The beginning.
    pub fn new(exports: &'e Exports, tls: Tls, padded: bool) -> Haggle<'e> {
        Haggle { exports, tls, padded, structured: false, allocation: None }
    }

    /// The handshake of TLS is done; what was agreed on before, by whoever, is forgotten.
    pub fn encrypted(self) -> Haggle<'e> {
        Haggle::new(self.exports, Tls::Begun, self.padded)
    }

    /// Answers an option.
    pub fn option(&mut self, code: u32, data: &[u8], replies: &mut Vec<u8>) -> Next {
        let mut replies = Replies { option: code, bytes: replies };
        if self.tls == Tls::Required && !matches!(code, option::STARTTLS | option::ABORT) {
            if code == option::EXPORT_NAME {
                return Next::Close;
            }
            return replies.error(answer::ERR_TLS_REQD, "this server speaks only encrypted: begin with TLS");
        }
        match code {
            option::EXPORT_NAME => self.export_name(data, &mut replies),
            option::ABORT => {
                replies.add(answer::ACK, &[]);
                Next::Close
            }
            option::LIST if data.is_empty() => self.list(&mut replies),
            option::STARTTLS if data.is_empty() => match self.tls {
                Tls::Absent => replies.error(answer::ERR_POLICY, "this server has no certificate for TLS"),
                Tls::Begun => replies.error(answer::ERR_INVALID, "TLS has begun already"),
                Tls::Required => {
                    replies.add(answer::ACK, &[]);
                    Next::StartTls
                }
            },
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                replies.acknowledge()
            }
            option::LIST | option::STARTTLS | option::STRUCTURED_REPLY => {
                replies.error(answer::ERR_INVALID, "this option has no data")
            }
            option::INFO | option::GO => self.info(code == option::GO, data, &mut replies),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.contexts(code == option::SET_META_CONTEXT, data, &mut replies)
            }
            _ => replies.error(answer::ERR_UNSUP, "this server does not know that option"),
        }
    }

    /// Answers an option whose data are longer than anybody's need be, and were not read.
    pub fn too_big(&mut self, code: u32, replies: &mut Vec<u8>) -> Next {
        if code == option::EXPORT_NAME {
            return Next::Close;
        }
        let code = Replies { option: code, bytes: replies };
        { code }.error(answer::ERR_TOO_BIG, "the option's data are too long")
    }

    /// Answers an option that would lead to an export, where there is no place for one more client from there.
    pub fn no_place(&mut self, code: u32, replies: &mut Vec<u8>) -> Next {
        replies.clear();
        if code == option::EXPORT_NAME {
            return Next::Close;
        }
        let code = Replies { option: code, bytes: replies };
        { code }.error(
            answer::ERR_POLICY,
            "this server has as many connections as it may, or as one address may have; end one, or serve with a larger --connections",
        )
    }

    /// An option that cannot be answered with an error: the end, if anything is wrong.
    fn export_name(&self, data: &[u8], replies: &mut Replies) -> Next {
        let Some(place) = text(data).and_then(|name| self.exports.find(name)) else { return Next::Close };
        let export = &self.exports.all()[place];
        replies.bytes.extend(size(export).to_be_bytes());
        replies.bytes.extend(export.flags(self.structured).to_be_bytes());
        if self.padded {
            replies.bytes.extend([0; 124]);
        }
        self.agree(place)
    }

    fn list(&self, replies: &mut Replies) -> Next {
        for export in self.exports.all() {
            let mut entry = (export.name().len() as u32).to_be_bytes().to_vec();
            entry.extend(export.name().as_bytes());
            entry.extend(export.description().as_bytes());
            replies.add(answer::SERVER, &entry);
        }
        replies.acknowledge()
    }

    fn info(&self, go: bool, data: &[u8], replies: &mut Replies) -> Next {
        let mut rest = Reader(data);
        let asked = (|| {
            let name = rest.string()?;
            let count = rest.u16()?;
            let kinds = (0..count).map(|_| rest.u16()).collect::<Option<Vec<u16>>>()?;
            rest.0.is_empty().then_some((name, kinds))
        })();
        let Some((name, kinds)) = asked else {
            return replies.error(
                answer::ERR_INVALID,
                "a name after its length and kinds of information after their number are expected",
            );
        };
        let Some(place) = self.exports.find(name) else {
            return replies.error(answer::ERR_UNKNOWN, "there is no export of that name");
        };
        let export = &self.exports.all()[place];
        let mut about = info::EXPORT.to_be_bytes().to_vec();
        about.extend(size(export).to_be_bytes());
        about.extend(export.flags(self.structured).to_be_bytes());
        replies.add(answer::INFO, &about);
        if kinds.contains(&info::NAME) {
            replies.add(answer::INFO, &[&info::NAME.to_be_bytes(), export.name().as_bytes()].concat());
        }
        if kinds.contains(&info::DESCRIPTION) {
            replies.add(answer::INFO, &[&info::DESCRIPTION.to_be_bytes(), export.description().as_bytes()].concat());
        }
        if kinds.contains(&info::BLOCK_SIZE) {
            let sizes = export.block_sizes().map(u32::to_be_bytes).concat();
            replies.add(answer::INFO, &[&info::BLOCK_SIZE.to_be_bytes(), &sizes[..]].concat());
        }
        replies.acknowledge();
        if go { self.agree(place) } else { Next::Haggle }
    }

    fn contexts(&mut self, set: bool, data: &[u8], replies: &mut Replies) -> Next {
        let mut rest = Reader(data);
        let asked = (|| {
            let name = rest.string()?;
            let count = rest.u32()?;
            // Not made to measure: the number comes from outside.
            let mut queries = Vec::new();
            for _ in 0..count {
                queries.push(rest.string()?);
            }
            rest.0.is_empty().then_some((name, queries))
        })();
        if set {
            self.allocation = None;
        }
        let Some((name, queries)) = asked else {
            return replies
                .error(answer::ERR_INVALID, "a name after its length and queries after their number are expected");
        };
        if !self.structured {
            return replies.error(answer::ERR_INVALID, "negotiate structured replies first");
        }
        let Some(place) = self.exports.find(name) else {
            return replies.error(answer::ERR_UNKNOWN, "there is no export of that name");
        };
        let wanted = match set {
            true => queries.contains(&allocation::CONTEXT),
            // A list may ask for all, or for all of a kind.
            false => queries.is_empty() || queries.iter().any(|query| [allocation::CONTEXT, "base:"].contains(query)),
        };
        if wanted {
            if set {
                self.allocation = Some(place);
            }
            let id = if set { allocation::ID } else { 0 };
            replies.add(answer::META_CONTEXT, &[&id.to_be_bytes(), allocation::CONTEXT.as_bytes()].concat());
        }
        replies.acknowledge()
    }

    fn agree(&self, export: usize) -> Next {
        let allocation = self.structured && self.allocation == Some(export);
        Next::Transmit(Agreement { export, structured: self.structured, allocation })
    }
}

fn size(export: &Export) -> u64 {
    use device::Device;
    export.device().shape().size.get()
}

/// Replies to one option.
struct Replies<'a> {
    option: u32,
    bytes: &'a mut Vec<u8>,
}

impl Replies<'_> {
    fn add(&mut self, kind: u32, data: &[u8]) {
        self.bytes.extend(OPTION_REPLY_MAGIC.to_be_bytes());
        self.bytes.extend(self.option.to_be_bytes());
        self.bytes.extend(kind.to_be_bytes());
        self.bytes.extend((data.len() as u32).to_be_bytes());
        self.bytes.extend(data);
    }

    fn acknowledge(&mut self) -> Next {
        self.add(answer::ACK, &[]);
        Next::Haggle
    }

    fn error(&mut self, kind: u32, message: &str) -> Next {
        self.add(kind, message.as_bytes());
        Next::Haggle
    }
}
