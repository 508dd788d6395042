//! Rank 0: it has all ranks begin at one instant, and takes what they came to.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration as Wait, Instant, SystemTime};

use record::Row;
use units::Duration;

use crate::hosts::clock::{Difference, Trip};
use crate::hosts::guest::{Guest, dismiss, greet, unlike};
use crate::hosts::meeting::{self, LOOK, MeetError, Place};
use crate::hosts::part::Part;
use crate::hosts::wire::{Frame, Line, Message, receive};
use crate::hosts::{Rank, Trouble};
use crate::pulse::Beat;
use crate::runner::Party;

/// A rank of which nothing was heard for so long is lost; each says something every second.
pub(crate) const SILENCE: Wait = Wait::from_secs(30);
/// How often a rank says that it is there.
pub(crate) const ALIVE: Wait = Wait::from_secs(1);
/// Round trips before each pass, of which the shortest counts: after thirty, more rarely find a shorter one.
const TRIPS: u32 = 32;
/// From the agreement to the beginning of the pass, besides the time that messages take.
const LEAD: Wait = Wait::from_millis(20);

/// Rank 0 and its connections to the others.
pub struct Conductor {
    /// This rank.
    pub rank: Rank,
    shared: Arc<Shared>,
}

struct Shared {
    epoch: Instant,
    peers: Vec<Peer>,
    state: Mutex<State>,
    changed: Condvar,
}

/// Another rank.
struct Peer {
    number: u32,
    host: String,
    line: Line,
    rows: Mutex<Receiver<Option<Vec<Row>>>>,
}

#[derive(Default)]
struct State {
    peers: Vec<Known>,
    early: bool,
    folder: String,
    over: bool,
}

/// What a rank has said.
#[derive(Default)]
struct Known {
    devices: Option<Vec<String>>,
    ready: Option<u16>,
    clock: Option<(u32, Trip, i64)>,
    part: Option<Part>,
    trouble: Option<Trouble>,
    beats: Vec<Beat>,
    differences: Vec<Difference>,
}

impl Conductor {
    /// Waits for all ranks, and sees that they would run what this one runs: `experiment`, or why it cannot.
    pub fn meet(
        rank: Rank,
        place: &Place,
        within: Duration,
        experiment: &Result<String, String>,
    ) -> Result<Conductor, MeetError> {
        let open = meeting::open(&rank, place)?;
        let deadline = meeting::deadline(within);
        let mut come: BTreeMap<u32, Guest> = BTreeMap::new();
        while come.len() + 1 < rank.size as usize {
            if Instant::now() >= deadline {
                let missing: Vec<String> =
                    (1..rank.size).filter(|n| !come.contains_key(n)).map(|n| n.to_string()).collect();
                dismiss(&come, 3);
                let (size, place) = (rank.size, place.clone());
                return Err(MeetError::Missing { size, missing: missing.join(", "), place, within });
            }
            match open.listener.accept() {
                Ok((stream, _)) => {
                    if let Some((number, guest)) = greet(stream, &rank, &open.word, &come) {
                        come.insert(number, guest);
                    }
                }
                Err(error) if meeting::passes(&error) => std::thread::sleep(LOOK),
                // Most likely no file may be opened any more: `ulimit -n`.
                Err(source) => {
                    dismiss(&come, 3);
                    return Err(MeetError::Listen { place: place.clone(), source });
                }
            }
        }
        if let Some(trouble) = unlike(experiment, &come) {
            dismiss(&come, 2);
            return Err(trouble.into());
        }
        Ok(Conductor::start(rank, come))
    }

