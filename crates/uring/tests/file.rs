//! Files, by every engine: what is opened, refused and explained, and files that change meanwhile.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::Poll;

use device::{Buffer, Data, Device, DeviceError, Request, Writeback};
use futures_util::future::{FutureExt, join, join_all};
use units::Bytes;
use uring::{Engine, FileDevice, FileOptions, Live, LiveOptions};

/// A folder on a disk that removes itself.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the build's folder takes files")
}

fn filled(length: Bytes, with: u8) -> Data {
    let mut buffer = Buffer::zeroed(length);
    buffer.bytes_mut().unwrap().fill(with);
    buffer.freeze()
}

/// The engines that this machine has.
fn engines(live: &Live) -> impl Iterator<Item = Engine> {
    let engines = Engine::ALL.into_iter().map(|(_, engine)| engine);
    engines.filter(|engine| *engine != Engine::IoUring || live.ring().is_ok())
}

fn open(live: &Live, path: &Path, options: &FileOptions) -> FileDevice {
    FileDevice::open_read_only(live, path, options).unwrap_or_else(|error| panic!("{error}"))
}

fn read(live: &Live, device: &FileDevice, offset: Bytes, length: Bytes) -> Result<Vec<u8>, DeviceError> {
    let reply = live.runtime().block_on(device.submit(Request::read(offset, Buffer::zeroed(length))));
    let buffer = reply.buffer.expect("a read's buffer comes back");
    reply.result.map(|()| buffer.bytes().unwrap().to_vec())
}

/// Every engine reads the same, many requests at once, and sees what others write meanwhile.
#[test]
fn all_engines_read_the_same_file() {
    let live = Live::start(&LiveOptions::default());
    let folder = folder();
    let path = folder.path().join("a");
    let contents: Vec<u8> = (0..4u32 << 20).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
    std::fs::write(&path, &contents).unwrap();
    for engine in engines(&live) {
        std::fs::write(&path, &contents).unwrap();
        let device = open(&live, &path, &FileOptions::buffered().by(engine));
        let parts = (0..700u64).map(|n| (n * 3001 % 8000 * 512, 512 * (1 + n % 40))).collect::<Vec<_>>();
        let reads = parts
            .iter()
            .map(|(at, length)| device.submit(Request::read(Bytes::new(*at), Buffer::zeroed(Bytes::new(*length)))));
        let replies = live.runtime().block_on(join_all(reads));
        for (reply, (at, length)) in replies.into_iter().zip(parts) {
            match reply.result {
                Ok(()) => {
                    let wanted = &contents[at as usize..(at + length) as usize];
                    assert!(reply.buffer.unwrap().bytes() == Some(wanted), "{engine}: {length} at {at}");
                }
                Err(error) => assert!(at + length > contents.len() as u64, "{engine}: {error}"),
            }
        }
        std::os::unix::fs::FileExt::write_all_at(
            &std::fs::OpenOptions::new().write(true).open(&path).unwrap(),
            &[9; 512],
            4096,
        )
        .unwrap();
        assert_eq!(read(&live, &device, Bytes::new(4096), Bytes::SECTOR), Ok(vec![9; 512]), "{engine}");
    }
}

/// Every page that has gone is one more fault for the mapped engine; what is still there, and what comes back, can be
/// read.
#[test]
fn a_file_that_became_shorter_is_said_to_be_so() {
    let live = Live::start(&LiveOptions::default());
    let folder = folder();
    let path = folder.path().join("a");
    for engine in engines(&live) {
        std::fs::write(&path, vec![5; 1 << 20]).unwrap();
        let whole = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let device = open(&live, &path, &FileOptions::buffered().by(engine));
        whole.set_len(4096).unwrap();
        for length in [Bytes::kib(8), Bytes::kib(512), Bytes::mib(1)] {
            let wanted = DeviceError::OutOfRange { offset: Bytes::ZERO, length, size: Bytes::kib(4) };
            assert_eq!(read(&live, &device, Bytes::ZERO, length), Err(wanted), "{engine}");
        }
        assert_eq!(read(&live, &device, Bytes::ZERO, Bytes::kib(4)), Ok(vec![5; 4096]), "{engine}");
        whole.set_len(1 << 20).unwrap();
        assert_eq!(read(&live, &device, Bytes::kib(64), Bytes::kib(4)), Ok(vec![0; 4096]), "{engine}");
    }
}

