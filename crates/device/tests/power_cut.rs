//! The write cache against a model that keeps, for each sector, every value a power cut may leave.

mod common;

use common::{done, filled, fills, memory};
use device::filter::{Effect, Faulty, Rule, WriteCache};
use device::{DeviceError, Operation, Request};
use proptest::prelude::*;
use rand::RngExt;
use runtime::{Random, Runtime};
use units::Bytes;

const SECTORS: u64 = 32;

fn cached(runtime: &Runtime) -> WriteCache<device::MemoryDevice> {
    WriteCache::new(runtime, memory(runtime, Bytes::SECTOR * SECTORS))
}

/// What the sectors hold after a cut that keeps what `keep` says.
fn after_cut(cache: &WriteCache<device::MemoryDevice>, mut keep: impl FnMut(u64, u64) -> bool) -> Vec<u8> {
    let runtime = Runtime::simulated();
    let copy = cache.snapshot(&runtime);
    runtime.block_on(copy.cut(|write, block| keep(write.write, block))).unwrap();
    assert!(copy.unflushed().is_empty());
    fills(&runtime, &copy, 0, SECTORS)
}

#[test]
fn what_was_flushed_survives_and_what_was_not_may_be_lost() {
    let runtime = Runtime::simulated();
    let cache = cached(&runtime);
    done(&runtime, &cache, filled(0, 2, 1)).unwrap();
    done(&runtime, &cache, Request::flush()).unwrap();
    done(&runtime, &cache, filled(1, 2, 2)).unwrap();
    assert_eq!(fills(&runtime, &cache, 0, 4), [1, 2, 2, 0], "reads see what is cached");
    assert_eq!(after_cut(&cache, |_, _| false)[..4], [1, 1, 0, 0]);
    assert_eq!(after_cut(&cache, |_, _| true)[..4], [1, 2, 2, 0]);
}

#[test]
fn every_subset_of_unflushed_sectors_can_be_kept() {
    let runtime = Runtime::simulated();
    let cache = cached(&runtime);
    done(&runtime, &cache, filled(0, 2, 1)).unwrap();
    done(&runtime, &cache, filled(1, 2, 2)).unwrap();
    let mut seen: Vec<Vec<u8>> = (0..16u32)
        .map(|subset| {
            let mut bit = 0;
            after_cut(&cache, |_, _| {
                bit += 1;
                subset >> (bit - 1) & 1 == 1
            })[..3]
                .to_vec()
        })
        .collect();
    seen.sort();
    seen.dedup();
    // Sector 0: old or 1. Sector 1: old, 1 or 2. Sector 2: old or 2.
    assert_eq!(seen.len(), 2 * 3 * 2);
}

#[test]
fn fua_survives_alone() {
    let runtime = Runtime::simulated();
    let cache = cached(&runtime);
    done(&runtime, &cache, filled(0, 4, 1)).unwrap();
    done(&runtime, &cache, filled(1, 2, 2).with_fua()).unwrap();
    assert_eq!(after_cut(&cache, |_, _| false)[..4], [0, 2, 2, 0]);
    assert_eq!(after_cut(&cache, |_, _| true)[..4], [1, 2, 2, 1], "older bytes never land on newer");
}

#[test]
fn a_flush_that_fails_makes_nothing_durable_by_word() {
    let runtime = Runtime::simulated();
    let medium = Faulty::new(&runtime, memory(&runtime, Bytes::SECTOR * SECTORS), 0);
    medium.add(Rule::new(Effect::Fail(DeviceError::Gone)).on(Operation::Flush).times(1));
    let cache = WriteCache::new(&runtime, medium);
    done(&runtime, &cache, filled(0, 1, 1)).unwrap();
    assert_eq!(done(&runtime, &cache, Request::flush()), Err(DeviceError::Gone));
    assert_eq!(cache.unflushed().len(), 1);
    assert_eq!(done(&runtime, &cache, Request::flush()), Ok(()));
    assert!(cache.unflushed().is_empty());
}

#[test]
fn a_fua_write_under_way_can_be_torn() {
    let runtime = Runtime::simulated();
    let cache = cached(&runtime);
    let mut states = Vec::new();
    runtime.block_on(async {
        let write = device::Device::submit(&cache, filled(0, 2, 1).with_fua());
        let look = async { states = cache.unflushed() };
        futures_util::join!(write, look);
    });
    assert_eq!(states.len(), 1, "while it is under way a cut may keep any part of it");
    assert!(cache.unflushed().is_empty());
}

proptest! {
    #[test]
    fn a_cut_leaves_each_sector_with_a_value_written_since_its_last_flush(
        steps in prop::collection::vec((0..8u8, 0..SECTORS, 1..9u64), 1..60), seed: u64
    ) {
        let runtime = Runtime::simulated();
        let cache = cached(&runtime);
        // For each sector: what a cut may leave, the newest last.
        let mut allowed = vec![vec![0u8]; SECTORS as usize];
        for (number, (verb, sector, sectors)) in steps.into_iter().enumerate() {
            let fill = number as u8 + 1;
            let sectors = sectors.min(SECTORS - sector);
            let touched = &mut allowed[sector as usize..(sector + sectors) as usize];
            match verb {
                0 => {
                    done(&runtime, &cache, Request::flush()).unwrap();
                    allowed.iter_mut().for_each(|values| *values = vec![*values.last().unwrap()]);
                }
                1 => {
                    done(&runtime, &cache, filled(sector, sectors, fill).with_fua()).unwrap();
                    touched.iter_mut().for_each(|values| *values = vec![fill]);
                }
                2 => {
                    let zeroes = Request::write_zeroes(Bytes::SECTOR * sector, Bytes::SECTOR * sectors);
                    done(&runtime, &cache, zeroes).unwrap();
                    touched.iter_mut().for_each(|values| values.push(0));
                }
                _ => {
                    done(&runtime, &cache, filled(sector, sectors, fill)).unwrap();
                    touched.iter_mut().for_each(|values| values.push(fill));
                }
            }
            let newest: Vec<u8> = allowed.iter().map(|values| *values.last().unwrap()).collect();
            prop_assert_eq!(&fills(&runtime, &cache, 0, SECTORS), &newest);
        }
        let mut random = Random::new(seed);
        let survived = after_cut(&cache, |_, _| random.random_bool(0.5));
        for (sector, value) in survived.iter().enumerate() {
            prop_assert!(allowed[sector].contains(value), "sector {sector}: {value} not in {:?}", allowed[sector]);
        }
    }
}
