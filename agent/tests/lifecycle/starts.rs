//! What a child is given, what it prints, what can't be started, and that starting leaks nothing.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::process::{ChildSpec, Program, SpawnError, spawn};

use super::place::{LONG, MARGIN, Place, comes_true, helper};

#[tokio::test]
async fn the_child_gets_what_was_chosen_and_nothing_else() {
    let place = Place::new();
    // Left open by whoever started the agent: inheritable.
    let stray = tempfile::tempfile().unwrap();
    let high = nix::fcntl::fcntl(&stray, nix::fcntl::FcntlArg::F_DUPFD(9)).unwrap();
    let mut spec = place.spec(&["inside"]);
    spec.fds = [3, 40]
        .map(|number| (tempfile::tempfile().unwrap().into(), number))
        .into();
    spec.env = vec![("FAKE_ENGINE_SET".into(), "yes".into())];
    spec.env_remove = vec!["PATH".into()];
    spec.cwd = Some(place.dir.path().to_owned());
    let child = spawn(&helper(), spec).await.unwrap();
    assert_eq!(child.exited().await.code, Some(0));
    assert!(child.log().settle(MARGIN).await);
    let cwd = place.dir.path().canonicalize().unwrap();
    let expected = [
        "fds [0, 1, 2, 3, 40]".to_owned(),
        "stdin /dev/null".to_owned(),
        "SigBlk: 0000000000000000".to_owned(),
        format!("cwd {}", cwd.display()),
        format!("arg0 {}", helper().path().display()),
        "set Some(\"yes\")".to_owned(),
        "removed None".to_owned(),
    ];
    assert_eq!(child.log().tail(20), expected);
    child.stop(LONG).await;
    nix::unistd::close(high).unwrap();
}

#[tokio::test]
async fn output_is_kept_within_bounds() {
    let place = Place::new();
    let child = place.start(&["noise"]).await;
    child.exited().await;
    assert!(child.log().settle(MARGIN).await);
    let tail = child.log().tail(4);
    assert_eq!(tail[0], "line 1999");
    assert_eq!(tail[1], "caf\u{fffd}");
    assert!(tail[2].starts_with("xxx") && tail[2].ends_with("(line cut)"));
    assert_eq!(tail[3], "last, without a newline");
    assert!(child.log().tail(usize::MAX).len() < 1000);
    assert!(child.stop(LONG).await.clean);
}

#[tokio::test]
async fn what_cannot_be_started_is_said_in_one_line() {
    let place = Place::new();
    let mut spec = place.spec(&["idle"]);
    spec.cwd = Some(place.path("nowhere"));
    let error = spawn(&helper(), spec).await.unwrap_err();
    assert!(matches!(error, SpawnError::Refused { .. }));
    assert!(error.to_string().contains("No such file"), "{error}");

    let mut spec = place.spec(&["idle"]);
    spec.fds = vec![(tempfile::tempfile().unwrap().into(), 2)];
    let error = spawn(&helper(), spec).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("number 2 is not between 3 and 63"),
        "{error}"
    );

    let mut spec = place.spec(&["idle"]);
    let file = || OwnedFd::from(tempfile::tempfile().unwrap());
    spec.fds = vec![(file(), 5), (file(), 4), (file(), 5)];
    let error = spawn(&helper(), spec).await.unwrap_err();
    assert!(
        error.to_string().contains("number 5 is used twice"),
        "{error}"
    );

    let mut spec = place.spec(&["idle"]);
    spec.log_file = place.path("nowhere/child.log");
    let error = spawn(&helper(), spec).await.unwrap_err();
    assert!(error.to_string().starts_with("log file "), "{error}");

    // A program that is no keeper.
    let stranger = Program::open(Path::new("/bin/true")).unwrap();
    let error = spawn(&stranger, place.spec(&["idle"])).await.unwrap_err();
    assert!(error.to_string().contains("ended at once"), "{error}");
}

#[tokio::test]
async fn scripts_run_too() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let path = place.path("server.sh");
    std::fs::write(&path, "#!/bin/sh\necho \"from $0 with $1\"\nexit 7\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut spec = ChildSpec::new(Program::open(&path).unwrap(), place.path("child.log"));
    spec.args = vec!["an argument".into()];
    let child = spawn(&helper(), spec).await.unwrap();
    assert_eq!(child.exited().await.code, Some(7));
    child.log().settle(MARGIN).await;
    let real = path.canonicalize().unwrap();
    assert_eq!(
        child.log().tail(9),
        [format!("from {} with an argument", real.display())]
    );
    assert!(child.stop(LONG).await.clean);
}

#[tokio::test]
async fn many_children_leave_neither_zombies_nor_descriptors() {
    let place = Place::new();
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_fake-engine"))
        .args(["cycles", &place.text(""), "50"])
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (open, children) = text.trim().split_once(", ").unwrap();
    let (first, last) = open
        .strip_prefix("fds ")
        .unwrap()
        .split_once(" -> ")
        .unwrap();
    assert_eq!(first, last);
    assert_eq!(children, "children 0");
}

#[test]
fn a_child_outlives_the_thread_that_started_it() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_keep_alive(Duration::from_millis(20))
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let place = Place::new();
        let spec = place.spec(&["idle"]);
        let handle = tokio::runtime::Handle::current();
        let start = move || {
            let thread = nix::unistd::gettid();
            (thread, handle.block_on(spawn(&helper(), spec)).unwrap())
        };
        let (thread, child) = tokio::task::spawn_blocking(start).await.unwrap();
        let task = PathBuf::from(format!("/proc/self/task/{thread}"));
        assert!(
            comes_true(LONG, || !task.exists()).await,
            "the pool's thread is still there"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(child.exit_now().is_none());
        assert!(child.stop(LONG).await.clean);
    });
}