/// A fault that is not the engine's own ends the process, as it would without it.
#[test]
fn the_faults_of_others_are_left_to_them() {
    const INNER: &str = "ARRAYLAB_TEST_FAULT";
    if std::env::var_os(INNER).is_some() {
        let live = Live::start(&LiveOptions::default());
        let folder = folder();
        let path = folder.path().join("a");
        std::fs::write(&path, vec![5; 4096]).unwrap();
        let device = open(&live, &path, &FileOptions::buffered().by(Engine::Mapped));
        assert_eq!(read(&live, &device, Bytes::ZERO, Bytes::SECTOR), Ok(vec![5; 512]));
        // An access would be repeated by itself until it succeeds or ends the process. A signal that is sent is not, so
        // it is sent again: the engine's handler steps back for that of Rust's library (which looks for overflowing
        // stacks), and that one for the default. Signals that wait are one, so each gets time to arrive.
        for _ in 0..1000 {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::BUS).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        unreachable!("SIGBUS ends a process that does not handle it");
    }
    let name = "the_faults_of_others_are_left_to_them";
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let output = command.args([name, "--exact"]).env(INNER, "1").output().unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(rustix::process::Signal::BUS.as_raw()), "{output:?}");
}

#[test]
fn a_file_in_the_page_cache_is_copied_from_there() {
    let live = Live::start(&LiveOptions::default());
    let folder = folder();
    let path = folder.path().join("a");
    std::fs::write(&path, vec![3; 8 << 20]).unwrap();
    let options = FileOptions::buffered().without_readahead();
    let cached = open(&live, &path, &options);
    assert_eq!(cached.choice().engine, Engine::Mapped);
    assert!(cached.choice().reason.starts_with("100 % of the file is in the page cache"), "{}", cached.choice().reason);
    assert_eq!(read(&live, &cached, Bytes::mib(1), Bytes::kib(4)), Ok(vec![3; 4096]));
    cached.drop_cache().unwrap();
    let cold = open(&live, &path, &options);
    assert_ne!(cold.choice().engine, Engine::Mapped, "{}", cold.choice().reason);
}

/// A store to a page that the file no longer has is a fault, as a load is.
#[test]
fn what_is_written_through_a_mapping_is_the_file_s() {
    let live = Live::start(&LiveOptions::default());
    let folder = folder();
    let path = folder.path().join("a");
    let mapped = FileOptions::buffered().by(Engine::Mapped);
    let device = FileDevice::create(&live, &path, Bytes::mib(1), &mapped).unwrap();
    let send = |request: Request| live.runtime().block_on(device.submit(request)).result;
    assert_eq!(send(Request::write(Bytes::new(1024), filled(Bytes::kib(8), 7))), Ok(()));
    assert_eq!(send(Request::write(Bytes::kib(64), filled(Bytes::kib(4), 8)).with_fua()), Ok(()));
    assert_eq!(send(Request::flush()), Ok(()));
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes[1024..1024 + 8192].iter().all(|byte| *byte == 7) && bytes[..1024].iter().all(|byte| *byte == 0));
    assert_eq!((bytes[65_535], bytes[65_536], bytes[69_631], bytes[69_632]), (0, 8, 8, 0));

    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(8192).unwrap();
    let beyond = DeviceError::OutOfRange { offset: Bytes::kib(4), length: Bytes::kib(16), size: Bytes::kib(8) };
    assert_eq!(send(Request::write(Bytes::kib(4), filled(Bytes::kib(16), 9))), Err(beyond));
    assert_eq!(send(Request::write(Bytes::ZERO, filled(Bytes::kib(8), 6))), Ok(()));
    assert_eq!(std::fs::read(&path).unwrap(), vec![6; 8192]);
}

