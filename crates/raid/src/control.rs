//! Orders to an array that is being served, from other processes of the same user.
//!
//! A served array's members are held by the server, so a command such as `arraylab array fail` cannot open them. It
//! finds the server instead: a Unix socket of mode 0600 in the folder for such things, under the array's identity,
//! which every member says. Each line is a JSON document: an [`Order`], then any number of [`Answer`]s of which the
//! last is not about progress.
//!
//! The folder is `/run/arraylab` for root, whatever session it has: who begins a server at boot and who gives it orders
//! from a terminal must mean the same one. Others have `$XDG_RUNTIME_DIR/arraylab`, without that variable
//! `/tmp/arraylab-UID`; and as a command may come from where it is set to something else, or not at all, servers are
//! looked for in all of these, and in `/run/user/UID`, which it usually is. A folder is used only if nobody else may
//! put a socket there: below `/tmp` another user could have made it first, and would be given the orders. A socket that
//! a killed server left, at which nobody listens, is removed by the next command that is about its array, and by the
//! next server of any array.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use array::md::Uuid;
use device::Buffer;
use host::patience::{LETTING_GO, patiently};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use units::{Bytes, Rate};
use uring::{ListenError, Listener, Live, LiveOptions, Parcel, Socket};

use crate::keeper::Keeper;
use crate::members::superblock_in;
use crate::orders;
use crate::service::{Service, Upkeep};
use crate::{Course, Place, Progress, RaidError};

/// What a served array is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Order {
    /// Say how it is.
    Status,
    /// Take a member out of use.
    Fail {
        /// The member.
        member: String,
    },
    /// Fill the place of a missing member, or say how far that is.
    Rebuild {
        /// What takes the place; the rebuild under way is followed if nothing is named.
        onto: Option<NewPlace>,
        /// No faster than this.
        rate: Option<Rate>,
    },
    /// Replace a member that still serves.
    Replace {
        /// The member; the replacement under way is followed if nothing is named.
        member: Option<String>,
        /// What takes its place.
        onto: Option<NewPlace>,
        /// No faster than this.
        rate: Option<Rate>,
    },
    /// Add a spare, or a former member.
    Add {
        /// What is added.
        device: NewPlace,
        /// No faster than this, if it fills a member's place.
        rate: Option<Rate>,
    },
    /// Compare everything with its redundancy.
    Scrub {
        /// Make it fit.
        repair: bool,
        /// From this address of the array on.
        #[serde(default)]
        from: Bytes,
        /// No faster than this.
        rate: Option<Rate>,
    },
    /// End the scrub that is under way: whoever asked for it is told what it found until then, and where it goes on.
    EndScrub,
}

/// Something that is to become part of the array.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewPlace {
    /// Where it is, in words that every process understands.
    pub place: String,
    /// How large a file is made, if there is nothing.
    pub size: Option<Bytes>,
    /// It may carry data.
    pub destroy_data: bool,
    /// How often it was named; what carries data that are recognised is written only if it was named twice.
    #[serde(default = "once")]
    pub times_named: u32,
}

fn once() -> u32 {
    1
}

/// What a server says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Progress(Upkeep),
    Done(Value),
    Refused { message: String, input: bool },
}

/// Where servers of a user's arrays may listen for orders, of whom the variable says this: the first is where a new one
/// does.
fn folders(user: u32, runtime: Option<OsString>) -> Vec<PathBuf> {
    if user == 0 {
        return vec![PathBuf::from("/run/arraylab")];
    }
    let said = runtime.filter(|folder| !folder.is_empty()).map(|folder| PathBuf::from(folder).join("arraylab"));
    let usual = [format!("/tmp/arraylab-{user}"), format!("/run/user/{user}/arraylab")].map(PathBuf::from);
    said.into_iter().chain(usual).collect()
}

/// The sockets at which the server of an array may listen.
fn sockets_of(array: Uuid) -> io::Result<Vec<PathBuf>> {
    let user = std::fs::metadata("/proc/self")?.uid();
    let socket = |folder: PathBuf| folder.join(array.to_string().replace(':', ""));
    Ok(folders(user, std::env::var_os("XDG_RUNTIME_DIR")).into_iter().map(socket).collect())
}

/// Whether a folder is this user's, and nobody else may put a socket there: who can gives the answers to this user's
/// orders.
fn is_ours(folder: &Path) -> io::Result<bool> {
    let (it, me) = (std::fs::symlink_metadata(folder)?, std::fs::metadata("/proc/self")?.uid());
    Ok(it.is_dir() && it.uid() == me && it.mode() & 0o022 == 0)
}

