//! Another build of our binary, named in `engines.toml`, is benched in both modes by the built-in
//! agent and reports which executable it is.

use crate::lab::Lab;
use sha2::{Digest, Sha256};

#[test]
fn another_build_runs_in_both_modes_and_names_its_executable() {
    let lab = Lab::new();
    let other = lab.path("other-build");
    std::fs::copy(env!("CARGO_BIN_EXE_controller"), &other).unwrap();
    let config = lab.path("config/chapterbench");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(
        config.join("engines.toml"),
        format!(
            "[engine.before]\nkind = \"chapterbench\"\npath = '{}'\n",
            other.display()
        ),
    )
    .unwrap();

    let words = [
        "run",
        "--engine",
        "before",
        "--chapter",
        "2",
        "--mode",
        "both",
        "--n-runs",
        "6",
    ];
    let printed = lab.expect(0, &words);
    assert_eq!(printed.matches("Req/s").count(), 2, "{printed}");
    let exported = lab.export();
    assert_eq!(exported.len(), 2);
    let hash = hex::encode(Sha256::digest(std::fs::read(&other).unwrap()));
    for entry in &exported {
        assert_eq!(entry["run"]["engine"], "before");
        let provenance = &entry["run"]["status"]["provenance"];
        assert_eq!(provenance["engine_binary_sha256"], hash.as_str());
        assert!(provenance["engine_build"].is_string(), "{provenance}");
    }
    lab.forget_the_neighbours();
    lab.expect(
        0,
        &["compare", "engine:before:offline", "engine:before:online"],
    );

    std::fs::write(config.join("engines.toml"), "[engine.before]\nkynd = 1\n").unwrap();
    lab.expect(2, &words);
}
