//! The API server in plain HTTP, by way of `kubectl proxy`: cheap enough to be asked hundreds of
//! times, and with nothing of the library between.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::Value;

use super::control_plane::{ControlPlane, free_ports};

/// What the API server answers.
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body; null where it is no JSON.
    pub body: Value,
}

/// The way to the API server as the user who may do everything.
#[derive(Debug, Clone, Copy)]
pub struct Api {
    port: u16,
}

/// A way of changing an object.
#[derive(Debug, Clone, Copy)]
pub enum Patch {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
}

impl Api {
    /// Starts `kubectl proxy` for a control plane.
    pub fn start(control_plane: &ControlPlane) -> Self {
        let [port] = free_ports();
        let mut command: Command = control_plane.kubectl_command();
        command.arg("--kubeconfig").arg(control_plane.kubeconfig()).args(["proxy", "--port", &port.to_string()]);
        control_plane.spawn("kubectl-proxy", &mut command);
        control_plane.wait_until("kubectl proxies", || TcpStream::connect(("127.0.0.1", port)).ok());
        Api { port }
    }

    /// Returns the port of 127.0.0.1 that takes requests in plain HTTP.
    pub fn port(self) -> u16 {
        self.port
    }

    /// Returns what a request is answered with.
    pub fn request(self, method: &str, path: &str, content_type: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAccept: application/json\r\n\
             Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let (head, body) = split_head(&answer).unwrap_or_else(|| panic!("{method} {path}: no answer"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line");
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if chunked { without_chunks(body) } else { body.to_vec() };
        Answer { status, body: serde_json::from_slice(&body).unwrap_or(Value::Null) }
    }

    fn must(self, method: &str, path: &str, content_type: &str, body: &str) -> Value {
        let answer = self.request(method, path, content_type, body);
        assert!((200..300).contains(&answer.status), "{method} {path} {body}: {}", answer.body);
        answer.body
    }

    /// Returns an object or list.
    pub fn get(self, path: &str) -> Value {
        self.must("GET", path, "application/json", "")
    }

    /// Returns the items of a list.
    pub fn items(self, path: &str) -> Vec<Value> {
        match self.get(path)["items"].take() {
            Value::Array(items) => items,
            other => panic!("{path} is no list but {other}"),
        }
    }

    /// Creates an object in the collection at `path`, and returns it.
    pub fn create(self, path: &str, object: &Value) -> Value {
        self.must("POST", path, "application/json", &object.to_string())
    }

    /// Changes an object, and returns it as it is then.
    pub fn patch(self, path: &str, patch: Patch, body: &Value) -> Value {
        let content_type = match patch {
            Patch::Json => "application/json-patch+json",
            Patch::Merge => "application/merge-patch+json",
        };
        self.must("PATCH", path, content_type, &body.to_string())
    }

    /// Deletes an object.
    pub fn delete(self, path: &str) {
        self.must("DELETE", path, "application/json", "");
    }
}

/// Returns the head of a message, and what follows it.
pub fn split_head(message: &[u8]) -> Option<(&str, &[u8])> {
    let end = message.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some((std::str::from_utf8(&message[..end]).ok()?, &message[end + 4..]))
}

fn without_chunks(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = body.windows(2).position(|window| window == b"\r\n") {
        let length = std::str::from_utf8(&body[..end]).unwrap().split(';').next().unwrap();
        let length = usize::from_str_radix(length.trim(), 16).expect("the length of a chunk");
        let start = end + 2;
        whole.extend_from_slice(&body[start..start + length]);
        body = &body[start + length + 2..];
    }
    whole
}
