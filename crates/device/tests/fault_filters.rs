//! Filters that do wrong: one behaviour per test.

mod common;

use common::{done, filled, fills, memory, try_read};
use device::filter::{Damage, Effect, Faulty, Medium, Rule};
use device::{Device, DeviceError, Operation, Request};
use runtime::Runtime;
use units::{Bytes, Duration, Ratio};

const SIZE: Bytes = Bytes::kib(64);

fn sectors(from: u64, to: u64) -> std::ops::Range<Bytes> {
    Bytes::SECTOR * from..Bytes::SECTOR * to
}

/// A sound device full of ones, to which rules are added.
fn ones(runtime: &Runtime) -> Faulty<device::MemoryDevice> {
    let device = Faulty::new(runtime, memory(runtime, SIZE), 1);
    done(runtime, &device, filled(0, 128, 1)).unwrap();
    device
}

#[test]
fn an_error_hits_its_range_and_nothing_has_happened() {
    let runtime = Runtime::simulated();
    let device = ones(&runtime);
    device.add(Rule::new(Effect::Fail(DeviceError::NoSpace)).on(Operation::Write).within(sectors(8, 10)));
    assert_eq!(done(&runtime, &device, filled(9, 4, 2)), Err(DeviceError::NoSpace));
    assert_eq!(done(&runtime, &device, filled(10, 2, 2)), Ok(()));
    assert_eq!(fills(&runtime, &device, 8, 4), [1, 1, 2, 2]);
    assert_eq!(device.suffered(), 1);
}

#[test]
fn a_rule_passes_over_and_ends() {
    let runtime = Runtime::simulated();
    let device = ones(&runtime);
    device.add(Rule::new(Effect::Fail(DeviceError::ReadOnly)).on(Operation::Flush).after(2).times(3));
    let failed: Vec<bool> = (0..8).map(|_| done(&runtime, &device, Request::flush()).is_err()).collect();
    assert_eq!(failed, [false, false, true, true, true, false, false, false]);
}

#[test]
fn chance_is_its_share_and_repeats_with_the_seed() {
    let runtime = Runtime::simulated();
    let run = |seed| {
        let device = Faulty::new(&runtime, memory(&runtime, SIZE), seed);
        let rule = Rule::new(Effect::Fail(DeviceError::ReadOnly)).with_chance(Ratio::percent(10.0));
        device.add(rule);
        (0..2000).map(|_| done(&runtime, &device, Request::flush()).is_err()).collect::<Vec<bool>>()
    };
    let hits = run(5).iter().filter(|hit| **hit).count();
    // Binomial, 2000 draws of 10 %: mean 200, standard deviation 13.4.
    assert!((146..=254).contains(&hits), "{hits} of 2000");
    assert_eq!(run(5), run(5));
}

#[test]
fn a_lost_write_is_acknowledged_and_missing() {
    let runtime = Runtime::simulated();
    let device = ones(&runtime);
    device.add(Rule::new(Effect::Lose).times(1));
    assert_eq!(done(&runtime, &device, filled(4, 1, 2)), Ok(()));
    assert_eq!(fills(&runtime, &device, 4, 1), [1]);
    assert_eq!(done(&runtime, &device, filled(4, 1, 3)), Ok(()));
    assert_eq!(fills(&runtime, &device, 4, 1), [3]);
}

#[test]
fn a_misdirected_write_lands_elsewhere_or_off_the_device() {
    let runtime = Runtime::simulated();
    let device = ones(&runtime);
    device.add(Rule::new(Effect::Misdirect(Bytes::SECTOR * 2)).times(2));
    assert_eq!(done(&runtime, &device, filled(4, 1, 2)), Ok(()));
    assert_eq!(done(&runtime, &device, filled(127, 1, 2)), Ok(()));
    assert_eq!(fills(&runtime, &device, 4, 3), [1, 1, 2]);
    assert_eq!(fills(&runtime, &device, 127, 1), [1]);
}

