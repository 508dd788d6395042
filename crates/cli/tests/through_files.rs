//! Streams that go through files of real directories, as programs do.

mod common;

use common::Desk;

/// The programs of 4.2BSD, of a modelled machine with two drives, in two directories: of the machine nothing is left.
#[test]
fn programs_of_a_modelled_file_system_run_in_directories() {
    let desk = Desk::new("");
    let words = ["run", "vax/780", "--on", "one,two", "--destroy-data", "--set", "run.passes=2", "--json"];
    ["one", "two"].iter().for_each(|name| std::fs::create_dir(desk.path().join(name)).unwrap());
    let said = desk.arraylab(&words);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("instead of the modelled machine 'vax-780-sc780'"), "{}", said.stderr);
    let document = said.json();
    let points = document["points"].as_array().unwrap();
    assert_eq!(points.len(), 4, "four programs; three controllers, blocks and numbers of drives are the machine's");
    for (point, calls) in points.iter().zip([1024, 2048, 1024, 1024]) {
        // Each program has its directory, in each of two passes.
        assert_eq!(point["total"]["requests"], 4 * calls, "{point}");
        let folder = desk.path().join(point["run"].as_str().unwrap());
        let experiment = std::fs::read_to_string(folder.join("experiment.toml")).unwrap();
        for said in ["through = \"files\"", "mode = \"buffered\"", "engine = \"sync\"", "one/arraylab.files"] {
            assert!(experiment.contains(said), "{said}: {experiment}");
        }
        assert!(!experiment.contains("[system]") && !experiment.contains("published"), "{experiment}");
    }
    let made = |name: &str| std::fs::metadata(desk.path().join(name).join("arraylab.files")).unwrap().len();
    assert_eq!((made("one"), made("two")), (8 << 20, 8 << 20));
    // What a run has kept can be run again as it is.
    let kept = format!("{}/experiment.toml", points[1]["run"].as_str().unwrap());
    let again = desk.arraylab(&["run", &kept, "--destroy-data", "--json"]);
    assert_eq!(again.json()["total"]["requests"], 4 * 2048, "{}", again.stderr);
}

const WRITER: &str = "[run]\npasses = 2\n\n[[stream]]\nname = \"writer\"\noperation = \"write\"\npattern = \"sequential\"\n\
                      size = \"8 KiB\"\ndepth = 1\nlimit = { requests = 16 }\nfile = \"absent\"\n";

/// A file that is absent is made anew before each pass: what lay behind what is written is gone.
#[test]
fn an_absent_file_is_made_anew() {
    let desk = Desk::new(WRITER);
    std::fs::create_dir(desk.path().join("there")).unwrap();
    let path = desk.path().join("there/arraylab.files");
    std::fs::write(&path, vec![0xa5; 1 << 20]).unwrap();
    let run = |more: &[&str]| desk.arraylab(&[&["run", "load.toml", "--on", "there"], more].concat());
    // It is nobody's by name alone.
    let refused = run(&[]);
    assert!(refused.code == 3 || refused.code == 2, "{}", refused.stderr);
    assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 0xa5), "nothing was lost");
    let said = run(&["--destroy-data", "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let document = said.json();
    assert_eq!(document["total"]["requests"], 32);
    let kinds: Vec<&str> =
        document["advice"].as_array().unwrap().iter().map(|advice| advice["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"page-cache"), "that memory was measured is said: {kinds:?}");
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 1 << 20);
    assert!(bytes[16 * 8192..].iter().all(|byte| *byte == 0), "only what was written is there");
}

#[test]
fn what_goes_through_no_file_is_refused_with_the_remedy() {
    let desk = Desk::new(WRITER);
    std::fs::create_dir(desk.path().join("there")).unwrap();
    std::fs::write(desk.path().join("there/arraylab.files"), [0; 4096]).unwrap();
    desk.file("data.bin", 1 << 20);
    for (on, said) in [
        ("data.bin", "data.bin is no directory; name directories"),
        ("memory:1MiB", "is no directory; name directories"),
        ("there", "arraylab.files has 4 KiB, and the load needs 128 KiB; remove it"),
    ] {
        let refused = desk.arraylab(&["run", "load.toml", "--on", on, "--destroy-data"]);
        assert!(refused.code == 2 && refused.stderr.contains(said), "{on}: {}", refused.stderr);
    }
    let other = "[[stream]]\noperation = \"read\"\npattern = \"random\"\nsize = \"4 KiB\"\ndepth = 1\nlimit = { requests = 4 }\n";
    desk.write("mixed.toml", &format!("{WRITER}\n{other}"));
    let refused = desk.arraylab(&["run", "mixed.toml", "--on", "there"]);
    assert!(refused.code == 2 && refused.stderr.contains("mixed.toml:11"), "{}", refused.stderr);
    assert!(refused.stderr.contains("does not go through files, and another does"), "{}", refused.stderr);
    desk.write("verified.toml", &format!("{WRITER}verify = \"end\"\n"));
    let refused = desk.arraylab(&["run", "verified.toml", "--on", "there", "--destroy-data"]);
    assert!(refused.code == 2 && refused.stderr.contains("verified.toml:12"), "{}", refused.stderr);
    assert!(refused.stderr.contains("has lost what the pass before wrote"), "{}", refused.stderr);
    // More than 64 bits of bytes.
    let large = WRITER.replace("requests = 16", "requests = 9000000000000000000");
    desk.write("large.toml", &large);
    std::fs::create_dir(desk.path().join("empty")).unwrap();
    let refused = desk.arraylab(&["run", "large.toml", "--on", "empty", "--destroy-data"]);
    assert!(refused.code == 2 && refused.stderr.contains("the load needs a file of"), "{}", refused.stderr);
    let raw = "\n[system]\nname = \"raid-i\"\nway = \"raw\"\ndisks = 1\n";
    desk.write("raw.toml", &WRITER.replace("\n\n[[stream]]", &format!("\n{raw}\n[[stream]]")));
    let refused = desk.arraylab(&["run", "raw.toml"]);
    assert!(refused.stderr.contains("the requests of this machine go through no files"), "{}", refused.stderr);
}