impl Keeper {
    /// The socket on which orders come in; one that a killed server left there goes.
    pub fn listen(&self) -> Result<Listener, RaidError> {
        let array = self.array.identity().expect("an array of members says who it is");
        let sockets = sockets_of(array).map_err(|source| RaidError::Control { folder: "/proc/self".into(), source })?;
        let path = sockets.into_iter().next().expect("there is always one");
        let folder = path.parent().expect("a socket is in a folder");
        let no_place = |source| RaidError::Control { folder: folder.to_owned(), source };
        DirBuilder::new().mode(0o700).recursive(true).create(folder).map_err(no_place)?;
        if !is_ours(folder).map_err(no_place)? {
            return Err(no_place(io::Error::other("it is somebody else's, or others may write to it")));
        }
        remove_leftovers(folder);
        // A server that was killed has let go of the members before, and goes on listening for as long as the kernel
        // takes to end it.
        let listen = || Listener::unix_replacing(&self.live, &path);
        Ok(patiently(listen, |error| matches!(error, ListenError::Occupied { .. }))?)
    }
}

/// Removes the sockets of servers that were killed, of whatever arrays; an array that is never served again has nobody
/// else to do it.
fn remove_leftovers(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.for_each(|entry| Listener::remove_stale(&entry.path()));
}

/// Takes orders, from one at a time or several; never ends.
pub(crate) async fn attend(keeper: &Rc<Keeper>, listener: &Listener) {
    loop {
        match listener.accept().await {
            Ok(socket) => {
                let keeper = Rc::clone(keeper);
                // Whoever gave the order may have gone away; that is its own affair.
                keeper.live.runtime().clone().spawn_detached(async move { _ = converse(&keeper, &socket).await });
            }
            Err(_) => keeper.live.runtime().sleep(crate::keeper::LOOK).await,
        }
    }
}

/// The other end of an order: told how far it is.
pub(crate) struct Caller<'s>(&'s Socket);

impl Caller<'_> {
    async fn say(&self, answer: &Answer) -> io::Result<()> {
        let mut line = serde_json::to_vec(answer).map_err(io::Error::other)?;
        line.push(b'\n');
        self.0.send(vec![Parcel::head(line)]).await.1
    }

    /// Tells of an upkeep; an error says that nobody listens any more.
    pub async fn tell(&self, upkeep: Upkeep) -> io::Result<()> {
        self.say(&Answer::Progress(upkeep)).await
    }
}

async fn converse(keeper: &Rc<Keeper>, socket: &Socket) -> io::Result<()> {
    /// Longer than any order with its paths.
    const LONGEST: usize = 64 << 10;
    let (caller, mut heard) = (Caller(socket), Vec::new());
    loop {
        let (buffer, received) = socket.receive(Buffer::zeroed(Bytes::kib(4))).await;
        let count = received?;
        if count == 0 || heard.len() > LONGEST {
            return Ok(());
        }
        heard.extend_from_slice(&buffer.bytes().expect("it is real")[..count]);
        while let Some(end) = heard.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = heard.drain(..=end).collect();
            let answer = match serde_json::from_slice::<Order>(&line) {
                Ok(order) => match orders::carry_out(keeper, order, &caller).await {
                    Ok(done) => Answer::Done(done),
                    Err(error) => Answer::Refused { message: error.to_string(), input: error.is_input() },
                },
                Err(error) => Answer::Refused { message: format!("this is no order: {error}"), input: true },
            };
            caller.say(&answer).await?;
        }
    }
}

/// A server, as the process that gives it orders sees it.
pub struct Server {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Server {
    /// The server of the array that these are members of, if it is being served. Members that cannot be read are asked
    /// nothing.
    ///
    /// The socket of a server that was killed is there until the kernel has ended its requests, some tens of
    /// milliseconds later; nobody answers at it, and this waits for its end.
    pub fn find(members: &[Place]) -> Option<Server> {
        let live = Live::start(&LiveOptions::default());
        let identity = members.iter().find_map(|place| Some(superblock_in(&live, place)?.array));
        match identity {
            Some(array) => sockets_of(array).ok()?.iter().find_map(|path| Server::listening_at(path)),
            None => Server::holding(members),
        }
    }

