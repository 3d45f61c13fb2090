//! The task beside each keeper: turns its reports into [`Progress`], and reaps it.
//!
//! It lives as long as the keeper and not as long as the [`super::Child`], so neither a dropped
//! child nor a cancelled start leaves a zombie. Acting on the news is left to [`super::child`].

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::watch;

use super::child::{ExitInfo, Progress, Swept, force};
use super::identity::{Identities, ProcessId};
use super::protocol::Report;

/// Starts the task.
pub(super) fn start(
    keeper: tokio::process::Child,
    reports: OwnedReadHalf,
    ids: Identities,
) -> watch::Receiver<Progress> {
    let (tell, progress) = watch::channel(Progress::default());
    tokio::spawn(watch_keeper(keeper, reports, tell, ids));
    progress
}

/// Turns reports into [`Progress`] until the keeper has closed its socket, then reaps it. A keeper
/// that ends without its last report was killed: what it left is ended from here.
async fn watch_keeper(
    mut keeper: tokio::process::Child,
    reports: OwnedReadHalf,
    progress: watch::Sender<Progress>,
    mut ids: Identities,
) {
    let mut lines = BufReader::new(reports).lines();
    while let Ok(Some(text)) = lines.next_line().await {
        match serde_json::from_str(&text) {
            Ok(report) => {
                if let Report::Started { pid } = report {
                    // Gone and reaped already: then no process can match, as it should be.
                    ids.child = ProcessId::of(pid).unwrap_or(ProcessId {
                        pid,
                        start_ticks: 0,
                    });
                }
                progress.send_modify(|now| note(now, report, ids.child));
            }
            Err(error) => tracing::warn!("a report of the keeper can't be read: {error}"),
        }
    }
    if let Err(error) = keeper.wait().await {
        tracing::warn!("the keeper could not be waited for: {error}");
    }
    let known = progress.borrow().clone();
    if let (Some(Ok(_)), None) = (&known.started, known.swept) {
        // Its child got the parent death signal; the mark finds what escaped.
        let clean = force(ids).await;
        progress.send_modify(|now| {
            now.exit.get_or_insert(ExitInfo::default());
            now.swept = Some(Swept {
                killed: true,
                swept: 0,
                clean,
            });
        });
    }
    progress.send_modify(|now| now.gone = true);
}

fn note(now: &mut Progress, report: Report, child: ProcessId) {
    match report {
        Report::Started { .. } => now.started = Some(Ok(child)),
        Report::Failed { message } => now.started = Some(Err(message)),
        Report::Exited {
            code,
            signal,
            rss_bytes_max,
        } => {
            now.exit = Some(ExitInfo { code, signal });
            now.rss_bytes_max = Some(rss_bytes_max);
        }
        Report::Swept {
            killed,
            swept,
            clean,
        } => {
            now.swept = Some(Swept {
                killed,
                swept,
                clean,
            });
        }
    }
}
