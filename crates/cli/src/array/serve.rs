//! `arraylab array serve`.

use std::cell::RefCell;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use device::Device;
use nbd::{Address, Exports, Portion, ServeOptions, Served, Tell, divide};
use raid::{Event, Keeper, Keeping, LeftOut, Meter, Offer, Permits};
use serde_json::json;
use units::{Bytes, Duration};
use uring::{ListenError, Listener, Live, LiveOptions};

use crate::args::ServeArray;
use crate::array::hook::Hook;
use crate::array::{admitted, blame, looked_at};
use crate::fail::Failure;
use crate::metrics::{Metrics, TextFile};
use crate::serve::{beside, conclude, encryption, ended, listen, places, sent_away, uris, watched};
use crate::systemd::{Manager, Passed};
use crate::{out, stop};

/// Serves an array until the user ends it.
pub fn serve(args: &ServeArray) -> Result<ExitCode, Failure> {
    let passed = Passed::take(&args.nbd)?;
    let tls = encryption(&args.nbd, args.tls.as_deref())?;
    if args.time_limit.is_zero() {
        let next = "every member would count as failed at once; give it longer, such as 30s";
        return Err(Failure::input(anyhow::anyhow!("--time-limit {}: {next}", args.time_limit)));
    }
    if raid::Server::find(&args.members).is_some() {
        let next = "end that one first, or see `arraylab array status`";
        return Err(Failure::input(anyhow::anyhow!("the array is being served already; {next}")));
    }
    let manager = Rc::new(Manager::of_environment());
    // From here on a signal stops the array, and does not cut off what its opening writes.
    let alarm = stop::on_signals("ending: what is under way is finished, and the array stopped");
    let live = Live::start(&LiveOptions::default());
    let (json, told) = (args.json, Rc::clone(&manager));
    let metrics = args.metrics.map(Metrics::serve).transpose()?;
    let hook: Rc<RefCell<Option<Hook>>> = Rc::default();
    let hooked = Rc::clone(&hook);
    let keeping = Keeping {
        force: args.force,
        read_only: args.read_only,
        rate: args.rate,
        time_limit: args.time_limit,
        tell: Rc::new(move |event| {
            tell(event, json);
            told.status(&event.to_string());
            if let Some(hook) = &mut *hooked.borrow_mut() {
                hook.event(event);
            }
        }),
        counted: metrics.is_some() || args.metrics_file.is_some(),
    };
    let (permits, left_out) = match args.read_only {
        true => (Permits::new(), looked_at(&args.members)?),
        false => admitted(&args.members)?,
    };
    let keeper = Keeper::open(&live, &args.members, permits, keeping).map_err(blame)?;
    let exports = divide(live.runtime(), &keeper.device(), &args.export, args.read_only).map_err(Failure::input)?;
    let offers = offers(&args.export, &exports);
    keeper.offer(offers.clone());
    let control = keeper.listen().map_err(blame)?;
    let mut listeners = passed.listen(&live, tls.is_some())?;
    for address in &args.nbd {
        listeners.extend(listen_again(&live, address)?);
    }
    keeper.listens_at(places(&listeners));
    let (limits, tell) = (args.bounds.limits(), Some(Rc::new(sent_away) as Tell));
    let options = ServeOptions { limits, tls, tell, ..ServeOptions::default() };
    let meter = Meter::new(&keeper, &options.totals);
    let file = args.metrics_file.as_ref().map(|path| TextFile::at(path, &meter.text())).transpose()?;
    if let Some(program) = &args.on_event {
        let mut begun = Hook::new(program.clone(), keeper.name())?;
        begun.begins(!keeper.not_whole().is_empty(), args.test_event);
        hook.replace(Some(begun));
    }
    if let Some(metrics) = &metrics {
        metrics.set(meter.text());
    }
    announce(args, &keeper, &left_out, &offers, &listeners, &control)?;
    manager.ready(&standing(&keeper));
    let told = async {
        let every = file.as_ref().map_or(Duration::ZERO, |_| args.metrics_interval);
        let mut written = live.runtime().now();
        loop {
            if let Some(hook) = &mut *hook.borrow_mut() {
                hook.progress(keeper.upkeep().as_ref());
            }
            if let Some(metrics) = &metrics {
                metrics.set(meter.text());
            }
            if let Some(file) = &file
                && live.runtime().now() >= written + every
            {
                written = live.runtime().now();
                file.set(meter.text());
            }
            live.runtime().sleep(TOLD).await;
        }
    };
    let serving = nbd::serve(live.runtime(), exports, listeners, options, ended(&alarm, &manager));
    let served =
        live.runtime().block_on(beside(watched(&live, &manager), beside(told, keeper.keep(&control, serving))));
    drop((control, file));
    let done = left_well(&keeper, &served);
    if let Some(hook) = hook.take() {
        hook.end();
    }
    done
}

/// How often events of an upkeep and metrics are told.
const TOLD: Duration = Duration::millis(500);