    /// The server that has one of these devices in use: what says nothing any more may be a member of an array that is
    /// being served.
    fn holding(members: &[Place]) -> Option<Server> {
        let user = std::fs::metadata("/proc/self").ok()?.uid();
        let folders = folders(user, std::env::var_os("XDG_RUNTIME_DIR"));
        let sockets = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
        sockets.map(|entry| entry.path()).find_map(|path| {
            let mut server = Server::listening_at(&path)?;
            let held = server.status(&Course::quiet()).ok()?.places();
            held.iter().any(|held| members.iter().any(|member| member.is_same(held))).then_some(server)
        })
    }

    fn listening_at(path: &Path) -> Option<Server> {
        path.parent().and_then(|folder| is_ours(folder).ok()).filter(|ours| *ours)?;
        // What a server that was killed left behind is of no use to anybody.
        Listener::remove_stale(path);
        let connect = || Server::at(path);
        let look = || if connect().is_some_and(|mut server| server.is_dead()) { Err(()) } else { Ok(()) };
        // What is still there then is for whoever gives the order to say.
        _ = patiently(look, |()| true);
        connect()
    }

    fn at(path: &Path) -> Option<Server> {
        Some(Server { path: path.to_owned(), stream: BufReader::new(UnixStream::connect(path).ok()?) })
    }

    /// Whether nobody will ever answer. A server that is too busy to answer within this time is one all the same.
    fn is_dead(&mut self) -> bool {
        let limited = self.stream.get_mut().set_read_timeout(Some(LETTING_GO));
        match self.status(&Course::quiet()) {
            Err(RaidError::Server { source }) => {
                limited.is_ok() && !matches!(source.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
            }
            _ => false,
        }
    }

    /// Gives an order and waits until it is carried out. On the way progress is shown; if it is interrupted then, the
    /// server hears no more, unless it is a scrub: that is ended, and says what it found.
    pub fn order<T: DeserializeOwned>(&mut self, order: &Order, course: &Course) -> Result<T, RaidError> {
        let gone = |source| RaidError::Server { source };
        let mut line = serde_json::to_vec(order).map_err(|error| gone(error.into()))?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).map_err(gone)?;
        let mut ended = false;
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).map_err(gone)? == 0 {
                return Err(gone(ErrorKind::UnexpectedEof.into()));
            }
            match serde_json::from_str(&line).map_err(|error| gone(error.into()))? {
                Answer::Progress(upkeep) => {
                    (course.show)(Progress { done: upkeep.done, of: upkeep.of });
                    if course.interrupted.load(Relaxed) && !ended {
                        // The server attends to this line when the scrub has ended, so that is asked for on another.
                        let mut other = match order {
                            Order::Scrub { .. } => Server::at(&self.path).ok_or(RaidError::UnwatchedScrub)?,
                            _ => return Err(RaidError::Unwatched),
                        };
                        other.order::<Value>(&Order::EndScrub, &Course::quiet())?;
                        ended = true;
                    }
                }
                Answer::Done(value) => return serde_json::from_value(value).map_err(|error| gone(error.into())),
                Answer::Refused { message, input } => return Err(RaidError::Refused { message, input }),
            }
        }
    }

    /// How the array is.
    pub fn status(&mut self, course: &Course) -> Result<Service, RaidError> {
        self.order(&Order::Status, course)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn a_server_is_looked_for_wherever_one_may_listen() {
        let folders = |user, runtime: Option<&str>| {
            let folders = folders(user, runtime.map(OsString::from));
            folders.into_iter().map(|folder| folder.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        // Root has one, so that a server of boot is found from any session.
        assert_eq!(folders(0, None), ["/run/arraylab"]);
        assert_eq!(folders(0, Some("/run/user/0")), folders(0, None));
        let usual = ["/tmp/arraylab-7", "/run/user/7/arraylab"];
        assert_eq!(folders(7, None), usual);
        assert_eq!(folders(7, Some("")), usual);
        assert_eq!(folders(7, Some("/own")), ["/own/arraylab", usual[0], usual[1]]);
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_not_ours() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("arraylab");
        std::fs::create_dir(&folder).unwrap();
        let with_mode = |mode| {
            std::fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
            is_ours(&folder).unwrap()
        };
        assert!(with_mode(0o700) && with_mode(0o755));
        assert!(!with_mode(0o777) && !with_mode(0o770));
        assert!(with_mode(0o700));
        let link = outer.path().join("link");
        symlink(&folder, &link).unwrap();
        assert!(!is_ours(&link).unwrap(), "somebody else may have made it, and turn it elsewhere");
        assert!(is_ours(&outer.path().join("none")).is_err());
        if chown(&folder, Some(12_345), None).is_err() {
            println!("skipped: a folder of another user (needs root)");
            return;
        }
        assert!(!is_ours(&folder).unwrap());
    }
}
