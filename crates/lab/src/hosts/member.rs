//! Any rank but the first: it does what rank 0 says.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration as Wait, Instant};

use record::Row;
use units::Duration;

use crate::hosts::conductor::{ALIVE, SILENCE, day, said};
use crate::hosts::meeting::{self, LOOK, MeetError, Place};
use crate::hosts::part::Part;
use crate::hosts::wire::{Frame, Line, Message, receive};
use crate::hosts::{Rank, Trouble};
use crate::pulse::Beat;
use crate::runner::{Party, Progress, Tick};

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Make this experiment ready.
    Point(String),
    /// Run it; records go below this folder.
    Folder(PathBuf),
    /// The rows are in the result, and that is on disk.
    Kept,
    /// Exit with this.
    Bye(u8),
}

/// This rank and its connection to rank 0.
pub struct Member {
    /// This rank.
    pub rank: Rank,
    /// Where rank 0 runs.
    pub first: String,
    shared: Arc<Shared>,
}

struct Shared {
    epoch: Instant,
    line: Line,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    orders: VecDeque<Order>,
    begin: Option<(u16, i64)>,
    early: bool,
    fetch: bool,
    /// Why nothing more will be heard.
    lost: Option<String>,
    beats: Vec<Beat>,
}

impl Member {
    /// Finds rank 0 and says what this rank would run, or why it cannot.
    pub fn meet(
        rank: Rank,
        place: &Place,
        within: Duration,
        experiment: &Result<String, String>,
    ) -> Result<Member, MeetError> {
        let who = format!("rank {} on {}", rank.number, rank.host);
        let deadline = meeting::deadline(within);
        loop {
            if let Some((stream, word)) = meeting::seek(&rank, place) {
                let stream = Arc::new(stream);
                match hello(&stream, &rank, word, experiment) {
                    Ok(Message::Welcome { host }) => return Ok(Member::start(rank, host, stream)),
                    Ok(Message::Bye { code }) => return Err(MeetError::Dismissed { who, code }),
                    Ok(Message::Refused { why }) => return Err(MeetError::Refused { who, why }),
                    // Rank 0 of an earlier run, that is going, or somebody else at its port.
                    _ => {}
                }
            }
            if Instant::now() >= deadline {
                return Err(MeetError::Alone { who, place: place.clone(), within });
            }
            std::thread::sleep(LOOK * 4);
        }
    }

    fn start(rank: Rank, first: String, stream: Arc<TcpStream>) -> Member {
        let ear = Arc::clone(&stream);
        let (state, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { epoch: Instant::now(), line: Line::new(stream), state, changed });
        let listener = Arc::clone(&shared);
        std::thread::spawn(move || listener.listen(&ear));
        let alive = Arc::downgrade(&shared);
        std::thread::spawn(move || {
            while let Some(shared) = alive.upgrade().filter(|shared| shared.lock().lost.is_none()) {
                let beats = shared.lock().beats.clone();
                // That nobody listens is found by the ear.
                let _ = shared.line.say(&Message::Alive { beats });
                drop(shared);
                std::thread::sleep(ALIVE);
            }
        });
        Member { rank, first, shared }
    }

    /// Waits for the next order.
    pub fn next(&self) -> Result<Order, Trouble> {
        let mut state = self.shared.wait(|state| !state.orders.is_empty() || state.lost.is_some());
        match state.orders.pop_front() {
            Some(order) => Ok(order),
            None => Err(self.lost(&state)),
        }
    }

    /// Says that this rank can take no part.
    pub fn fail(&self, what: String, input: bool) {
        let trouble = Trouble { rank: self.rank.number, host: self.rank.host.clone(), what, input };
        self.say(&Message::Failed { trouble });
    }

    /// Says which devices it will load.
    pub fn devices(&self, names: Vec<String>) {
        self.say(&Message::Devices { names });
    }

    pub(crate) fn done(&self, part: Part) {
        self.say(&Message::Done { part: Box::new(part) });
    }

    /// Waits until rank 0 asks for the rows; false if it does not.
    pub(crate) fn asked(&self) -> bool {
        let over = |state: &State| state.lost.is_some() || !state.orders.is_empty();
        let mut state = self.shared.wait(|state| state.fetch || over(state));
        std::mem::take(&mut state.fetch)
    }

