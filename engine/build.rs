//! Records the commit that the engine is built from, for `cli::build_facts`.
//!
//! Outside a git checkout of this project (a tarball, a vendored copy) the commit is empty and the
//! build goes on. It runs again when HEAD moves or the engine's own files change, which rebuilds
//! the engine anyway; so `-dirty` speaks of what the engine is made from, not of the whole tree.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// What the engine is made from, relative to the workspace.
const SOURCES: [&str; 7] = [
    "engine/src",
    "engine/contracts/src",
    "engine/build.rs",
    "engine/Cargo.toml",
    "engine/contracts/Cargo.toml",
    "Cargo.toml",
    "Cargo.lock",
];

fn main() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for path in [
        "build.rs",
        "src",
        "contracts/src",
        "../Cargo.toml",
        "../Cargo.lock",
    ] {
        watch(Path::new(path));
    }
    println!(
        "cargo::rustc-env=CHAPTERBENCH_COMMIT={}",
        commit(&workspace).unwrap_or_default()
    );
}

/// `3fa1c2d9e0b1`, `3fa1c2d9e0b1-dirty`, or nothing where this is not a checkout of our own.
fn commit(workspace: &Path) -> Option<String> {
    let top = git(workspace, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != workspace.canonicalize().ok()? {
        return None;
    }
    // logs/HEAD grows with every commit and checkout; HEAD alone does not change with a commit.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(workspace, &["rev-parse", "--git-path", name]) {
            watch(&workspace.join(PathBuf::from(path)));
        }
    }
    let commit = git(workspace, &["rev-parse", "--short=12", "HEAD"])?;
    let mut status = vec!["status", "--porcelain", "--"];
    status.extend(SOURCES);
    let dirty = git(workspace, &status).is_some_and(|changes| !changes.is_empty());
    Some(if dirty {
        format!("{commit}-dirty")
    } else {
        commit
    })
}

/// Output of one git command without its line end; nothing if there is no git or it fails.
fn git(directory: &Path, args: &[&str]) -> Option<String> {
    // Without optional locks `git status` does not rewrite the index under a parallel git.
    let output = Command::new("git")
        .arg("--no-optional-locks")
        .args(args)
        .current_dir(directory)
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A path that is not there would make cargo run this script on every build.
fn watch(path: &Path) {
    if path.exists() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}
