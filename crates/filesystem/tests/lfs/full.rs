//! Full disks.

use filesystem::lfs::{Log, LogError, Parameters, Policy, check};
use units::Bytes;

use super::{random, small};

/// Files of four blocks until no more fit.
fn filled(parameters: Parameters) -> (Log, Vec<u64>) {
    let mut log = Log::new(parameters).unwrap();
    let mut files = Vec::new();
    'full: for number in 0.. {
        match log.create(&format!("{number}")) {
            Ok(file) => files.push(file),
            Err(LogError::Full { .. }) => break,
            Err(error) => panic!("{error}"),
        }
        for block in 0..4 {
            match log.write(files[number], block) {
                Ok(()) => {}
                Err(LogError::Full { .. }) => break 'full,
                Err(error) => panic!("{error}"),
            }
        }
        if log.pending() > Bytes::kib(8) {
            log.flush().unwrap();
        }
    }
    (log, files)
}

fn roomy() -> Parameters {
    Parameters { inodes: 250, clean_below: 6, clean_until: 8, disk: Bytes::kib(16 * 40 + 1), ..small() }
}

#[test]
fn a_write_to_a_full_disk_fails_and_changes_nothing() {
    let (mut log, files) = filled(roomy());
    let last = *files.last().unwrap();
    let before = (log.taken(), log.pending(), log.disk().clone());
    let versions: Vec<Option<u64>> = files.iter().map(|file| log.version(*file, 1)).collect();
    let error = log.write(last, 5).unwrap_err();
    assert_eq!(error, LogError::Full { taken: log.taken(), capacity: log.capacity() });
    assert!(error.to_string().contains("remove files, or take a larger disk"), "{error}");
    assert!(before == (log.taken(), log.pending(), log.disk().clone()));
    let after: Vec<Option<u64>> = files.iter().map(|file| log.version(*file, 1)).collect();
    assert_eq!(after, versions);
    check(&log).unwrap();
    log.flush().unwrap();
    assert!(files[..files.len() - 1].iter().all(|file| log.address(*file, 3).is_some()), "what fitted is on the disk");
    check(&log).unwrap();
}

#[test]
fn a_full_disk_can_be_written_anew_for_ever() {
    for (policy, age_sort, at_once) in [(Policy::Greedy, false, 1), (Policy::CostBenefit, true, 8)] {
        let parameters = Parameters { policy, age_sort, cleaned_at_once: at_once, ..roomy() };
        let (mut log, files) = filled(parameters);
        let mut next = random(1);
        for _ in 0..6000 {
            log.write(files[next(files.len() as u64 - 1) as usize], next(4)).unwrap();
            if log.pending() > Bytes::kib(8) {
                log.flush().unwrap();
            }
        }
        log.checkpoint().unwrap();
        check(&log).unwrap();
    }
}

#[test]
fn a_full_disk_of_sparse_files_can_be_written_anew_for_ever() {
    // Each data block has an indirect block of its own: cleaning writes twice what it copies.
    let mut log = Log::new(small()).unwrap();
    let files: Vec<u64> = (0..8).map(|number| log.create(&format!("{number}")).unwrap()).collect();
    let mut next = random(2);
    let mut fitted = Vec::new();
    loop {
        let (file, block) = (files[next(8) as usize], 12 + 64 * next(60));
        match log.write(file, block) {
            Ok(()) => fitted.push((file, block)),
            Err(LogError::Full { .. }) => break,
            Err(error) => panic!("{error}"),
        }
        log.flush().unwrap();
    }
    for _ in 0..2000 {
        let (file, block) = fitted[next(fitted.len() as u64) as usize];
        log.write(file, block).unwrap();
        if log.pending() > Bytes::kib(4) {
            log.flush().unwrap();
        }
    }
    check(&log).unwrap();
}

#[test]
fn a_full_disk_of_one_large_file_can_be_written_anew_for_ever() {
    // Blocks at random places: nearly each block that is copied has its own indirect block.
    let parameters = Parameters { disk: Bytes::mib(24), inodes: 256, ..Parameters::new(Bytes::mib(24)) };
    let mut log = Log::new(parameters).unwrap();
    let file = log.create("large").unwrap();
    let fits = |block: &u64| match log.write(file, *block) {
        Ok(()) => true,
        Err(LogError::Full { .. }) => false,
        Err(error) => panic!("{error}"),
    };
    let blocks = (0..).take_while(fits).count() as u64;
    assert!(blocks > 3000, "{blocks} of 6144 blocks");
    let mut next = random(3);
    for number in 0..10_000 {
        log.write(file, next(blocks)).unwrap();
        if number % 40 == 0 {
            log.flush().unwrap();
        }
    }
    check(&log).unwrap();
}

#[test]
fn removing_files_from_a_full_disk_makes_room_for_as_many() {
    let (mut log, files) = filled(roomy());
    log.flush().unwrap();
    for round in 0..4 {
        let taken = log.taken();
        let names = log.names("").unwrap();
        let removed: Vec<&String> = names.iter().filter(|name| name.len() == 2).take(20).collect();
        removed.iter().for_each(|name| log.remove(name).unwrap());
        assert!(log.taken() + Bytes::new(512 * 4 * 19) < taken, "20 files of four blocks are gone");
        log.flush().unwrap();
        for name in removed {
            let file = log.create(name).unwrap();
            (0..4).for_each(|block| log.write(file, block).unwrap());
        }
        log.flush().unwrap();
        check(&log).unwrap();
        assert_eq!(log.taken(), taken, "round {round}");
    }
    assert_eq!(log.names("").unwrap().len(), files.len());
}

#[test]
fn files_removed_and_made_anew_before_a_flush_fit_on_a_full_disk() {
    let (mut log, _) = filled(roomy());
    log.flush().unwrap();
    let names: Vec<String> = log.names("").unwrap().into_iter().filter(|name| name.len() == 2).take(40).collect();
    for name in &names {
        log.remove(name).unwrap();
    }
    for name in &names[..names.len() / 2] {
        let file = log.create(&format!("new{name}")).unwrap();
        (0..4).for_each(|block| log.write(file, block).unwrap());
    }
    log.flush().unwrap();
    check(&log).unwrap();
    assert!(log.lookup("new10").is_ok_and(|file| log.address(file, 3).is_some()));
}
