//! Random operations against a model, and single ones.

use std::collections::BTreeMap;

use filesystem::lfs::{Log, LogError, Parameters, Policy, Purpose, ROOT, check};
use proptest::prelude::*;
use units::Bytes;

use super::small;

#[derive(Debug, Clone)]
enum Operation {
    Create(u8),
    CreateDirectory(u8),
    Remove(u8),
    Write(u8, u64),
    Flush,
    Checkpoint,
}

fn operation() -> impl Strategy<Value = Operation> {
    // Direct blocks, the first indirect one, and one under the doubly indirect one.
    let block = prop_oneof![6 => 0..14u64, 2 => 70..80u64, 1 => 4000..4003u64];
    prop_oneof![
        3 => (0..10u8).prop_map(Operation::Create),
        1 => (0..10u8).prop_map(Operation::CreateDirectory),
        2 => (0..10u8).prop_map(Operation::Remove),
        20 => (0..10u8, block).prop_map(|(path, block)| Operation::Write(path, block)),
        4 => Just(Operation::Flush),
        1 => Just(Operation::Checkpoint),
    ]
}

fn parameters() -> impl Strategy<Value = Parameters> {
    let policy = prop_oneof![Just(Policy::Greedy), Just(Policy::CostBenefit)];
    (policy, any::<bool>(), 1..6u64, 13..24u64).prop_map(|(policy, age_sort, cleaned_at_once, segments)| {
        let disk = Bytes::kib(16 * segments + 1);
        Parameters { policy, age_sort, cleaned_at_once, disk, ..small() }
    })
}

/// Some of them lie in a directory, if it is there.
fn path(number: u8) -> String {
    if number < 6 { format!("{number}") } else { format!("{}/{number}", number % 3) }
}

/// Files by path, with the versions of their blocks; directories are `None`.
type Model = BTreeMap<String, Option<BTreeMap<u64, u64>>>;

fn agree(log: &Log, model: &Model) {
    for number in 0..10 {
        let path = path(number);
        match (log.lookup(&path), model.get(&path)) {
            (Ok(file), Some(Some(blocks))) => {
                for block in (0..90).chain(3990..4010) {
                    assert_eq!(log.version(file, block), blocks.get(&block).copied(), "{path}, block {block}");
                }
            }
            (Ok(_), Some(None)) => assert!(log.names(&path).is_ok(), "{path} is a directory"),
            (Err(LogError::Absent { .. } | LogError::NotDirectory { .. }), None) => {}
            (found, expected) => panic!("{path}: found {found:?}, expected {expected:?}"),
        }
    }
}

