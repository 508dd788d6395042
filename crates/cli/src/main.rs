//! `arraylab`: the command line.
//!
//! It assembles and has no logic of its own: words become a call to the laboratory, and what comes back is printed.
//! Results go to standard output, everything else to standard error; the exit code says who is to blame (see `fail`).

mod abreast;
mod args;
mod array;
mod catalogue;
mod compare;
mod copy;
mod experiments;
mod explain;
mod fail;
mod hosts;
mod jobs;
mod maximum;
mod metrics;
mod model;
mod out;
mod page;
mod permit;
mod predict;
mod prepare;
mod programs;
mod progress;
mod replay;
mod reproduce;
mod resume;
mod run;
mod search;
mod serve;
mod stop;
mod storm;
mod survey;
mod sweep;
mod systemd;
mod validate;
mod verify;
mod watch;
mod what_if;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // clap itself exits with 2 on bad words, as the contract has it.
    let cli = args::Cli::parse();
    let done = match cli.command {
        args::Command::Survey(survey) => survey::survey(&survey),
        args::Command::Max(max) => maximum::max(&max),
        args::Command::Run(run) => run::run(&run),
        args::Command::Copy(copy) => copy::copy(&copy),
        args::Command::Verify(verify) => verify::verify(&verify),
        args::Command::Import(import) => jobs::import(&import),
        args::Command::Replay(replay) => replay::replay(&replay),
        args::Command::Xdd(xdd) => programs::xdd(&xdd),
        args::Command::Bsd(bsd) => programs::bsd(&bsd),
        args::Command::WhatIf(words) => what_if::what_if(&words),
        args::Command::Serve(serve) => serve::serve(&serve),
        args::Command::Experiments(experiments) => experiments::experiments(&experiments),
        args::Command::Explain(explain) => explain::explain(&explain),
        args::Command::Compare(compare) => compare::compare(&compare),
        args::Command::Report(report) => page::report(&report),
        args::Command::Predict(predict) => predict::predict(&predict),
        args::Command::Reproduce(reproduce) => reproduce::reproduce(&reproduce),
        args::Command::Array(array) => array::array(&array),
        args::Command::Storm(storm) => storm::storm(&storm),
        args::Command::Parts(parts) => catalogue::parts(&parts),
        args::Command::Systems(systems) => catalogue::systems(&systems),
        args::Command::Validate(validate) => validate::validate(&validate),
    };
    match done {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("{failure}");
            failure.code()
        }
    }
}
