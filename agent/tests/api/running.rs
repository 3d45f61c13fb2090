//! Runs that go well: both modes, both chapters, another build, one after the other.

use std::collections::HashSet;

use contracts::host::HostInfo;
use contracts::run::{CacheState, EngineRef, Length, Mode, PromptSource, RunState};
use contracts::sample::{Sample, TimingSource};
use sha2::{Digest, Sha256};

use crate::fixture::{EXE, Home, error_of, fake, spec, start_run};

/// Those that users see.
const CHAPTERS: [&str; 6] = ["ch01", "ch02", "ch03", "ch04", "ch05", "ch09"];

fn samples_of(text: &str) -> Vec<Sample> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn all_chapters_in_both_modes_give_the_same_tokens() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let mut tokens = Vec::new();
    for mode in [Mode::Offline, Mode::Online] {
        for chapter in CHAPTERS {
            let status = agent.run(&spec(chapter, mode)).await;
            assert_eq!(status.state, RunState::Done, "{status:?}");
            let provenance = status.provenance.as_ref().unwrap();
            assert_eq!(provenance.model.as_ref().unwrap().family, "llama");
            assert!(provenance.engine_binary_sha256.is_some() && provenance.engine_build.is_some());
            assert!(status.lifecycle.ready_ms.is_some() && status.lifecycle.stop_ms.is_some());
            assert_eq!(status.lifecycle.exit.as_deref(), Some("exit status 0"));

            let text = agent.samples(&status.run_id, "").await;
            let totals = status.samples.as_ref().unwrap();
            assert_eq!(hex::encode(Sha256::digest(&text)), totals.sha256);
            let samples = samples_of(&text);
            assert_eq!((samples.len(), totals.count), (4, 4));
            assert!(samples.iter().all(|sample| sample.error.is_none()));
            assert!(samples.iter().all(|sample| sample.output_tokens == Some(6)));
            let timed = samples.iter().all(|sample| sample.ttft_ms.is_some());
            assert_eq!(timed, chapter != "ch01", "{chapter} {mode:?}");
            if timed && mode == Mode::Online {
                assert_eq!(samples[1].timing_source, Some(TimingSource::Client));
            }
            tokens.push((
                samples[1].input_ids_sha256.clone(),
                samples[1].output_ids.clone(),
            ));
        }
    }
    assert!(tokens[0].0.is_some() && tokens[0].1.is_some());
    assert!(tokens.iter().all(|each| *each == tokens[0]), "{tokens:?}");
    let left = home.processes();
    assert_eq!(left, [agent.pid()], "only the agent is left");
}

#[tokio::test]
async fn made_prompts_are_the_same_offline_and_online_and_as_long_as_planned() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let mut inputs = Vec::new();
    for (mode, salt) in [
        (Mode::Offline, "a"),
        (Mode::Online, "a"),
        (Mode::Online, "b"),
    ] {
        let mut spec = spec("ch02", mode);
        spec.workload.prompts = PromptSource::Synthetic {
            input: Length::Uniform {
                low_tokens: 40,
                high_tokens: 60,
            },
            output: Some(Length::Uniform {
                low_tokens: 2,
                high_tokens: 6,
            }),
            prefix: None,
        };
        spec.workload.cache = CacheState::Cold;
        spec.salt = salt.to_owned();
        let status = agent.run(&spec).await;
        assert_eq!(status.state, RunState::Done, "{status:?}");
        let samples = samples_of(&agent.samples(&status.run_id, "").await);
        for sample in &samples {
            assert!(sample.planned_input_tokens.is_some());
            assert_eq!(sample.input_tokens, sample.planned_input_tokens);
            assert_eq!(sample.output_tokens, Some(sample.requested_tokens));
        }
        let hashes: Vec<_> = samples
            .into_iter()
            .map(|sample| (sample.input_ids_sha256.unwrap(), sample.requested_tokens))
            .collect();
        let distinct: HashSet<_> = hashes.iter().map(|(hash, _)| hash).collect();
        assert_eq!(distinct.len(), 4);
        inputs.push(hashes);
    }
    assert_eq!(inputs[0], inputs[1]);
    assert!(
        inputs[1]
            .iter()
            .zip(&inputs[2])
            .all(|(a, b)| a.0 != b.0 && a.1 == b.1)
    );
}

