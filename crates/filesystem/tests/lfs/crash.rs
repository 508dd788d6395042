//! Power cuts between any two writes.

use std::collections::BTreeMap;

use filesystem::lfs::{Content, Disk, Log, Parameters, Policy, Purpose, RecoverError, Written, check};
use units::Bytes;

use super::{random, small};

/// Paths, and the inodes that they name.
type Names = BTreeMap<String, u64>;
/// By inode and block.
type Versions = BTreeMap<(u64, u64), u64>;

const BLOCKS: [u64; 8] = [0, 1, 2, 11, 12, 40, 76, 3000];

/// The names, and the versions of files' blocks, that a log has, dirty ones among them.
fn state(log: &Log) -> (Names, Versions) {
    let mut names = Names::new();
    let mut waiting = vec![String::new()];
    while let Some(directory) = waiting.pop() {
        for name in log.names(&directory).unwrap() {
            let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
            names.insert(path.clone(), log.lookup(&path).unwrap());
            if log.names(&path).is_ok() {
                waiting.push(path);
            }
        }
    }
    let files = names.iter().filter(|(path, _)| log.names(path).is_err()).map(|(_, file)| *file);
    let of = |file: u64| BLOCKS.iter().filter_map(move |block| Some(((file, *block), log.version(file, *block)?)));
    let versions = files.flat_map(of).collect();
    (names, versions)
}

/// What a cut after these writes must leave of the data: what was durable, and what the writes brought.
fn newest(durable: &Versions, writes: &[Written]) -> Versions {
    let mut versions = durable.clone();
    for content in writes.iter().flat_map(|written| &written.contents) {
        if let Content::Data { file, block, version } = content {
            let known = versions.entry((*file, *block)).or_default();
            *known = (*known).max(*version);
        }
    }
    versions
}

fn recover(parameters: Parameters, disk: Disk) -> (Log, (Names, Versions)) {
    let (log, transfers) = Log::recover(parameters, disk).unwrap();
    check(&log).unwrap();
    assert!(transfers.iter().any(|transfer| !transfer.write && transfer.what == Purpose::Recovery));
    let contents = || (0..log.disk().blocks()).map(|address| log.disk().get(address));
    let summaries = contents().filter_map(|content| match content {
        Content::Summary(summary) => Some(summary.serial),
        _ => None,
    });
    let checkpoints = contents().filter_map(|content| match content {
        Content::Checkpoint(checkpoint) => Some(checkpoint.serial),
        _ => None,
    });
    assert!(checkpoints.max() > summaries.max(), "no old write passes for one that follows the checkpoint");
    let state = state(&log);
    (log, state)
}

/// One random change, in memory.
fn change(log: &mut Log, next: &mut impl FnMut(u64) -> u64) {
    let directory = ["", "", "a/", "b/"][next(4) as usize];
    let path = format!("{directory}{}", next(6));
    // Some are refused, as some paths are absent and the disk is full at times: then nothing has changed.
    _ = match (next(12), log.lookup(&path)) {
        (0, _) => log.create_directory(["a", "b"][next(2) as usize]).map(|_| ()),
        (1, Ok(_)) => log.remove(&path),
        (2, _) => log.remove(["a", "b"][next(2) as usize]),
        (_, Ok(file)) => log.write(file, BLOCKS[next(8) as usize]),
        (_, Err(_)) => log.create(&path).map(|_| ()),
    };
}

/// Random changes and flushes. Gives to `cut` each disk that a power cut could leave: the writes of the flush that it
/// had got and those it had not, and the state before and after.
fn cuts(
    parameters: Parameters,
    seed: u64,
    flushes: u64,
    mut cut: impl FnMut(Disk, &[Written], &[Written], &(Names, Versions), &(Names, Versions)),
) -> Log {
    let mut next = random(seed);
    let mut log = Log::new(parameters).unwrap();
    log.record();
    let mut before = state(&log);
    for _ in 0..flushes {
        (0..1 + next(60)).for_each(|_| change(&mut log, &mut next));
        let mut disk = log.disk().clone();
        if next(6) == 0 { log.checkpoint() } else { log.flush() }.unwrap();
        let after = state(&log);
        let writes = log.take_recorded();
        for done in 0..=writes.len() {
            cut(disk.clone(), &writes[..done], &writes[done..], &before, &after);
            writes.get(done).into_iter().for_each(|written| disk.apply(written));
        }
        assert!(disk == *log.disk(), "the recorded writes are all that reached the disk");
        before = after;
    }
    log
}

