//! Machines of one's own: put together, printed, loaded, explained.

mod common;

use common::{Desk, READS, Said};

fn done(said: Said) -> Said {
    assert_eq!((said.code, &*said.stderr), (0, ""), "{}", said.stdout);
    said
}

#[test]
fn a_machine_is_put_together_and_its_narrowest_cut_named() {
    let desk = Desk::new(READS);
    let text = done(desk.arraylab(&["systems", "check", "nvme-24"])).stdout;
    for line in
        ["drive-0.0 to drive-0.11 (12)", "switch-1", "<- narrowest", "switch-0, switch-1 pass 57.6 GB/s together"]
    {
        assert!(text.contains(line), "'{line}' in {text}");
    }
    let json = done(desk.arraylab(&["systems", "check", "sas-60", "--json"])).json();
    assert_eq!(json["narrowest"], serde_json::json!(["expander"]));
    let disks = json["nodes"].as_array().unwrap().last().unwrap();
    assert_eq!(disks["names"].as_array().unwrap().len(), 60);
    for old in ["raid-i", "sparc20-wren7"] {
        assert!(done(desk.arraylab(&["systems", "check", old])).stdout.contains("The narrowest cut"));
    }
}

#[test]
fn a_template_can_be_checked_as_it_is_and_a_broken_one_says_its_line() {
    let desk = Desk::new(READS);
    for kind in ["nvme", "sas", "raid", "nfs"] {
        let text = done(desk.arraylab(&["systems", "--template", kind])).stdout;
        assert!(text.lines().filter(|line| line.contains('#')).count() > 5, "it is commented: {text}");
        desk.write("mine.toml", &text);
        done(desk.arraylab(&["systems", "check", "mine.toml"]));
    }
    desk.write(
        "mine.toml",
        &done(desk.arraylab(&["systems", "--template", "sas"])).stdout.replace("on = \"hba\"", "on = \"bha\""),
    );
    let said = desk.arraylab(&["systems", "check", "mine.toml"]);
    assert_eq!((said.code, &*said.stdout), (2, ""));
    assert!(
        said.stderr.contains("mine.toml:") && said.stderr.contains("'bha', which is no node; write"),
        "{}",
        said.stderr
    );
    let said = desk.arraylab(&["systems", "check", "nowhere.toml"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("nowhere.toml: the system's file cannot be read"), "{}", said.stderr);
}

/// Sequential reads of all drives, without the operating system's part.
fn load(system: &str, depth: u32, size: &str, measure: &str) -> String {
    format!(
        "[run]\nstart-up = \"{measure}\"\nmeasure = \"{measure}\"\n\n[system]\nname = \"{system}\"\nway = \"no-copy\"\n\n\
         [[stream]]\nname = \"readers\"\noperation = \"read\"\npattern = \"sequential\"\nsize = \"{size}\"\ndepth = {depth}\n"
    )
}

/// What `explain` says of a run.
fn explained(desk: &Desk, load: &str, settings: &[&str]) -> (serde_json::Value, f64) {
    desk.write("load.toml", load);
    let mut words = vec!["run", "load.toml", "--json"];
    settings.iter().for_each(|setting| words.extend(["--set", setting]));
    let run = done(desk.arraylab(&words)).json();
    let rate = run["total"]["bandwidth_bytes_per_s"].as_f64().unwrap();
    let folder = run["run"].as_str().unwrap().to_owned();
    (done(desk.arraylab(&["explain", &folder, "--json"])).json(), rate)
}

#[test]
fn the_switches_of_nvme_24_are_named_and_the_wide_port_of_sas_60_limits() {
    let desk = Desk::new(READS);
    let (said, rate) = explained(&desk, &load("nvme-24", 8, "128 KiB", "30 ms"), &[]);
    assert_eq!(
        (said["limit"]["kind"].as_str(), said["limit"]["part"].as_str()),
        (Some("shared"), Some("switch-0 and switch-1")),
        "{said:#}"
    );
    let uplinks = 2.0 * 16.0 * 16e9 * 128.0 / 130.0 / 8.0 * 256.0 / 280.0;
    assert!((rate / uplinks - 1.0).abs() < 0.02, "{rate:e} and not {uplinks:e}");
    let (said, rate) = explained(&desk, &load("sas-60", 4, "512 KiB", "500 ms"), &["run.measure=4s"]);
    // Equal drives that read in sequence over one full link take turns, which is no convoy.
    assert_eq!(
        (said["limit"]["kind"].as_str(), said["limit"]["part"].as_str()),
        (Some("shared"), Some("expander")),
        "{said:#}"
    );
    let port = 4.0 * 1.2e9 * 1024.0 / 1060.0;
    assert!((rate / port - 1.0).abs() < 0.02, "{rate:e} and not {port:e}");
}

/// One part at a time is made slow; the verdict names it.
#[test]
fn a_planted_slow_part_is_named() {
    let desk = Desk::new(READS);
    let (nvme, sas) = (load("nvme-24", 8, "128 KiB", "30 ms"), load("sas-60", 4, "512 KiB", "500 ms"));
    // The call without copies reads into a buffer that stays in the cache; others go through memory.
    let through = nvme.replace("no-copy", "raw");
    let random = load("nvme-24", 32, "4 KiB", "2 ms").replace("\"sequential\"", "\"random\"").replace("no-copy", "raw");
    let raw = |text: String| text.replace("no-copy", "raw");
    let copies = raw(load("raid-i", 1, "32 KiB", "4 s"));
    let volume = load("max", 8, "4 MiB", "1 s").replace("no-copy", "array");
    let cases: [(&str, &[&str], &str, &str); 9] = [
        (&nvme, &["pcie-4-root.fabric=20GB/s"], "shared", "root"),
        (&nvme, &["switch-1.lanes=2", "system.under=[\"switch-1\"]"], "shared", "switch-1"),
        (&through, &["ddr4-8-channels.bus=15GB/s"], "shared", "memory"),
        (&sas, &["sas3-hba.command=400us"], "shared", "hba"),
        (&sas, &["sas3-expander.lanes=1"], "shared", "expander"),
        // One process at a time splits requests.
        (&volume, &["irix-lv.piece=2000000"], "device", "lv"),
        (
            &copies,
            &["sun4-280-memory.copy-uncached=0.5MB/s", "sun4-280-memory.copy-cached=0.5MB/s"],
            "processors",
            "processor",
        ),
        (&random, &["epyc-32-core.cores=2"], "processors", "processors"),
        (
            &random,
            &["epyc-32-core.interrupt-cores=1", "linux-6-direct.instructions.start-interrupt=10000"],
            "processors",
            "processors",
        ),
    ];
    for (load, settings, kind, part) in cases {
        let (said, _) = explained(&desk, load, settings);
        let limit = &said["limit"];
        assert_eq!(limit["kind"], kind, "{settings:?}: {limit:#}");
        assert!(limit["part"].as_str().unwrap().starts_with(part), "{settings:?}: {limit:#}");
        // Whether the processor is slow or what it copies, its work tells.
        if part == "processor" {
            let evidence = limit["evidence"].to_string();
            assert!(evidence.contains("of the time in which os works for requests, 'copy' takes 7"), "{limit:#}");
        }
    }
}

/// Two or three parts are as fast as each other, and none of them is blamed.
#[test]
fn of_balanced_machines_no_single_part_is_named() {
    let desk = Desk::new(READS);
    let (nvme, sas) = (load("nvme-24", 8, "128 KiB", "30 ms"), load("sas-60", 4, "512 KiB", "500 ms"));
    // What one of 12 drives has of its switch's uplink, both of the root's, and what the wide port lets pass.
    let cases: [(&str, &[&str], &[&str]); 3] = [
        (&nvme, &["flash-nvme-3.84tb.controller.link=2400MB/s"], &["switch-0 and switch-1", "flash-nvme-3.84tb"]),
        (&nvme, &["pcie-4-root.fabric=57.6GB/s"], &["switch-0 and switch-1", "root"]),
        (&sas, &["sas3-hba.command=112us", "run.measure=2s"], &["expander", "hba"]),
    ];
    for (load, settings, parts) in cases {
        let (said, _) = explained(&desk, load, settings);
        let limit = &said["limit"];
        assert_eq!(limit["kind"], "none", "{settings:?}: {limit:#}");
        let named = limit["part"].as_str().unwrap();
        assert!(parts.iter().all(|part| named.contains(part)), "{settings:?}: {limit:#}");
        let next = said["next"]["part"].as_str().unwrap();
        assert!(!named.contains(next), "{settings:?}: next is {next} behind {limit:#}");
    }
    // A tenth more of either, and the other limits alone.
    for (link, part) in [("2700MB/s", "switch-0 and switch-1"), ("2100MB/s", "all 24")] {
        let (said, _) = explained(&desk, &nvme, &[&format!("flash-nvme-3.84tb.controller.link={link}")]);
        assert!(said["limit"]["part"].as_str().unwrap().starts_with(part), "{link}: {:#}", said["limit"]);
    }
}

/// What makes the drives of the NVMe template one array.
const STRIPED: &str = r#"
[array]
level = 0
stripe-unit = "128 KiB"
members = ["drive-*"]
consistency = "none"
source = "made up"
"#;

#[test]
fn one_slow_drive_of_several_is_named() {
    let desk = Desk::new(READS);
    let template = done(desk.arraylab(&["systems", "--template", "nvme"])).stdout;
    desk.write("striped.toml", &format!("{template}{STRIPED}"));
    let reads = load("./striped.toml", 8, "1 MiB", "10 ms").replace("no-copy", "array");
    let (said, _) = explained(&desk, &reads, &["drive-0.2.controller.link=500MB/s"]);
    assert_eq!(said["limit"]["part"], "drive-0.2", "{:#}", said["limit"]);
    let (said, _) = explained(&desk, &reads, &[]);
    assert_ne!(said["limit"]["part"], "drive-0.2", "{:#}", said["limit"]);
    // Behind a controller, where the host sees none of them.
    let random = load("raid6-12", 16, "4 KiB", "2 s").replace("\"sequential\"", "\"random\"");
    let (said, _) = explained(&desk, &random, &["disk-3.rotation.speed=1800 rpm"]);
    assert_eq!(said["limit"]["part"], "disk-3", "{:#}", said["limit"]);
    let (said, _) = explained(&desk, &random, &[]);
    assert_ne!(said["limit"]["part"], "disk-3", "{:#}", said["limit"]);
}

#[test]
fn what_is_slow_in_a_controller_is_named() {
    let desk = Desk::new(READS);
    let reads = load("raid6-12", 8, "2560 KiB", "500 ms");
    let writes = reads.replace("\"read\"", "\"write\"");
    let cases: [(&str, &[&str]); 3] = [
        (&reads, &["raid-sas3.buffer=1GB/s"]),
        (&reads, &["raid-sas3.member=1ms"]),
        (&writes, &["raid-sas3.parity=50MB/s", "raid-sas3.cache.write-back=false"]),
    ];
    for (load, settings) in cases {
        let (said, _) = explained(&desk, load, settings);
        assert_eq!(said["limit"]["part"], "raid", "{settings:?}: {:#}", said["limit"]);
    }
}

/// A controller's array, and an operating system's, that of the template.
#[test]
fn what_an_array_does_beside_the_requests_is_told() {
    let desk = Desk::new(READS);
    let controller = load("raid6-12", 1, "64 KiB", "1 s");
    desk.write("mine.toml", &done(desk.arraylab(&["systems", "--template", "sas"])).stdout);
    let host = load("./mine.toml", 1, "64 KiB", "2 s").replace("no-copy", "array");
    // By `explain`, which is asked why the drives are busy.
    let told = |load: &str, settings: &[&str]| explained(&desk, load, settings).0["remarks"].to_string();
    let cases: [(&str, &[&str], &str, f64); 3] = [
        (
            &controller,
            &["raid-sas3.array.failed=1", "raid-sas3.array.rebuild-rate=20 MB/s"],
            "raid filled its new drive at ",
            20.0,
        ),
        (
            &host,
            &["system.array.failed=1", "system.array.rebuild-rate=10 MB/s"],
            "array filled its new drive at ",
            10.0,
        ),
        (&host, &["system.array.scrub-rate=20 MB/s"], "array scrubbed its data at ", 20.0),
    ];
    for (load, settings, before, megabytes) in cases {
        let said = told(load, settings);
        let rate = said.split(before).nth(1).unwrap_or_else(|| panic!("{settings:?}: {said}"));
        let rate: f64 = rate.split(' ').next().unwrap().parse().unwrap();
        assert!((0.75 * megabytes..1.1 * megabytes).contains(&rate), "{settings:?}: {said}");
    }
    assert!(!told(&controller, &["raid-sas3.array.failed=1"]).contains("filled"));
}
