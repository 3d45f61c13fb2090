//! The load generator without the rest of the agent, for `benches/client.py`: a closed loop
//! against a server that runs already, a row for each request. What a run adds to this (the spool,
//! validity, the controller's store) is measured by the script's `ours`.
//!
//! usage: load URL STREAMS REQUESTS TOKENS ROWS_FILE
//!
//! `REQUESTS` counts all, of which the first `STREAMS` are warm-up. Rows are written after the
//! load: what they cost is not the load generator's.

use std::io::Write;

use agent::calibrate::{closed_loop, job};
use agent::load::{Clock, drive_online, event_times};
use anyhow::Context;
use contracts::run::RunSpec;
use contracts::sample::Sample;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// As in a run.
const SAMPLES_QUEUE_MAX: usize = 64;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, streams, requests, tokens, file] = words.as_slice() else {
        anyhow::bail!("usage: load URL STREAMS REQUESTS TOKENS ROWS_FILE");
    };
    let (streams, requests): (u32, u32) = (streams.parse()?, requests.parse()?);
    let warmup = streams.min(requests.saturating_sub(1));
    let spec = closed_loop(url, streams, warmup, requests - warmup, tokens.parse()?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let samples = runtime.block_on(drive(url, &spec))?;
    let mut out = std::io::BufWriter::new(std::fs::File::create(file)?);
    for sample in &samples {
        writeln!(out, "{}", row(sample)?)?;
    }
    Ok(out.flush()?)
}

async fn drive(url: &str, spec: &RunSpec) -> anyhow::Result<Vec<Sample>> {
    let job = job(spec, url)?;
    let (out, mut samples) = mpsc::channel(SAMPLES_QUEUE_MAX);
    let kept = tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Some(sample) = samples.recv().await {
            kept.push(sample);
        }
        kept
    });
    let cancel = CancellationToken::new();
    let end = drive_online(&job, Clock::start(), &out, |_| (), &cancel).await;
    drop(out);
    eprintln!("{:?}", end.outcome);
    kept.await.context("collect the samples")
}

/// What the script compares with the server's log.
fn row(sample: &Sample) -> anyhow::Result<serde_json::Value> {
    let id = sample.text.as_deref().and_then(|text| {
        let word = text.split_whitespace().next()?;
        word.parse::<u64>().ok()
    });
    let times_us = match &sample.event_times {
        Some(times) => event_times::decode(times)?,
        None => Vec::new(),
    };
    let pairs = times_us.iter().zip(times_us.iter().skip(1));
    let gaps_ns: Vec<u64> = pairs.map(|(from, to)| (to - from) * 1000).collect();
    Ok(json!({
        "id": id, "due_ns": sample.due_ns, "start_ns": sample.start_ns, "sent_ns": sample.sent_ns,
        "first_ns": sample.first_content_ns, "done_ns": sample.done_ns, "gaps_ns": gaps_ns,
        "error": sample.error.as_ref().map(|error| error.message.clone()),
    }))
}
