//! Tests of the precedence and of the refusals in [`super`].
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;

use super::*;

const TOKEN: &str = "0123456789abcdef";

fn dirs() -> UserDirs {
    UserDirs {
        config: None,
        state: Some(PathBuf::from("/s")),
    }
}

fn with_env<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
    |name| {
        pairs
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| OsString::from(value))
    }
}

fn error(flags: Flags, env: &[(&str, &str)]) -> String {
    resolve(flags, with_env(env), &dirs())
        .err()
        .map(|error| error.to_string())
        .unwrap()
}

#[test]
fn nothing_said_is_loopback_without_a_token() {
    let settings = resolve(Flags::default(), with_env(&[]), &dirs()).unwrap();
    assert_eq!(settings.listen.to_string(), defaults::AGENT_LISTEN);
    assert_eq!(settings.state_dir, Path::new("/s/agent"));
    assert_eq!(settings.model_roots, ModelRoots::Under(vec![]));
    assert!(settings.token.is_none() && settings.tls.is_none() && settings.engines.is_empty());
}

#[test]
fn flag_over_environment_over_file() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("agent.toml");
    std::fs::write(
        &config,
        "listen = '127.0.0.1:1'\nstate_dir = 'file-state'\nmodel_roots = ['.']\n",
    )
    .unwrap();
    let file_only = Flags {
        config: Some(config),
        ..Flags::default()
    };

    let settings = resolve(file_only.clone(), with_env(&[]), &dirs()).unwrap();
    assert_eq!(settings.listen.port(), 1);
    assert_eq!(
        settings.state_dir,
        dir.path().join("file-state"),
        "from the folder of the file"
    );
    assert_eq!(
        settings.model_roots,
        ModelRoots::Under(vec![dir.path().canonicalize().unwrap()])
    );

    let env = [
        ("CHAPTERBENCH_LISTEN", "127.0.0.1:2"),
        ("CHAPTERBENCH_STATE_DIR", "/env-state"),
    ];
    let settings = resolve(file_only.clone(), with_env(&env), &dirs()).unwrap();
    assert_eq!(
        (settings.listen.port(), settings.state_dir),
        (2, PathBuf::from("/env-state"))
    );

    let flags = Flags {
        listen: Some("localhost:3".to_owned()),
        ..file_only
    };
    assert_eq!(
        resolve(flags, with_env(&env), &dirs())
            .unwrap()
            .listen
            .port(),
        3
    );
}

#[test]
fn beyond_loopback_needs_a_token() {
    let open = Flags {
        listen: Some("0.0.0.0:0".to_owned()),
        ..Flags::default()
    };
    assert!(error(open.clone(), &[]).contains("needs a token"));
    let settings = resolve(open, with_env(&[("CHAPTERBENCH_TOKEN", TOKEN)]), &dirs()).unwrap();
    assert_eq!(settings.token.as_deref(), Some(TOKEN));
}

#[test]
fn a_token_file_is_trimmed_and_its_mode_is_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    std::fs::write(&path, format!("{TOKEN}\n")).unwrap();
    let flags = Flags {
        token_file: Some(path.clone()),
        ..Flags::default()
    };
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    // The flag wins over the environment's token.
    let env = [("CHAPTERBENCH_TOKEN", "another-token-of-the-environment")];
    let settings = resolve(flags.clone(), with_env(&env), &dirs()).unwrap();
    assert_eq!(settings.token.as_deref(), Some(TOKEN));
    assert!(settings.warnings[0].contains("chmod 600"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(
        resolve(flags, with_env(&[]), &dirs())
            .unwrap()
            .warnings
            .is_empty()
    );
}

#[test]
fn refusals_name_the_setting() {
    assert!(
        error(Flags::default(), &[("CHAPTERBENCH_TOKEN", "short")])
            .contains("CHAPTERBENCH_TOKEN: a token has at least")
    );
    assert!(
        error(
            Flags {
                listen: Some("7070".to_owned()),
                ..Flags::default()
            },
            &[]
        )
        .contains("--listen 7070")
    );
    let one = Flags {
        tls_cert: Some(PathBuf::from("c.pem")),
        ..Flags::default()
    };
    assert!(error(one, &[]).contains("--tls-key"));
    let gone = Flags {
        model_roots: vec![PathBuf::from("/no/such/root")],
        ..Flags::default()
    };
    assert!(error(gone, &[]).contains("--model-root /no/such/root"));
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("agent.toml");
    std::fs::write(&config, "\nport = 1\n").unwrap();
    let message = error(
        Flags {
            config: Some(config),
            ..Flags::default()
        },
        &[],
    );
    assert!(
        message.contains("agent.toml: line 2") && message.contains("`port`"),
        "{message}"
    );
}
