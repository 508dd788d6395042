//! Which process of how many this is, as the engine that started it says.

use std::path::{Path, PathBuf};

use crate::experiment::Experiment;
use crate::target::Target;

/// The variables by which engines tell a process its rank, and of how many; the first that are there count.
const ENGINES: [(&str, &str); 4] = [
    // Open MPI and PRRTE.
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    // MPICH, Intel MPI, and whatever starts processes by Hydra.
    ("PMI_RANK", "PMI_SIZE"),
    // srun: the tasks of a step, which may be fewer than those of the job.
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
];

/// The variables that tell one job from another.
const JOBS: [&str; 4] = ["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "SLURM_JOB_ID"];

/// One of the processes that an engine has started together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rank {
    /// Counted from 0; rank 0 drives the run.
    pub number: u32,
    /// How many there are.
    pub size: u32,
    /// The name of the machine it runs on.
    pub host: String,
    /// What the engine calls the job.
    pub job: String,
}

/// Why the environment makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{variable} is '{value}' in the environment, which is no {what}; start the ranks by mpirun or srun, or unset it to run alone"
)]
pub struct RankError {
    variable: &'static str,
    value: String,
    what: String,
}

impl Rank {
    /// The rank of this process; `None` if it is alone.
    pub fn find() -> Result<Option<Rank>, RankError> {
        Rank::of(|name| std::env::var(name).ok(), host())
    }

    fn of(get: impl Fn(&str) -> Option<String>, host: String) -> Result<Option<Rank>, RankError> {
        let engine = ENGINES.into_iter().find_map(|(rank, size)| Some(((rank, get(rank)?), (size, get(size)?))));
        let Some(((rank, number), (size, many))) = engine else { return Ok(None) };
        // The script of a batch job has these variables, too, and is no rank: what it starts by srun belongs to a step.
        if rank.starts_with("SLURM") && get("SLURM_JOB_ID").is_some() && get("SLURM_STEP_ID").is_none() {
            return Ok(None);
        }
        let error = |variable, value: &str, what: String| RankError { variable, value: value.to_owned(), what };
        let whole = |variable, text: &str| {
            text.parse::<u32>().map_err(|_| error(variable, text, "whole number from 0".to_owned()))
        };
        let (number, of) = (whole(rank, &number)?, whole(size, &many)?);
        if of == 0 {
            return Err(error(size, &many, "number of ranks".to_owned()));
        }
        if number >= of {
            return Err(error(rank, &number.to_string(), format!("rank of {of} that count from 0")));
        }
        let step = get("SLURM_STEP_ID").map_or(String::new(), |step| format!(".{step}"));
        let job = JOBS.into_iter().find_map(&get).map_or("job".to_owned(), |job| job + &step);
        Ok((of > 1).then_some(Rank { number, size: of, host, job }))
    }

    /// A process that was started by itself: the only rank.
    pub fn alone() -> Rank {
        Rank { number: 0, size: 1, host: host(), job: "job".to_owned() }
    }

    /// A text in which `{rank}` and `{host}` stand for this rank's.
    fn fill(&self, text: &str) -> String {
        text.replace("{rank}", &self.number.to_string()).replace("{host}", &self.host)
    }

    /// The same in a path, which need not be text.
    fn fill_path(&self, path: &Path) -> PathBuf {
        path.to_str().map_or_else(|| path.to_owned(), |text| PathBuf::from(self.fill(text)))
    }

    /// The same in a path that is loaded.
    pub fn fill_target(&self, target: &Target) -> Target {
        match target {
            Target::Path(path) => Target::Path(self.fill_path(path)),
            other => other.clone(),
        }
    }

    /// The same in the files that an experiment names.
    pub fn filled(&self, experiment: &Experiment) -> Experiment {
        let mut filled = experiment.clone();
        for file in filled.devices.iter_mut().flat_map(|device| &mut device.files) {
            *file = self.fill_path(file);
        }
        filled
    }
}

/// What this machine is called.
fn host() -> String {
    host::environment::name(&host::Kernel::running())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Option<(u32, u32, String)>, RankError> {
        let get = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        Ok(Rank::of(get, "beta".into())?.map(|rank| (rank.number, rank.size, rank.job)))
    }

    #[test]
    fn each_engine_says_which_rank_a_process_is() {
        let open_mpi =
            [("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_MCA_ess_base_jobid", "77")];
        assert_eq!(of(&open_mpi), Ok(Some((2, 4, "77".into()))));
        assert_eq!(of(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]), Ok(Some((0, 2, "job".into()))));
        assert_eq!(of(&[("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")]), Ok(Some((1, 2, "job".into()))));
        let step = [
            ("SLURM_PROCID", "1"),
            ("SLURM_NTASKS", "16"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_JOB_ID", "9"),
            ("SLURM_STEP_ID", "3"),
        ];
        assert_eq!(of(&step), Ok(Some((1, 2, "9.3".into()))));
    }

    #[test]
    fn one_process_is_no_rank_and_neither_is_a_batch_script() {
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")]), Ok(None));
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "16"), ("SLURM_JOB_ID", "9")]), Ok(None));
    }

    #[test]
    fn an_environment_that_makes_no_sense_is_named() {
        for (rank, size, said) in
            [("x", "2", "PMI_RANK is 'x'"), ("2", "2", "rank of 2"), ("0", "0", "PMI_SIZE is '0'")]
        {
            let error = of(&[("PMI_RANK", rank), ("PMI_SIZE", size)]).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("mpirun"), "{error}");
        }
    }

    #[test]
    fn paths_name_rank_and_host() {
        let rank = Rank { number: 3, size: 8, host: "beta".into(), job: String::new() };
        assert_eq!(rank.fill_path(Path::new("/data/{host}/{rank}.bin")), Path::new("/data/beta/3.bin"));
    }
}
