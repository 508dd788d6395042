//! A client's side of the haggling: from the server's greeting to an export.

use std::io;
use std::rc::Rc;

use units::Duration;
use uring::Parcel;

use crate::inlet::Inlet;
use crate::protocol::{
    INIT_MAGIC, LARGEST_PAYLOAD, OPTION_MAGIC, OPTION_REPLY_MAGIC, Reader, answer, greeting, info, option,
};
use crate::tls::{ClientTls, Tls};
use crate::wire::{Link, Wire};

/// What a server says of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// How many bytes it has.
    pub size: u64,
    /// What may be done with it.
    pub flags: u16,
    /// The smallest, the preferred and the largest request.
    pub blocks: [u32; 3],
}

/// What a server that says nothing of its blocks is taken to mean: sectors, and the payload that everybody takes.
const USUAL_BLOCKS: [u32; 3] = [512, 4096, LARGEST_PAYLOAD];

/// Why there is no export.
#[derive(Debug, thiserror::Error)]
pub enum GreetError {
    /// The connection.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    /// It is no server for this client.
    #[error("the peer is no NBD server that this client knows: {0}; give the address of a fixed-newstyle server")]
    Foreign(&'static str),
    /// It took the connection, and no more came of it.
    #[error(
        "the server has not offered the export '{export}' within {within}; see whether it is stopped or hangs, and start it anew"
    )]
    Silent {
        /// The name that was asked for.
        export: String,
        /// How long it was waited for.
        within: Duration,
    },
    /// The server says no.
    #[error("the server refuses the export '{export}': {reason}; `nbdinfo --list` shows which there are")]
    Refused {
        /// The name that was asked for.
        export: String,
        /// What the server says.
        reason: String,
    },
}

/// Greets the server and asks for an export, over TLS with a host of that name if it is given.
pub async fn greet<W: Wire>(
    wire: Rc<W>,
    export: &str,
    tls: Option<(&ClientTls, &str)>,
) -> Result<(Inlet<Link<W>>, Rc<Link<W>>, Offer), GreetError> {
    let mut link = Rc::new(Link::Plain(Rc::clone(&wire)));
    let mut inlet = Inlet::new(Rc::clone(&link));
    let ended = || GreetError::Broken(io::ErrorKind::UnexpectedEof.into());
    if !inlet.wait_for(18).await? {
        return Err(ended());
    }
    let mut hello = Reader(inlet.take(18));
    if (hello.u64(), hello.u64()) != (Some(INIT_MAGIC), Some(OPTION_MAGIC)) {
        return Err(GreetError::Foreign("its greeting is another"));
    }
    let flags = hello.u16().expect("eighteen bytes were waited for");
    if flags & greeting::FIXED_NEWSTYLE == 0 {
        return Err(GreetError::Foreign("it does not answer options"));
    }
    let ours = u32::from(flags & (greeting::FIXED_NEWSTYLE | greeting::NO_ZEROES));
    send(&*link, ours.to_be_bytes().to_vec()).await?;
    if let Some((tls, host)) = tls {
        send(&*link, wish(option::STARTTLS, &[])).await?;
        let (kind, _) = reply(&mut inlet, option::STARTTLS).await?;
        if kind != answer::ACK {
            return Err(GreetError::Foreign("it does not speak TLS"));
        }
        link = Rc::new(Link::Encrypted(Box::new(Tls::connect(wire, tls, host).await?)));
        inlet = Inlet::new(Rc::clone(&link));
    }
    let mut data = (export.len() as u32).to_be_bytes().to_vec();
    data.extend(export.as_bytes());
    data.extend(1u16.to_be_bytes());
    data.extend(info::BLOCK_SIZE.to_be_bytes());
    send(&*link, wish(option::GO, &data)).await?;
    let (mut about, mut blocks) = (None, USUAL_BLOCKS);
    loop {
        let (kind, data) = reply(&mut inlet, option::GO).await?;
        let mut rest = Reader(&data);
        match kind {
            answer::ACK => break,
            answer::INFO => match rest.u16() {
                Some(info::EXPORT) => about = rest.u64().zip(rest.u16()),
                Some(info::BLOCK_SIZE) => {
                    let sizes = (rest.u32(), rest.u32(), rest.u32());
                    let (Some(least), Some(preferred), Some(most)) = sizes else {
                        return Err(GreetError::Foreign("it says its block sizes in another form"));
                    };
                    blocks = [least, preferred, most];
                }
                _ => {}
            },
            answer::ERR_UNSUP => return Err(GreetError::Foreign("it does not know NBD_OPT_GO")),
            kind if kind & answer::ERROR != 0 => {
                let said = String::from_utf8_lossy(&data).into_owned();
                let reason = match kind {
                    _ if !said.is_empty() => said,
                    answer::ERR_UNKNOWN => "there is none of that name".into(),
                    answer::ERR_TLS_REQD => "it speaks only encrypted (nbds)".into(),
                    _ => format!("error {}", kind & !answer::ERROR),
                };
                return Err(GreetError::Refused { export: export.into(), reason });
            }
            _ => return Err(GreetError::Foreign("it answers something else than was asked")),
        }
    }
    let (size, flags) = about.ok_or(GreetError::Foreign("it does not say how large the export is"))?;
    let [least, _, most] = blocks;
    if !least.is_power_of_two() || least > 1 << 16 || most < least {
        return Err(GreetError::Foreign("its block sizes are none"));
    }
    Ok((inlet, link, Offer { size, flags, blocks }))
}

/// An option, as it is sent.
fn wish(code: u32, data: &[u8]) -> Vec<u8> {
    [&OPTION_MAGIC.to_be_bytes()[..], &code.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
}

async fn send(wire: &impl Wire, bytes: Vec<u8>) -> io::Result<()> {
    wire.send(vec![Parcel::head(bytes)]).await.1
}

/// The next reply to an option: its kind and its data.
async fn reply<W: Wire>(inlet: &mut Inlet<W>, code: u32) -> Result<(u32, Vec<u8>), GreetError> {
    /// Longer ones say nothing that this client asked for.
    const LONGEST: u32 = 64 << 10;
    let ended = || GreetError::Broken(io::ErrorKind::UnexpectedEof.into());
    if !inlet.wait_for(20).await? {
        return Err(ended());
    }
    let mut header = Reader(inlet.take(20));
    let (magic, option, kind, length) = (header.u64(), header.u32(), header.u32(), header.u32());
    let (Some(OPTION_REPLY_MAGIC), Some(kind), Some(length)) = (magic, kind, length) else {
        return Err(GreetError::Foreign("its reply begins as none does"));
    };
    if option != Some(code) || length > LONGEST {
        return Err(GreetError::Foreign("it answers something else than was asked"));
    }
    if length > 0 && !inlet.wait_for(length as usize).await? {
        return Err(ended());
    }
    Ok((kind, inlet.take(length as usize).to_vec()))
}
