//! The life of a child with real processes that misbehave: whatever they do, each test ends within
//! its bound and nothing is left. Here: children that misbehave; see [`starts`] and [`ends`]. The bad
//! children are `tests/helpers/fake_engine.rs`.
//!
//! Bounds on time are what users are promised plus a margin for a busy machine.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ends;
mod place;
mod starts;

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use agent::process::{ReadyError, port, spawn, wait_ready};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use place::{LONG, MARGIN, Place, SHORT_GRACE, alive, comes_true, free_addr, helper, url};

#[tokio::test]
async fn a_server_on_a_handed_over_socket_gets_ready_and_stops() {
    let place = Place::new();
    let (socket, addr) = port::listen_for_child().unwrap();
    let mut spec = place.spec(&["healthy", "fd:3", "one"]);
    spec.fds = vec![(socket, 3)];
    let child = spawn(&helper(), spec).await.unwrap();
    let ready = wait_ready(&child, &url(addr), Some("one"), &BTreeMap::new(), LONG)
        .await
        .unwrap();
    assert_eq!(ready.health_json["status"], "ok");
    assert!(child.exit_now().is_none());
    // A terminal's Ctrl-C reaches neither keeper nor child: each leads a session of its own.
    for id in [child.identity().keeper, child.identity().child] {
        let stat = procfs::process::Process::new(id.pid)
            .unwrap()
            .stat()
            .unwrap();
        assert_eq!((stat.session, stat.pgrp), (id.pid, id.pid));
    }
    assert!(child.pids().contains(&child.identity().child.pid));

    let report = child.stop(LONG).await;
    assert_eq!(report.exit.unwrap().signal, Some(Signal::SIGTERM as i32));
    assert!(
        report.clean && !report.killed && report.swept == 0,
        "{report:?}"
    );
    assert!(report.rss_bytes_max.unwrap() > 100_000, "{report:?}");
    // The agent kept no copy of the socket.
    assert!(port::port_refuses(addr, Duration::from_secs(5)).await);
}

#[tokio::test]
async fn never_healthy_ends_at_the_limit() {
    for mode in ["unhealthy", "silent"] {
        let place = Place::new();
        let (child, addr) = place.server_up(mode, &[]).await;
        let begun = Instant::now();
        let limit = Duration::from_millis(300);
        let error = wait_ready(&child, &url(addr), None, &BTreeMap::new(), limit)
            .await
            .unwrap_err();
        assert!(begun.elapsed() < limit + MARGIN);
        let ReadyError::TimedOut { last, log_tail, .. } = &error else {
            unreachable!("{error}")
        };
        assert_eq!(log_tail, &["up"]);
        if mode == "unhealthy" {
            assert!(last.contains("503"), "{last}");
        }
        let report = child.stop(SHORT_GRACE).await;
        assert!(report.clean, "{report:?}");
        assert!(port::port_refuses(addr, Duration::from_secs(5)).await);
    }
}

#[tokio::test]
async fn a_health_page_that_waiting_does_not_change_ends_the_wait() {
    let key = |key: &str| BTreeMap::from([("authorization".to_owned(), format!("Bearer {key}"))]);
    for (mode, rest, headers, said) in [
        ("moved", None, key("sesame"), "302 Found, a redirect"),
        (
            "locked",
            Some("sesame"),
            BTreeMap::new(),
            "401 Unauthorized; it wants another API key",
        ),
        (
            "locked",
            Some("sesame"),
            key("wrong"),
            "401 Unauthorized; it wants another API key",
        ),
        ("locked", Some("sesame"), key("sesame"), ""),
    ] {
        let place = Place::new();
        let (child, addr) = place.server_up(mode, rest.as_slice()).await;
        match wait_ready(&child, &url(addr), None, &headers, LONG).await {
            Ok(_) => assert!(said.is_empty(), "{mode} must answer: {said}"),
            Err(ReadyError::Refused { said: answer, .. }) => {
                assert!(!said.is_empty() && answer.contains(said), "{answer}");
            }
            Err(other) => unreachable!("{other}"),
        }
        assert!(child.stop(SHORT_GRACE).await.clean);
    }
}

#[tokio::test]
async fn death_while_loading_ends_the_wait_with_the_last_words() {
    let place = Place::new();
    let child = place
        .start(&["die", "3", "100", "loading", "no such model"])
        .await;
    // Held here, so that nobody answers there.
    let (_socket, addr) = port::listen_for_child().unwrap();
    let begun = Instant::now();
    let error = wait_ready(&child, &url(addr), None, &BTreeMap::new(), LONG)
        .await
        .unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(1) + MARGIN);
    assert_eq!(error.to_string(), "died before it was ready: exit status 3");
    let ReadyError::Died { log_tail, .. } = error else {
        unreachable!("{error}")
    };
    assert_eq!(log_tail, ["loading", "no such model"]);
    let report = child.stop(LONG).await;
    assert!(
        report.clean && !report.killed && report.swept == 0,
        "{report:?}"
    );
    assert_eq!(report.exit.unwrap().code, Some(3));
    assert_eq!(
        std::fs::read_to_string(place.path("child.log")).unwrap(),
        "loading\nno such model\n"
    );
}