#[test]
fn a_cut_after_any_write_loses_only_what_was_not_written() {
    let mut counted = 0;
    for (seed, policy) in [(1, Policy::Greedy), (2, Policy::CostBenefit)] {
        let parameters = Parameters { policy, disk: Bytes::kib(16 * 16 + 1), ..small() };
        let log = cuts(parameters, seed, 60, |disk, done, left, before, after| {
            let (_, (names, versions)) = recover(parameters, disk);
            assert!(names == before.0 || names == after.0, "directories are as before the flush or as after it");
            let mut expected = newest(&before.1, done);
            expected.retain(|(file, _), _| names.values().any(|named| named == file));
            assert_eq!(versions, expected, "{} writes were made, {} were not", done.len(), left.len());
            if left.is_empty() {
                assert_eq!((&names, &versions), (&after.0, &after.1), "what was flushed is there");
            }
            counted += 1;
        });
        assert!(log.cost().cleaned > 20, "cuts come during cleaning, too: {}", log.cost().cleaned);
    }
    assert!(counted > 400, "{counted} cuts");
}

#[test]
fn a_recovery_that_is_cut_before_its_checkpoint_region_can_be_repeated() {
    let parameters = small();
    cuts(parameters, 3, 25, |disk, _, left, _, _| {
        let (recovered, state) = recover(parameters, disk.clone());
        // All that the recovery wrote but the regions, which are blocks 0 and 1.
        let mut again = disk;
        for address in 2..again.blocks() {
            again.apply(&Written { first: address, contents: vec![recovered.disk().get(address).clone()] });
        }
        let (_, repeated) = recover(parameters, again);
        assert_eq!(repeated, state, "with {} writes left", left.len());
    });
}

#[test]
fn a_recovered_log_goes_on_and_survives_the_next_cut() {
    let parameters = small();
    let mut next = random(5);
    let mut number = 0;
    cuts(parameters, 4, 25, |disk, _, _, _, _| {
        number += 1;
        if number % 3 != 0 {
            return;
        }
        let (mut log, _) = recover(parameters, disk);
        for _ in 0..3 {
            (0..20).for_each(|_| change(&mut log, &mut next));
            log.flush().unwrap();
        }
        let (_, again) = recover(parameters, log.disk().clone());
        assert_eq!(again, state(&log));
    });
    assert!(number > 60, "{number} cuts");
}

#[test]
fn a_cut_within_a_group_of_directories_leaves_all_of_them_as_they_were() {
    let parameters = Parameters { inodes: 128, disk: Bytes::kib(16 * 40 + 1), ..small() };
    let mut log = Log::new(parameters).unwrap();
    for number in 0..60 {
        log.create_directory(&format!("{number}")).unwrap();
        log.create(&format!("{number}/file")).unwrap();
    }
    let mut disk = log.disk().clone();
    log.record();
    log.flush().unwrap();
    let writes = log.take_recorded();
    let open = |written: &Written| matches!(&written.contents[0], Content::Summary(summary) if !summary.closed);
    assert!(writes.iter().filter(|written| open(written)).count() >= 2, "the group takes several writes");
    for (number, written) in writes.iter().enumerate() {
        let (_, (names, _)) = recover(parameters, disk.clone());
        assert_eq!(names.len(), 0, "after {number} of {} writes", writes.len());
        disk.apply(written);
    }
    let (_, (names, _)) = recover(parameters, disk);
    assert_eq!(names.len(), 120, "after all writes");
}

#[test]
fn what_was_not_flushed_is_lost_and_what_was_checkpointed_needs_no_roll_forward() {
    let mut log = Log::new(small()).unwrap();
    let file = log.create("kept").unwrap();
    log.write(file, 0).unwrap();
    log.checkpoint().unwrap();
    let version = log.version(file, 0);
    log.write(file, 0).unwrap();
    log.create("lost").unwrap();
    let (recovered, transfers) = Log::recover(small(), log.disk().clone()).unwrap();
    assert_eq!(recovered.version(file, 0), version);
    assert_eq!(recovered.names("").unwrap(), ["kept"]);
    let reads: Vec<u64> = transfers.iter().filter(|transfer| !transfer.write).map(|transfer| transfer.blocks).collect();
    assert_eq!(reads, [1; 4], "two regions, a block of the inode map, and one of the usage table");
}

#[test]
fn a_disk_without_a_log_is_refused() {
    let log = Log::new(small()).unwrap();
    let larger = Parameters { disk: Bytes::kib(800), ..small() };
    assert_eq!(Log::recover(larger, log.disk().clone()).unwrap_err(), RecoverError::Size { there: 770, said: 1600 });
    let mut wiped = log.disk().clone();
    wiped.apply(&Written { first: 0, contents: vec![Content::Empty; 2] });
    assert_eq!(Log::recover(small(), wiped).unwrap_err(), RecoverError::NoCheckpoint { second: 1 });
}