/// Stops the array, and says how it was left.
fn left_well(keeper: &Keeper, served: &Served) -> Result<ExitCode, Failure> {
    let done = conclude(served);
    // The array's end says more than that of its clients.
    keeper.unrivalled().map_err(blame)?;
    is_whole_enough(keeper)?;
    let done = done?;
    if served.abandoned > 0 {
        let next = "the array is left as it is, and made to fit at its next start";
        return Err(Failure::world(anyhow::anyhow!("requests are still under way; {next}")));
    }
    if keeper.is_read_only() {
        let _ = writeln!(std::io::stderr(), "the members are as they were: nothing was written to them");
        is_whole_enough(keeper)?;
        return Ok(done);
    }
    let left = keeper.stop().map_err(blame)?;
    let _ = writeln!(std::io::stderr(), "the array is stopped: {}", crate::array::left_as(&left, false).trim_end());
    is_whole_enough(keeper)?;
    Ok(done)
}

/// Listens; where a server that was killed still does, as soon as the kernel has ended it.
fn listen_again(live: &Live, address: &Address) -> Result<Option<Listener>, Failure> {
    let is_taken = |failure: &Failure| {
        let Failure::BadInput(error) = failure else { return false };
        match error.downcast_ref::<ListenError>() {
            Some(ListenError::Address { source, .. }) => source.kind() == ErrorKind::AddrInUse,
            Some(ListenError::Occupied { .. }) => true,
            _ => false,
        }
    };
    host::patience::patiently(|| listen(live, address), is_taken)
}

/// An array that broke was not served to the end.
fn is_whole_enough(keeper: &Keeper) -> Result<(), Failure> {
    let next = "start it with members that can be read";
    match keeper.is_broken() {
        true => Err(Failure::world(anyhow::anyhow!(
            "the array broke while it was served: more members were lost than the level survives; {next}"
        ))),
        false => Ok(()),
    }
}

/// The array in a line.
fn standing(keeper: &Keeper) -> String {
    let size = keeper.device().shape().size;
    match &keeper.not_whole()[..] {
        [] => format!("{}, {size}", keeper.level()),
        members => format!("{}, {size}, DEGRADED: not whole: {}", keeper.level(), raid::numbered(members, ", ")),
    }
}

/// What is offered of the array.
fn offers(portions: &[Portion], exports: &Exports) -> Vec<Offer> {
    let from = |export: usize| portions.get(export).and_then(|portion| portion.from).unwrap_or(Bytes::ZERO);
    let offer = |(number, export): (usize, &nbd::Export)| Offer {
        name: export.name().to_owned(),
        from: from(number),
        size: export.device().shape().size,
        read_only: export.is_read_only(),
    };
    exports.all().iter().enumerate().map(offer).collect()
}

/// An event, as soon as it happens. Whoever reads may have gone away; the array is served all the same.
fn tell(event: &Event, json: bool) {
    let mut out = std::io::stdout().lock();
    let line = if json { json!(event).to_string() } else { event.to_string() };
    _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Says where it is, and in what state, before anybody comes.
fn announce(
    args: &ServeArray,
    keeper: &Keeper,
    left_out: &[LeftOut],
    offers: &[Offer],
    listeners: &[Listener],
    control: &Listener,
) -> Result<(), Failure> {
    let shape = keeper.device().shape().clone();
    let uris = |offer: &Offer| uris(args.tls.is_some(), &offer.name, listeners);
    let read_only = offers.iter().all(|offer| offer.read_only);
    let not_whole = keeper.not_whole();
    let orders: Option<PathBuf> = control.path().map(ToOwned::to_owned);
    if args.json {
        let export = |offer: &Offer| {
            json!({
                "name": offer.name,
                "from_bytes": offer.from.get(),
                "size_bytes": offer.size.get(),
                "read_only": offer.read_only,
                "uris": uris(offer),
            })
        };
        out::json(&json!({
            "level": keeper.level().to_string(),
            "size_bytes": shape.size.get(),
            "block_bytes": shape.logical_block.get(),
            "read_only": read_only,
            "not_whole": not_whole,
            "left_out": left_out,
            "survives": keeper.survives(),
            "needed": keeper.needed(),
            "spares": keeper.spares(),
            "uris": offers.iter().flat_map(uris).collect::<Vec<_>>(),
            "exports": offers.iter().map(export).collect::<Vec<_>>(),
            "orders": orders,
        }))?;
    } else {
        let access = if read_only { "read-only" } else { "reads and writes" };
        let mut text = format!("{}, {}", keeper.level(), shape.size);
        match &args.export[..] {
            [] => text.push_str(&format!(", {access}\n")),
            _ => text.push('\n'),
        }
        for offer in offers {
            let indent = if args.export.is_empty() { "  " } else { "    " };
            if !args.export.is_empty() {
                text.push_str(&format!("  {}\n", offer.text(shape.size)));
            }
            uris(offer).iter().for_each(|uri| text.push_str(&format!("{indent}{uri}\n")));
        }
        if !not_whole.is_empty() {
            text.push_str(&format!(
                "DEGRADED: not whole: {}; {}\n",
                raid::numbered(&not_whole, ", "),
                keeper.outlook()
            ));
        }
        out::text(&text)?;
    }
    for offer in offers.iter().filter(|offer| !offer.read_only && !offer.from.is_multiple_of(keeper.stripe())) {
        eprintln!(
            "{} begins within a stripe of the array, so that whole stripes of its clients are none of the array's and cost reads; \
             multiples of {:#} avoid that",
            offer.name,
            keeper.stripe()
        );
    }
    eprintln!("`arraylab array status`, `fail`, `rebuild` and `scrub` act on it meanwhile; Ctrl-C ends the server");
    Ok(())
}
