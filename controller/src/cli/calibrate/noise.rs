//! `controller calibrate --runs N`: A/A runs of one arm on one host, and the spread that they show.

use std::time::Duration;

use contracts::api::Secrets;

use crate::cli::measure::{Bench, Led, Named, ready};
use crate::cli::{Context, workload};
use crate::compare::judge::MIN_FLOOR_RUNS;
use crate::compare::noise::{Noise, Uncounted, noise, uncounted};
use crate::compare::{Input, MARGIN, Measured, workload_words};
use crate::exit::{Exit, Refusal, usage};
use crate::out;
use crate::plan::{Plan, REPEAT_MAX};
use crate::record::RunRecord;
use crate::show::Format;
use crate::show::noise::{NoiseView, render};
use crate::store::{FloorKey, NewFloor, Store};

/// How the session of the runs is called.
const LABEL: &str = "noise-floor";

/// Runs of which a refusal says why they are not counted: it is one line.
const REASONS_SHOWN: usize = 2;

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
    Ok((led.outcome.exit != Exit::Interrupted).then_some(led))
}

/// Reads the runs back, stores their spread, and says what it is.
async fn stored(store: &Store, led: &Led) -> anyhow::Result<NoiseView> {
    let mut good = Vec::new();
    let mut bad = Vec::new();
    for run in &led.outcome.runs {
        let run = store.run_by_prefix(&run.run_id).await?;
        let input = Input::of(&run, &store.columns(&run.run_id).await?);
        let measured = Measured {
            run: &run,
            input: &input,
        };
        match uncounted(&measured) {
            Some(why) => bad.push(why),
            None => good.push((run, input)),
        }
    }
    let count = u32::try_from(good.len()).unwrap_or(u32::MAX);
    let newest = match good.last() {
        Some((run, _)) if count >= MIN_FLOOR_RUNS => run.clone(),
        _ => return Err(too_few(count, &bad, led)),
    };
    let measured = good.iter().map(|(run, input)| Measured { run, input });
    let measured: Vec<Measured<'_>> = measured.collect();
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
    let why = bad.iter().take(REASONS_SHOWN);
    let mut why: Vec<String> = why
        .map(|run| format!("run {} {}", run.run_id, run.why))
        .collect();
    if bad.len() > REASONS_SHOWN {
        why.push(format!("and {} more", bad.len() - REASONS_SHOWN));
    }
    let why = why.join("; ");
    Refusal {
        // An agent that refuses, or is lost, is that before it is a lack of runs.
        exit: led.outcome.exit.worse(Exit::Failed),
        message: format!(
            "{count} runs can be counted and a noise floor needs {MIN_FLOOR_RUNS}: nothing is stored; {why}"
        ),
    }
    .into()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::host::HostFacts;
    use contracts::run::{Mode, RunState};

    use super::*;
    use crate::fixtures;
    use crate::record::SessionFacts;
    use crate::run::Outcome;
    use crate::store::NewSession;

    /// A session of `good` runs, and of one more that others disturbed.
    async fn session(store: &Store, good: u32) -> Led {
        let session = NewSession {
            session_id: "01SESSION".to_owned(),
            facts: SessionFacts::default(),
            label: Some(LABEL.to_owned()),
            tags: std::collections::BTreeMap::new(),
            controller_build: "0.1.0".to_owned(),
        };
        store.create_session(&session).await.unwrap();
        let mut runs = Vec::new();
        for place in 0..=good {
            let run = fixtures::run(&format!("01RUN{place}"), "ch02", Mode::Offline);
            let mut ended = fixtures::with_walls(run, &[100.0 + f64::from(place); 20]);
            if place == good {
                ended.run.status.validity.foreign_cpu_during = Some(0.9);
            }
            let mut queued = ended.run.clone();
            queued.status.state = RunState::Queued;
            let host = HostFacts {
                fingerprint: queued.host_fingerprint.clone(),
                hostname: queued.hostname.clone(),
                ..HostFacts::default()
            };
            store.create_run(&queued, &host).await.unwrap();
            let samples = ended.samples.into_iter().map(Ok);
            store.finish_run(&ended.run, samples, &[]).await.unwrap();
            runs.push(ended.run);
        }
        Led {
            session_id: "01SESSION".to_owned(),
            outcome: Outcome {
                runs,
                exit: Exit::Done,
            },
            curves: Vec::new(),
        }
    }

    #[tokio::test]
    async fn the_spread_of_good_runs_is_stored_and_the_others_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("bench.db")).await.unwrap();
        let led = session(&store, 5).await;
        let view = stored(&store, &led).await.unwrap();
        assert_eq!((view.run_count, view.uncounted.len()), (5, 1));
        assert_eq!(view.uncounted[0].run_id, "01RUN5");
        let key = FloorKey::of(&led.outcome.runs[0]);
        let floors = store
            .noise_floors(std::slice::from_ref(&key))
            .await
            .unwrap();
        let wall = view
            .metrics
            .iter()
            .find(|row| row.metric == "wall_ms_p50")
            .unwrap();
        assert_eq!(Some(floors[&key]["wall_ms_p50"].log_sd), wall.log_sd);
        assert_eq!(floors[&key]["wall_ms_p50"].run_count, 5);
        assert!(
            !floors[&key].contains_key("output_tokens"),
            "no spread, no floor"
        );
    }

    #[tokio::test]
    async fn of_too_few_good_runs_nothing_is_stored() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("bench.db")).await.unwrap();
        let led = session(&store, 4).await;
        let error = stored(&store, &led).await.unwrap_err();
        assert_eq!(crate::exit::of(&error), Exit::Failed);
        let words = error.to_string();
        assert!(
            words.contains("4 runs can be counted") && words.contains("01RUN4"),
            "{words}"
        );
        assert!(store.all_noise_floors().await.unwrap().is_empty());
    }
}
