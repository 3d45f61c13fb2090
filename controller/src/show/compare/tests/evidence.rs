//! What a verdict rests on, as it is printed: looks, contaminated runs, single runs from inside, texts of a
//! server, and where each step was measured.

use super::*;

#[test]
fn a_session_that_may_be_extended_twice_has_a_third_of_alpha_a_look() {
    let mut runs = chapters(1110.0, 5);
    for run in &mut runs {
        run.run.session.max_extend = 2;
        run.run.session.repeat_count = 4;
        run.run.session.extended_count = 1;
        run.run.look = u32::from(run.run.block == 4);
    }
    let comparison = compared("ch01", "ch02", &runs);
    insta::assert_snapshot!("looks_text", text(&comparison));
}

#[test]
fn contaminated_runs_that_are_kept_leave_no_verdict() {
    let mut runs = chapters(1110.0, 5);
    for run in runs.iter_mut().filter(|run| run.run.block == 1) {
        run.run.status.validity.foreign_cpu_during = Some(0.4);
    }
    insta::assert_snapshot!(
        "contaminated_block_text",
        text(&compared("ch01", "ch02", &runs))
    );
    let options = Options {
        all: true,
        ..Options::default()
    };
    let kept = compared_by(&["ch01", "ch02"], &runs, &options);
    insta::assert_snapshot!("contaminated_kept_text", text(&kept));
}

#[test]
fn what_runs_look_like_inside_is_told_and_decides_nothing() {
    let mut runs = chapters(1110.0, 5);
    let sound = compared("ch01", "ch02", &runs);
    // Of ch02 every run gets slower as it goes on; in block 4 three requests stall as well.
    for run in runs.iter_mut().filter(|run| run.run.engine == "ch02") {
        let wall_ms = |i: i32| {
            let stalls = run.run.block == 4 && i < 3;
            1110.0 * (1.0 + f64::from(i) / 100.0) * if stalls { 3.0 } else { 1.0 }
        };
        let walls: Vec<f64> = (0..20).map(wall_ms).collect();
        *run = fixtures::with_timing(run.run.clone(), &walls, TimingSource::Engine);
        for sample in run.samples.iter_mut().filter(|_| run.run.block == 4) {
            sample.text = Some("Light bends".to_owned());
            sample.output_ids = Some(vec![5, 6, 7, 9]);
            sample.firm_steps = Some(2);
        }
    }
    let comparison = compared("ch01", "ch02", &runs);
    let notes = &comparison.steps[0].cells[0].notes;
    insta::assert_snapshot!("inside_notes", notes.join("\n"));
    assert!(sound.steps[0].cells[0].notes.is_empty());
}

#[test]
fn texts_of_a_server_stay_on_their_line() {
    let mut runs = session(
        &[
            ("vllm", Mode::Online, 100.0),
            ("other", Mode::Online, 100.0),
        ],
        1,
    );
    for run in &mut runs {
        let text = format!("{}\n\u{1b}[2J", run.run.engine);
        for sample in &mut run.samples {
            sample.output_ids = None;
            sample.text = Some(text.clone());
        }
    }
    let printed = text(&compared("run:01000", "run:01001", &runs));
    let line = "  first difference: request 0, character 0: vllm  [2J | other  [2J\n";
    assert!(printed.contains(line), "{printed}");
}

#[test]
fn steps_on_several_workloads_and_hosts_say_which() {
    let arms = [
        ("ch01", Mode::Offline, 1224.0),
        ("ch02", Mode::Offline, 1110.0),
        ("ch04", Mode::Offline, 612.0),
    ];
    let mut runs = session(&arms, 4);
    for mut run in session(&arms, 4) {
        run.run.run_id = format!("other{}", run.run.run_id);
        run.run.session_id = "01OTHER".to_owned();
        run.run.workload_key = "w2".to_owned();
        run.run.host_fingerprint = "f2".to_owned();
        run.run.hostname = "bench-2".to_owned();
        runs.push(run);
    }
    let options = Options {
        vs: Vs::Previous,
        ..Options::default()
    };
    let printed = text(&compared_by(&["ch01", "ch02", "ch04"], &runs, &options));
    let table = printed.find("  all steps").unwrap();
    insta::assert_snapshot!("steps_places_text", printed.get(table..).unwrap());
}
