//! Network block devices: any device served to any program, and the exports of other servers as devices.
//!
//! [`serve`] offers devices by the fixed newstyle protocol, under the live runtime, on one thread: a connection is a
//! task that reads requests, each request a task that carries it out, and one task sends what is ready. [`Client`] is
//! the other side, and a [`Device`](device::Device): an array may have members on other machines. Both speak over a
//! [`Wire`], which is a socket, encrypted or not, or a [`Pipe`] in memory; so the same code runs under the virtual
//! clock, where tests send it every nonsense. A [`Steady`] client outlives its connection.
//!
//! # Why an own server
//! The served device is an array, or a model, on a single-threaded runtime of our own; the server must be a part of it,
//! not a thread beside it. The crates found (`nbd`, `nbd-async`, `tokio-nbd`) block, or bring another runtime, or
//! answer no options.
//!
//! # What a request costs
//! Headers are received many at a time and replies sent many at a time (see `inlet` and `outlet`): at depth 32 a
//! request costs a fraction of a system call for the connection, beside what the device costs. `benchsuite serve` holds
//! that against nbdkit and qemu-nbd.
//!
//! # Order
//! The server orders nothing: requests that overlap in time may be carried out in any order, as the protocol allows. A
//! flush covers what was answered before it, as [`Device`](device::Device) promises.

mod address;
mod around;
mod budget;
mod carry;
mod client;
mod command;
mod connection;
mod export;
mod greet;
mod haggle;
mod inlet;
mod key;
mod notice;
mod outlet;
mod pipe;
mod places;
mod portion;
#[allow(missing_docs)] // the names are those of the protocol's own document
pub mod protocol;
mod reach;
pub mod remote;
mod reply;
mod server;
mod steady;
mod tls;
mod totals;
mod wire;

pub use address::{Address, AddressError, Place, Uri, UriError};
pub use budget::Limits;
pub use client::{Client, ClientError};
pub use command::{Command, Refused, Terms};
pub use connection::{House, converse};
pub use export::{Export, ExportError, Exports};
pub use greet::GreetError;
pub use haggle::{Agreement, Haggle, Next, Tls};
pub use notice::{Notice, Tell, Why};
pub use pipe::Pipe;
pub use places::Peer;
pub use portion::{DivideError, Portion, PortionError, divide};
pub use server::{ServeOptions, Served, serve};
pub use steady::{Connect, PATIENCE, Steady, ToUri};
pub use tls::{ClientTls, ServerTls, TlsError};
pub use totals::{BOUNDS, OPERATIONS, Tally, Totals};
pub use wire::Wire;
