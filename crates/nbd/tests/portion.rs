//! Parts of a device as exports: how they are written, and what is refused.

use device::{AnyDevice, Device, MemoryDevice, Shape};
use nbd::{DivideError, Portion, divide};
use proptest::prelude::*;
use runtime::Runtime;
use units::Bytes;

fn portion(text: &str) -> Portion {
    text.parse().unwrap()
}

#[test]
fn a_name_alone_is_the_whole_and_bounds_are_sizes() {
    let bounds = |text: &str| (portion(text).from, portion(text).to);
    assert_eq!(portion("disk"), Portion { name: "disk".into(), ..Portion::default() });
    assert_eq!(portion(""), Portion::default());
    assert_eq!(portion("disk,read-only"), Portion { read_only: true, ..portion("disk") });
    assert_eq!(bounds("home=0..100GiB"), (Some(Bytes::ZERO), Some(Bytes::gib(100))));
    assert_eq!(bounds("home=100 GiB.."), (Some(Bytes::gib(100)), None));
    assert_eq!(bounds("home=..1.5GiB"), (None, Some(Bytes::mib(1536))));
    assert_eq!(bounds("home=..,read-only"), (None, None));
    // Names may hold anything else that is on a keyboard.
    assert_eq!(portion("a;b.c d").name, "a;b.c d");
}

#[test]
fn what_is_no_portion_is_refused_with_what_would_be_one() {
    let refused = |text: &str| text.parse::<Portion>().unwrap_err().to_string();
    let next = "write NAME, or NAME=FROM..TO for a part such as home=0..100GiB or rest=100GiB.., and ,read-only behind it to refuse writes";
    assert_eq!(refused("home=100GiB"), format!("'home=100GiB' is no export: '100GiB' has no .. in it; {next}"));
    assert_eq!(
        refused("ho\nme"),
        format!("'ho\\nme' is no export: a name has only characters that terminals show; {next}")
    );
    assert!(refused("home\u{1b}[2J=..1GiB").starts_with("'home\\u{1b}[2J=..1GiB' is no export: a name has only"));
    assert!(refused("home=0..100").contains("'100'"), "{}", refused("home=0..100"));
    assert!(refused("home=0..1KB").contains("'1KB'"), "{}", refused("home=0..1KB"));
    assert!(refused("home=0..1GiB,readonly").contains(next));
    for misspelt in ["disk,readonly", "disk,ro", "disk,Read-Only", "disk, read-only", "disk,", "disk,ro,read-only"] {
        let word = misspelt.trim_end_matches(",read-only").split_once(',').unwrap().1;
        let wanted =
            format!("'{misspelt}' is no export: ',{word}' is not known, and a name has no comma in it; {next}");
        assert_eq!(refused(misspelt), wanted);
    }
}

fn device(runtime: &Runtime) -> AnyDevice {
    let shape = Shape { logical_block: Bytes::kib(4), ..Shape::new("array", Bytes::mib(64)) };
    AnyDevice::new(MemoryDevice::new(runtime, shape))
}

/// The error of dividing a device of 64 MiB in blocks of 4 KiB so, or what is then offered.
fn divided(texts: &[&str], read_only: bool) -> Result<Vec<(String, Bytes, bool)>, String> {
    let runtime = Runtime::simulated();
    let portions: Vec<Portion> = texts.iter().map(|text| portion(text)).collect();
    let exports = divide(&runtime, &device(&runtime), &portions, read_only).map_err(|error| error.to_string())?;
    let about = |export: &nbd::Export| (export.name().to_owned(), export.device().shape().size, export.is_read_only());
    Ok(exports.all().iter().map(about).collect())
}

#[test]
fn parts_are_devices_of_their_own_size_and_the_whole_is_the_default() {
    assert_eq!(divided(&[], false).unwrap(), [(String::new(), Bytes::mib(64), false)]);
    assert_eq!(divided(&["disk"], true).unwrap(), [("disk".into(), Bytes::mib(64), true)]);
    let wanted = [("home".into(), Bytes::mib(16), false), ("rest".into(), Bytes::mib(48), true)];
    assert_eq!(divided(&["home=..16MiB", "rest=16MiB..,read-only"], false).unwrap(), wanted);
}

