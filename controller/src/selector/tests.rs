//! Tests of [`super`]: reading, writing and matching selectors.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;

use super::*;
use crate::fixtures;

#[test]
fn suffixes_come_in_any_order() {
    let plain = Selector::parse("ch01:offline@box%3fa1c2#a").unwrap();
    assert_eq!(plain.head, Head::Chapter("ch01".into()));
    assert_eq!(plain.mode, Some(Mode::Offline));
    assert_eq!(plain.agent.as_deref(), Some("box"));
    assert_eq!(plain.build.as_deref(), Some("3fa1c2"));
    assert_eq!(plain.arm.as_deref(), Some("a"));
    assert_eq!(Selector::parse("1#a%3fa1c2@box:offline").unwrap(), plain);
    assert_eq!(
        Selector::parse("engine:vllm:online").unwrap().to_string(),
        "engine:vllm:online"
    );
}

#[test]
fn errors_name_the_word_and_what_is_allowed() {
    for word in [
        "",
        "chapter",
        "ch",
        "ch+1",
        "ch300",
        "engine:",
        "run:",
        "tag:x",
        "ch01:",
        "ch01@",
        "ch01:slow",
        "ch01@a@b",
        "ch01:offline:online",
        "url:x",
        "url:http://",
        "url:ftp://x",
        "url:http://x:8000#",
        "file:",
        "file:#a",
        "file:a.json#",
    ] {
        let error = Selector::parse(word).unwrap_err().to_string();
        assert!(error.contains(&format!("`{word}`")), "{error}");
        assert!(!error.contains('\n'));
    }
    let error = Selector::parse("banana").unwrap_err().to_string();
    assert!(error.contains("allowed: ch01, engine:NAME"), "{error}");
    let error = Selector::parse("ch01:fast").unwrap_err().to_string();
    assert!(error.starts_with("`:fast` in `ch01:fast`"), "{error}");
}

#[test]
fn a_path_ends_where_a_suffix_begins() {
    for (word, path, rest) in [
        ("file:a.json", "a.json", ""),
        (
            "file:../lab/a.json:offline#a",
            "../lab/a.json",
            ":offline#a",
        ),
        ("file:C:\\a.json@box", "C:\\a.json", "@box"),
        ("file:a.json%3fa1", "a.json", "%3fa1"),
    ] {
        let selector = Selector::parse(word).unwrap();
        assert_eq!(selector.head, Head::File(path.to_owned()), "{word}");
        assert_eq!(selector.to_string(), format!("file:{path}{rest}"));
    }
}

#[test]
fn a_file_and_the_database_are_two_places() {
    let stored = fixtures::run("01A", "ch01", Mode::Online);
    let mut read = stored.clone();
    read.file = Some("a.json".to_owned());
    let matches = |word: &str, run: &RunRecord| Selector::parse(word).unwrap().matches(run);
    assert!(matches("ch01", &stored) && !matches("ch01", &read));
    assert!(matches("file:a.json", &read) && !matches("file:a.json", &stored));
    assert!(matches("file:a.json:online#a", &read) && !matches("file:a.json:offline", &read));
    assert!(!matches("file:b.json", &read));
}

#[test]
fn a_url_keeps_its_own_colons() {
    for (word, url, rest) in [
        ("url:http://h:8000", "http://h:8000", ""),
        ("url:http://h:8000/v1/", "http://h:8000", ""),
        ("url:https://h/llm/v1:online", "https://h/llm", ":online"),
        ("url:http://[::1]:8001@box#a", "http://[::1]:8001", "@box#a"),
        (
            "url:http://online:1:online%ab",
            "http://online:1",
            ":online%ab",
        ),
    ] {
        let selector = Selector::parse(word).unwrap();
        assert_eq!(selector.head, Head::Url(url.to_owned()), "{word}");
        assert_eq!(selector.to_string(), format!("url:{url}{rest}"));
    }
    let mut run = fixtures::run("01A", "ch01", Mode::Online);
    run.engine = "http://h:8000/v1".to_owned();
    run.status.spec.arm.engine = EngineRef::Url {
        url: run.engine.clone(),
        served_name: None,
    };
    assert!(Selector::parse("url:http://h:8000").unwrap().matches(&run));
    assert!(
        Selector::parse("url:http://h:8000/v1:online")
            .unwrap()
            .matches(&run)
    );
    assert!(!Selector::parse("url:http://h:8001").unwrap().matches(&run));
    assert!(!Selector::parse("ch01").unwrap().matches(&run));
}

#[test]
fn matching_takes_every_part_into_account() {
    let mut run = fixtures::run("01A", "ch01", Mode::Offline);
    run.label = Some("nightly".into());
    run.session_id = "01S".into();
    for word in [
        "ch01",
        "1",
        "ch01:offline",
        "label:nightly",
        "run:01a",
        "session:01S",
        "ch01@local",
        "ch01%abc",
        "ch01%0.1.0+abc",
        "ch01#a",
    ] {
        assert!(Selector::parse(word).unwrap().matches(&run), "{word}");
    }
    for word in [
        "ch02",
        "ch01:online",
        "label:other",
        "run:02",
        "session:02",
        "ch01@box",
        "ch01%fff",
        "ch01#b",
        "engine:vllm",
    ] {
        assert!(!Selector::parse(word).unwrap().matches(&run), "{word}");
    }
    run.status.spec.arm.engine = EngineRef::Named {
        name: "before".into(),
        chapter: Some("ch01".into()),
    };
    run.engine = "before".into();
    assert!(Selector::parse("engine:before").unwrap().matches(&run));
    assert!(
        !Selector::parse("ch01").unwrap().matches(&run),
        "a chapter of another build is selected by its engine's name"
    );
}

#[test]
fn a_prefix_must_be_unique() {
    let runs = [
        fixtures::run("01AA", "ch01", Mode::Offline),
        fixtures::run("01AB", "ch01", Mode::Offline),
    ];
    let error = Selector::parse("run:01A")
        .unwrap()
        .select(&runs)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "`run:01A` is the start of several ids: 01AA, 01AB; give more of it"
    );
    let one = Selector::parse("run:01aa").unwrap();
    assert_eq!(one.select(&runs).unwrap().len(), 1);
    let none = Selector::parse("ch09").unwrap().select(&runs).unwrap_err();
    assert_eq!(
        none.to_string(),
        "no run matches `ch09`; `controller runs` lists what there is"
    );
    assert_eq!(
        Selector::parse("session:0")
            .unwrap()
            .select(&runs)
            .unwrap()
            .len(),
        2,
        "two runs of one session are one session"
    );
}

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z0-9._+-]{1,12}"
}

prop_compose! {
    fn selectors()(
        head in prop_oneof![
            (0u8..=99).prop_map(|n| Head::Chapter(format!("ch{n:02}"))),
            name().prop_map(Head::Engine),
            (name(), 1u16..).prop_map(|(host, port)| Head::Url(format!("http://{host}:{port}"))),
            name().prop_map(Head::Label),
            name().prop_map(Head::Run),
            name().prop_map(Head::Session),
            name().prop_map(Head::File),
        ],
        mode in proptest::option::of(prop_oneof![Just(Mode::Offline), Just(Mode::Online)]),
        agent in proptest::option::of(name()),
        build in proptest::option::of(name()),
        arm in proptest::option::of(name()),
    ) -> Selector {
        Selector { head, mode, agent, build, arm }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(selector in selectors()) {
        prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
    }

    #[test]
    fn any_text_is_read_or_refused(word in "\\PC{0,24}") {
        if let Ok(selector) = Selector::parse(&word) {
            prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
        }
    }
}
