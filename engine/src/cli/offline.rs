//! `engine offline`: the offline worker's descriptors; its story is in [`crate::offline`].

use std::{
    fs::File,
    io::{BufWriter, Read},
    os::fd::RawFd,
};

use contracts::{defaults::BODY_BYTES_MAX, worker::OfflineJob};

use super::{Failure, build_facts, fd};
use crate::offline::{self, OfflineError};

/// A job is one request's body to the agent, and little else.
const JOB_BYTES_MAX: u64 = BODY_BYTES_MAX as u64 + (1 << 20);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Descriptor to read the job from, to its end
    #[arg(long, value_name = "N")]
    job_fd: RawFd,
    /// Descriptor to write one line a request to
    #[arg(long, value_name = "N")]
    report_fd: RawFd,
}

pub(super) fn run(args: Args) -> Result<(), Failure> {
    if args.job_fd == args.report_fd {
        let why = "--job-fd and --report-fd are the same descriptor";
        return Err(Failure::Usage(why.to_owned()));
    }
    let job = fd::adopt(args.job_fd, "--job-fd")?;
    let report = fd::adopt(args.report_fd, "--report-fd")?;
    let job = read_job(File::from(job))?;
    offline::run(job, build_facts(), &mut BufWriter::new(File::from(report))).map_err(|error| {
        match error {
            OfflineError::Engine(error) => error.into(),
            other => Failure::Failed(other.to_string()),
        }
    })
}

fn read_job(file: File) -> Result<OfflineJob, Failure> {
    let mut bytes = Vec::new();
    let bad = |why: String| Failure::Usage(format!("the job on --job-fd: {why}"));
    file.take(JOB_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| bad(error.to_string()))?;
    if bytes.len() as u64 > JOB_BYTES_MAX {
        return Err(bad(format!("larger than {JOB_BYTES_MAX} bytes")));
    }
    serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))
}
