//! Models by hub id: a cache laid out on disk, and a tiny hub on loopback.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use engine::model::hub::{self, HubEnv};

use crate::support::{self, Copy, first_logits, one_line, vector};

const ID: &str = "some-org/Tiny-Llama";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn env(cache: &Path) -> HubEnv {
    HubEnv {
        cache: cache.to_owned(),
        endpoint: None,
        token: None,
        offline: true,
        silence_max: Duration::from_secs(60),
    }
}

/// A cache as the hub's own tools lay it out, with these files of a model in it.
fn lay_out(cache: &Path, model: &Path, files: &[&str]) {
    let repo = cache.join("models--some-org--Tiny-Llama");
    let snapshot = repo.join("snapshots").join(COMMIT);
    for dir in [&repo.join("refs"), &repo.join("blobs"), &snapshot] {
        fs::create_dir_all(dir).unwrap();
    }
    fs::write(repo.join("refs/main"), COMMIT).unwrap();
    for file in files {
        let blob = repo.join("blobs").join(format!("blob-of-{file}"));
        fs::copy(model.join(file), &blob).unwrap();
        std::os::unix::fs::symlink(blob, snapshot.join(file)).unwrap();
    }
}

#[test]
fn a_complete_cache_needs_no_network() {
    let cache = tempfile::tempdir().unwrap();
    let model = vector("tiny-llama").0;
    lay_out(
        cache.path(),
        &model,
        &["config.json", "tokenizer.json", "model.safetensors"],
    );
    let mut env = env(cache.path());
    let dir = hub::all_files(&env, ID).unwrap();
    assert_eq!(first_logits(&dir), first_logits(&model));
    // Not offline, but nothing listens there: no word is said to it.
    env.offline = false;
    env.endpoint = Some("http://127.0.0.1:1".to_owned());
    assert_eq!(hub::all_files(&env, ID).unwrap(), dir);
}

#[test]
fn offline_the_error_names_the_missing_file() {
    let model = vector("tiny-llama").0;
    let cases: [(&[&str], &str); 3] = [
        (&[], "tokenizer.json"),
        (&["tokenizer.json"], "config.json"),
        (&["tokenizer.json", "config.json"], "model.safetensors"),
    ];
    for (files, missing) in cases {
        let cache = tempfile::tempdir().unwrap();
        lay_out(cache.path(), &model, files);
        let error = one_line(&hub::all_files(&env(cache.path()), ID).unwrap_err());
        let expected = format!("model {ID}: {missing} is not in the cache");
        assert!(
            error.starts_with(&expected) && error.contains("HF_HUB_OFFLINE"),
            "{error}"
        );
    }
    // An index is there, and one of its shards is not.
    let cache = tempfile::tempdir().unwrap();
    let copy = Copy::of("tiny-llama");
    let index = r#"{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}"#;
    fs::write(copy.file("model.safetensors.index.json"), index).unwrap();
    fs::write(copy.file("model-00001-of-00002.safetensors"), "").unwrap();
    let files = [
        "tokenizer.json",
        "config.json",
        "model.safetensors.index.json",
        "model-00001-of-00002.safetensors",
    ];
    lay_out(cache.path(), copy.path(), &files);
    let error = one_line(&hub::all_files(&env(cache.path()), ID).unwrap_err());
    assert!(
        error.contains("model-00002-of-00002.safetensors is not in the cache"),
        "{error}"
    );
}

/// Requests of one client: paths, and whether the right token came along.
type Seen = Arc<Mutex<Vec<(String, bool)>>>;

/// A hub that serves the files of a directory as `ID`, with the token `secret` if one is needed.
/// Its thread ends with the test program.
fn tiny_hub(files: PathBuf, needs_token: bool) -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let seen = Seen::default();
    let log = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap(), &files, needs_token, &log);
        }
    });
    (endpoint, seen)
}