#[tokio::test]
async fn a_signal_is_told_from_a_status() {
    let place = Place::new();
    let child = place.start(&["abort", "broken"]).await;
    assert_eq!(child.exited().await.to_string(), "killed by SIGABRT");
    // It can be asked again, and a cancelled wait costs nothing.
    assert_eq!(child.exited().await.signal, Some(Signal::SIGABRT as i32));
    assert!(child.stop(LONG).await.clean);
}

#[tokio::test]
async fn death_after_ready_is_noticed_at_once() {
    let place = Place::new();
    let (child, addr) = place.server_up("healthy", &["x"]).await;
    wait_ready(&child, &url(addr), None, &BTreeMap::new(), LONG)
        .await
        .unwrap();
    let cancelled = tokio::time::timeout(Duration::from_millis(50), child.exited()).await;
    assert!(cancelled.is_err());
    kill(Pid::from_raw(child.identity().child.pid), Signal::SIGKILL).unwrap();
    let exit = tokio::time::timeout(MARGIN, child.exited()).await.unwrap();
    assert_eq!(exit.to_string(), "killed by SIGKILL");
    let report = child.stop(LONG).await;
    assert!(report.clean && !report.killed, "{report:?}");
}

#[tokio::test]
async fn ignoring_sigterm_is_answered_with_sigkill_after_the_grace() {
    let place = Place::new();
    let child = place.start_up(&["stubborn", &place.text("pids")]).await;
    let begun = Instant::now();
    let report = child.stop(SHORT_GRACE).await;
    assert!(begun.elapsed() >= SHORT_GRACE);
    assert!(begun.elapsed() < SHORT_GRACE + Duration::from_secs(2) + MARGIN);
    assert!(report.killed && report.clean, "{report:?}");
    assert_eq!(report.exit.unwrap().signal, Some(Signal::SIGKILL as i32));
    assert!(report.stop_ms >= SHORT_GRACE.as_secs_f64() * 1000.0);
}

#[tokio::test]
async fn a_grandchild_that_holds_the_port_is_swept() {
    let place = Place::new();
    let addr = free_addr();
    let (pids, at) = (place.text("pids"), addr.to_string());
    let child = place.start_up(&["parent", "holder", &pids, &at]).await;
    TcpStream::connect(addr).unwrap();
    assert_eq!(
        port::check_free(addr).unwrap_err().kind(),
        std::io::ErrorKind::AddrInUse
    );
    let report = child.stop(LONG).await;
    assert!(
        report.clean && !report.killed && report.swept == 1,
        "{report:?}"
    );
    assert!(port::port_refuses(addr, Duration::from_secs(5)).await);
    assert!(!place.pids("pids").into_iter().any(alive));
}

#[tokio::test]
async fn descendants_that_left_the_session_are_swept() {
    for args in [["parent", "escaped"].as_slice(), &["daemon"]] {
        let place = Place::new();
        let pids = place.text("pids");
        let child = place.start_up(&[args, &[&pids]].concat()).await;
        let escaped = place.pids("pids");
        assert!(
            escaped
                .iter()
                .all(|&pid| alive(pid) && child.pids().contains(&pid))
        );
        let report = child.stop(LONG).await;
        assert!(
            report.clean && !report.killed && report.swept == 1,
            "{report:?}"
        );
        assert!(!escaped.into_iter().any(alive));
    }
}

#[tokio::test]
async fn what_a_child_leaves_behind_when_it_exits_is_swept_without_an_order() {
    let place = Place::new();
    // The one left behind holds the pipe of the output, too.
    let child = place
        .start(&["leaver", "escaped", &place.text("pids")])
        .await;
    assert_eq!(child.exited().await.code, Some(0));
    let left = place.pids("pids");
    assert!(comes_true(MARGIN, || !left.iter().any(|&pid| alive(pid))).await);
    assert!(child.log().settle(MARGIN).await);
    let report = child.stop(LONG).await;
    assert!(
        report.clean && !report.killed && report.swept == 1,
        "{report:?}"
    );
}

#[tokio::test]
async fn a_chain_of_forks_is_swept() {
    let place = Place::new();
    let child = place.start_up(&["bomb", &place.text("pids")]).await;
    let tree = child.identity().tree.clone();
    let report = child.stop(LONG).await;
    assert!(report.clean && report.swept >= 1, "{report:?}");
    assert_eq!(marked(&tree), Vec::<i32>::new());
}

/// Live processes that carry the mark of a tree.
fn marked(tree: &str) -> Vec<i32> {
    let entry = format!("CHAPTERBENCH_TREE={tree}");
    let has = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|bytes| bytes.split(|&b| b == 0).any(|e| e == entry.as_bytes()))
    };
    let all = procfs::process::all_processes()
        .unwrap()
        .flatten()
        .map(|process| process.pid);
    all.filter(has).collect()
}

#[tokio::test]
async fn another_server_on_our_port_is_not_ours() {
    let place = Place::new();
    let (theirs, addr) = place.server_up("healthy", &["theirs"]).await;
    let ours = Place::new();
    let child = ours.start_up(&["idle"]).await;
    let error = wait_ready(&child, &url(addr), Some("ours"), &BTreeMap::new(), LONG)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, ReadyError::WrongInstance { theirs, .. } if theirs == "theirs"),
        "{error}"
    );
    // A server without an instance is told by its port, before the start.
    assert!(port::check_free(addr).is_err());
    assert!(child.stop(LONG).await.clean);
    assert!(theirs.stop(LONG).await.clean);
}
