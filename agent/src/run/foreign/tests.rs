//! Tests of [`super`]: command lines, and what is refused.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::run::testing::fake_spec;

fn entry(text: &str) -> ServerEntry {
    let text = format!("kind = 'server'\n{text}");
    ServerEntry::parse(toml::from_str(&text).unwrap(), Path::new("/")).unwrap()
}

fn arm() -> Arm {
    Arm {
        mode: Mode::Online,
        ..fake_spec().arm
    }
}

fn full() -> ServerEntry {
    entry(
        r#"
        command = ["/bin/sh", "--model", "{model}", "--at", "{host}:{port}", "-t", "{threads}"]
        env = { KEY = "secret", GPU = "{gpu}" }
        served_name = "{model}"
        [choices.dtype]
        f16 = ["--dtype", "half"]
        [choices.cache]
        on = ["--cache", "{port}"]
        off = []
        "#,
    )
}

fn on_gpu() -> Arm {
    Arm {
        device: Device::Cuda { index: 1 },
        ..arm()
    }
}

#[test]
fn a_command_line_is_the_entrys_and_the_chosen() {
    let mut arm = on_gpu();
    arm.dtype = Some(Dtype::F16);
    arm.options.insert("cache".to_owned(), "on".to_owned());
    let command = server("x", &full(), &arm, "/m/a b", 8).unwrap();
    let filled = command.filled(9000);
    let expected = "--model|/m/a b|--at|127.0.0.1:9000|-t|8|--cache|9000|--dtype|half";
    assert_eq!(filled.args.join("|"), expected);
    assert_eq!(
        filled.env,
        [("GPU", "1"), ("KEY", "secret")].map(|(k, v)| (k.into(), v.into()))
    );
    assert_eq!(command.served_name(9000).as_deref(), Some("/m/a b"));
    assert_eq!(command.program, Path::new("/bin/sh"));
    arm.threads = Some(3);
    let command = server("x", &full(), &arm, "m", 8).unwrap();
    assert_eq!(command.filled(1).args[5], "3");
}

#[test]
fn what_an_engine_cannot_be_told_is_refused_by_name() {
    type Spoil = fn(&mut Arm);
    let plain = entry("command = ['sh', '{port}']");
    let cases: [(&ServerEntry, &str, &str, Spoil); 8] = [
        (&plain, "arm.mode", "--mode online", |a| {
            a.mode = Mode::Offline
        }),
        (&plain, "arm.threads", "{threads}", |a| a.threads = Some(2)),
        (&plain, "arm.dtype", "choices.dtype", |a| {
            a.dtype = Some(Dtype::F16)
        }),
        (&plain, "arm.device", "{gpu}", |a| {
            a.device = Device::Cuda { index: 0 }
        }),
        (&plain, "arm.options.cache", "there are: none", |a| {
            a.options.insert("cache".to_owned(), "on".to_owned());
        }),
        (&full(), "arm.device", "cuda:0", |a| a.device = Device::Cpu),
        (&full(), "arm.dtype", "it offers: f16", |a| {
            a.device = Device::Cuda { index: 0 };
            a.dtype = Some(Dtype::F32);
        }),
        (&full(), "arm.options.cache", "it offers: off, on", |a| {
            a.options.insert("cache".to_owned(), "maybe".to_owned());
        }),
    ];
    for (entry, field, word, spoil) in cases {
        let mut arm = arm();
        spoil(&mut arm);
        let refused = server("x", entry, &arm, "m", 8).unwrap_err();
        assert_eq!(refused.field, field, "{refused}");
        assert!(
            refused.message.contains(word) && refused.message.contains('x'),
            "{refused}"
        );
    }
}

#[test]
fn programs_are_found_in_path_or_named_as_missing() {
    let found = server("x", &entry("command = ['sh', '{port}']"), &arm(), "m", 8).unwrap();
    assert!(found.program.is_absolute() && found.program.ends_with("sh"));
    for (text, word) in [
        (
            "command = ['no-such-engine', '{port}']",
            "no-such-engine is not in PATH",
        ),
        (
            "command = ['/etc/passwd', '{port}']",
            "/etc/passwd is not an executable",
        ),
        (
            "command = ['sh', '{port}']\nenv = { PATH = '/nowhere' }",
            "not in PATH",
        ),
        (
            "command = ['sh', '{port}']\ncwd = '/nowhere'",
            "/nowhere is not a folder",
        ),
    ] {
        let refused = server("x", &entry(text), &arm(), "m", 8).unwrap_err();
        assert_eq!(refused.field, "arm.engine.name");
        assert!(refused.message.starts_with("engine x: "), "{refused}");
        assert!(refused.message.contains(word), "{refused}");
    }
}

#[test]
fn a_running_server_is_taken_as_it_is() {
    url("http://127.0.0.1:8000/v1", &arm()).unwrap();
    type Spoil = fn(&mut Arm);
    let cases: [(&str, Spoil); 4] = [
        ("arm.mode", |a| a.mode = Mode::Offline),
        ("arm.dtype", |a| a.dtype = Some(Dtype::F16)),
        ("arm.threads", |a| a.threads = Some(2)),
        ("arm.options", |a| {
            drop(a.options.insert("a".to_owned(), "b".to_owned()))
        }),
    ];
    for (field, spoil) in cases {
        let mut arm = arm();
        spoil(&mut arm);
        assert_eq!(url("http://h", &arm).unwrap_err().field, field);
    }
    assert_eq!(url("nonsense", &arm()).unwrap_err().field, "arm.engine.url");
}