#[test]
fn parts_that_cannot_be_are_refused_with_their_names() {
    let refused = |texts: &[&str]| divided(texts, false).unwrap_err();
    let next = "reach beyond the end of array at 64 MiB";
    assert_eq!(refused(&["home=0..65MiB"]), format!("export 'home': 0 B to 65 MiB {next}"));
    let next = "do not begin and end on a block of array; give multiples of 4 KiB";
    assert_eq!(refused(&["home=512B..1MiB"]), format!("export 'home': 512 B to 1 MiB {next}"));
    assert!(refused(&["home=64MiB.."]).starts_with("export 'home': from 64 MiB to 64 MiB there is nothing"));
    assert_eq!(refused(&["a=..1MiB", "a=1MiB.."]), "two exports are called 'a'; give each a name of its own");
}

#[test]
fn bytes_are_shared_only_where_nobody_writes() {
    let overlapping = ["a=0..2MiB", "b=1MiB..3MiB"];
    let refused = divided(&overlapping, false).unwrap_err();
    let wanted = "exports 'a' and 'b' share the bytes from 1 MiB to 2 MiB, and clients of one would not see what those of the \
                  other write; end one where the other begins, or put ,read-only behind both";
    assert_eq!(refused, wanted);
    assert!(divided(&["a=0..2MiB,read-only", "b=1MiB..3MiB"], false).is_err(), "one side could be written");
    assert!(divided(&["all", "b=1MiB..3MiB,read-only"], false).is_err(), "the whole is shared by all of its parts");
    assert_eq!(divided(&["a=0..2MiB,read-only", "b=1MiB..3MiB,read-only"], false).unwrap().len(), 2);
    assert_eq!(divided(&overlapping, true).unwrap().len(), 2);
    assert_eq!(divided(&["a=0..2MiB", "b=2MiB..3MiB"], false).unwrap().len(), 2);
}

proptest! {
    #[test]
    fn what_is_written_is_read(name in "[a-z ;.]{0,8}", from in proptest::option::of(1u64..9), to in proptest::option::of(1u64..9), read_only: bool) {
        let text = |bound: Option<u64>| bound.map_or(String::new(), |kib| format!("{kib} KiB"));
        let written = format!("{name}={}..{}{}", text(from), text(to), if read_only { ",read-only" } else { "" });
        let portion = Portion { name, from: from.map(Bytes::kib), to: to.map(Bytes::kib), read_only };
        prop_assert_eq!(written.parse::<Portion>().unwrap(), portion);
    }

    /// Against the definition: two portions are refused exactly if a block belongs to both and one of them can be
    /// written.
    #[test]
    fn overlaps_are_what_blocks_say(ranges in proptest::collection::vec((0u64..16, 1u64..8, any::<bool>()), 2..5)) {
        let runtime = Runtime::simulated();
        let block = Bytes::kib(4);
        let portions: Vec<Portion> = ranges.iter().enumerate().map(|(number, &(from, blocks, read_only))| Portion {
            name: number.to_string(),
            from: Some(block * from),
            to: Some(block * (from + blocks)),
            read_only,
        }).collect();
        let shared = (0..24).any(|at| {
            let holders: Vec<_> = ranges.iter().filter(|&&(from, blocks, _)| (from..from + blocks).contains(&at)).collect();
            holders.len() > 1 && holders.iter().any(|holder| !holder.2)
        });
        match divide(&runtime, &device(&runtime), &portions, false) {
            Ok(exports) => prop_assert!(!shared && exports.all().len() == ranges.len()),
            Err(error) => prop_assert!(shared && matches!(error, DivideError::Overlap { .. }), "{}", error),
        }
    }
}
