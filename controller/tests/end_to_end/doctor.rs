//! `controller doctor` by the real programs: what it prints and stores, and its exit codes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;

use controller::record::StoredReport;
use controller::store::Store;

use crate::lab::Lab;

/// `engine serve` of the chapter for tests, once it is ready; it ends with the lab.
fn our_server(lab: &Lab) -> String {
    let args = ["engine", "serve", "--chapter", "fake", "--port", "0"];
    let mut child = lab
        .controller(&args)
        .args(["--option", "tokens=5"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut url = String::new();
    for line in lines.by_ref().map_while(Result::ok) {
        if let Some((_, after)) = line.split_once("listens on ") {
            url = after.split_whitespace().next().unwrap().to_owned();
            break;
        }
    }
    std::thread::spawn(move || {
        lines.for_each(drop);
        child.wait()
    });
    let address = url.strip_prefix("http://").unwrap();
    lab.wait("a ready server", crate::lab::PATIENCE, || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let request =
            format!("GET /health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.starts_with("HTTP/1.1 200")
    });
    url
}

/// A server that gives everyone the same page; what it was sent comes out of the channel.
fn page_server() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = vec![0; 4096];
            let n = stream.read(&mut bytes).unwrap_or(0);
            let head = String::from_utf8_lossy(&bytes[..n]).into_owned();
            let page = format!("<html>no entry: {head}</html>");
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nserver: proxy {}\r\n\
                 content-length: {}\r\n\r\n{page}",
                head.lines()
                    .find_map(|line| line.strip_prefix("x-key: "))
                    .unwrap_or_default(),
                page.len()
            );
            sender.send(head).ok();
            stream.write_all(answer.as_bytes()).ok();
        }
    });
    (url, received)
}

fn stored(db: &Path, url: &str) -> Option<StoredReport> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = Store::open_read(db).await.unwrap();
        let report = store.server_report(url).await.unwrap();
        store.close().await;
        report
    })
}

#[test]
fn our_own_server_is_looked_at_and_the_report_is_kept() {
    let lab = Lab::new();
    let url = our_server(&lab);
    let db = lab.path("bench.db");
    let db_flag = db.to_str().unwrap();
    let text = lab.expect(0, &["doctor", &format!("{url}/v1"), "--db", db_flag]);
    let time = text.find("looked at: ").unwrap() + "looked at: ".len();
    let (before, after) = text.split_at(time);
    let text = format!("{before}TIME{}", &after["2026-02-01 12:00:00Z".len()..]);
    insta::assert_snapshot!("doctor", text.replace(&url, "URL"));

    let printed = lab.json(&["doctor", &url, "--db", db_flag]);
    assert_eq!(printed["schema"], 1);
    assert_eq!(printed["measurable"], true);
    assert_eq!(printed["report"]["counting"], "usage");
    let kept = stored(&db, &format!("{url}/")).unwrap();
    assert_eq!(printed["report_id"], kept.report_id.as_str());
    assert_eq!(kept.agent_name, "local");
    let markdown = lab.expect(
        0,
        &["doctor", &url, "--db", db_flag, "--format", "markdown"],
    );
    assert!(markdown.contains("| seed "), "{markdown}");
}

#[test]
fn what_cannot_be_measured_is_1_and_no_secret_is_kept() {
    let lab = Lab::new();
    let (url, received) = page_server();
    let key = lab.path("key");
    std::fs::write(&key, "sk-hunter2\n").unwrap();
    let db = lab.path("bench.db");
    let output = lab.run(&[
        "doctor",
        &url,
        "--db",
        db.to_str().unwrap(),
        "--header",
        "X-Key: hunter3",
        "--api-key-file",
        key.to_str().unwrap(),
        "--timeout",
        "10s",
    ]);
    let said = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}{errors}");
    assert!(
        said.contains("cannot be measured: chat, completions"),
        "{said}"
    );
    assert!(said.contains("proxy ***"), "{said}");
    // The first connection only sees that there is a server.
    let sent = received.iter().find(|sent| !sent.is_empty()).unwrap();
    assert!(sent.contains("authorization: Bearer sk-hunter2"), "{sent}");
    assert!(stored(&db, &url).is_some());
    let kept = std::fs::read(&db).unwrap();
    for place in [said.as_bytes(), errors.as_bytes(), &kept] {
        assert!(!String::from_utf8_lossy(place).contains("hunter"));
    }
}

#[test]
fn what_is_not_there_is_3_and_what_is_no_url_2() {
    let lab = Lab::new();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    for (args, code, word) in [
        (vec!["doctor", &url], 3, "cannot be reached"),
        (vec!["doctor", "gpu:80"], 2, "http://"),
        (vec!["doctor", &url, "--agent", "nobody"], 2, "nobody"),
        (vec!["doctor", &url, "--header", "hunter2"], 2, "--header"),
        (vec!["doctor", &url, "--timeout", "0"], 2, "--timeout"),
    ] {
        let output = lab.run(&args);
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{line}");
        assert!(line.contains(word) && line.lines().count() == 1, "{line}");
        assert!(!line.contains("hunter2"), "{line}");
    }
}

#[test]
fn a_run_against_a_server_looks_at_it_once_and_keeps_what_was_seen() {
    let lab = Lab::new();
    let url = our_server(&lab);
    let args = ["run", "--url", &url, "--n-runs", "3", "--warmup", "1"];
    let output = lab.run(&args);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains(&format!("looking at {url} first")), "{told}");
    let again = lab.run(&args);
    let told = String::from_utf8(again.stderr).unwrap();
    assert!(!told.contains("looking at"), "{told}");

    let runs = lab.export();
    let reports: Vec<&str> = runs
        .iter()
        .map(|run| run["run"]["server_report"]["report_id"].as_str().unwrap())
        .collect();
    assert_eq!(reports.len(), 2);
    assert_eq!(reports[0], reports[1]);
    let id = runs[0]["run"]["run_id"].as_str().unwrap();
    let page = lab.expect(0, &["runs", "show", id]);
    let (_, server) = page.split_once("\n  server\n").unwrap();
    assert!(server.contains("counting   usage: "), "{server}");
    assert!(server.contains("seed       unknown: "), "{server}");
    assert!(!server.contains("line_ends"), "{server}");
}