/// A read that is tried without waiting ends early where a page is missing, and at the end of a file that has become
/// shorter.
#[test]
fn a_copied_read_is_whole_though_the_page_cache_holds_a_part() {
    let live = Live::start(&LiveOptions::default());
    if let Err(error) = live.ring() {
        return println!("skipped: {error}");
    }
    let folder = folder();
    let path = folder.path().join("a");
    let contents: Vec<u8> = (0..1u32 << 20).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
    std::fs::write(&path, &contents).unwrap();
    let device = open(&live, &path, &FileOptions::buffered().by(Engine::IoUring).copying().without_readahead());
    device.drop_cache().unwrap();
    for (from, length) in [(16, 4), (0, 64), (0, 1024), (512, 512)] {
        let found = read(&live, &device, Bytes::kib(from), Bytes::kib(length)).unwrap();
        let at = Bytes::kib(from).as_usize();
        assert!(found == contents[at..at + Bytes::kib(length).as_usize()], "{length} KiB from {from} KiB on");
    }
    std::fs::File::options().write(true).open(&path).unwrap().set_len(8192).unwrap();
    let beyond = read(&live, &device, Bytes::kib(4), Bytes::kib(8));
    assert!(matches!(beyond, Err(DeviceError::OutOfRange { .. })), "{beyond:?}");
}

/// Zeroes keep their room, so that later writes find it, unless they may be a hole. (Where a file system zeroes in one
/// way only, they are zeroes.)
#[test]
fn zeroes_are_a_hole_only_where_they_may_be() {
    use std::os::unix::fs::MetadataExt;
    let live = Live::start(&LiveOptions::default());
    let folder = folder();
    let length = Bytes::mib(1);
    for engine in engines(&live) {
        let path = folder.path().join(format!("{engine:?}"));
        let device = FileDevice::create(&live, &path, length * 2, &FileOptions::buffered().by(engine)).unwrap();
        let stored = || std::fs::metadata(&path).unwrap().blocks() * 512;
        let send = |request: Request| live.runtime().block_on(device.submit(request)).result;
        assert_eq!(send(Request::write(Bytes::ZERO, filled(length * 2, 7))), Ok(()));
        assert_eq!(send(Request::flush()), Ok(()));
        let steps = Writeback { wait_before: true, write: true, wait_after: true };
        let range = Request::flush().with_writeback(steps, Bytes::kib(4), length);
        assert_eq!(send(range), Ok(()), "{engine:?}");
        let before = stored();
        assert_eq!(send(Request::write_zeroes(Bytes::ZERO, length)), Ok(()));
        let kept = stored();
        assert_eq!(send(Request::write_zeroes(Bytes::ZERO, length).with_punch()), Ok(()));
        assert!(stored() + length.get() <= before, "{engine:?}: {before} B are {} B", stored());
        if kept < before {
            println!("this file system knows no zeroes that keep their room");
        }
        let bytes = std::fs::read(&path).unwrap();
        let (zeroes, rest) = bytes.split_at(length.as_usize());
        assert!(zeroes.iter().all(|byte| *byte == 0) && rest.iter().all(|byte| *byte == 7), "{engine:?}");
    }
}

#[test]
fn what_is_open_for_reading_takes_no_writes() {
    let live = Live::start(&LiveOptions::default());
    let folder = folder();
    let path = folder.path().join("a");
    std::fs::write(&path, vec![3; 4096]).unwrap();
    let device = FileDevice::open_read_only(&live, &path, &FileOptions::buffered()).unwrap();
    for request in [
        Request::write(Bytes::ZERO, filled(Bytes::SECTOR, 1)),
        Request::discard(Bytes::ZERO, Bytes::SECTOR),
        Request::write_zeroes(Bytes::ZERO, Bytes::SECTOR),
    ] {
        let reply = live.runtime().block_on(device.submit(request));
        assert_eq!(reply.result, Err(DeviceError::ReadOnly));
    }
    assert_eq!(std::fs::read(&path).unwrap(), vec![3; 4096]);
}

