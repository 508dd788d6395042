//! RAID-I (UCB/CSD 90/574): the two claims that are about no trial, so that no expression says them.
//!
//! All else of the study is data: `studies/raid-i`.

use std::cell::RefCell;
use std::rc::Rc;

use machine::kit::Kit;
use machine::scsi::string::{Claim, ScsiString, StringParameters};
use machine::trace::Trace;
use runtime::Runtime;
use units::Duration;

use crate::bench::TrialError;
use crate::study::Test;

/// By the claims' names.
pub(crate) const TESTS: &[(&str, Test)] =
    &[("raid-i/wren-iv/claim/ratio-minimum", ratio_minimum), ("raid-i/scsi/claim/arbitration", arbitration)];

/// A drive refuses a ratio of less than one sector of its buffer of 32 KiB.
fn ratio_minimum(system: &Kit) -> Result<(bool, String), TrialError> {
    let refused = |share: &str| -> Result<bool, TrialError> {
        let builds = |key: &str| {
            let mut kit = system.clone();
            kit.set(key, share)?;
            Ok::<_, TrialError>(kit.build(&Runtime::simulated(), 1, &Trace::default()).is_ok())
        };
        Ok(!builds("wren-iv.buffer.read-fill")? && !builds("wren-iv.buffer.write-empty")?)
    };
    let (below, at) = (refused("1.5 %")?, refused("1.5625 %")?);
    Ok((below && !at, format!("491 bytes refused: {below}; 512 bytes refused: {at}")))
}

/// Four devices that want the string at one instant.
fn arbitration(system: &Kit) -> Result<(bool, String), TrialError> {
    let parameters = StringParameters::read(&system.parts["scsi-1"].reader("scsi-string")?)?;
    let runtime = Runtime::simulated();
    let trace = Trace::default();
    let string = ScsiString::new(&runtime, &trace, "string", parameters);
    let order = Rc::new(RefCell::new(Vec::new()));
    let handles: Vec<_> = [3u8, 0, 6, 1]
        .into_iter()
        .map(|id| {
            let (string, trace, order, runtime) = (string.clone(), trace.clone(), Rc::clone(&order), runtime.clone());
            runtime.clone().spawn(async move {
                let mut ledger = trace.open(runtime.now());
                let tenure = string.acquire(Claim::at_once(id, Duration::micros(4)), &mut ledger).await;
                runtime.sleep(Duration::millis(1)).await;
                order.borrow_mut().push(id);
                drop(tenure);
            })
        })
        .collect();
    runtime.block_on(async {
        for handle in handles {
            handle.await;
        }
    });
    let order = order.borrow().clone();
    Ok((order == [6, 3, 1, 0], format!("3, 0, 6 and 1 want the bus together and get it in the order {order:?}")))
}
