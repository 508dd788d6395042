//! The drawings in `docs/levels/` are what the geometry says.
//!
//! A page names a layout in a comment, `<!-- layout: raid5-left-symmetric 4x4 -->`, and the code block behind it must
//! be its picture. With `ARRAYLAB_REDRAW=1` in the environment the pages are rewritten instead.

use std::path::Path;

use array::geometry::{Copies, DoubleRotation, Geometry, Level, Rotation, Zones, picture};
use units::Bytes;

fn level(name: &str) -> Level {
    let single = |name: &str| match name {
        "left-asymmetric" => Rotation::LeftAsymmetric,
        "right-asymmetric" => Rotation::RightAsymmetric,
        "left-symmetric" => Rotation::LeftSymmetric,
        "right-symmetric" => Rotation::RightSymmetric,
        "parity-first" => Rotation::ParityFirst,
        "parity-last" => Rotation::ParityLast,
        other => panic!("no rotation {other}"),
    };
    let (name, layout) = name.split_once('-').unwrap_or((name, ""));
    match name {
        "linear" => Level::Linear,
        "raid0" => Level::Raid0(if layout == "alternate" { Zones::Alternate } else { Zones::Original }),
        "raid1" => Level::Raid1,
        "raid3" => Level::Raid3,
        "raid4" => Level::Raid4,
        "raid5" => Level::Raid5(single(layout)),
        "raid6" => Level::Raid6(match layout {
            "ddf-zero-restart" => DoubleRotation::DdfZeroRestart,
            "ddf-N-restart" => DoubleRotation::DdfNRestart,
            "ddf-N-continue" => DoubleRotation::DdfNContinue,
            _ => match layout.strip_suffix("-6") {
                Some(layout) => DoubleRotation::LastQ(single(layout)),
                None => DoubleRotation::Together(single(layout)),
            },
        }),
        "raid10" => {
            let copies: u32 = layout[1..].parse().unwrap();
            Level::Raid10(match &layout[..1] {
                "n" => Copies::near(copies),
                "f" => Copies::far(copies),
                _ => Copies::offset(copies),
            })
        }
        other => panic!("no level {other}"),
    }
}

/// `raid5-left-symmetric 4x6` are four members of six rows; `linear 3 2 4` are members of so many chunks.
fn draw(layout: &str) -> String {
    let mut words = layout.split(' ');
    let level = level(words.next().unwrap());
    let rest: Vec<&str> = words.collect();
    let sizes: Vec<u64> = match rest[0].split_once('x') {
        Some((members, rows)) => vec![rows.parse().unwrap(); members.parse().unwrap()],
        None => rest.iter().map(|size| size.parse().unwrap()).collect(),
    };
    let members: Vec<Bytes> = sizes.iter().map(|chunks| Bytes::SECTOR * *chunks).collect();
    let geometry = Geometry::new(level, Bytes::SECTOR, &members).unwrap();
    picture(&geometry, sizes.into_iter().max().unwrap())
}

#[test]
fn the_pages_of_the_levels_show_the_layouts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/levels");
    let (mut drawings, mut pages) = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let page = std::fs::read_to_string(&path).unwrap();
        let mut expected = String::new();
        let mut rest = page.as_str();
        while let Some(start) = rest.find("<!-- layout: ") {
            let (before, from) = rest.split_at(start);
            let (layout, _) = from["<!-- layout: ".len()..].split_once(" -->").unwrap();
            let block = from.find("```text\n").unwrap() + "```text\n".len();
            let end = block + from[block..].find("```").unwrap();
            expected += &format!("{before}{}{}", &from[..block], draw(layout));
            rest = &from[end..];
            drawings += 1;
        }
        expected += rest;
        pages += 1;
        if std::env::var_os("ARRAYLAB_REDRAW").is_some() {
            std::fs::write(&path, &expected).unwrap();
        } else {
            assert_eq!(page, expected, "{}: redraw it with ARRAYLAB_REDRAW=1", path.display());
        }
    }
    assert!(pages >= 8 && drawings >= 27, "{drawings} drawings on {pages} pages");
}
