//! Who comes to rank 0: whether it belongs to this run, and would run the same.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration as Wait;

use crate::hosts::conductor::SILENCE;
use crate::hosts::wire::{Frame, Line, Message, receive};
use crate::hosts::{Rank, Trouble};

/// What stands behind the last line of an experiment.
const END: &str = "(end)";
/// Who comes to the meeting says so at once.
const GREETING: Wait = Wait::from_secs(5);
/// A rank that has come: its connection, its host, and what it would run.
pub(crate) type Guest = (Arc<TcpStream>, String, Result<String, String>);

/// A connection that has just been made: who it is, if it belongs here.
pub(crate) fn greet(
    mut stream: TcpStream,
    rank: &Rank,
    own: &str,
    come: &BTreeMap<u32, Guest>,
) -> Option<(u32, Guest)> {
    stream.set_nonblocking(false).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(GREETING)).ok()?;
    stream.set_write_timeout(Some(SILENCE)).ok()?;
    let Ok(Frame::Message(Message::Hello { version, word, rank: number, size, host, experiment })) =
        receive(&mut stream)
    else {
        return None;
    };
    let ours = env!("CARGO_PKG_VERSION");
    let why = match () {
        () if word != own => {
            "it belongs to another job that meets in the same place; give each its own --meet".to_owned()
        }
        () if version != ours => format!("it is version {version}, and rank 0 is version {ours}"),
        () if size != rank.size => format!("it is one of {size} ranks, and rank 0 is one of {}", rank.size),
        () if number == 0 || number >= size || come.contains_key(&number) => {
            format!("there is a rank {number} already: two jobs meet in the same place; give each its own --meet")
        }
        () => {
            stream.set_read_timeout(Some(SILENCE)).ok()?;
            return Some((number, (Arc::new(stream), host, experiment)));
        }
    };
    // It will say so where it runs.
    let _ = Line::new(Arc::new(stream)).say(&Message::Refused { why });
    None
}

/// The first rank that would not run the same, and where the difference is.
pub(crate) fn unlike(ours: &Result<String, String>, come: &BTreeMap<u32, Guest>) -> Option<Trouble> {
    let Ok(ours) = ours else { return None };
    come.iter().find_map(|(rank, (_, host, theirs))| {
        let what = match theirs {
            Err(why) => format!("cannot run the experiment: {why}"),
            Ok(theirs) if theirs == ours => return None,
            Ok(theirs) => {
                let (ours, theirs) = (ours.lines().chain([END]), theirs.lines().chain([END]));
                let (a, b) = ours.zip(theirs).find(|(a, b)| a != b).unwrap_or((END, END));
                format!("would run another experiment: '{b}', where rank 0 has '{a}'; give all of them the same file and options")
            }
        };
        Some(Trouble { rank: *rank, host: host.clone(), what, input: true })
    })
}

/// Sends those away who came, to exit with this.
pub(crate) fn dismiss(come: &BTreeMap<u32, Guest>, code: u8) {
    for (stream, ..) in come.values() {
        // One that has gone by itself need not be sent.
        let _ = Line::new(Arc::clone(stream)).say(&Message::Bye { code });
    }
}