fn apply(log: &mut Log, model: &mut Model, operation: &Operation) {
    let parent = |path: &str| path.rsplit_once('/').map(|(parent, _)| parent.to_owned());
    match operation {
        Operation::Create(number) | Operation::CreateDirectory(number) => {
            let path = path(*number);
            let kind = matches!(operation, Operation::Create(_)).then(BTreeMap::new);
            let made = if kind.is_some() { log.create(&path) } else { log.create_directory(&path) };
            let parent = parent(&path).map(|parent| model.get(&parent).cloned());
            match made {
                Ok(_) => {
                    assert!(matches!(parent, None | Some(Some(None))), "{path} is in a directory");
                    assert_eq!(model.insert(path, kind), None, "only what is absent is created");
                }
                Err(LogError::Exists { .. }) => assert!(model.contains_key(&path)),
                Err(LogError::Absent { .. }) => assert_eq!(parent, Some(None)),
                Err(LogError::NotDirectory { .. }) => assert!(matches!(parent, Some(Some(Some(_))))),
                Err(LogError::Full { .. }) => assert!(log.taken() + Bytes::new(1024) > log.capacity()),
                Err(error) => panic!("{error}"),
            }
        }
        Operation::Remove(number) => {
            let path = path(*number);
            match log.remove(&path) {
                Ok(()) => assert!(model.remove(&path).is_some(), "only what is there is removed"),
                Err(LogError::NotEmpty { .. }) => {
                    let within = format!("{path}/");
                    assert!(model.keys().any(|other| other.starts_with(&within)));
                }
                Err(LogError::Absent { .. } | LogError::NotDirectory { .. }) => assert!(!model.contains_key(&path)),
                Err(error) => panic!("{error}"),
            }
        }
        Operation::Write(number, block) => {
            let path = path(*number);
            let Ok(file) = log.lookup(&path) else { return };
            match (log.write(file, *block), model.get_mut(&path).expect("what is found is known")) {
                (Ok(()), Some(blocks)) => {
                    let version = log.version(file, *block).expect("it has just been written");
                    let older = blocks.insert(*block, version);
                    assert!(older < Some(version), "a write makes a newer version");
                }
                (Err(LogError::NoFile { .. }), None) => {}
                (Err(LogError::Full { .. }), Some(blocks)) => assert!(!blocks.contains_key(block)),
                (found, expected) => panic!("{path}: {found:?}, {expected:?}"),
            }
        }
        Operation::Flush => {
            log.flush().expect("what was accepted has room");
            assert_eq!(log.pending(), Bytes::ZERO, "a flush leaves nothing dirty");
        }
        Operation::Checkpoint => {
            log.checkpoint().expect("what was accepted has room");
            assert_eq!(log.checkpoint(), Ok(Vec::new()), "a second checkpoint has nothing to write");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn random_operations_keep_the_log_consistent_and_agree_with_a_model(
        parameters in parameters(),
        operations in prop::collection::vec(operation(), 1..150),
    ) {
        let mut log = Log::new(parameters).unwrap();
        let mut model = Model::new();
        for operation in &operations {
            apply(&mut log, &mut model, operation);
            if let Err(fault) = check(&log) {
                panic!("after {operation:?}: {fault}");
            }
            agree(&log, &model);
        }
        log.flush().unwrap();
        let (recovered, _) = Log::recover(parameters, log.disk().clone()).unwrap();
        check(&recovered).unwrap();
        agree(&recovered, &model);
    }
}

#[test]
fn a_flush_of_many_small_files_is_one_write() {
    let mut log = Log::new(Parameters::new(Bytes::mib(64))).unwrap();
    for number in 0..40 {
        let file = log.create(&format!("{number}")).unwrap();
        log.write(file, 0).unwrap();
    }
    assert_eq!(log.pending(), Bytes::kib(4) * 41 + Bytes::new(128) * 40, "the files, the root's block, and inodes");
    let transfers = log.flush().unwrap();
    assert_eq!(transfers.len(), 1);
    // A summary, 40 files, the root's names, and 41 inodes of 128 bytes.
    assert_eq!((transfers[0].write, transfers[0].blocks, transfers[0].what), (true, 1 + 40 + 1 + 2, Purpose::Data));
    let addresses: Vec<u64> = (1..=40).map(|file| log.address(file, 0).unwrap()).collect();
    assert!(addresses.is_sorted_by(|a, b| a + 1 == *b), "the files lie one behind the other: {addresses:?}");
    check(&log).unwrap();
}

#[test]
fn a_large_file_is_written_in_transfers_that_end_with_segments() {
    let mut log = Log::new(Parameters::new(Bytes::mib(64))).unwrap();
    let file = log.create("large").unwrap();
    (0..2000).for_each(|block| log.write(file, block).unwrap());
    let transfers = log.flush().unwrap();
    // Clean segments are taken one behind the other, so all of them make one transfer.
    assert_eq!(transfers.len(), 1, "{transfers:?}");
    let blocks = transfers[0].blocks;
    // 17 segments; in each a summary, an inode, a doubly indirect block, and 1 or 2 indirect ones.
    assert!((2000 + 16 * 4..2000 + 18 * 5).contains(&blocks), "{blocks} blocks");
    check(&log).unwrap();
}

#[test]
fn checkpoints_alternate_between_two_regions_and_write_them_last() {
    let mut log = Log::new(small()).unwrap();
    let file = log.create("file").unwrap();
    let mut regions = Vec::new();
    for _ in 0..4 {
        log.write(file, 0).unwrap();
        let transfers = log.checkpoint().unwrap();
        let purposes: Vec<Purpose> = transfers.iter().map(|transfer| transfer.what).collect();
        assert_eq!(purposes, [Purpose::Data, Purpose::Checkpoint, Purpose::Region]);
        regions.push(transfers[2].first);
    }
    assert_eq!(regions, [1, 0, 1, 0]);
}

#[test]
fn a_dirty_block_has_no_address_until_it_is_flushed() {
    let mut log = Log::new(small()).unwrap();
    let file = log.create("file").unwrap();
    log.write(file, 3).unwrap();
    assert_eq!((log.address(file, 3), log.is_dirty(file, 3)), (None, true));
    log.flush().unwrap();
    let first = log.address(file, 3).expect("a flushed block has an address");
    assert!(!log.is_dirty(file, 3));
    log.write(file, 3).unwrap();
    assert_eq!(log.address(file, 3), Some(first), "the old version stays where it is");
    log.flush().unwrap();
    assert_ne!(log.address(file, 3), Some(first), "the new version goes to the log");
}

#[test]
fn cleaning_reads_whole_segments_and_only_those_with_live_blocks() {
    let mut log = Log::new(small()).unwrap();
    let files: Vec<u64> = (0..40).map(|number| log.create(&format!("{number}")).unwrap()).collect();
    let mut next = super::random(3);
    let mut reads = 0;
    for _ in 0..1500 {
        log.write(files[next(40) as usize], next(4)).unwrap();
        if log.pending() > Bytes::kib(8) {
            let segments = log.segments().to_vec();
            for transfer in log.flush().unwrap().iter().filter(|transfer| !transfer.write) {
                assert_eq!((transfer.what, transfer.blocks), (Purpose::Cleaning, 32), "a whole segment");
                assert_eq!((transfer.first - 2) % 32, 0, "from its first block");
                assert!(!segments[(transfer.first as usize - 2) / 32].clean, "a clean segment is not read");
                reads += 1;
            }
        }
    }
    assert!(reads > 10, "{reads} segments were cleaned");
    assert_eq!(log.cost().cleaned, reads);
    check(&log).unwrap();
}

#[test]
fn what_is_wrong_is_refused_by_name() {
    let mut log = Log::new(small()).unwrap();
    let file = log.create("file").unwrap();
    log.create_directory("directory").unwrap();
    log.create("directory/within").unwrap();
    let path = |path: &str| path.to_owned();
    assert_eq!(log.create("file"), Err(LogError::Exists { path: path("file") }));
    assert_eq!(log.create("absent/file"), Err(LogError::Absent { path: path("absent") }));
    assert_eq!(log.create("file/within"), Err(LogError::NotDirectory { path: path("file/within") }));
    assert_eq!(log.create(""), Err(LogError::Name { length: 0 }));
    assert_eq!(log.create(&"x".repeat(256)), Err(LogError::Name { length: 256 }));
    assert_eq!(log.lookup("absent"), Err(LogError::Absent { path: path("absent") }));
    assert_eq!(log.remove("absent"), Err(LogError::Absent { path: path("absent") }));
    assert_eq!(log.remove("directory"), Err(LogError::NotEmpty { path: path("directory") }));
    assert_eq!(log.remove(""), Err(LogError::Root));
    assert_eq!(log.write(ROOT, 0), Err(LogError::NoFile { file: ROOT }));
    assert_eq!(log.write(99, 0), Err(LogError::NoFile { file: 99 }));
    assert_eq!(log.write(file, 4172), Err(LogError::TooLarge { block: 4172, most: 4172 }));
    log.remove("file").unwrap();
    assert_eq!(log.write(file, 0), Err(LogError::NoFile { file }));
    check(&log).unwrap();
}

#[test]
fn an_inode_number_is_given_anew_only_after_its_tombstone_is_in_the_log() {
    let mut log = Log::new(Parameters { inodes: 2, ..small() }).unwrap();
    let file = log.create("first").unwrap();
    log.flush().unwrap();
    log.remove("first").unwrap();
    assert_eq!(log.create("second"), Err(LogError::NoInodes { inodes: 2 }));
    log.flush().unwrap();
    assert_eq!(log.create("second"), Ok(file));
    check(&log).unwrap();
}
