//! Tests of [`super`]: which runs are left out.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use contracts::host::GpuState;
use contracts::run::{Mode, RunFailure, Stage};

use super::*;
use crate::fixtures;

fn run() -> RunRecord {
    fixtures::run("01", "ch02", Mode::Online)
}

#[test]
fn runs_that_did_not_end_as_they_should_are_broken() {
    assert_eq!(broken(&run()), None);
    let mut failed = run();
    failed.status.state = RunState::Failed;
    assert_eq!(broken(&failed).unwrap().words(), "failed");
    failed.status.failure = Some(RunFailure {
        stage: Stage::Preflight,
        message: "cpu is taken".to_owned(),
        log_tail: Vec::new(),
    });
    let fault = broken(&failed).unwrap();
    assert_eq!(fault.words(), "failed (preflight): cpu is taken");
    failed.status.state = RunState::Cancelled;
    assert_eq!(broken(&failed), Some(Fault::Cancelled));
}

#[test]
fn others_on_the_cpu_contaminate_above_the_limit() {
    let mut busy = run();
    busy.status.validity.foreign_cpu_during = Some(FOREIGN_CPU_CONTAMINATED);
    assert_eq!(contaminated(&busy), None);
    busy.status.validity.foreign_cpu_during = Some(FOREIGN_CPU_CONTAMINATED + 0.01);
    assert!(
        contaminated(&busy)
            .unwrap()
            .starts_with("others used 26.0 %")
    );
    busy.status.validity.foreign_cpu_during = None;
    assert_eq!(contaminated(&busy), None, "not known is not guilty");
}

#[test]
fn heat_power_and_others_on_its_gpu_contaminate() {
    let with = |index, change: fn(&mut GpuState)| {
        let mut gpu = GpuState {
            index,
            ..GpuState::default()
        };
        change(&mut gpu);
        let mut run = run();
        run.status.spec.arm.device = Device::Cuda { index: 1 };
        run.status.validity.host_before = Some(HostState::default());
        run.status.validity.host_after = Some(HostState {
            gpus: vec![gpu],
            ..HostState::default()
        });
        run
    };
    let hot: fn(&mut GpuState) = |gpu| {
        gpu.throttled_by = vec![
            "applications_clocks_setting".to_owned(),
            "sw_thermal_slowdown".to_owned(),
        ];
    };
    assert_eq!(
        contaminated(&with(1, hot)).unwrap(),
        "its GPU was throttled after it (sw_thermal_slowdown)"
    );
    assert_eq!(contaminated(&with(0, hot)), None, "another GPU");
    let mut on_cpu = with(1, hot);
    on_cpu.status.spec.arm.device = Device::Cpu;
    assert_eq!(contaminated(&on_cpu), None);
    let set = with(1, |gpu| {
        gpu.throttled_by = vec!["applications_clocks_setting".to_owned()];
    });
    assert_eq!(contaminated(&set), None, "its owner set that clock");
    let shared = with(1, |gpu| {
        gpu.foreign_processes = vec!["python (pid 7)".to_owned()];
    });
    assert_eq!(
        contaminated(&shared).unwrap(),
        "python (pid 7) was on its GPU after it"
    );
}

#[test]
fn builds_models_definitions_and_options_are_not_pooled() {
    let newest = run();
    assert_eq!(unlike(&run(), &newest), None);
    let changed = |change: &dyn Fn(&mut RunRecord)| {
        let mut run = run();
        change(&mut run);
        unlike(&run, &newest)
    };
    let provenance = |change: fn(&mut contracts::run::Provenance)| {
        changed(&|run| change(run.status.provenance.as_mut().unwrap()))
    };
    assert_eq!(
        provenance(|p| p.engine_build = Some("0.1.0+old".to_owned())).unwrap(),
        "another build of its engine (0.1.0+old)"
    );
    assert_eq!(
        provenance(|p| p.engine_binary_sha256 = Some("b2".to_owned())).unwrap(),
        "another binary of its engine (b2)"
    );
    assert_eq!(
        provenance(|p| p.model.as_mut().unwrap().sha256 = "m2".to_owned()).unwrap(),
        "another model (m2)"
    );
    assert_eq!(
        provenance(|p| p.definition = "v2".to_owned()).unwrap(),
        "another definition of the metrics (v2)"
    );
    assert_eq!(provenance(|p| p.engine_build = None), None, "not known");
    assert_eq!(
        changed(&|run| run.status.spec.arm.threads = Some(1)).unwrap(),
        "other options of its engine"
    );
    assert_eq!(changed(&|run| run.status.provenance = None), None);
}