fn answer(mut stream: TcpStream, files: &Path, needs_token: bool, seen: &Seen) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let Some(Ok(first)) = lines.next() else {
        return;
    };
    let path = first.split(' ').nth(1).unwrap().to_owned();
    let mut headers = BTreeMap::new();
    for line in lines
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
    {
        let (name, value) = line.split_once(": ").unwrap();
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let allowed = headers
        .get("authorization")
        .is_some_and(|value| value == "Bearer secret");
    seen.lock().unwrap().push((path.clone(), allowed));
    let file = path
        .strip_prefix(&format!("/{ID}/resolve/main/"))
        .map(|name| files.join(name));
    let reply = match file.map(fs::read) {
        _ if needs_token && !allowed => (401, Vec::new(), String::new()),
        Some(Ok(bytes)) => {
            let range = headers
                .get("range")
                .and_then(|range| range.strip_prefix("bytes="));
            let (from, to) = range
                .and_then(|range| range.split_once('-'))
                .unwrap_or(("0", ""));
            let from: usize = from.parse().unwrap();
            let to = to
                .parse()
                .map_or(bytes.len(), |last: usize| (last + 1).min(bytes.len()));
            let range = format!(
                "Content-Range: bytes {from}-{}/{}\r\n",
                to.saturating_sub(1),
                bytes.len()
            );
            (206, bytes[from..to].to_vec(), range)
        }
        _ => (404, Vec::new(), String::new()),
    };
    let (status, body, range) = reply;
    let etag = format!("etag-{}", path.rsplit('/').next().unwrap());
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{range}ETag: \"{etag}\"\r\nX-Repo-Commit: {COMMIT}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // A client that has what it wants may be gone.
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(&body));
}

#[test]
fn only_the_needed_files_are_fetched_and_only_once() {
    let model = Copy::of("tiny-llama");
    for surplus in ["pytorch_model.bin", "README.md", "model.onnx"] {
        fs::write(model.file(surplus), "not needed").unwrap();
    }
    fs::write(
        model.file("generation_config.json"),
        r#"{"eos_token_id": [2, 7]}"#,
    )
    .unwrap();
    let cache = tempfile::tempdir().unwrap();
    let (endpoint, seen) = tiny_hub(model.path().to_owned(), true);
    let env = HubEnv {
        cache: cache.path().join("hub"),
        endpoint: Some(endpoint),
        token: Some("secret".to_owned()),
        offline: false,
        ..env(cache.path())
    };

    let small = hub::small_files(&env, ID).unwrap();
    assert!(
        !small.join("model.safetensors").exists(),
        "a look at a model fetches no weights"
    );
    let dir = hub::all_files(&env, ID).unwrap();
    assert_eq!(first_logits(&dir), first_logits(model.path()));
    let files: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(files.len(), 4, "{files:?}");
    let requests = std::mem::take(&mut *seen.lock().unwrap());
    assert!(requests.iter().all(|(_, allowed)| *allowed));
    assert!(
        requests
            .iter()
            .all(|(path, _)| !path.contains("pytorch") && !path.contains("README"))
    );

    assert_eq!(hub::all_files(&env, ID).unwrap(), dir);
    assert!(
        seen.lock().unwrap().is_empty(),
        "what is complete is not asked for again"
    );
    assert_eq!(
        hub::all_files(
            &HubEnv {
                offline: true,
                ..env
            },
            ID
        )
        .unwrap(),
        dir
    );
}

#[test]
fn a_sharded_model_is_fetched_by_its_index() {
    let model = Copy::of("tiny-llama");
    let weights = support::read_weights(&model.file("model.safetensors"));
    fs::remove_file(model.file("model.safetensors")).unwrap();
    let name = "model-00001-of-00001.safetensors";
    let map: BTreeMap<_, _> = weights
        .keys()
        .map(|tensor| (tensor.clone(), name))
        .collect();
    support::write_weights(&model.file(name), weights);
    let index = serde_json::json!({ "weight_map": map }).to_string();
    fs::write(model.file("model.safetensors.index.json"), index).unwrap();
    let cache = tempfile::tempdir().unwrap();
    let (endpoint, _) = tiny_hub(model.path().to_owned(), false);
    let env = HubEnv {
        endpoint: Some(endpoint),
        offline: false,
        ..env(cache.path())
    };
    let dir = hub::all_files(&env, ID).unwrap();
    assert_eq!(first_logits(&dir), first_logits(vector("tiny-llama").0));
}

#[test]
fn a_model_that_moved_on_is_taken_whole_at_its_newer_commit() {
    const OLD: &str = "fedcba9876543210fedcba9876543210fedcba98";
    let model = vector("tiny-llama").0;
    let cache = tempfile::tempdir().unwrap();
    lay_out(cache.path(), &model, &["config.json", "tokenizer.json"]);
    let repo = cache.path().join("models--some-org--Tiny-Llama");
    let snapshots = repo.join("snapshots");
    fs::rename(snapshots.join(COMMIT), snapshots.join(OLD)).unwrap();
    fs::write(repo.join("refs/main"), OLD).unwrap();
    let (endpoint, _) = tiny_hub(model.clone(), false);
    let env = HubEnv {
        endpoint: Some(endpoint),
        offline: false,
        ..env(cache.path())
    };
    let dir = hub::all_files(&env, ID).unwrap();
    assert!(dir.ends_with(COMMIT), "{}", dir.display());
    assert_eq!(first_logits(&dir), first_logits(&model));
}

