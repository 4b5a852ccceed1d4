//! A proxy between the client and the API server: it sees every request, and can act before a request is forwarded or
//! after it was answered. This lets a test act exactly between a read and a write.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use jiff::SignedDuration;
use jiff::fmt::rfc2822;
use serde_json::json;

use super::api::{Api, authorization, split_head};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    /// GET, PATCH and so on.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The body.
    pub body: String,
}

impl Request {
    /// Tells whether it is a watch, whose answer does not end.
    pub fn is_watch(&self) -> bool {
        self.path.contains("watch=true") || self.path.contains("watch=1")
    }
}

/// When an action takes place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The request has come and was not passed on.
    Before,
    /// The API server has answered, and the client does not know yet.
    After,
}

/// What goes wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It is not passed on, and this is the answer.
    Answer(String),
    /// It is passed on, and this is the answer nevertheless.
    OtherAnswer(String),
    /// It is not passed on, and the connection ends.
    LostBefore,
    /// It is passed on, and the connection ends without an answer.
    LostAfter,
    /// It is passed on, and the answer ends in the middle of its body.
    Truncated,
    /// It is passed on after this time.
    Stall(Duration),
}

type Action = Box<dyn FnMut(Moment, &Request) + Send>;

/// Passes requests on as the user who may do everything.
pub struct Interceptor {
    kubeconfig: PathBuf,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Interceptor {
    /// Starts to listen; `action` is called before each request, and after those that are no GET.
    pub fn start(api: Api, folder: &Path, action: impl FnMut(Moment, &Request) + Send + 'static) -> Self {
        Self::listen(api, folder, Box::new(action), None, None)
    }

    /// Starts to listen; something goes wrong with one request, the one before which there were so many.
    pub fn with_fault(api: Api, folder: &Path, number: usize, fault: Fault) -> Self {
        Self::listen(api, folder, Box::new(|_, _| {}), Some((number, fault)), None)
    }

    /// Starts to listen; the answers are dated by a clock that is ahead by so much, and `action` is called as by [`start`](Self::start).
    pub fn with_clock(
        api: Api,
        folder: &Path,
        ahead: SignedDuration,
        action: impl FnMut(Moment, &Request) + Send + 'static,
    ) -> Self {
        Self::listen(api, folder, Box::new(action), None, Some(ahead))
    }

    fn listen(
        api: Api,
        folder: &Path,
        action: Action,
        fault: Option<(usize, Fault)>,
        ahead: Option<SignedDuration>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let kubeconfig = folder.join(format!("through-{port}.kubeconfig"));
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": ""}}],
            "current-context": "test",
        });
        fs::write(&kubeconfig, config.to_string()).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let action = Arc::new(Mutex::new(action));
        let interceptor = Interceptor { kubeconfig, seen: seen.clone() };
        // It ends with the process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (seen, action, fault) = (seen.clone(), action.clone(), fault.clone());
                thread::spawn(move || {
                    let client = Client { stream: client, ahead, head: ahead.map(|_| Vec::new()) };
                    pass_on(client, api, &seen, &action, fault);
                });
            }
        });
        interceptor
    }

    /// Returns the kubeconfig of a client whose requests go this way.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns all requests.
    pub fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    /// Returns the requests that would change something.
    pub fn writes(&self) -> Vec<Request> {
        let mut requests = self.requests();
        requests.retain(|request| !["GET", "HEAD"].contains(&request.method.as_str()));
        requests
    }
}

/// The client of a connection.
struct Client {
    stream: TcpStream,
    /// By how much answers are dated ahead.
    ahead: Option<SignedDuration>,
    /// The head of the answer as far as it has come, until it is complete.
    head: Option<Vec<u8>>,
}