    pub(crate) fn rows(&self, rows: &[Row]) {
        // That nobody takes them is found by the ear.
        let _ = self.shared.line.rows(rows);
    }

    pub(crate) fn no_more_rows(&self) {
        self.say(&Message::NoMoreRows);
    }

    fn say(&self, message: &Message) {
        let _ = self.shared.line.say(message);
    }

    fn lost(&self, state: &State) -> Trouble {
        let what = format!("vanished: {}", state.lost.clone().unwrap_or_default());
        Trouble { rank: 0, host: self.first.clone(), what, input: false }
    }
}

impl Party for Member {
    fn start(&self, pass: u16) -> Option<Instant> {
        self.say(&Message::Ready { pass });
        let of_this = |state: &State| state.begin.filter(|(of, _)| *of == pass);
        let state = self.shared.wait(|state| of_this(state).is_some() || state.is_over());
        let (_, at) = of_this(&state)?;
        Some(self.shared.epoch + Wait::from_nanos(u64::try_from(at).ok()?))
    }

    fn end_early(&self) {
        if !std::mem::replace(&mut self.shared.lock().early, true) {
            self.say(&Message::EndEarly);
            self.shared.changed.notify_all();
        }
    }

    fn ended_early(&self) -> bool {
        self.shared.lock().is_over()
    }
}

/// What its devices do is shown by rank 0.
impl Progress for Member {
    fn tick(&self, tick: &Tick) {
        self.shared.lock().beats.clone_from(&tick.devices);
    }
}

impl State {
    fn is_over(&self) -> bool {
        self.early || self.lost.is_some() || matches!(self.orders.front(), Some(Order::Bye(_)))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }

    fn wait(&self, until: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        self.changed.wait_while(self.lock(), |state| !until(state)).expect("no panic under this lock")
    }

    /// The life of the thread that listens to rank 0.
    fn listen(&self, ear: &TcpStream) {
        loop {
            let message = match receive(&mut &*ear) {
                Ok(Frame::Message(message)) => message,
                Ok(Frame::Rows(_)) => continue,
                Err(error) => {
                    self.lock().lost = Some(said(&error));
                    return self.changed.notify_all();
                }
            };
            if let Message::Ask { number } = message {
                // At once: what is done before makes the round trip longer.
                let shows = self.epoch.elapsed().as_nanos() as i64;
                let _ = self.line.say(&Message::Clock { number, shows, day: day() });
                continue;
            }
            let mut state = self.lock();
            match message {
                Message::Point { experiment } => {
                    *state = State { orders: std::mem::take(&mut state.orders), ..State::default() };
                    state.orders.push_back(Order::Point(experiment));
                }
                Message::Folder { path } => state.orders.push_back(Order::Folder(path.into())),
                Message::Kept => state.orders.push_back(Order::Kept),
                Message::Bye { code } => state.orders.push_back(Order::Bye(code)),
                Message::Begin { pass, at } => state.begin = Some((pass, at)),
                Message::EndEarly => state.early = true,
                Message::Fetch => state.fetch = true,
                // Nothing else is said to this rank.
                _ => {}
            }
            drop(state);
            self.changed.notify_all();
        }
    }
}

/// Introduces itself, and gives the answer.
fn hello(
    stream: &Arc<TcpStream>,
    rank: &Rank,
    word: String,
    experiment: &Result<String, String>,
) -> std::io::Result<Message> {
    stream.set_nodelay(true)?;
    // Rank 0 answers when all are there.
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(Some(SILENCE))?;
    let line = Line::new(Arc::clone(stream));
    line.say(&Message::Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        word,
        rank: rank.number,
        size: rank.size,
        host: rank.host.clone(),
        experiment: experiment.clone(),
    })?;
    let answer = receive(&mut &**stream)?;
    stream.set_read_timeout(Some(SILENCE))?;
    match answer {
        Frame::Message(message) => Ok(message),
        Frame::Rows(_) => Err(std::io::ErrorKind::InvalidData.into()),
    }
}