#[test]
fn a_torn_write_stores_whole_sectors_of_old_and_new_and_fails() {
    let runtime = Runtime::simulated();
    let device = ones(&runtime);
    device.add(Rule::new(Effect::Tear));
    assert!(matches!(done(&runtime, &device, filled(0, 64, 2)), Err(DeviceError::Medium { .. })));
    let after = fills(&runtime, &device, 0, 64);
    assert!(after.contains(&1) && after.contains(&2), "{after:?}");
    assert!(try_read(&runtime, &device, 0, 64).unwrap().chunks(512).all(|s| s.iter().all(|byte| *byte == s[0])));
}

#[test]
fn a_shorn_write_says_it_succeeded() {
    let runtime = Runtime::simulated();
    let device = ones(&runtime);
    device.add(Rule::new(Effect::Shear).times(1));
    assert_eq!(done(&runtime, &device, filled(0, 64, 2)), Ok(()));
    assert!(fills(&runtime, &device, 0, 64).contains(&1));
}

#[test]
fn a_vanished_device_answers_nothing_until_it_comes_back() {
    let runtime = Runtime::simulated();
    let device = ones(&runtime);
    device.add(Rule::new(Effect::Vanish).on(Operation::Write).times(1));
    assert_eq!(done(&runtime, &device, filled(0, 1, 2)), Err(DeviceError::Gone));
    assert_eq!(try_read(&runtime, &device, 0, 1), Err(DeviceError::Gone));
    device.resume();
    assert_eq!(fills(&runtime, &device, 0, 1), [1]);
}

#[test]
fn a_hanging_device_completes_late() {
    let runtime = Runtime::simulated();
    let device = ones(&runtime);
    device.add(Rule::new(Effect::Hang).on(Operation::Write).times(1));
    let resume = async {
        runtime.sleep(Duration::seconds(30)).await;
        device.resume();
    };
    let write = device.submit(filled(0, 1, 2));
    let (reply, flush, ()) =
        runtime.block_on(async { futures_util::join!(write, device.submit(Request::flush()), resume) });
    assert_eq!((reply.result, reply.stamps.service()), (Ok(()), Duration::seconds(30)));
    assert_eq!(flush.stamps.service(), Duration::seconds(30), "what comes later hangs too");
    assert_eq!(fills(&runtime, &device, 0, 1), [2]);
}

#[test]
fn a_stalled_request_is_late_and_done() {
    let runtime = Runtime::simulated();
    let device = ones(&runtime);
    device.add(Rule::new(Effect::Stall(Duration::seconds(2))).times(1));
    let reply = runtime.block_on(device.submit(filled(0, 1, 2)));
    assert_eq!((reply.result, reply.stamps.service()), (Ok(()), Duration::seconds(2)));
    assert_eq!(fills(&runtime, &device, 0, 1), [2]);
}

#[test]
fn a_latent_sector_fails_reads_until_it_is_written() {
    let runtime = Runtime::simulated();
    let device = Medium::new(&runtime, memory(&runtime, SIZE));
    device.damage(sectors(5, 7), Damage::Unreadable);
    let lost = |sector| Err(DeviceError::Medium { offset: Bytes::SECTOR * sector, length: Bytes::SECTOR });
    assert_eq!(try_read(&runtime, &device, 0, 16), lost(5));
    assert!(try_read(&runtime, &device, 0, 5).is_ok());
    done(&runtime, &device, filled(5, 1, 8)).unwrap();
    assert_eq!(fills(&runtime, &device, 5, 1), [8]);
    assert_eq!(try_read(&runtime, &device, 0, 16), lost(6));
    assert_eq!(device.damaged(), [(6, Damage::Unreadable)]);
}

#[test]
fn bit_rot_is_silent_and_ends_with_a_write() {
    let runtime = Runtime::simulated();
    let device = Medium::new(&runtime, memory(&runtime, SIZE));
    device.damage(sectors(5, 6), Damage::Flipped(8 * 3 + 2));
    assert_eq!(try_read(&runtime, &device, 4, 2).unwrap()[512 + 3], 4);
    done(&runtime, &device, Request::write_zeroes(Bytes::SECTOR * 5, Bytes::SECTOR)).unwrap();
    assert!(try_read(&runtime, &device, 0, 16).unwrap().iter().all(|byte| *byte == 0));
}
