//! Many requests on many connections take no more memory than few do.

use agent::load::{DriveOutcome, drive_online};
use contracts::run::Load;
use contracts::sample::Sample;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::queueing::Queueing;
use crate::support::job;

const STREAMS: u32 = 200;
/// What the process may grow by over 5,000 requests: 3 KB each would be kept. A sample alone has
/// more than 1 KB, its text and its events apart.
const GROWTH_BYTES_MAX: u64 = 16 << 20;

fn rss_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

async fn requests(server: &Queueing, n: u32) {
    let mut job = job(&server.url, STREAMS, n);
    job.load = Load::Closed {
        concurrency: STREAMS,
    };
    let (out, mut samples) = mpsc::channel::<Sample>(64);
    let cancel = CancellationToken::new();
    let count = async move {
        let mut count = 0;
        while let Some(sample) = samples.recv().await {
            assert_eq!(sample.error, None);
            count += 1;
        }
        count
    };
    let driven = async {
        let end = drive_online(&job, server.clock, &out, |_| (), &cancel).await;
        drop(out);
        end
    };
    let (end, count) = tokio::join!(driven, count);
    assert_eq!(end.outcome, DriveOutcome::Done);
    assert_eq!(count, STREAMS + n);
}

/// Alone in a process of its own: other tests take memory too.
#[test]
fn nothing_of_a_request_is_kept() {
    let alone = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "drive_memory::alone"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&alone.stdout);
    assert!(
        alone.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by the test above"]
async fn alone() {
    let server = Queueing::forgetful(STREAMS as usize).await;
    // Buffers, arenas and threads of a first run stay.
    requests(&server, 1_000).await;
    let before = rss_bytes();
    requests(&server, 5_000).await;
    let grown = rss_bytes().saturating_sub(before);
    assert!(grown <= GROWTH_BYTES_MAX, "{grown} bytes more");
}
