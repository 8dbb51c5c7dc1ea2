//! `coracle simulate`: the whole house in virtual time; a failure is a seed.

use std::process::ExitCode;

use crate::Outcome;
use crate::arguments::Simulate;

/// Runs one seed; 1 and the reason when a checker found something.
pub(crate) fn run(options: &Simulate) -> Outcome {
    let report = coracle_simulator::run(options.seed, options.steps, |line| {
        if options.trace {
            println!("{line}");
        }
    });
    match report {
        Ok(report) => {
            println!("{report}");
            Ok(ExitCode::SUCCESS)
        }
        Err(violation) => {
            eprintln!("seed {}: {violation}", options.seed);
            Ok(ExitCode::FAILURE)
        }
    }
}
