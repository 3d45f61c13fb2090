//! `controller calibrate --runs N`: A/A runs of one arm on one host, and the spread that they show.

use std::time::Duration;

use contracts::api::Secrets;

use crate::cli::measure::{Bench, Led, Named, ready};
use crate::cli::{Context, workload};
use crate::compare::judge::MIN_FLOOR_RUNS;
use crate::compare::noise::{Noise, Uncounted, noise, uncounted};
use crate::compare::{MARGIN, Measured, workload_words};
use crate::exit::{Exit, Refusal, usage};
use crate::out;
use crate::plan::{Plan, REPEAT_MAX};
use crate::record::RunRecord;
use crate::show::Format;
use crate::show::noise::{NoiseView, render};
use crate::store::{FloorKey, NewFloor, Store};

/// How the session of the runs is called.
const LABEL: &str = "noise-floor";

/// Runs, stores and prints.
///
/// # Errors
/// Usage; agents; the database; too few runs that can be counted.
pub async fn run(
    context: &Context,
    runs: u32,
    asked: workload::AskedArgs,
    names: &[String],
    format: Format,
) -> anyhow::Result<Exit> {
    if !(MIN_FLOOR_RUNS..=REPEAT_MAX).contains(&runs) {
        return Err(usage(format!(
            "--runs {runs}: give {MIN_FLOOR_RUNS} to {REPEAT_MAX}; of fewer than {MIN_FLOOR_RUNS} the spread itself is hardly known"
        )));
    }
    let asked = workload::asked(&context.config, asked)?;
    let mut request = asked.request;
    request.repeat = runs;
    let wait = Duration::from_millis(request.limits.device_wait_ms);
    let plan = ready(request, &Secrets::default(), names)?;
    one_arm(&plan)?;
    let Some(bench) = Bench::open(context, names, wait, false).await? else {
        return Ok(Exit::Interrupted);
    };
    if let Some(note) = &asked.note {
        bench.console.note(note);
    }
    let led = led(&bench, &plan).await;
    let store = bench.release().await;
    let Some(led) = led? else {
        return Ok(Exit::Interrupted);
    };
    let view = stored(&store, &led).await;
    store.close().await;
    out::print(&render(&view?, format)?)?;
    Ok(Exit::Done)
}

/// What differs between runs must be noise and nothing else.
fn one_arm(plan: &Plan) -> anyhow::Result<()> {
    let arms = plan.arms.len();
    if arms != 1 {
        return Err(usage(format!(
            "calibrate --runs: these are {arms} arms; name one chapter or engine and one --mode"
        )));
    }
    let loads = plan.request.loads.len();
    if loads != 1 {
        return Err(usage(format!(
            "calibrate --runs: these are {loads} loads; name one --concurrency or --rate"
        )));
    }
    Ok(())
}

/// None if the user interrupted.
async fn led(bench: &Bench, plan: &Plan) -> anyhow::Result<Option<Led>> {
    if bench.check(plan).await?.is_none() {
        return Ok(None);
    }
    let named = Named {
        label: Some(LABEL.to_owned()),
        ..Named::default()
    };
    let led = bench.lead(plan, None, Secrets::default(), named).await?;
    Ok((!bench.interrupted()).then_some(led))
}

/// Reads the runs back, stores their spread, and says what it is.
async fn stored(store: &Store, led: &Led) -> anyhow::Result<NoiseView> {
    let mut good = Vec::new();
    let mut bad = Vec::new();
    for run in &led.outcome.runs {
        let loaded = store.with_figures(run.clone()).await?;
        match uncounted(&Measured::of(&loaded)) {
            Some(why) => bad.push(why),
            None => good.push(loaded),
        }
    }
    let count = u32::try_from(good.len()).unwrap_or(u32::MAX);
    let newest = match good.last() {
        Some(run) if count >= MIN_FLOOR_RUNS => run.run.clone(),
        _ => return Err(too_few(count, &bad, led)),
    };
    let measured: Vec<Measured<'_>> = good.iter().map(Measured::of).collect();
    let metrics = noise(&measured, MARGIN);
    let view = view(&newest, count, metrics, bad);
    let floors = view.metrics.iter().filter_map(|noise| {
        let floor = noise.floor(count, view.measured_unix_ms)?;
        Some((noise.metric.clone(), floor))
    });
    let new = NewFloor {
        key: FloorKey::of(&newest),
        session_id: led.session_id.clone(),
        metrics: floors.collect(),
    };
    store.set_noise_floor(&new).await?;
    Ok(view)
}

fn view(
    run: &RunRecord,
    run_count: u32,
    metrics: Vec<Noise>,
    uncounted: Vec<Uncounted>,
) -> NoiseView {
    let provenance = run.status.provenance.as_ref();
    NoiseView {
        agent: run.agent_name.clone(),
        hostname: run.hostname.clone(),
        host_fingerprint: run.host_fingerprint.clone(),
        engine: run.engine.clone(),
        build: provenance.and_then(|p| p.engine_build.clone()),
        mode: run.status.spec.arm.mode,
        workload_key: run.workload_key.clone(),
        workload: workload_words(&run.status.spec.workload),
        session_id: run.session_id.clone(),
        run_count,
        measured_unix_ms: crate::now_unix_ms(),
        margin: MARGIN,
        metrics,
        uncounted,
    }
}

fn too_few(count: u32, bad: &[Uncounted], led: &Led) -> anyhow::Error {
    let why = bad
        .iter()
        .map(|run| format!("run {}: {}", run.run_id, run.why));
    let why: Vec<String> = why.collect();
    let why = if why.is_empty() {
        String::new()
    } else {
        format!(" ({})", why.join("; "))
    };
    Refusal {
        // An agent that refuses, or is lost, is that before it is a lack of runs.
        exit: led.outcome.exit.worse(Exit::Failed),
        message: format!(
            "{count} runs can be counted and a noise floor needs {MIN_FLOOR_RUNS}: nothing is stored{why}"
        ),
    }
    .into()
}
