//! A server of an odd manner, for looking at: OpenAI's API but for what a test says.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Tokens of an answer that ends by itself.
const OWN_END: u64 = 2;

/// Where a stream has its counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    AtTheEnd,
    InEach,
    AfterDone,
    Null,
    Never,
}

/// What a server does; the default is as the API has it.
#[derive(Clone)]
pub struct Manner {
    pub line_end: &'static str,
    pub data: &'static str,
    pub ping: &'static str,
    pub counts: Counts,
    pub whole_counts: bool,
    pub refuses_options: bool,
    pub html_errors: bool,
    pub done: bool,
    pub finish: bool,
    pub close_delimited: bool,
    pub keeps_connections: bool,
    pub tokens_per_event: usize,
    pub ignores_max_tokens: bool,
    pub honours_ignore_eos: bool,
    pub honours_seed: bool,
    pub refused_fields: &'static [&'static str],
    pub hangs: fn(&str, &Value) -> bool,
    pub streams: bool,
    /// Status of every answer, with the request's own key in its words.
    pub refuses_all: Option<u16>,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            line_end: "\n",
            data: "data: ",
            ping: "",
            counts: Counts::AtTheEnd,
            whole_counts: true,
            refuses_options: false,
            html_errors: false,
            done: true,
            finish: true,
            close_delimited: false,
            keeps_connections: true,
            tokens_per_event: 1,
            ignores_max_tokens: false,
            honours_ignore_eos: true,
            honours_seed: true,
            refused_fields: &[],
            hangs: |_, _| false,
            streams: true,
            refuses_all: None,
        }
    }
}

/// A running server; it ends with the test's runtime.
pub struct Server {
    pub url: String,
    /// Requests so far; draws without a seed differ by it.
    count: Arc<Mutex<u64>>,
}

impl Server {
    pub fn requests(&self) -> u64 {
        *self.count.lock().unwrap()
    }
}

pub async fn serve(manner: Manner) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(Mutex::new(0));
    let server = Server {
        url,
        count: count.clone(),
    };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(talk(stream, manner.clone(), count.clone()));
        }
    });
    server
}

