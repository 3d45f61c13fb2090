//! What is read of a run: all, figures only, how long its like took.

use contracts::run::{Mode, RunState};
use controller::store::{StoreError, Stored};

use crate::fixtures::*;

#[tokio::test]
async fn figures_leave_out_what_they_do_not_need() {
    let folder = tempfile::tempdir().unwrap();
    let (store, run) = with_run(&folder.path().join("bench.db"), "01RUN").await;
    let run = ended(run);
    let mut stored = samples();
    // 50 ms to the first event, then gaps of 10 and 12 ms.
    let bytes: Vec<u8> = [50_000u32, 10_000, 12_000]
        .iter()
        .flat_map(|delta| delta.to_le_bytes())
        .collect();
    let blob = zstd::bulk::compress(&bytes, 1).unwrap();
    let times = stored[1].event_times.as_mut().unwrap();
    times.base64 = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, blob);
    store
        .finish_run(&run, ok(stored.clone()), &[])
        .await
        .unwrap();

    let full = store.with_samples(run.clone()).await.unwrap();
    assert_eq!(full.samples, stored);
    let light = store.with_figures(run).await.unwrap();
    assert_eq!(light.gaps, full.gaps);
    assert_eq!(light.gaps.mean_ms(), Some(11.0));
    let (one, whole) = (&light.samples[1], &stored[1]);
    assert_eq!(
        (&one.text, &one.output_ids, &one.event_times),
        (&None, &None, &None)
    );
    assert_eq!(
        (one.wall_ms, one.released_ns),
        (whole.wall_ms, whole.released_ns)
    );
    assert_eq!(light.samples[2].error, stored[2].error);

    let mut seen = Vec::new();
    let stopped = store
        .each_sample("01RUN", |sample| {
            seen.push((sample.warmup, sample.index));
            if seen.len() == 2 {
                return Err(std::io::ErrorKind::BrokenPipe.into());
            }
            Ok(())
        })
        .await;
    assert!(matches!(stopped, Err(StoreError::Taken(_))), "{stopped:?}");
    assert_eq!(seen, [(true, 0), (false, 0)]);
}

#[tokio::test]
async fn the_newest_run_of_the_same_work_says_how_long_it_took() {
    let folder = tempfile::tempdir().unwrap();
    let (store, run) = with_run(&folder.path().join("bench.db"), "01RUN").await;
    let past = |agent: &'static str, key: &'static str| {
        let store = store.clone();
        async move {
            let past = store.past_run_ms(agent, "ch02", Mode::Online, key);
            past.await.unwrap()
        }
    };
    assert_eq!(past("box", "beef").await, None);
    let mut run = ended(run);
    store.finish_run(&run, ok(Vec::new()), &[]).await.unwrap();
    assert_eq!(past("box", "beef").await, None, "a failed run says nothing");
    for (id, created, took) in [("01B", 3, 90), ("01C", 2, 70)] {
        run = queued(id, "01SESSION");
        run.created_unix_ms = created;
        store.create_run(&run, &host()).await.unwrap();
        let mut done = ended(run);
        done.status.state = RunState::Done;
        done.status.ended_unix_ms = Some(5 + took);
        let stored = store.finish_run(&done, ok(Vec::new()), &[]).await;
        assert_eq!(stored.unwrap(), Stored::Now);
    }
    assert_eq!(past("box", "beef").await, Some(90));
    assert_eq!(past("other", "beef").await, None);
    assert_eq!(past("box", "dead").await, None);
}
