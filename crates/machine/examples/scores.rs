//! Scores of the modelled drives against the shared traces.

use std::path::PathBuf;

use machine::disk::diskspecs::import_files;
use machine::disk::drive::Drive;
use machine::disk::parameters::Parameters;
use machine::disk::{trace, validate};

fn main() {
    let shared = PathBuf::from(std::env::var_os("ARRAYLAB_SHARED").unwrap_or("../shared".into())).join("drives");
    let dump = std::env::args().nth(1);
    let drives = [
        ("barracuda", "barracuda", "0.348 0.497 0.236", "0.35 0.45 0.24"),
        ("cheetah4LP", "cheetah4LP", "0.314 0.351 0.310", "0.31 0.35 0.31"),
        ("atlas10k", "atlas10k", "0.268 0.385 0.132", "0.25 0.35 0.13"),
        ("hp_c2247a", "hp_c2247a", "0.091 0.146 0.124", "0.12 0.15 0.15"),
        ("hp_c3323a", "hp_c3323a_validate", "0.271 0.216 0.771", "0.27 0.27 0.60"),
        ("dec_rz26", "dec_rz26", "0.337 0.269 1.056", "0.33 0.30 0.80"),
    ];
    println!(
        "{:12}  {:18} {:>7}  {:>6} {:>6} | DiskSim            | bar",
        "drive", "pool  read  write", "mean", "rms", "corr"
    );
    for (name, specs, disksim, bar) in drives {
        let imported = import_files(&shared.join("parameters").join(format!("{specs}.diskspecs")), None, None).unwrap();
        let parameters = Parameters::read(&imported.part).unwrap();
        let text = std::fs::read_to_string(shared.join("traces").join(format!("{name}.trace"))).unwrap();
        let requests = trace::parse(name, &text, parameters.mechanism.geometry.blocks()).unwrap();
        let mut drive = Drive::new(parameters);
        let replayed = validate::replay(&mut drive, &requests);
        let s = validate::scores(&requests, &replayed);
        let ms = |s: Option<machine::disk::score::Score>| s.map_or(0.0, |s| s.demerit.as_millis());
        println!(
            "{name:12}  {:.3} {:.3} {:.3} {:+6.1}%  {:6.2} {:.3} | {disksim}  | {bar}",
            s.pooled.demerit.as_millis(),
            ms(s.reads),
            ms(s.writes),
            s.pooled.mean_error() * 100.0,
            s.pooled.rms_error.as_millis(),
            s.pooled.correlation,
        );
        if let Some(folder) = &dump {
            use std::io::Write;
            let mut out = std::fs::File::create(format!("{folder}/{name}.csv")).unwrap();
            writeln!(
                out,
                "i,access,block,blocks,think,measured,model,outcome,command,stopping,cyl,seek,rot,xfer,c,h,s,spt"
            )
            .unwrap();
            for (i, (m, r)) in requests.iter().zip(&replayed).enumerate() {
                let g = &drive.parameters().mechanism.geometry;
                let l = g.locate(m.block);
                let spt = g.zones()[g.extent(m.block).zone].sectors();
                let v = &r.service;
                writeln!(
                    out,
                    "{i},{:?},{},{},{:.4},{:.4},{:.4},{:?},{:.4},{:.4},{},{:.4},{:.4},{:.4},{},{},{},{spt}",
                    m.access,
                    m.block,
                    m.blocks,
                    m.think.as_millis(),
                    m.response.as_millis(),
                    r.response().as_millis(),
                    v.outcome,
                    v.command.as_millis(),
                    v.stopping.as_millis(),
                    v.cylinders,
                    v.seek.as_millis(),
                    v.rotation.as_millis(),
                    v.transfer.as_millis(),
                    l.cylinder,
                    l.head,
                    l.sector
                )
                .unwrap();
            }
        }
    }
}
