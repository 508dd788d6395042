//! Modelled drives: requests for each second of processor time.
//!
//! The Wren IV of RAID-I alone, random reads; an imported drive alone, its buffer on, a request at a time; the same
//! with sixteen requests in its queue, chosen by shortest positioning time; and the replay of a trace from its text to
//! the last completion. The drives are the six measured ones where they stand beside the repository (or in
//! `ARRAYLAB_SHARED`), and else the example of the tests. Of several the slowest counts.

use std::hint::black_box;
use std::path::PathBuf;

use machine::disk::controller::Controller;
use machine::disk::diskspecs::import_files;
use machine::disk::drive::{Drive, Request};
use machine::disk::mechanism::Access;
use machine::disk::parameters::{Parameters, Policy};
use machine::disk::{trace, validate};
use machine::flash::{Flash, FlashParameters};
use machine::library::Shelf;
use units::{Bytes, Instant};

use crate::measure::{amount, best, line};

const ROUNDS: u32 = amount(2, 1);
const REQUESTS: u64 = amount(1_000_000, 5_000) as u64;
const DEPTH: u64 = 16;

/// Microseconds of processor time for a request that the bars allow: 1,000,000 a second (of an imported drive, and of
/// the Wren IV), 400,000 and 800,000.
const ALONE: f64 = 1.0;
const CHOSEN: f64 = 2.5;
const REPLAYED: f64 = 1.25;

pub fn run() -> bool {
    let drives = drives();
    let names: Vec<&str> = drives.iter().map(|(name, _)| name.as_str()).collect();
    println!("  drives: {}", names.join(", "));
    let slowest = |work: &dyn Fn(&Parameters) -> f64| {
        drives.iter().map(|(_, parameters)| work(parameters)).fold(0.0, f64::max) * 1e6 / REQUESTS as f64
    };
    let wren = Shelf::Parts.find("wren-iv").expect("it comes with the program");
    let wren = Parameters::read(&wren).expect("what comes with the program can be built");
    let reads = served(&wren, requests(wren.mechanism.geometry.blocks() - 8).map(|(_, block)| (Access::Read, block)));
    let mut met =
        line("wren-iv, depth 1, random 4 KiB reads", reads * 1e6 / REQUESTS as f64, "us a request", Some(ALONE));
    met &= line("depth 1, random 4 KiB, a third written", slowest(&alone), "us a request", Some(ALONE));
    met &= line("depth 16, shortest positioning time first", slowest(&chosen), "us a request", Some(CHOSEN));
    met &= line("replay of a trace, from text to completions", slowest(&replayed), "us a request", Some(REPLAYED));
    let part = Shelf::Parts.find("flash-nvme-3.84tb").expect("it comes with the program");
    let flash = FlashParameters::read(&part).expect("what comes with the program can be built");
    let cost = best(ROUNDS, || {
        let mut flash = Flash::new(flash.clone());
        let mut now = Instant::START;
        for (access, place) in requests(flash.parameters().capacity / BLOCK - 1) {
            now = flash.serve(now, access, BLOCK * place, BLOCK);
        }
        black_box(now);
    });
    line("flash, depth 1, random 4 KiB, a third written", cost.cpu * 1e6 / REQUESTS as f64, "us a request", None);
    met
}

const BLOCK: Bytes = Bytes::kib(4);

/// Requests to places below `places`, the same every time.
fn requests(places: u64) -> impl Iterator<Item = (Access, u64)> + Clone {
    let mut random = 1u64;
    (0..REQUESTS).map(move |_| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let access = if random.is_multiple_of(3) { Access::Write } else { Access::Read };
        (access, (random >> 11) % places)
    })
}

fn alone(parameters: &Parameters) -> f64 {
    served(parameters, requests(parameters.mechanism.geometry.blocks() - 8))
}

/// Seconds for requests of 4 KiB, one after the other.
fn served(parameters: &Parameters, requests: impl Iterator<Item = (Access, u64)> + Clone) -> f64 {
    let cost = best(ROUNDS, || {
        let mut drive = Drive::new(parameters.clone());
        let mut now = Instant::START;
        for (access, block) in requests.clone() {
            now = drive.serve(now, Request::new(access, block, 8)).completes;
        }
        black_box(now);
    });
    cost.cpu
}

fn chosen(parameters: &Parameters) -> f64 {
    let mut parameters = parameters.clone();
    parameters.queue.policy = Policy::Sptf;
    parameters.queue.depth = DEPTH as u32;
    let blocks = parameters.mechanism.geometry.blocks();
    let cost = best(ROUNDS, || {
        let mut controller = Controller::new(parameters.clone());
        let mut waiting = requests(blocks - 8).map(|(access, block)| Request::new(access, block, 8));
        for (tag, request) in (0..DEPTH).zip(&mut waiting) {
            controller.submit(Instant::START, tag, request);
        }
        while let Some(at) = controller.next_turn() {
            let turn = controller.turn(at);
            if let Some(request) = waiting.next() {
                controller.submit(turn.service.completes, turn.tag, request);
            }
        }
    });
    cost.cpu
}

fn replayed(parameters: &Parameters) -> f64 {
    let blocks = parameters.mechanism.geometry.blocks();
    let text: String = requests(blocks - 8)
        .map(|(access, block)| {
            let word = if access == Access::Read { "R" } else { "W" };
            format!("{word} Miss {block} 8 7312.25 {}.500\n", block % 40_000)
        })
        .collect();
    let cost = best(ROUNDS, || {
        let requests = trace::parse("trace", &text, blocks).expect("a trace of this drive");
        black_box(validate::replay(&mut Drive::new(parameters.clone()), &requests));
    });
    cost.cpu
}

/// The measured drives if they are there, and else the example.
fn drives() -> Vec<(String, Parameters)> {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let shared = std::env::var_os("ARRAYLAB_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    let example = root.join("crates/machine/tests/drive");
    let folder = Some(shared.join("drives/parameters")).filter(|folder| folder.is_dir()).unwrap_or(example);
    let files = std::fs::read_dir(folder).expect("the folder of drives can be read");
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("and listed").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "diskspecs"));
    paths.sort();
    let import = |path: PathBuf| {
        let part = import_files(&path, None, None).unwrap_or_else(|error| panic!("{error}")).part;
        let parameters = Parameters::read(&part).expect("what is imported can be built");
        (part.name, parameters)
    };
    paths.into_iter().map(import).collect()
}