#[tokio::test]
async fn samples_come_in_pages_that_add_up() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let status = agent.run(&fake(Mode::Offline, &[])).await;
    let whole = agent.samples(&status.run_id, "").await;
    let mut pages = String::new();
    for from in 0..5 {
        let page = agent
            .samples(&status.run_id, &format!("?from={from}&limit=1"))
            .await;
        assert_eq!(page.lines().count(), usize::from(from < 4));
        pages += &page;
    }
    assert_eq!(pages, whole);
    let asked = agent.get(&format!("/v1/runs/{}/samples?limit=x", status.run_id));
    error_of(asked.send().await.unwrap(), 400).await;
}

#[tokio::test]
async fn another_build_that_the_config_names_runs_in_both_modes() {
    let home = Home::new();
    let engines = home.path("engines.toml");
    std::fs::write(
        &engines,
        format!("[engine.other]\nkind = 'chapterbench'\npath = '{EXE}'\n"),
    )
    .unwrap();
    let agent = home.agent(&["--engines", engines.to_str().unwrap()]);
    let host: HostInfo = agent
        .get("/v1/host")
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(host.engines[0].name, "other");
    let sha256 = host.engines[0].binary_sha256.clone().unwrap();
    for mode in [Mode::Offline, Mode::Online] {
        let mut named = fake(mode, &[]);
        let chapter = Some("fake".to_owned());
        named.arm.engine = EngineRef::Named {
            name: "other".to_owned(),
            chapter,
        };
        let status = agent.run(&named).await;
        assert_eq!(status.state, RunState::Done, "{status:?}");
        let provenance = status.provenance.unwrap();
        assert_eq!(provenance.engine_binary_sha256.as_ref(), Some(&sha256));
        assert!(provenance.engine_build.is_some());
    }
}

#[tokio::test]
async fn the_host_says_who_it_is_and_a_check_starts_nothing() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let host: HostInfo = agent
        .get("/v1/host")
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(host.protocol, contracts::PROTOCOL);
    assert_eq!((host.busy_with, host.quarantine), (None, None));
    let ids: Vec<&str> = host
        .chapters
        .iter()
        .map(|chapter| chapter.id.as_str())
        .collect();
    assert_eq!(ids, [&CHAPTERS[..], &["fake"]].concat());
    assert!(!host.host.fingerprint.is_empty());

    let body = contracts::api::CheckRequest {
        spec: spec("ch01", Mode::Online),
        with_binary: true,
    };
    let answer = agent.post("/v1/check").json(&body).send().await.unwrap();
    let answer: contracts::api::CheckAnswer = answer.json().await.unwrap();
    assert_eq!(answer.model, contracts::defaults::MODEL);
    assert_eq!(answer.engine_binary_sha256.map(|hash| hash.len()), Some(64));
    let list = agent
        .get("/v1/runs")
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert_eq!(list, r#"{"runs":[]}"#);
}

#[tokio::test]
async fn a_start_is_idempotent_also_after_the_run() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let request = start_run(&fake(Mode::Offline, &[("ttft_ms", "50")]));
    let id = request.run_id.clone();
    for _ in 0..2 {
        let answer = agent.post("/v1/runs").json(&request).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 202);
        let status: contracts::run::RunStatus = answer.json().await.unwrap();
        assert_eq!(status.run_id, id);
        agent.wait_final(&id).await;
    }
    let log = agent.status(&id).await;
    assert_eq!((log.state, log.samples.unwrap().count), (RunState::Done, 4));

    let mut other = request.clone();
    other.spec.workload.n_runs = 5;
    let error = error_of(
        agent.post("/v1/runs").json(&other).send().await.unwrap(),
        409,
    )
    .await;
    assert_eq!(error.code, contracts::api::ErrorCode::Conflict);

    // Acknowledged: gone, and gone again.
    for _ in 0..2 {
        let answer = agent
            .delete(&format!("/v1/runs/{id}"))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status().as_u16(), 204);
    }
    error_of(
        agent.get(&format!("/v1/runs/{id}")).send().await.unwrap(),
        404,
    )
    .await;
    assert!(
        !home
            .path("state/chapterbench/agent/runs")
            .join(&id)
            .exists()
    );
}
