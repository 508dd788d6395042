//! `arraylab array serve`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use device::Device;
use lab::raid::{self, Event, Keeper, Keeping};
use nbd::{Export, Exports, ServeOptions};
use serde_json::json;
use uring::{Listener, Live, LiveOptions};

use crate::args::ServeArray;
use crate::array::{blame, permits};
use crate::fail::Failure;
use crate::serve::{conclude, encryption, listen, uris};
use crate::{out, stop};

/// Serves an array until the user ends it.
pub fn serve(args: &ServeArray) -> Result<ExitCode, Failure> {
    let tls = encryption(&args.nbd, args.tls.as_deref())?;
    if raid::Server::find(&args.members).is_some() {
        let next = "end that one first, or see `arraylab array status`";
        return Err(Failure::input(anyhow::anyhow!("the array is being served already; {next}")));
    }
    let live = Live::start(&LiveOptions::default());
    let json = args.json;
    let keeping = Keeping {
        force: args.force,
        rate: args.rate,
        time_limit: args.time_limit,
        tell: Rc::new(move |event| tell(event, json)),
    };
    let keeper = Keeper::open(&live, &args.members, permits(&args.members)?, keeping).map_err(blame)?;
    let control = keeper.listen().map_err(blame)?;
    let listeners = args.nbd.iter().map(|address| listen(&live, address)).collect::<Result<Vec<_>, _>>()?;
    let export = Export::new(&args.export, keeper.device(), args.read_only).map_err(Failure::input)?;
    let exports = Exports::new(vec![export]).map_err(Failure::input)?;
    let alarm = stop::on_signals("ending: what is under way is finished, and the array stopped (again: end at once)");
    announce(args, &keeper, &listeners, &control)?;
    let options = ServeOptions { tls, ..ServeOptions::default() };
    let serving = nbd::serve(live.runtime(), exports, listeners, options, alarm.raised());
    let served = live.runtime().block_on(keeper.keep(&control, serving));
    drop(control);
    let done = conclude(&served)?;
    if served.abandoned > 0 {
        let next = "the array is left as it is, and made to fit at its next start";
        return Err(Failure::world(anyhow::anyhow!("requests are still under way; {next}")));
    }
    let left = keeper.stop().map_err(blame)?;
    eprintln!("the array is stopped: {}", crate::array::left_as(&left).trim_end());
    Ok(done)
}

/// An event, as soon as it happens. Whoever reads may have gone away; the array is served all the same.
fn tell(event: &Event, json: bool) {
    let mut out = std::io::stdout().lock();
    let line = if json { json!(event).to_string() } else { event.to_string() };
    _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Says where it is, and in what state, before anybody comes.
fn announce(args: &ServeArray, keeper: &Keeper, listeners: &[Listener], control: &Listener) -> Result<(), Failure> {
    let shape = keeper.device().shape().clone();
    let uris = uris(args.tls.is_some(), &args.export, listeners);
    let not_whole = keeper.not_whole();
    let orders: Option<PathBuf> = control.path().map(ToOwned::to_owned);
    if args.json {
        out::json(&json!({
            "level": keeper.level().to_string(),
            "size_bytes": shape.size.get(),
            "block_bytes": shape.logical_block.get(),
            "read_only": args.read_only,
            "not_whole": not_whole,
            "spare": keeper.spare(),
            "uris": uris,
            "orders": orders,
        }))?;
        return Ok(());
    }
    let access = if args.read_only { "read-only" } else { "reads and writes" };
    let mut text = format!("{}, {}, {access}\n", keeper.level(), shape.size);
    for uri in uris {
        text.push_str(&format!("  {uri}\n"));
    }
    if !not_whole.is_empty() {
        let more = match keeper.spare() {
            0 => "it survives no further loss".to_owned(),
            more => format!("it survives the loss of {more} more"),
        };
        text.push_str(&format!("DEGRADED: members {not_whole:?} are not whole; {more}\n"));
    }
    out::text(&text)?;
    eprintln!("`arraylab array status`, `fail`, `rebuild` and `scrub` act on it meanwhile; Ctrl-C ends the server");
    Ok(())
}
