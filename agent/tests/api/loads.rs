//! Runs under load: what is stored of a measurement with more than one request at a time.

use contracts::run::{Arrival, Load, Mode, RunState, Soundness};
use contracts::sample::Sample;

use crate::fixture::{Home, fake};

/// The fake chapter takes one request at a time, 100 ms each: ten a second.
#[tokio::test]
async fn a_run_that_offers_more_than_is_achieved_says_so() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let mut spec = fake(Mode::Online, &[("ttft_ms", "100")]);
    spec.workload.n_runs = 40;
    spec.workload.load = Load::Open {
        rate_per_s: 20.0,
        arrival: Arrival::Constant,
        max_in_flight: None,
    };
    let status = agent.run(&spec).await;
    assert_eq!(status.state, RunState::Done, "{:?}", status.failure);
    let validity = &status.validity;
    assert_ne!(validity.verdict, Soundness::Sound);
    let doubt = validity
        .doubts
        .iter()
        .find(|d| d.limit == "achieved_share_min");
    let doubt = doubt.unwrap();
    let achieved = doubt.message.strip_prefix("offered 20/s, achieved ");
    let achieved = achieved.and_then(|rest| rest.strip_suffix("/s")).unwrap();
    assert!(
        (7.0..=10.5).contains(&achieved.parse::<f64>().unwrap()),
        "{achieved}"
    );
    let codes: Vec<_> = status.warnings.iter().map(|w| w.code.as_str()).collect();
    assert!(codes.contains(&"achieved_share_min"), "{codes:?}");
    assert_eq!(status.samples.unwrap().count, 41);
}

#[tokio::test]
async fn a_closed_loop_warms_up_each_slot_and_stores_what_it_saw() {
    let home = Home::new();
    let agent = home.agent(&[]);
    let mut spec = fake(Mode::Online, &[("ttft_ms", "10")]);
    spec.workload.n_runs = 20;
    spec.workload.load = Load::Closed { concurrency: 4 };
    let id = agent.start(&spec).await;
    let status = agent.wait_final(&id).await;
    assert_eq!(status.state, RunState::Done, "{:?}", status.failure);
    let validity = &status.validity;
    assert_eq!(
        (validity.in_flight_asked, validity.in_flight_max),
        (Some(4), Some(4))
    );
    assert!(validity.in_flight_mean.unwrap() > 3.5, "{validity:?}");
    assert_eq!(
        (validity.failed_requests, validity.error_share),
        (0, Some(0.0))
    );
    assert!(validity.dispatch_lag_p50_ms.is_some() && validity.client_busy_share.is_some());
    let lines = agent.samples(&id, "").await;
    let samples: Vec<Sample> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // One is asked for; each of four slots has one.
    assert_eq!(samples.iter().filter(|s| s.warmup).count(), 4);
    assert_eq!(samples.len(), 24);
}
