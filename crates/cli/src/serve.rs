//! `arraylab serve`.

mod modelled;

use std::collections::HashMap;
use std::future::poll_fn;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::rc::Rc;

use device::{AnyDevice, Device};
use host::guard::{Consent, Subject, WritePermit, permit, times_named};
use host::{Kernel, Refusal};
use lab::pace::Pace;
use nbd::{Address, Export, Exports, Notice, Place, ServeOptions, Served, ServerTls, Tell, Uri};
use runtime::Alarm;
use serde_json::json;
use units::{Bytes, Duration};
use uring::{FileDevice, FileOptions, ListenError, Listener, Live, LiveOptions, OpenError};

use crate::args::Serve;
use crate::fail::Failure;
use crate::out;
use crate::permit::blame;
use crate::stop;
use crate::systemd::{Manager, Passed};

/// Serves the files named until the user ends it.
pub fn serve(args: &Serve) -> Result<ExitCode, Failure> {
    let passed = Passed::take(&args.nbd)?;
    let tls = encryption(&args.nbd, args.tls.as_deref())?;
    let live = Live::start(&LiveOptions::default());
    let mut paths = times_named(&args.paths);
    paths.retain(|(path, _)| modelled::drive_of(path).is_none());
    let names = names(paths.iter().map(|(path, _)| path.as_path()));
    let permits = if args.read_only { HashMap::new() } else { leave_to_write(&paths, args.destroy_data)? };
    let mut items = Vec::new();
    for ((path, _), name) in paths.iter().zip(names) {
        items.push(Item::open(&live, path, name, permits.get(path), args.direct)?);
    }
    let (models, paces) = modelled::open(&live, args)?;
    items.extend(models);
    let mut listeners = passed.listen(&live, tls.is_some())?;
    for address in &args.nbd {
        listeners.extend(listen(&live, address)?);
    }
    // From here on the sockets are removed at the end, whatever ends it.
    let exports = items.iter().map(|item| Export::new(&item.name, item.device.clone(), args.read_only));
    let exports = exports.collect::<Result<Vec<_>, _>>().and_then(Exports::new).map_err(Failure::input)?;
    let alarm = stop::on_signals("ending: what is under way is finished, and all is flushed");
    let manager = Manager::of_environment();
    announce(args, &items, &listeners)?;
    manager.ready("serving");
    // How late answers came is the account of those that clients waited for.
    let settled = {
        let paces = paces.clone();
        move || paces.iter().for_each(Pace::close)
    };
    let (limits, tell) = (args.bounds.limits(), Some(Rc::new(sent_away) as Tell));
    let options = ServeOptions { limits, tls, settled: Some(Rc::new(settled)), tell, ..ServeOptions::default() };
    let serving = nbd::serve(live.runtime(), exports, listeners, options, ended(&alarm, &manager));
    let served = live.runtime().block_on(beside(watched(&live, &manager), serving));
    let done = conclude(&served);
    if let Some(lateness) = modelled::account(&paces) {
        eprintln!("{lateness}");
    }
    done
}

/// The certificates, without which other machines are not served.
pub fn encryption(addresses: &[Address], folder: Option<&Path>) -> Result<Option<ServerTls>, Failure> {
    let tls = folder.map(ServerTls::from_folder).transpose().map_err(Failure::input)?;
    if let (Some(address), None) = (addresses.iter().find_map(Address::open), &tls) {
        return Err(Failure::input(anyhow::anyhow!(
            "{address} can be reached from other machines, and whoever reaches it could read and write; add --tls DIR, or listen on tcp:127.0.0.1:{}",
            address.port()
        )));
    }
    Ok(tls)
}

/// One file or device, open.
struct Item {
    path: PathBuf,
    name: String,
    device: AnyDevice,
    engine: String,
    reason: String,
    /// At the end of the file, less than a block.
    left_out: Bytes,
}

