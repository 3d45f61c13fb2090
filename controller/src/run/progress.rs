//! What people see while runs go on: bars on a terminal, plain lines elsewhere, all on stderr; and
//! each run's table on stdout as it ends.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use contracts::run::{EventKind, Load, RunEvent, RunState};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::record::{RunRecord, RunWithSamples};
use crate::{out, show, words};

/// How often a bar is redrawn: this must cost a measured host nothing.
const REDRAW_HZ: u8 = 4;
/// Longer labels would push the estimate off an 80 column line.
const LABEL_WIDTH: usize = 34;

/// Where results and progress go.
pub struct Console {
    bars: MultiProgress,
    terminal: bool,
    /// Tables are printed as runs end; other formats print one document at the end.
    tables: bool,
}

impl Console {
    /// Bars if stderr is a terminal.
    pub fn new(tables: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let target = if terminal {
            ProgressDrawTarget::stderr_with_hz(REDRAW_HZ)
        } else {
            ProgressDrawTarget::hidden()
        };
        Self {
            bars: MultiProgress::with_draw_target(target),
            terminal,
            tables,
        }
    }

    /// A line on stderr, above the bars.
    pub fn note(&self, line: &str) {
        let line = out::harmless(line);
        // Nothing is left to say where stderr is closed.
        self.bars
            .suspend(|| drop(writeln!(std::io::stderr(), "{line}")));
    }

    /// Shows how a run ended: its table, and on stderr why it failed with the child's last words.
    ///
    /// # Errors
    /// The table could not be printed; the rest is shown all the same.
    pub fn show_run(&self, run: &RunWithSamples) -> anyhow::Result<()> {
        let mut printed = Ok(());
        if self.tables {
            let table = format!("{}\n", show::session::run_text(run));
            // Above the bars.
            printed = self.bars.suspend(|| crate::out::print(&table));
        }
        let run = &run.run;
        let mode = words::mode(run.status.spec.arm.mode);
        let what = format!(
            "run {} ({} {mode} on {})",
            run.run_id, run.engine, run.agent_name
        );
        match (&run.status.failure, run.status.state) {
            (Some(failure), state) => {
                let stage = words::stage(failure.stage);
                let verb = if state == RunState::Cancelled {
                    "cancelled"
                } else {
                    "failed"
                };
                self.note(&format!(
                    "{what} {verb} in stage {stage}: {}",
                    failure.message
                ));
                for line in &failure.log_tail {
                    self.note(&format!("  | {line}"));
                }
            }
            (None, RunState::Cancelled) => self.note(&format!("{what} cancelled")),
            (None, _) => {}
        }
        printed
    }

    /// A bar, or plain lines, for one agent; `runs` is none where nobody knows how many there will
    /// be.
    pub fn line(&self, agent: &str, runs: Option<usize>) -> Line {
        let bar = self.bars.add(ProgressBar::new(0));
        let style = ProgressStyle::with_template("{prefix} {bar:20} {pos}/{len} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        Line {
            bar,
            bars: self.bars.clone(),
            plain: !self.terminal,
            agent: agent.to_owned(),
            label: String::new(),
            stage: "queued",
            runs,
            ended: 0,
            spent: Duration::ZERO,
            began: Instant::now(),
            span: None,
            measuring: None,
        }
    }
}

/// How one agent gets on.
pub struct Line {
    bar: ProgressBar,
    bars: MultiProgress,
    plain: bool,
    agent: String,
    label: String,
    stage: &'static str,
    runs: Option<usize>,
    ended: usize,
    spent: Duration,
    began: Instant,
    /// How long the run sends, where time decides and not a count.
    span: Option<Duration>,
    /// When it began to measure.
    measuring: Option<Instant>,
}

impl Line {
    /// A run is about to be sent.
    pub fn begin(&mut self, run: &RunRecord) {
        self.began = Instant::now();
        self.measuring = None;
        let spec = &run.status.spec;
        self.span = spec.workload.duration_ms.map(Duration::from_millis);
        let place = match self.runs {
            Some(runs) => format!("{}/{runs}", self.ended + 1),
            None => format!("{}", self.ended + 1),
        };
        let mode = words::mode(spec.arm.mode);
        let load = match &spec.workload.load {
            Load::Closed { concurrency: 1 } => String::new(),
            load => format!(", {}", words::load(load)),
        };
        self.label = format!("{} {place} {} {mode}{load}", self.agent, run.called());
        self.bar
            .set_prefix(format!("{:LABEL_WIDTH$.LABEL_WIDTH$}", self.label));
        self.bar.set_position(0);
        self.bar.set_length(0);
        self.say("sent");
    }

    /// An event of the run.
    pub fn event(&mut self, event: &RunEvent) {
        match &event.what {
            EventKind::State { state } => {
                if *state == RunState::Measuring {
                    self.measuring = Some(Instant::now());
                }
                self.say(words::state(*state));
            }
            EventKind::Progress { done, total } => self.progress(*done, *total),
            EventKind::Warning { .. } | EventKind::Log { .. } => {}
        }
    }

    /// By time where time ends the run, else by requests.
    fn progress(&mut self, done: u64, total: u64) {
        let (done, total) = match (self.span, self.measuring) {
            (Some(span), Some(since)) => (since.elapsed().min(span).as_secs(), span.as_secs()),
            _ => (done, total),
        };
        self.bar.set_length(total);
        self.bar.set_position(done);
        self.bar.set_message(self.message(done, total));
    }

    /// The run is stored.
    pub fn end(&mut self) {
        self.ended += 1;
        self.spent += self.began.elapsed();
    }

    /// The host rests before its next run. That counts in what the runs to come are taken to take.
    pub fn pause(&mut self, pause: Duration) {
        self.spent += pause;
        self.measuring = None;
        self.began = Instant::now();
        self.bar.set_length(0);
        self.bar.set_position(0);
        self.say("cooling down");
    }

    /// Nothing more comes from this agent.
    pub fn close(&self) {
        self.bar.finish_and_clear();
    }

    fn say(&mut self, stage: &'static str) {
        self.stage = stage;
        self.bar.set_message(self.message(0, 0));
        if self.plain {
            let line = format!("{}: {}", self.label, self.message(0, 0));
            self.bars
                .suspend(|| drop(writeln!(std::io::stderr(), "{line}")));
        }
    }

    fn message(&self, done: u64, total: u64) -> String {
        match self.left(done, total) {
            Some(left) => format!("{}, about {}s left", self.stage, left.as_secs().max(1)),
            None => self.stage.to_owned(),
        }
    }

    /// What is left: the mean of the runs so far for each run to come; before the first has ended,
    /// the share of this one.
    fn left(&self, done: u64, total: u64) -> Option<Duration> {
        let now = self.began.elapsed();
        let to_come = self.runs?.saturating_sub(self.ended);
        let to_come = u32::try_from(to_come).ok()?;
        if let Some(ended) = u32::try_from(self.ended).ok().filter(|ended| *ended > 0) {
            return Some((self.spent / ended * to_come).saturating_sub(now));
        }
        if done == 0 || self.measuring.is_none() {
            return None;
        }
        let whole = now.mul_f64(total as f64 / done as f64);
        Some((whole * to_come).saturating_sub(now))
    }
}
