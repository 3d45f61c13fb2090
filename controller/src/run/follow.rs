//! Following a run on an agent to its end: events in order, over lost connections, and a cancel on
//! the way where the user asks for it.

use std::time::Duration;

use contracts::run::{EventKind, RunEvent, RunStatus};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::fleet::{AgentClient, FleetError};

/// First pause after a lost connection; doubled up to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LONGEST: Duration = Duration::from_secs(5);
/// An agent that does not answer for this long is lost; its run may well go on there.
const LOST_AFTER: Duration = Duration::from_secs(60);
/// Beyond the run's own grace: time for sweeping, and for the last samples to reach the disk.
const CANCEL_SLACK: Duration = Duration::from_secs(20);
/// How often a cancel that was not answered is sent, and the first pause, which doubles: Ctrl-C must
/// not leave a run behind for one lost packet.
const CANCEL_TRIES: u32 = 3;
const CANCEL_PAUSE: Duration = Duration::from_millis(500);
/// Events kept of one run: a child that floods its log must not fill our memory.
const EVENTS_MAX: usize = 20_000;

/// A run at its end.
pub struct Followed {
    /// Its last status, in a final state.
    pub status: RunStatus,
    /// Its story, without progress.
    pub events: Vec<RunEvent>,
}

/// Follows a run until it is final; `seen` gets each event once.
///
/// When `interrupt` is set the run is cancelled there, and followed to that end for a bounded time.
///
/// # Errors
/// The agent is lost, or does not know the run.
pub async fn follow(
    client: &AgentClient,
    run_id: &str,
    interrupt: &CancellationToken,
    seen: impl FnMut(&RunEvent),
) -> Result<Followed, FleetError> {
    let mut follower = Follower {
        client,
        run_id,
        seen,
        after: 0,
        events: Vec::new(),
        heard: Instant::now(),
    };
    tokio::select! {
        // A run that is over is over, even when Ctrl-C came in the same moment.
        biased;
        done = follower.until_final() => return done.map(|status| follower.finish(status)),
        () = interrupt.cancelled() => {}
    }
    let status = follower.cancel().await?;
    // An agent that does not tell has what the spec says.
    let grace_ms = status.lifecycle.grace_ms;
    let grace = Duration::from_millis(grace_ms.unwrap_or(status.spec.limits.stop_grace_ms));
    match tokio::time::timeout(grace + CANCEL_SLACK, follower.until_final()).await {
        Ok(done) => done.map(|status| follower.finish(status)),
        Err(_) => Err(FleetError::Unreachable {
            name: client.name().to_owned(),
            url: client.url().to_owned(),
            why: format!("run {run_id} does not end; `controller resume` collects it when it has"),
        }),
    }
}

struct Follower<'a, F> {
    client: &'a AgentClient,
    run_id: &'a str,
    seen: F,
    after: u64,
    events: Vec<RunEvent>,
    /// When the agent last answered anything.
    heard: Instant,
}

impl<F: FnMut(&RunEvent)> Follower<'_, F> {
    /// Cancel-safe: what was seen stays seen, and a new call goes on after it.
    async fn until_final(&mut self) -> Result<RunStatus, FleetError> {
        self.heard = Instant::now();
        let mut pause = PAUSE_FIRST;
        loop {
            let before = self.after;
            let error = match self.stream().await {
                // The stream ends with the run, or with the agent.
                Ok(()) => match self.client.status(self.run_id).await {
                    Ok(status) if status.state.is_final() => return Ok(status),
                    Ok(_) => None,
                    Err(error) => Some(error),
                },
                Err(error) => Some(error),
            };
            match error {
                Some(error @ (FleetError::Api { .. } | FleetError::BadAnswer { .. })) => {
                    return Err(error);
                }
                Some(error) if self.heard.elapsed() > LOST_AFTER => return Err(self.lost(error)),
                Some(_) => {}
                None => self.heard = Instant::now(),
            }
            if self.after > before {
                pause = PAUSE_FIRST;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_LONGEST);
        }
    }

    /// Orders the run to end.
    async fn cancel(&self) -> Result<RunStatus, FleetError> {
        let mut pause = CANCEL_PAUSE;
        for _ in 1..CANCEL_TRIES {
            match self.client.cancel(self.run_id).await {
                Err(FleetError::Unreachable { .. }) => {}
                answer => return answer,
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        let answer = self.client.cancel(self.run_id).await;
        answer.map_err(|error| self.lost(error))
    }

    async fn stream(&mut self) -> Result<(), FleetError> {
        let mut stream = self.client.events(self.run_id, self.after).await?;
        while let Some(events) = stream.next().await? {
            self.heard = Instant::now();
            for event in events {
                self.take(event);
            }
        }
        Ok(())
    }

    fn take(&mut self, event: RunEvent) {
        if event.seq <= self.after {
            return;
        }
        self.after = event.seq;
        (self.seen)(&event);
        let keep = match event.what {
            EventKind::Progress { .. } => false,
            EventKind::Log { .. } => self.events.len() < EVENTS_MAX,
            EventKind::State { .. } | EventKind::Warning { .. } => true,
        };
        if keep {
            self.events.push(event);
        }
    }

    fn lost(&self, error: FleetError) -> FleetError {
        match error {
            FleetError::Unreachable { name, url, why } => FleetError::Unreachable {
                name,
                url,
                why: format!(
                    "{why}; run {} may go on there: `controller resume` collects it",
                    self.run_id
                ),
            },
            other => other,
        }
    }

    fn finish(self, status: RunStatus) -> Followed {
        Followed {
            status,
            events: self.events,
        }
    }
}