#[test]
fn what_the_hub_refuses_is_one_clear_line() {
    let model = Copy::of("tiny-llama");
    let cache = tempfile::tempdir().unwrap();
    let (endpoint, _) = tiny_hub(model.path().to_owned(), true);
    let gated = HubEnv {
        endpoint: Some(endpoint),
        offline: false,
        ..env(cache.path())
    };
    let error = one_line(&hub::all_files(&gated, ID).unwrap_err());
    assert!(
        error.contains("401") && error.contains("HF_TOKEN"),
        "{error}"
    );

    let (endpoint, _) = tiny_hub(model.path().to_owned(), false);
    let open = HubEnv {
        endpoint: Some(endpoint),
        offline: false,
        ..env(cache.path())
    };
    let error = one_line(&hub::all_files(&open, "some-org/other").unwrap_err());
    assert!(
        error.contains("tokenizer.json is not there: no such model on the hub"),
        "{error}"
    );

    let nobody = HubEnv {
        endpoint: Some("http://127.0.0.1:1".to_owned()),
        offline: false,
        ..env(cache.path())
    };
    let error = one_line(&hub::all_files(&nobody, ID).unwrap_err());
    assert!(
        error.starts_with(&format!("model {ID}: http://127.0.0.1:1/")),
        "{error}"
    );
}

#[test]
fn a_silent_hub_is_given_up() {
    // The kernel takes the connection and the request; nobody ever answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let cache = tempfile::tempdir().unwrap();
    let silent = HubEnv {
        endpoint: Some(endpoint.clone()),
        offline: false,
        silence_max: Duration::from_millis(200),
        ..env(cache.path())
    };
    let error = one_line(&hub::all_files(&silent, ID).unwrap_err());
    assert!(
        error.starts_with(&format!("model {ID}: {endpoint}/"))
            && error.ends_with("the hub was silent for 200ms"),
        "{error}"
    );
}

#[test]
fn the_usual_variables_count() {
    let of = |pairs: &[(&str, &str)]| {
        let pairs: BTreeMap<String, String> = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        HubEnv::from_variables(|name| pairs.get(name).cloned())
    };
    let env = of(&[("HOME", "/h")]).unwrap();
    assert_eq!(env.cache, Path::new("/h/.cache/huggingface/hub"));
    assert_eq!((env.endpoint, env.token, env.offline), (None, None, false));
    assert_eq!(
        of(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")])
            .unwrap()
            .cache,
        Path::new("/x/huggingface/hub")
    );
    assert_eq!(
        of(&[("HOME", "/h"), ("HF_HOME", "/hf")]).unwrap().cache,
        Path::new("/hf/hub")
    );
    let all = [
        ("HF_HOME", "/hf"),
        ("HF_HUB_CACHE", "/c"),
        ("HF_ENDPOINT", "http://mirror/"),
        ("HF_TOKEN", "t"),
        ("HF_HUB_OFFLINE", "1"),
        ("HF_HUB_DOWNLOAD_TIMEOUT", "7"),
    ];
    let env = of(&all).unwrap();
    assert_eq!(env.silence_max, Duration::from_secs(7));
    assert_eq!(env.cache, Path::new("/c"));
    assert_eq!(
        (env.endpoint.as_deref(), env.token.as_deref(), env.offline),
        (Some("http://mirror"), Some("t"), true)
    );
    assert!(
        !of(&[("HOME", "/h"), ("HF_HUB_OFFLINE", "0")])
            .unwrap()
            .offline
    );
    assert!(one_line(&of(&[]).unwrap_err()).contains("HF_HOME"));

    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("token"), "from-file\n").unwrap();
    assert_eq!(
        of(&[("HF_HOME", home.path().to_str().unwrap())])
            .unwrap()
            .token
            .as_deref(),
        Some("from-file")
    );
}

#[test]
fn ids_have_an_owner_and_a_name() {
    for id in [
        "a/b",
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "Qwen/Qwen2.5-0.5B",
    ] {
        assert!(hub::is_id(id), "{id}");
    }
    for other in [
        "a", "a/", "/b", "a/b/c", "./b", "a/..", "a b/c", "~/model", "a/-b",
    ] {
        assert!(!hub::is_id(other), "{other}");
    }
}
