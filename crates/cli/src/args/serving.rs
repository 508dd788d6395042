//! What every server of network block devices can be told.

use clap::Args;
use nbd::Limits;
use units::{Bytes, Duration};

/// How much clients may have of the server.
#[derive(Args)]
pub struct Bounds {
    /// Serve at most N clients by Unix sockets, and N by TCP; of these one address has at most half
    #[arg(long, value_name = "N", default_value_t = Limits::default().places, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub connections: u32,

    /// Memory for the requests and replies of all clients. Clients that do not read their replies share what the others
    /// leave
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = memory)]
    pub client_memory: Bytes,

    /// Close a client that has asked for no export within this time of its connection, TLS handshake included
    #[arg(long, value_name = "TIME", default_value = "10 s", value_parser = some_time)]
    pub negotiation_limit: Duration,
}

impl Bounds {
    /// As the server takes them.
    pub fn limits(&self) -> Limits {
        Limits {
            places: self.connections,
            total: self.client_memory,
            negotiation: self.negotiation_limit,
            ..Limits::default()
        }
    }
}

/// Less would be too little for the largest request.
fn memory(text: &str) -> Result<Bytes, String> {
    const LEAST: Bytes = Bytes::mib(64);
    let size: Bytes = text.parse().map_err(|error: units::ParseError| error.to_string())?;
    if size < LEAST { Err(format!("the largest request takes {LEAST:#}; give that or more")) } else { Ok(size) }
}

/// A time that is some.
pub fn some_time(text: &str) -> Result<Duration, String> {
    let time: Duration = text.parse().map_err(|error: units::ParseError| error.to_string())?;
    if time.is_zero() { Err("no time is too short; give a second or more, such as 10s".into()) } else { Ok(time) }
}
