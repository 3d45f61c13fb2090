//! Agents and keepers that die, and locks that must outlive them: nothing of the child may.

use std::time::{Duration, Instant};

use agent::process::{Identities, device_lock, kill_leftover, spawn};
use contracts::run::Device;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::place::{LONG, MARGIN, Place, alive, comes_true, helper};

#[tokio::test]
async fn a_dropped_child_is_ended() {
    let place = Place::new();
    let child = place
        .start_up(&["parent", "escaped", &place.text("pids")])
        .await;
    let pids = [place.pids("pids"), child.pids()].concat();
    drop(child);
    assert!(
        comes_true(Duration::from_secs(2) + MARGIN, || !pids
            .iter()
            .any(|&p| alive(p)))
        .await
    );
}

#[tokio::test]
async fn a_killed_keeper_takes_its_child_along() {
    for mode in ["stubborn", "escaped"] {
        let place = Place::new();
        let child = place.start_up(&["parent", mode, &place.text("pids")]).await;
        let grandchildren = place.pids("pids");
        kill(Pid::from_raw(child.identity().keeper.pid), Signal::SIGKILL).unwrap();
        let exit = tokio::time::timeout(LONG, child.exited()).await.unwrap();
        assert_eq!(exit.to_string(), "ended, its keeper was killed");
        let report = child.stop(LONG).await;
        assert!(report.clean, "{report:?}");
        assert!(!grandchildren.into_iter().any(alive));
    }
}

#[tokio::test]
async fn the_device_is_locked_until_the_tree_is_gone() {
    let place = Place::new();
    let locks = place.path("locks");
    let lock = |who| device_lock::acquire_in(&locks, &Device::Cpu, who, Duration::ZERO);
    let mut spec = place.spec(&["idle"]);
    spec.keep = vec![lock("run 1").await.unwrap()];
    let child = spawn(&helper(), spec).await.unwrap();
    let error = lock("run 2").await.unwrap_err();
    assert!(error.to_string().ends_with(", run 1"), "{error}");
    assert!(child.stop(LONG).await.clean);
    lock("run 2").await.unwrap();
}

/// A process that plays the agent, and who it started.
struct PlayedAgent {
    process: std::process::Child,
    ids: Identities,
}

async fn play_agent(place: &Place, mode: &str) -> PlayedAgent {
    let process = std::process::Command::new(env!("CARGO_BIN_EXE_fake-engine"))
        .args(["agent", &place.text(""), mode, &place.text("pids")])
        .spawn()
        .unwrap();
    let ids = place.path("ids.json");
    assert!(comes_true(LONG, || ids.exists()).await);
    let ids = serde_json::from_slice(&std::fs::read(ids).unwrap()).unwrap();
    PlayedAgent { process, ids }
}

impl PlayedAgent {
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[tokio::test]
async fn nothing_survives_a_killed_agent() {
    for mode in ["stubborn", "escaped"] {
        let place = Place::new();
        let mut agent = play_agent(&place, mode).await;
        let mut pids = place.pids("pids");
        pids.extend([agent.ids.child.pid, agent.ids.keeper.pid]);
        assert!(pids.iter().all(|&pid| alive(pid)));
        let locks = place.path("locks");
        let lock = || device_lock::acquire_in(&locks, &Device::Cpu, "run 2", Duration::ZERO);
        assert!(lock().await.is_err());
        agent.kill();
        let begun = Instant::now();
        // The orphan keeps its device: once the lock can be had, nothing of it is left.
        while lock().await.is_err() {
            assert!(begun.elapsed() < Duration::from_secs(2) + MARGIN);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        pids.retain(|&pid| pid != agent.ids.keeper.pid);
        assert!(!pids.iter().any(|&pid| alive(pid)));
        assert!(comes_true(MARGIN, || !agent.ids.keeper.is_alive()).await);
        assert_eq!(kill_leftover(&agent.ids).found, 0);
    }
}

#[tokio::test]
async fn what_a_dead_agent_left_is_ended_by_the_next() {
    let place = Place::new();
    let mut agent = play_agent(&place, "escaped").await;
    let mut pids = place.pids("pids");
    pids.extend([agent.ids.child.pid, agent.ids.keeper.pid]);
    // A keeper that can't do its work.
    kill(Pid::from_raw(agent.ids.keeper.pid), Signal::SIGSTOP).unwrap();
    agent.kill();
    assert!(pids.iter().all(|&pid| alive(pid)));
    let ids = agent.ids.clone();
    let leftover = tokio::task::spawn_blocking(move || kill_leftover(&ids))
        .await
        .unwrap();
    assert_eq!((leftover.found, leftover.left), (3, 0));
    assert!(!pids.iter().any(|&pid| alive(pid)));
}

#[tokio::test]
async fn a_keeper_that_works_is_asked_to_end_its_tree() {
    let place = Place::new();
    let mut agent = play_agent(&place, "escaped").await;
    let pids = place.pids("pids");
    let ids = agent.ids.clone();
    let leftover = tokio::task::spawn_blocking(move || kill_leftover(&ids))
        .await
        .unwrap();
    agent.kill();
    assert_eq!(leftover.left, 0);
    assert!(!pids.iter().any(|&pid| alive(pid)));
    assert!(!agent.ids.keeper.is_alive() && !agent.ids.child.is_alive());
}