impl Client {
    /// Writes a part of an answer, with its date changed.
    fn write_all(&mut self, part: &[u8]) -> std::io::Result<()> {
        let Some(head) = &mut self.head else { return self.stream.write_all(part) };
        head.extend_from_slice(part);
        let Some((text, body)) = split_head(head) else { return Ok(()) };
        let line = |line: &str| match (line.split_once(": "), self.ahead) {
            (Some((name, date)), Some(ahead)) if name.eq_ignore_ascii_case("date") => {
                let date = rfc2822::parse(date).unwrap().timestamp() + ahead;
                format!("{name}: {}", date.strftime("%a, %d %b %Y %H:%M:%S GMT"))
            }
            _ => line.to_owned(),
        };
        let lines = text.split("\r\n").map(line).collect::<Vec<_>>().join("\r\n");
        let answer = [format!("{lines}\r\n\r\n").as_bytes(), body].concat();
        self.head = None;
        self.stream.write_all(&answer)
    }
}

/// Takes one request, passes it on, and hands back what comes. A client that has gone is no matter.
fn pass_on(
    mut client: Client,
    api: Api,
    seen: &Mutex<Vec<Request>>,
    action: &Mutex<Action>,
    fault: Option<(usize, Fault)>,
) {
    let Some((head, request)) = read_request(&mut client.stream) else { return };
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.push(request.clone());
        seen.len() - 1
    };
    let fault = fault.filter(|(at, _)| *at == number).map(|(_, fault)| fault);
    match &fault {
        Some(Fault::Answer(answer)) => return drop(client.write_all(answer.as_bytes())),
        Some(Fault::LostBefore) => return,
        Some(Fault::Stall(time)) => thread::sleep(*time),
        _ => {}
    }
    action.lock().unwrap()(Moment::Before, &request);
    let mut server = api.connect().unwrap();
    // One request a connection, so that the answer's end is the connection's.
    let kept = head.split("\r\n").filter(|line| {
        let line = line.to_ascii_lowercase();
        !line.starts_with("connection:") && !line.starts_with("host:")
    });
    let authorization = authorization();
    let head = kept.chain(["Host: 127.0.0.1", "Connection: close", &authorization]).collect::<Vec<_>>().join("\r\n");
    server.write_all(format!("{head}\r\n\r\n{}", request.body).as_bytes()).unwrap();
    if let Some(fault @ (Fault::LostAfter | Fault::Truncated | Fault::OtherAnswer(_))) = fault {
        let mut answer = Vec::new();
        // A watch does not end: of its answer there is only the beginning.
        let _ = match request.is_watch() {
            true => server.take(100).read_to_end(&mut answer),
            false => server.read_to_end(&mut answer),
        };
        let _ = match fault {
            Fault::Truncated => {
                let body = split_head(&answer).map_or(0, |(_, body)| body.len());
                client.write_all(&answer[..answer.len() - body.div_ceil(2)])
            }
            Fault::OtherAnswer(other) => client.write_all(other.as_bytes()),
            _ => Ok(()),
        };
        return;
    }
    if request.method == "GET" {
        // A watch goes on for as long as the client wants it.
        let mut part = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = server.read(&mut part) {
            if client.write_all(&part[..length]).is_err() {
                return;
            }
        }
    } else {
        let mut answer = Vec::new();
        let _ = server.read_to_end(&mut answer);
        action.lock().unwrap()(Moment::After, &request);
        let _ = client.write_all(&answer);
    }
}

fn read_request(client: &mut TcpStream) -> Option<(String, Request)> {
    let mut message = Vec::new();
    let mut part = vec![0; 64 * 1024];
    loop {
        match client.read(&mut part) {
            Ok(length @ 1..) => message.extend_from_slice(&part[..length]),
            _ => return None,
        }
        let Some((head, body)) = split_head(&message) else { continue };
        let length = head.split("\r\n").find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        if body.len() >= length.unwrap_or(0) {
            let mut words = head.split(' ');
            let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
            let body = String::from_utf8_lossy(body).into_owned();
            return Some((head.to_owned(), Request { method, path, body }));
        }
    }
}
