//! A server of others as small as can be: `/health`, `/v1/models`, and the same three words streamed
//! as the answer to every request. What it was started with stands in its log.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

/// The variable that a test sets for it, and that it prints.
const VARIABLE: &str = "FAKE_ENGINE_SET";

/// Serves `names` (`a,b`; `-` for a server without a list) until a signal ends it.
pub fn serve(listener: TcpListener, names: &str) {
    let args: Vec<String> = std::env::args().skip(1).collect();
    println!("args {}", args.join("|"));
    println!("set {:?}", std::env::var(VARIABLE).ok());
    println!("cwd {}", std::env::current_dir().unwrap().display());
    println!("token {:?}", std::env::var("CHAPTERBENCH_TOKEN").ok());
    for stream in listener.incoming() {
        let names = names.to_owned();
        // A client that hangs up is none of our business.
        std::thread::spawn(move || answer(stream.unwrap(), &names).ok());
    }
}

fn answer(stream: TcpStream, names: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let lower = line.trim().to_ascii_lowercase();
        if lower.is_empty() {
            break;
        }
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let asked = String::from_utf8_lossy(&body);
    let (status, kind, said) = match path.as_str() {
        "/health" => (200, "text/plain", "fine".to_owned()),
        "/v1/models" if names != "-" => (200, "application/json", list(names)),
        "/v1/chat/completions" | "/v1/completions" => {
            println!("POST {path} {asked}");
            (200, "text/event-stream", stream_of(path.contains("chat")))
        }
        _ => (404, "text/plain", "nothing here".to_owned()),
    };
    let length = said.len();
    write!(
        reader.get_mut(),
        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{said}"
    )
}

fn list(names: &str) -> String {
    let names = names.split(',').filter(|name| !name.is_empty());
    let entries: Vec<String> = names
        .map(|name| format!(r#"{{"id":{name:?},"object":"model"}}"#))
        .collect();
    format!(r#"{{"object":"list","data":[{}]}}"#, entries.join(","))
}

fn stream_of(chat: bool) -> String {
    let mut text = String::new();
    for word in ["one", " two", " three"] {
        let said = match chat {
            true => format!(r#""delta":{{"content":{word:?}}}"#),
            false => format!(r#""text":{word:?}"#),
        };
        text +=
            &format!("data: {{\"choices\":[{{\"index\":0,{said},\"finish_reason\":null}}]}}\n\n");
    }
    let end = if chat {
        r#""delta":{}"#
    } else {
        r#""text":"""#
    };
    text +=
        &format!("data: {{\"choices\":[{{\"index\":0,{end},\"finish_reason\":\"length\"}}]}}\n\n");
    text += "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":3,\"total_tokens\":7}}\n\n";
    text + "data: [DONE]\n\n"
}
