//! Records the commit that the controller is built from, and watches the migrations.
//!
//! Outside a git checkout the commit is empty and the build goes on.

use std::path::Path;
use std::process::Command;

fn main() {
    // `sqlx::migrate!` embeds the files that were there when it was expanded.
    println!("cargo::rerun-if-changed=../migrations");
    println!("cargo::rerun-if-changed=src");
    // logs/HEAD grows with every commit and checkout; HEAD alone does not change with a commit.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--path-format=absolute", "--git-path", name]);
        // A path that is not there would run this script on every build.
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_default();
    println!("cargo::rustc-env=CHAPTERBENCH_COMMIT={commit}");
}

/// Output of one git command in this crate; nothing if there is no git or it fails.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .filter(|line| !line.is_empty())
}