    fn start(rank: Rank, come: BTreeMap<u32, Guest>) -> Conductor {
        let (mut peers, mut ears) = (Vec::new(), Vec::new());
        for (number, (stream, host, _)) in come {
            // Few frames are under way, so that a rank with many rows waits for rank 0's disk.
            let (sender, receiver) = sync_channel(4);
            let ear = Arc::clone(&stream);
            let peer = Peer { number, host, line: Line::new(stream), rows: Mutex::new(receiver) };
            // If it is gone already, its ear will hear that.
            let _ = peer.line.say(&Message::Welcome { host: rank.host.clone() });
            peers.push(peer);
            ears.push((ear, sender));
        }
        let known = peers.iter().map(|_| Known::default()).collect();
        let state = Mutex::new(State { peers: known, ..State::default() });
        let shared = Arc::new(Shared { epoch: Instant::now(), peers, state, changed: Condvar::new() });
        for (index, (ear, sender)) in ears.into_iter().enumerate() {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.listen(index, ear, &sender));
        }
        let alive = Arc::downgrade(&shared);
        std::thread::spawn(move || {
            while let Some(shared) = alive.upgrade().filter(|shared| !shared.lock().over) {
                shared.say(&Message::Alive { beats: Vec::new() });
                drop(shared);
                std::thread::sleep(ALIVE);
            }
        });
        Conductor { rank, shared }
    }

    /// Has all ranks make a point of the experiment ready.
    pub fn order(&self, experiment: &str) {
        let mut state = self.shared.lock();
        state.early = false;
        for known in &mut state.peers {
            *known = Known { trouble: known.trouble.take(), ..Known::default() };
        }
        drop(state);
        self.shared.say(&Message::Point { experiment: experiment.to_owned() });
    }

    /// Says where records go, and waits until every rank has opened what it needs. Gives the devices of the others, as
    /// results call them, each with its rank.
    pub fn gather(&self, folder: &Path) -> Result<Vec<(u32, String)>, Trouble> {
        let path = folder.display().to_string();
        self.shared.lock().folder.clone_from(&path);
        self.shared.say(&Message::Folder { path });
        let state = self
            .shared
            .wait(|state| state.trouble().is_some() || state.peers.iter().all(|known| known.devices.is_some()));
        match state.trouble() {
            Some(trouble) => Err(trouble.clone()),
            None => {
                let devices = |(peer, known): (&Peer, &Known)| {
                    let names = known.devices.iter().flatten();
                    names.map(|name| (peer.number, format!("{}:{name}", peer.host))).collect::<Vec<_>>()
                };
                Ok(self.shared.peers.iter().zip(&state.peers).flat_map(devices).collect())
            }
        }
    }

    /// What the devices of the others have done so far.
    pub(crate) fn beats(&self) -> Vec<Beat> {
        self.shared.lock().peers.iter().flat_map(|known| known.beats.clone()).collect()
    }

    /// The first rank that was lost.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.shared.lock().trouble().cloned()
    }

    /// Waits until each rank has said what it came to, or is lost. Gives the parts, with what is known of their clocks
    /// and days.
    pub(crate) fn parts(&self) -> Vec<(usize, u32, String, Part, Clocks)> {
        drop(self.shared.wait(|state| state.peers.iter().all(|known| known.part.is_some() || known.trouble.is_some())));
        let mut parts = Vec::new();
        for (index, peer) in self.shared.peers.iter().enumerate() {
            let last = self.shared.difference(index);
            let mut state = self.shared.lock();
            let known = &mut state.peers[index];
            let Some(part) = known.part.take() else { continue };
            let first = known.differences.first().copied();
            let clocks = Clocks {
                error: known.differences.iter().map(|difference| difference.error).max(),
                drift: first.zip(last).map_or(0, |(first, (last, _))| last.ahead - first.ahead),
                day_ahead: last.map_or(0, |(_, day)| day),
            };
            parts.push((index, peer.number, peer.host.clone(), part, clocks));
        }
        parts
    }

    /// Takes the rows of a rank. False if it vanished before the last of them.
    pub(crate) fn rows(&self, index: usize, mut take: impl FnMut(Vec<Row>)) -> bool {
        let peer = &self.shared.peers[index];
        if peer.line.say(&Message::Fetch).is_err() {
            return false;
        }
        let rows = peer.rows.lock().expect("no panic under this lock");
        loop {
            match rows.recv() {
                Ok(Some(some)) => take(some),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// The result is kept: ranks need no longer keep theirs.
    pub fn kept(&self) {
        self.shared.say(&Message::Kept);
    }

    /// Has all ranks exit with this code.
    pub fn end(&self, code: u8) {
        self.shared.lock().over = true;
        self.shared.say(&Message::Bye { code });
    }
}

/// What is known of the clock of a rank.
pub(crate) struct Clocks {
    /// Nothing if no pass began.
    pub error: Option<Duration>,
    pub drift: i64,
    pub day_ahead: i64,
}

impl Party for Conductor {
    fn start(&self, pass: u16) -> Option<Instant> {
        let shared = &self.shared;
        let state = shared.wait(|state| state.is_over() || state.peers.iter().all(|known| known.ready == Some(pass)));
        let over = state.is_over();
        drop(state);
        if over {
            return None;
        }
        let all = (0..shared.peers.len()).map(|index| Some(shared.difference(index)?.0)).collect::<Option<Vec<_>>>()?;
        let slowest = all.iter().map(|difference| difference.error).max().unwrap_or(Duration::ZERO);
        let begin = Instant::now() + LEAD + Wait::from(slowest) * 20;
        let at = shared.nanos(begin);
        for (peer, difference) in shared.peers.iter().zip(&all) {
            let _ = peer.line.say(&Message::Begin { pass, at: at + difference.ahead });
        }
        for (known, difference) in shared.lock().peers.iter_mut().zip(all) {
            known.differences.push(difference);
        }
        Some(begin)
    }

    fn end_early(&self) {
        self.shared.end_early();
    }

    fn ended_early(&self) -> bool {
        self.shared.lock().is_over()
    }
}

impl State {
    fn trouble(&self) -> Option<&Trouble> {
        self.peers.iter().find_map(|known| known.trouble.as_ref())
    }

    fn is_over(&self) -> bool {
        self.early || self.trouble().is_some()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }

    fn wait(&self, until: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        self.changed.wait_while(self.lock(), |state| !until(state)).expect("no panic under this lock")
    }

    fn end_early(&self) {
        if !std::mem::replace(&mut self.lock().early, true) {
            self.say(&Message::EndEarly);
            self.changed.notify_all();
        }
    }

    fn nanos(&self, at: Instant) -> i64 {
        at.saturating_duration_since(self.epoch).as_nanos() as i64
    }

    /// To every rank that is there. That one is not is found by its ear.
    fn say(&self, message: &Message) {
        for peer in &self.peers {
            let _ = peer.line.say(message);
        }
    }

    /// By how much a rank's clock is ahead, and its time of day; `None` if it is lost.
    fn difference(&self, index: usize) -> Option<(Difference, i64)> {
        let (mut trips, mut days) = (Vec::new(), Vec::new());
        for number in 0..TRIPS {
            let (sent, day) = (Instant::now(), day());
            self.lock().peers[index].clock = None;
            self.peers[index].line.say(&Message::Ask { number }).ok()?;
            let state = self.wait(|state| {
                let known = &state.peers[index];
                known.trouble.is_some() || known.clock.is_some_and(|(answered, ..)| answered == number)
            });
            let (_, trip, other_day) = state.peers[index].clock?;
            let sent = self.nanos(sent);
            trips.push(Trip { sent, ..trip });
            days.push(Trip { sent: day, answered: other_day, received: day + (trip.received - sent) });
        }
        Some((Difference::of(&trips)?, Difference::of(&days)?.ahead))
    }

    /// The life of the thread that listens to one rank.
    fn listen(&self, index: usize, ear: Arc<TcpStream>, rows: &SyncSender<Option<Vec<Row>>>) {
        loop {
            match receive(&mut &*ear) {
                Ok(Frame::Rows(some)) => drop(rows.send(Some(some))),
                Ok(Frame::Message(Message::NoMoreRows)) => drop(rows.send(None)),
                Ok(Frame::Message(message)) => self.hear(index, message),
                Err(error) => {
                    let mut state = self.lock();
                    let Peer { number, host, .. } = &self.peers[index];
                    let folder = Path::new(&state.folder).join("ranks").join(number.to_string());
                    let kept = match &*state.folder {
                        "" => String::new(),
                        _ => format!("; what it recorded until then is on its host, in {}", folder.display()),
                    };
                    let what = format!("vanished: {}{kept}", said(&error));
                    let trouble = Trouble { rank: *number, host: host.clone(), what, input: false };
                    state.peers[index].trouble.get_or_insert(trouble);
                    drop(state);
                    return self.changed.notify_all();
                }
            }
        }
    }

    fn hear(&self, index: usize, message: Message) {
        let received = self.nanos(Instant::now());
        let mut state = self.lock();
        let known = &mut state.peers[index];
        match message {
            Message::Clock { number, shows, day } => {
                known.clock = Some((number, Trip { sent: 0, answered: shows, received }, day));
            }
            Message::Devices { names } => known.devices = Some(names),
            Message::Ready { pass } => known.ready = Some(pass),
            Message::Alive { beats } => return known.beats = beats,
            Message::Failed { trouble } => known.trouble = Some(trouble),
            Message::Done { part } => known.part = Some(*part),
            Message::EndEarly => {
                drop(state);
                return self.end_early();
            }
            // Nothing else is said to rank 0.
            _ => {}
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// Why a connection gives no more.
pub(crate) fn said(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("nothing was heard of it for {} s", SILENCE.as_secs()),
        ErrorKind::UnexpectedEof => "its connection ended".to_owned(),
        _ => error.to_string(),
    }
}

/// Nanoseconds of the time of day.
pub(crate) fn day() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as i64)
}