impl Item {
    fn open(
        live: &Live,
        path: &Path,
        name: String,
        permit: Option<&WritePermit>,
        direct: bool,
    ) -> Result<Item, Failure> {
        let file = open_file(live, path, permit, direct)?;
        let whole = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|file| Bytes::new(file.len()));
        let left_out = whole.map_or(Bytes::ZERO, |whole| whole.saturating_sub(file.shape().size));
        let choice = file.choice().clone();
        Ok(Item {
            path: path.to_owned(),
            name,
            device: AnyDevice::new(file),
            engine: choice.engine.to_string(),
            reason: choice.reason,
            left_out,
        })
    }
}

fn open_file(live: &Live, path: &Path, permit: Option<&WritePermit>, direct: bool) -> Result<FileDevice, Failure> {
    let options = if direct { FileOptions::direct() } else { FileOptions::buffered().copying() };
    let opened = match permit {
        Some(permit) => FileDevice::open_writable(live, permit, &options),
        None => FileDevice::open_read_only(live, path, &options),
    };
    opened.map_err(|error| match error {
        OpenError::Permission { .. } | OpenError::System { .. } | OpenError::Ring { .. } => Failure::world(error),
        _ => Failure::input(error),
    })
}

/// One file is the default export; several have their file names, or their paths where those are equal.
fn names<'p>(paths: impl Iterator<Item = &'p Path> + Clone) -> Vec<String> {
    let short = |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    if paths.clone().count() == 1 {
        return vec![String::new()];
    }
    let name = |path: &Path| match paths.clone().filter(|other| short(other) == short(path)).count() {
        1 => short(path),
        _ => path.display().to_string(),
    };
    paths.clone().map(name).collect()
}

/// Permits to write. To serve a file is to say what it is for, so a file in which nothing is recognised needs no
/// further words; for everything else the guard decides as ever.
fn leave_to_write(paths: &[(PathBuf, u32)], destroy_data: bool) -> Result<HashMap<PathBuf, WritePermit>, Failure> {
    let kernel = Kernel::running();
    let mut permits = HashMap::new();
    for (path, times_named) in paths {
        let consent = Consent { destroy_data, times_named: *times_named };
        let asked = match permit(&kernel, path, consent) {
            Err(Refusal::NoConsent { uses, found, subject: Subject::File(_), .. })
                if uses.is_empty() && found.is_empty() =>
            {
                permit(&kernel, path, Consent { destroy_data: true, ..consent })
            }
            asked => asked,
        };
        let permit = asked.map_err(|refusal| match blame(refusal) {
            Failure::BadInput(error) => Failure::input(anyhow::anyhow!("{error}; or serve it with --read-only")),
            world => world,
        })?;
        permits.insert(path.clone(), permit);
    }
    Ok(permits)
}

/// Listens at an address of the command line, if it is one. A socket that a server left which is gone is replaced.
pub fn listen(live: &Live, address: &Address) -> Result<Option<Listener>, Failure> {
    let listener = match address {
        Address::Unix(path) => Listener::unix_replacing(live, path),
        Address::Tcp(address) => Listener::tcp(live, *address),
        Address::Systemd => return Ok(None),
    };
    listener.map(Some).map_err(|error| match error {
        ListenError::NoPlace { .. } | ListenError::Ring(_) => Failure::world(error),
        _ => Failure::input(error),
    })
}

/// How long a server may take to its end, at most: its clients' last replies, and what members that hang are given.
const ENDING: Duration = Duration::seconds(180);

/// Waits for the signal to end, and passes it on.
pub async fn ended(alarm: &Alarm, manager: &Manager) {
    alarm.raised().await;
    manager.stopping(ENDING);
}

/// Gives systemd's watchdog its signs of life, if it expects any: twice as often, by the thread that serves. Never
/// ends.
pub async fn watched(live: &Live, manager: &Manager) {
    let Some(every) = manager.watchdog() else { return std::future::pending().await };
    loop {
        manager.say("WATCHDOG=1\n");
        live.runtime().sleep(every / 2).await;
    }
}

