//! Ends that nobody asked for: kill -9, Ctrl-C, with real processes. Whatever happens, nothing is
//! left running, what was measured is kept, a run is stored once, and the next run works.

use std::{process::Stdio, time::Duration};

use crate::lab::{Lab, PATIENCE, kill};

/// Nothing may be left this long after the process that owned it has died.
const GONE: Duration = Duration::from_secs(2);

/// A run of about 100 requests of 50 ms: long enough to be interrupted.
const LONG: [&str; 9] = [
    "run",
    "--chapter",
    "fake",
    "--option",
    "ttft_ms=50",
    "--n-runs",
    "100",
    "--max-tokens",
    "4",
];

fn start(lab: &Lab, extra: &[&str]) -> std::process::Child {
    let words: Vec<&str> = LONG.iter().chain(extra).copied().collect();
    lab.controller(&words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits until some measured samples are on the agent's disk.
fn wait_for_samples(lab: &Lab, state: &str) {
    lab.wait("a run that measures", PATIENCE, || {
        lines_below(&lab.path(state)) > 8
    });
}

fn lines_below(folder: &std::path::Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| {
            let path = entry.path();
            if path.is_dir() {
                lines_below(&path)
            } else if path
                .file_name()
                .is_some_and(|name| name == "samples.ndjson")
            {
                std::fs::read_to_string(&path)
                    .unwrap_or_default()
                    .lines()
                    .count()
            } else {
                0
            }
        })
        .sum()
}

fn assert_next_run_works(lab: &Lab, extra: &[&str]) {
    let mut words = vec![
        "run",
        "--chapter",
        "1",
        "--mode",
        "offline",
        "--n-runs",
        "2",
        "--warmup",
        "1",
        "--max-tokens",
        "4",
    ];
    words.extend(extra);
    lab.expect(0, &words);
}

#[test]
fn a_killed_controller_leaves_the_standing_agent_measuring_and_resume_collects_once() {
    let lab = Lab::new();
    let (mut agent, address) = lab.agent("standing");
    lab.expect(0, &["agents", "add", "lab", &format!("http://{address}")]);
    let mut controller = start(&lab, &["--agent", "lab", "--mode", "online"]);
    wait_for_samples(&lab, "standing");
    controller.kill().unwrap();
    lab.ended(&mut controller);
    assert!(lab.processes().len() >= 3, "agent, keeper and engine go on");

    lab.expect(0, &["resume"]);
    lab.expect(0, &["resume"]);
    let exported = lab.export();
    assert_eq!(exported.len(), 1, "once");
    assert_eq!(exported[0]["run"]["status"]["state"], "done");
    assert_eq!(
        exported[0]["samples"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|s| s["warmup"] == false)
            .count(),
        100
    );
    assert!(exported[0]["run"]["stats"]["wall_ms"].as_f64().unwrap() >= 50.0);

    assert_next_run_works(&lab, &["--agent", "lab"]);
    kill(agent.id(), "TERM");
    lab.ended(&mut agent);
    lab.wait("all processes gone", GONE, || lab.processes().is_empty());
}

#[test]
fn a_killed_controller_takes_the_built_in_agent_along_and_the_next_command_reports_it() {
    for mode in ["online", "offline"] {
        let lab = Lab::new();
        let mut controller = start(&lab, &["--mode", mode]);
        wait_for_samples(&lab, "state");
        controller.kill().unwrap();
        lab.ended(&mut controller);
        lab.wait("all processes gone", GONE, || lab.processes().is_empty());

        assert_next_run_works(&lab, &[]);
        let exported = lab.export();
        assert_eq!(exported.len(), 2);
        let broken = exported
            .iter()
            .find(|entry| entry["run"]["engine"] == "fake")
            .unwrap();
        assert_eq!(
            broken["run"]["status"]["state"], "failed",
            "{}",
            broken["run"]["status"]
        );
        assert_eq!(broken["run"]["status"]["failure"]["stage"], "measure");
        assert!(
            broken["samples"].as_array().unwrap().len() > 3,
            "what was measured is kept"
        );
    }
}

#[test]
fn a_killed_agent_takes_its_engine_along_and_reports_the_run_at_its_next_start() {
    let lab = Lab::new();
    let (mut agent, address) = lab.agent("standing");
    lab.expect(0, &["agents", "add", "lab", &format!("http://{address}")]);
    let mut controller = start(&lab, &["--agent", "lab", "--mode", "online"]);
    wait_for_samples(&lab, "standing");
    agent.kill().unwrap();
    lab.ended(&mut agent);
    lab.wait("engine and keeper gone", GONE, || {
        lab.processes().iter().all(|pid| *pid == controller.id())
    });
    lab.wait("the controller gives up or waits", PATIENCE, || {
        kill(controller.id(), "INT");
        std::thread::sleep(Duration::from_millis(200));
        controller.try_wait().unwrap().is_some()
    });

    let (mut agent, address) = lab.agent("standing");
    lab.expect(0, &["agents", "remove", "lab"]);
    lab.expect(0, &["agents", "add", "lab", &format!("http://{address}")]);
    lab.expect(0, &["resume"]);
    let exported = lab.export();
    assert_eq!(exported.len(), 1);
    assert_eq!(exported[0]["run"]["status"]["state"], "failed");
    assert_eq!(exported[0]["run"]["status"]["failure"]["stage"], "measure");
    assert!(
        exported[0]["samples"].as_array().unwrap().len() > 3,
        "what was measured is kept"
    );
    assert_next_run_works(&lab, &["--agent", "lab"]);
    kill(agent.id(), "TERM");
    lab.ended(&mut agent);
}

#[test]
fn ctrl_c_leaves_no_process_and_a_cancelled_run_with_what_was_measured() {
    for (mode, signal) in [("online", "INT"), ("offline", "TERM"), ("online", "HUP")] {
        if signal == "HUP" && hangup_is_ignored() {
            // The controller inherits that and goes on, as it should.
            eprintln!("SIGHUP is ignored here (nohup): its case is left out");
            continue;
        }
        let lab = Lab::new();
        let mut controller = start(&lab, &["--mode", mode]);
        wait_for_samples(&lab, "state");
        kill(controller.id(), signal);
        // As timeout(1) and a terminal that closes do it; the wish is one.
        std::thread::sleep(Duration::from_millis(10));
        kill(controller.id(), signal);
        let status = lab.ended(&mut controller);
        assert_eq!(status.code(), Some(130), "{mode}");
        lab.wait("all processes gone", GONE, || lab.processes().is_empty());
        let exported = lab.export();
        assert_eq!(exported.len(), 1);
        assert_eq!(exported[0]["run"]["status"]["state"], "cancelled");
        assert!(
            exported[0]["samples"].as_array().unwrap().len() > 3,
            "what was measured is kept"
        );
        assert_next_run_works(&lab, &[]);
    }
}

/// Whether this process, and so each that it starts, ignores SIGHUP; see proc_pid_status(5).
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap();
    // Signal n is bit n − 1, and SIGHUP is 1.
    mask & 1 == 1
}