async fn talk(mut stream: TcpStream, manner: Manner, count: Arc<Mutex<u64>>) -> Option<()> {
    loop {
        let (head, body) = read_request(&mut stream).await?;
        let number = {
            let mut count = count.lock().unwrap();
            *count += 1;
            *count
        };
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let parsed = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if (manner.hangs)(&path, &parsed) {
            std::future::pending::<()>().await;
        }
        let answer = manner.answer(&head, &path, &parsed, number);
        stream.write_all(answer.as_bytes()).await.ok()?;
        let streamed = answer.contains("event-stream");
        if !manner.keeps_connections || (streamed && manner.close_delimited) {
            return None;
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let length = head.lines().find_map(|line| {
        let line = line.to_ascii_lowercase();
        line.strip_prefix("content-length: ")?.parse().ok()
    });
    let mut body = bytes.split_off(end + 4);
    let had = body.len();
    body.resize(length.unwrap_or(0), 0);
    stream.read_exact(&mut body[had..]).await.ok()?;
    Some((head, body))
}

impl Manner {
    fn answer(&self, head: &str, path: &str, asked: &Value, number: u64) -> String {
        let key = head.lines().find(|line| line.starts_with("authorization"));
        if let Some(status) = self.refuses_all {
            return self.error(
                status,
                &format!("no entry with {}", key.unwrap_or("no key")),
            );
        }
        match path {
            "/health" => return plain(200, "text/plain", "ok"),
            "/v1/models" => {
                let list = json!({"object": "list", "data": [{"id": "m"}]});
                return plain(200, "application/json", &list.to_string());
            }
            _ => {}
        }
        if !asked.is_object() {
            return self.error(400, "the body is not JSON");
        }
        if asked["model"] != "m" {
            return self.error(404, "no such model");
        }
        if self.refuses_options && !asked["stream_options"].is_null() {
            return self.error(400, "stream_options: unknown field");
        }
        for field in self.refused_fields {
            if !asked[field].is_null() {
                return self.error(400, &format!("{field}: unknown field"));
            }
        }
        let chat = path == "/v1/chat/completions";
        let (words, finish) = self.words(asked, number);
        if asked["stream"] == true && self.streams {
            self.stream(chat, &words, finish, !asked["stream_options"].is_null())
        } else {
            self.whole(chat, &words, finish)
        }
    }

    fn words(&self, asked: &Value, number: u64) -> (Vec<String>, &'static str) {
        let ceiling = asked["max_tokens"].as_u64().unwrap_or(16);
        let short = asked.to_string().contains("single word");
        let ignoring = asked["ignore_eos"] == true && self.honours_ignore_eos;
        let (length, finish) = match short && !ignoring {
            true if ceiling > OWN_END => (OWN_END, "stop"),
            _ if self.ignores_max_tokens => (40, "stop"),
            _ => (ceiling, "length"),
        };
        let draw = match asked["temperature"] == 1 {
            true if self.honours_seed => asked["seed"].as_u64().unwrap_or(number),
            true => number,
            false => 0,
        };
        let words = (0..length).map(|i| format!("w{i}.{draw} ")).collect();
        (words, finish)
    }

    fn whole(&self, chat: bool, words: &[String], finish: &str) -> String {
        let text = words.concat();
        let mut choice = json!({"index": 0, "finish_reason": finish});
        match chat {
            true => choice["message"] = json!({"role": "assistant", "content": text}),
            false => choice["text"] = json!(text),
        }
        let mut document = json!({"choices": [choice]});
        if self.whole_counts {
            document["usage"] = json!({"prompt_tokens": 5, "completion_tokens": words.len()});
        }
        plain(200, "application/json", &document.to_string())
    }

    fn stream(&self, chat: bool, words: &[String], finish: &str, counted: bool) -> String {
        let piece = |text: &str| match chat {
            true => json!({"index": 0, "delta": {"content": text}}),
            false => json!({"index": 0, "text": text}),
        };
        let usage = |tokens: usize| json!({"prompt_tokens": 5, "completion_tokens": tokens});
        let mut body = self.event(&json!({"choices": [piece("")]}));
        let mut said = 0;
        for words in words.chunks(self.tokens_per_event) {
            said += words.len();
            let mut event = json!({"choices": [piece(&words.concat())]});
            match self.counts {
                Counts::InEach => event["usage"] = usage(said),
                Counts::Null => event["usage"] = Value::Null,
                Counts::AtTheEnd | Counts::AfterDone | Counts::Never => {}
            }
            body += self.ping;
            body += &self.event(&event);
        }
        if self.finish {
            let mut last = piece("");
            last["finish_reason"] = json!(finish);
            body += &self.event(&json!({"choices": [last]}));
        }
        let counts = self.event(&json!({"choices": [], "usage": usage(said)}));
        if self.counts == Counts::AtTheEnd && counted {
            body += &counts;
        }
        if self.done {
            body += &format!("{0}[DONE]{1}{1}", self.data, self.line_end);
        }
        if self.counts == Counts::AfterDone {
            body += &counts;
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
        match self.close_delimited {
            true => format!("{head}\r\n{body}"),
            false => format!(
                "{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
                body.len()
            ),
        }
    }

    fn event(&self, document: &Value) -> String {
        format!("{0}{document}{1}{1}", self.data, self.line_end)
    }

    fn error(&self, status: u16, message: &str) -> String {
        if self.html_errors {
            return plain(status, "text/html", "<html><h1>Sorry</h1></html>");
        }
        let document = json!({"error": {"message": message, "type": "x", "code": null}});
        plain(status, "application/json", &document.to_string())
    }
}

fn plain(status: u16, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\nserver: odd/1\r\ncontent-type: {kind}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}