/// What `main` comes to; what is beside it, and never ends by itself, ends with it.
pub async fn beside<T>(beside: impl Future<Output = ()>, main: impl Future<Output = T>) -> T {
    let (mut beside, mut main) = (pin!(beside), pin!(main));
    let mut done = false;
    poll_fn(|context| {
        done = done || beside.as_mut().poll(context).is_ready();
        main.as_mut().poll(context)
    })
    .await
}

/// Says which client was sent away.
pub fn sent_away(notice: &Notice) {
    // If the terminal is gone, there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{notice}");
}

/// What clients are to be told of an export.
pub fn uris(tls: bool, name: &str, listeners: &[Listener]) -> Vec<String> {
    let uri = |place| Uri { tls, place, export: name.to_owned(), certificates: None };
    places(listeners).into_iter().map(|place| uri(place).to_string()).collect()
}

/// Where it listens.
pub fn places(listeners: &[Listener]) -> Vec<Place> {
    let places = listeners.iter().filter_map(|listener| match (listener.path(), listener.tcp_address()) {
        (Some(path), _) => Some(Place::Unix(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))),
        (None, Some(address)) => Some(Place::Tcp(address.ip().to_string(), address.port())),
        (None, None) => None,
    });
    places.collect()
}

/// Says where it is, before anybody comes.
fn announce(args: &Serve, items: &[Item], listeners: &[Listener]) -> Result<(), Failure> {
    if args.json {
        let export = |item: &Item| {
            json!({
                "name": item.name,
                "path": item.path,
                "size_bytes": item.device.shape().size.get(),
                "block_bytes": item.device.shape().logical_block.get(),
                "read_only": args.read_only,
                "engine": item.engine,
                "model": (item.engine == modelled::ENGINE).then_some(&item.reason),
                "uris": uris(args.tls.is_some(), &item.name, listeners),
            })
        };
        out::json(&json!({ "exports": items.iter().map(export).collect::<Vec<_>>() }))?;
    } else {
        let mut text = String::new();
        for item in items {
            let shape = item.device.shape();
            let access = if args.read_only { "read-only" } else { "reads and writes" };
            text.push_str(&format!("{}: {}, {access}, by {}\n", item.path.display(), shape.size, item.engine));
            if item.engine == modelled::ENGINE {
                text.push_str(&format!("  {}\n", item.reason));
            }
            for uri in uris(args.tls.is_some(), &item.name, listeners) {
                text.push_str(&format!("  {uri}\n"));
            }
        }
        out::text(&text)?;
    }
    for item in items {
        if !item.left_out.is_zero() {
            let block = item.device.shape().logical_block;
            eprintln!(
                "{}: its last {} are not served, as they fill no block of {block}",
                item.path.display(),
                item.left_out
            );
        }
        if item.engine == "threads" {
            eprintln!("{}: by threads, as {}", item.path.display(), item.reason);
        }
    }
    eprintln!("Ctrl-C ends the server");
    Ok(())
}

/// What was done, and whether all of it is safe.
pub fn conclude(served: &Served) -> Result<ExitCode, Failure> {
    let many = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    // The terminal may be what has ended the server, and nobody is told then; but what is left to do is done.
    let mut words = std::io::stderr();
    let _ = writeln!(
        words,
        "{}, {}: {} read, {} written, {}",
        many(served.connections, "connection"),
        many(served.requests, "request"),
        served.read,
        served.written,
        many(served.errors, "error")
    );
    if served.abandoned > 0 {
        let _ = writeln!(
            words,
            "{} did not end in time, and requests were left unanswered",
            many(served.abandoned.into(), "connection")
        );
    }
    match &served.unflushed[..] {
        [] => Ok(ExitCode::SUCCESS),
        [(name, error), ..] => Err(Failure::world(anyhow::anyhow!(
            "the last flush of export '{name}' failed: {error}; what was written since the last flush of a client may be lost"
        ))),
    }
}