#[test]
fn errors_name_the_path_and_the_next_step() {
    let live = Live::start(&LiveOptions::default());
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("empty"), "").unwrap();
    std::fs::write(path("small"), "a few bytes").unwrap();
    for (path, wanted) in [
        (path("absent"), "give the path of an existing file"),
        (path("empty/below"), "give the path of an existing file"),
        (folder.path().to_path_buf(), "name a file in it"),
        (path("empty"), "name a larger file"),
        (path("small"), "it holds 0 B, less than one block of 512 B"),
        (PathBuf::from("/dev/null"), "this is a character device; name a file or a block device"),
    ] {
        let Err(error) = FileDevice::open_read_only(&live, &path, &FileOptions::buffered()) else {
            panic!("{} opens", path.display());
        };
        let message = error.to_string();
        assert!(message.starts_with(&path.display().to_string()) && message.contains(wanted), "{message}");
    }
    let Err(error) = FileDevice::create(&live, &path("small"), Bytes::mib(1), &FileOptions::buffered()) else {
        panic!("an existing file is not made anew");
    };
    assert!(error.to_string().contains("exists already"), "{error}");
    assert_eq!(std::fs::read(path("small")).unwrap(), b"a few bytes");
    let Err(error) = FileDevice::create(&live, &path("huge"), Bytes::gib(1 << 20), &FileOptions::buffered()) else {
        panic!("a file larger than every file system");
    };
    assert!(!path("huge").exists(), "{error}");
    let error = "fast".parse::<Engine>().unwrap_err();
    assert_eq!(error.to_string(), "there is no engine `fast`; choose io-uring, sync, mmap or threads");
}

#[test]
fn the_page_cache_can_be_dropped() {
    let live = Live::start(&LiveOptions::default());
    let folder = folder();
    let path = folder.path().join("a");
    std::fs::write(&path, vec![3; 1 << 20]).unwrap();
    let device = FileDevice::open_read_only(&live, &path, &FileOptions::buffered().without_readahead()).unwrap();
    device.drop_cache().unwrap();
    let resident = |path: &Path| {
        let pages = std::process::Command::new("fincore").args(["-n", "-b", "-o", "PAGES"]).arg(path).output();
        pages.ok().and_then(|output| String::from_utf8(output.stdout).ok()?.trim().parse::<u64>().ok())
    };
    let Some(pages) = resident(&path) else {
        println!("skipped: no fincore");
        return;
    };
    assert_eq!(pages, 0);
    let read = Request::read(Bytes::ZERO, Buffer::zeroed(Bytes::kib(4)));
    live.runtime().block_on(device.submit(read)).result.unwrap();
    assert_eq!(resident(&path), Some(1), "one page was read, and none ahead");
}

/// A write that nobody waits for any more is made all the same, and not after the runtime is gone.
#[test]
fn abandoned_requests_are_over_when_the_runtime_is() {
    let folder = folder();
    let (path, part) = (folder.path().join("a"), Bytes::kib(64));
    let live = Live::start(&LiveOptions { without_ring: true, ..LiveOptions::default() });
    let options = FileOptions::buffered().by(Engine::Threads);
    let device = FileDevice::create(&live, &path, part * 64, &options).unwrap_or_else(|error| panic!("{error}"));
    live.runtime().block_on(async {
        for n in 0..64 {
            // Asked once, and dropped: whether a worker was quicker than that is the scheduler's affair.
            drop(device.submit(Request::write(part * n, filled(part, 7))).now_or_never());
        }
    });
    drop(device);
    drop(live);
    assert!(std::fs::read(&path).unwrap() == vec![7; (part * 64).as_usize()]);
}

