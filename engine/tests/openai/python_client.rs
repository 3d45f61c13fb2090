//! The official `openai` Python client against our server.
//!
//! It runs where `CHAPTERBENCH_PYTHON` names a python that has the package (CI installs it in a
//! virtual environment); elsewhere the test says so and does nothing.

use std::process::Command;

use crate::Server;

#[test]
fn the_official_python_client_works() {
    let Some(python) = std::env::var_os("CHAPTERBENCH_PYTHON") else {
        eprintln!("skipped: CHAPTERBENCH_PYTHON does not name a python with the openai package");
        return;
    };
    for chapter in ["1", "2"] {
        let server = Server::dummy(chapter);
        let output = Command::new(&python)
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/openai/python_client.py"
            ))
            .arg(format!("http://{}/v1", server.address))
            .output()
            .unwrap();
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success(), "chapter {chapter}\n{out}{err}");
        assert!(out.ends_with("all well\n"), "{out}");
    }
}
