//! fio's job files: which bytes are written, and which are looked for.

mod common;

use std::collections::HashSet;

use common::Desk;

fn job(text: &str) -> Desk {
    let desk = Desk::new("");
    desk.write("job.fio", text);
    desk
}

#[test]
fn a_pattern_stands_behind_what_each_sector_says_and_its_damage_is_found() {
    let text = "[global]\nfilename=data\nbs=4k\nsize=64k\nverify=crc32c\nverify_pattern=0xaa55\n[w]\nrw=write\n\
        [r]\nstonewall\nrw=read\n";
    let desk = job(text);
    let said = desk.arraylab(&["run", "job.fio"]);
    assert_eq!(said.code, 0, "{}{}", said.stderr, said.stdout);
    let mut bytes = std::fs::read(desk.path().join("data")).unwrap();
    assert!(bytes.chunks(512).all(|sector| sector[48..].chunks(2).all(|pair| pair == [0xaa, 0x55])));
    bytes[5000] ^= 1;
    std::fs::write(desk.path().join("data"), bytes).unwrap();
    desk.write("job.fio", &text.replace("[w]\nrw=write\n[r]\nstonewall\n", "[r]\n"));
    let said = desk.arraylab(&["run", "job.fio"]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stdout.contains("one bit differs, bit 0 of byte 5000"), "{}", said.stdout);
}

#[test]
fn blocks_may_be_a_pattern_of_a_file_and_nothing_else() {
    let text = "[global]\nfilename=data\nbs=16k\nsize=32k\n[w]\nrw=write\nbuffer_pattern='pattern'\n[r]\nstonewall\n\
        rw=read\nverify=pattern\nverify_pattern='pattern'\n";
    let desk = job(text);
    let said = desk.arraylab(&["run", "job.fio"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("job.fio:5: [w] takes its pattern from pattern: "), "{}", said.stderr);
    // As fio takes it: 512 bytes of it, from the beginning of each block on.
    let pattern: Vec<u8> = (0..700u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(desk.path().join("pattern"), &pattern).unwrap();
    let said = desk.arraylab(&["run", "job.fio"]);
    assert_eq!(said.code, 0, "{}{}", said.stderr, said.stdout);
    let mut bytes = std::fs::read(desk.path().join("data")).unwrap();
    assert!(bytes.chunks(512).all(|part| part == &pattern[..512]));
    bytes[20_000] ^= 0x80;
    std::fs::write(desk.path().join("data"), bytes).unwrap();
    desk.write("job.fio", "[r]\nfilename=data\nbs=16k\nsize=32k\nrw=read\nverify_pattern='pattern'\n");
    let said = desk.arraylab(&["run", "job.fio"]);
    assert_eq!(said.code, 1, "{}", said.stderr);
    assert!(said.stdout.contains("bit 7 of byte 20000"), "{}", said.stdout);
    // What writes them looks for them, too.
    desk.write("job.fio", "[w]\nfilename=own\nbs=4k\nsize=64k\nrw=randwrite\nverify_pattern=0xdeadbeef\n");
    let said = desk.arraylab(&["run", "job.fio", "--json"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(said.json()["verification"][0]["findings"]["checked"], "64 KiB");
}

#[test]
fn a_fatal_mismatch_ends_the_job_and_others_are_all_named() {
    for (options, wanted) in [("", 256), ("verify_fatal=1\n", 1)] {
        let desk = job(&format!("[r]\nfilename=data\nrw=read\nbs=4k\nsize=1m\nverify=md5\n{options}"));
        desk.file("data", 1 << 20);
        let said = desk.arraylab(&["run", "job.fio", "--format", "fio-json"]);
        assert_eq!(said.code, 1, "{}", said.stderr);
        assert_eq!(said.json()["jobs"][0]["read"]["total_ios"], wanted, "{options}");
    }
}

#[test]
fn bytes_are_made_for_each_write_where_that_is_asked_for() {
    let unlike = |options: &str| {
        let desk = job(&format!("[w]\nfilename=data\nrw=write\nbs=4k\nsize=1m\n{options}"));
        assert_eq!(desk.arraylab(&["run", "job.fio"]).code, 0);
        let bytes = std::fs::read(desk.path().join("data")).unwrap();
        bytes.chunks(4096).map(<[u8]>::to_vec).collect::<HashSet<_>>().len()
    };
    assert_eq!(unlike("refill_buffers\n"), 256);
    assert!(unlike("") <= 64, "without, each begins at one of 64 pages");
}