/// Whoever gives a file to others waits until nothing more is written to it.
#[test]
fn a_file_is_idle_when_what_nobody_waits_for_is_over_too() {
    let folder = folder();
    let live = Live::start(&LiveOptions::default());
    for (number, engine) in engines(&live).filter(|engine| *engine != Engine::Mapped).enumerate() {
        let (path, part) = (folder.path().join(number.to_string()), Bytes::mib(1));
        let options = FileOptions::buffered().by(engine);
        let device = FileDevice::create(&live, &path, part * 16, &options).unwrap_or_else(|error| panic!("{error}"));
        assert!(device.is_idle(), "{engine}");
        live.runtime().block_on(async {
            for n in 0..16 {
                drop(device.submit(Request::write(part * n, filled(part, 7))).now_or_never());
            }
            // Nothing has gone to the kernel before the task waits; of the others nobody knows how quick they are.
            assert!(!device.is_idle() || engine != Engine::IoUring);
            while !device.is_idle() {
                live.runtime().sleep(units::Duration::millis(1)).await;
            }
        });
        let before = std::fs::read(&path).unwrap();
        live.runtime().block_on(live.runtime().sleep(units::Duration::millis(20)));
        assert!(std::fs::read(&path).unwrap() == before, "{engine}: it was written to afterwards");
    }
}

/// Makes so many reads, one after the other.
async fn one_by_one(device: &FileDevice, count: u64, mut done: impl FnMut()) {
    for number in 0..count {
        let reply = device.submit(Request::read(Bytes::kib(4) * (number % 8), Buffer::zeroed(Bytes::kib(4)))).await;
        reply.result.expect("the file is whole");
        done();
    }
}

/// A file of eight blocks, opened twice by each engine that carries requests out in the task's own thread.
fn in_own_thread(live: &Live, test: impl Fn(Engine, [FileDevice; 2])) {
    let folder = folder();
    let path = folder.path().join("a");
    std::fs::write(&path, vec![7; 1 << 15]).unwrap();
    for engine in [Engine::Sync, Engine::Mapped] {
        test(engine, [(); 2].map(|()| open(live, &path, &FileOptions::buffered().by(engine))));
    }
}

const READS: u64 = 400;

/// It does not wait for a turn each time, and does not keep the turns of its own task's other futures for long either.
#[test]
fn one_that_reads_alone_goes_on() {
    let live = Live::start(&LiveOptions::default());
    in_own_thread(&live, |engine, [device, _]| {
        let (turns, over) = (Cell::new(0), Cell::new(false));
        let bystander = poll_fn(|_| {
            turns.set(turns.get() + 1);
            if over.get() { Poll::Ready(()) } else { Poll::Pending }
        });
        let reader = async {
            one_by_one(&device, READS, || {}).await;
            over.set(true);
        };
        live.runtime().block_on(join(reader, bystander));
        assert!((READS / 20..READS / 2).contains(&turns.get()), "{engine}: {READS} reads in {} turns", turns.get());
    });
}

#[test]
fn two_that_read_at_the_same_time_take_turns() {
    let live = Live::start(&LiveOptions::default());
    let order = Rc::new(RefCell::new(String::new()));
    let reader = |device: FileDevice, name| {
        let order = Rc::clone(&order);
        async move { one_by_one(&device, READS, || order.borrow_mut().push(name)).await }
    };
    let in_turns = "ab".repeat(READS as usize);
    in_own_thread(&live, |engine, [a, b]| {
        live.runtime().block_on(join(reader(a, 'a'), reader(b, 'b')));
        assert_eq!(order.take(), in_turns, "{engine}: in one task");
    });
    in_own_thread(&live, |engine, [a, b]| {
        let tasks = [(a, 'a'), (b, 'b')].map(|(device, name)| live.runtime().spawn(reader(device, name)));
        live.runtime().block_on(join_all(tasks));
        assert_eq!(order.take(), in_turns, "{engine}: in a task each");
    });
}
