//! The smallest HTTP/1.1 client that the tests need: one connection a request, read to its end.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;

/// Nothing here takes long; a test that hangs must fail.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

pub struct Reply {
    pub status: u16,
    pub body: String,
}

pub fn get(address: SocketAddr, path: &str) -> Reply {
    read(send(address, "GET", path, ""))
}

pub fn post(address: SocketAddr, path: &str, body: &str) -> Reply {
    read(send(address, "POST", path, body))
}

/// Sends a request and leaves the answer to be read.
pub fn send(address: SocketAddr, method: &str, path: &str, body: &str) -> TcpStream {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).unwrap();
    connection.write_all(body.as_bytes()).unwrap();
    connection
}

pub fn read(mut connection: TcpStream) -> Reply {
    let mut bytes = Vec::new();
    connection.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    Reply {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        body: if chunked {
            unchunk(body)
        } else {
            body.to_owned()
        },
    }
}

/// The body of the chunks; the last must be there, or the body was cut off.
fn unchunk(mut rest: &str) -> String {
    let mut body = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n").unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        body += &after[..size];
        rest = &after[size + 2..];
        if size == 0 {
            assert_eq!(rest, "");
            return body;
        }
    }
}

impl Reply {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}
