//! Ends what a dead agent left: whole lines are kept, the run is failed with the stage it was in.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};

use contracts::run::{EventKind, RunFailure, RunState, RunStatus, SampleTotals, Stage};
use sha2::{Digest, Sha256};

use super::{RunFolder, RunId, Spool};

impl Spool {
    /// Goes through all runs. Those without a final state are failed, in the stage that their events
    /// or `current` (the run that a dead agent had in progress) tell. Folders that were never accepted go.
    /// Returns the ids of the runs it failed.
    pub fn recover(
        &self,
        current: Option<(&str, Stage)>,
        now_unix_ms: i64,
    ) -> io::Result<Vec<RunId>> {
        let mut failed = Vec::new();
        for id in self.ids()? {
            let status = match self.status(&id) {
                Ok(Some(status)) => status,
                Ok(None) => {
                    self.remove(&id)?;
                    continue;
                }
                Err(error) => {
                    // Kept for a person: it may hold what was measured.
                    tracing::error!(run = %id, %error, "a spooled run cannot be read");
                    continue;
                }
            };
            if !status.state.is_final() {
                let noted = current
                    .filter(|(run, _)| *run == id.as_str())
                    .map(|(_, stage)| stage);
                let stage = self.stage_reached(&id, &status, noted.unwrap_or(Stage::Preflight))?;
                self.fail(&id, status, stage, now_unix_ms)?;
                failed.push(id);
            }
        }
        Ok(failed)
    }

    /// `noted` when the child was started, or what the run's events tell of the time after that.
    fn stage_reached(&self, id: &RunId, status: &RunStatus, noted: Stage) -> io::Result<Stage> {
        let events = self.events(id, status, 0)?;
        let told = events.iter().rev().find_map(|event| match event.what {
            EventKind::State {
                state: RunState::Warming,
            } => Some(Stage::Warmup),
            EventKind::State {
                state: RunState::Measuring,
            } => Some(Stage::Measure),
            EventKind::State {
                state: RunState::Stopping,
            } => Some(Stage::Stop),
            _ => None,
        });
        Ok(told.unwrap_or(noted))
    }

    fn fail(
        &self,
        id: &RunId,
        mut status: RunStatus,
        stage: Stage,
        now_unix_ms: i64,
    ) -> io::Result<()> {
        let folder = self.folder(id);
        status.samples = Some(folder.count_samples()?);
        status.state = RunState::Failed;
        status.ended_unix_ms = Some(now_unix_ms);
        status.failure = Some(RunFailure {
            stage,
            message: format!("the agent ended during {}", stage_word(stage)),
            log_tail: folder.log_tail(),
        });
        folder.save(&status)
    }
}

impl RunFolder {
    /// Cuts a torn last line off, then counts and hashes what is there.
    pub fn count_samples(&self) -> io::Result<SampleTotals> {
        let mut totals = SampleTotals {
            count: 0,
            sha256: String::new(),
        };
        let mut hash = Sha256::new();
        let path = self.samples_file();
        if path.exists() {
            let file = File::options().read(true).write(true).open(&path)?;
            let mut reader = BufReader::new(&file);
            let mut line = Vec::new();
            let mut kept_bytes = 0;
            while reader.read_until(b'\n', &mut line)? > 0 {
                if line.last() != Some(&b'\n')
                    || serde_json::from_slice::<serde_json::Value>(&line).is_err()
                {
                    break;
                }
                hash.update(&line);
                totals.count += 1;
                kept_bytes += line.len() as u64;
                line.clear();
            }
            file.set_len(kept_bytes)?;
            file.sync_all()?;
        }
        totals.sha256 = hex::encode(hash.finalize());
        Ok(totals)
    }

    fn log_tail(&self) -> Vec<String> {
        let bytes = fs::read(self.log_file()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let first = lines
            .len()
            .saturating_sub(contracts::defaults::LOG_TAIL_LINES);
        lines
            .iter()
            .skip(first)
            .map(|line| (*line).to_owned())
            .collect()
    }
}

/// As messages name a stage.
pub fn stage_word(stage: Stage) -> &'static str {
    match stage {
        Stage::Preflight => "preflight",
        Stage::Spawn => "spawn",
        Stage::Load => "load",
        Stage::Warmup => "warm-up",
        Stage::Measure => "measuring",
        Stage::Stop => "stop",
    }
}
