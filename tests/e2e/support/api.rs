//! The API server over HTTPS, as a user with all permissions: cheap enough for hundreds of requests, and without the
//! library.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, IpAddr, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

use super::control_plane::USERS;

/// What the API server answers.
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body; null where it is no JSON.
    pub body: Value,
}

/// A connection to the API server.
pub type Connection = StreamOwned<ClientConnection, TcpStream>;

/// The way to the API server as the user who may do everything.
#[derive(Debug, Clone, Copy)]
pub struct Api(&'static Way);

#[derive(Debug)]
struct Way {
    port: u16,
    authority: PathBuf,
    /// Kept, so that the next connection resumes the session.
    tls: OnceLock<Arc<ClientConfig>>,
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
    /// Returns the way to a port of 127.0.0.1; `authority` is the file with the certificate that the server's is checked with,
    /// which may come later.
    pub fn new(port: u16, authority: PathBuf) -> Self {
        // Leaked, a few bytes a control plane, so that tests copy it into their threads.
        Api(Box::leak(Box::new(Way { port, authority, tls: OnceLock::new() })))
    }

    /// Connects; a request on the connection needs the header of [`authorization`].
    pub fn connect(self) -> io::Result<Connection> {
        let tls = match self.0.tls.get() {
            Some(tls) => tls,
            None => {
                let tls = self.tls_config()?;
                self.0.tls.get_or_init(|| tls)
            }
        };
        let name = ServerName::IpAddress(IpAddr::from(std::net::Ipv4Addr::LOCALHOST));
        let connection = ClientConnection::new(tls.clone(), name).map_err(io::Error::other)?;
        let stream = TcpStream::connect(("127.0.0.1", self.0.port))?;
        stream.set_nodelay(true)?;
        Ok(StreamOwned::new(connection, stream))
    }

    fn tls_config(self) -> io::Result<Arc<ClientConfig>> {
        let certificates = CertificateDer::pem_file_iter(&self.0.authority).map_err(io::Error::other)?;
        let certificates: Vec<_> = certificates.collect::<Result<_, _>>().map_err(io::Error::other)?;
        // The server's own certificate comes first. Its authority is missing while the server still writes the file.
        let [_, authority] = &certificates[..] else { return Err(io::ErrorKind::UnexpectedEof.into()) };
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone()).map_err(io::Error::other)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(io::Error::other)?;
        Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
    }

    /// Returns what a request is answered with, unless the server cannot be reached.
    pub fn try_request(self, method: &str, path: &str, content_type: &str, body: &str) -> io::Result<Answer> {
        let mut connection = self.connect()?;
        let (length, authorization) = (body.len(), authorization());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAccept: application/json\r\n\
             {authorization}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
        );
        connection.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice())?;
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer)?;
        let (head, body) = split_head(&answer).ok_or(io::ErrorKind::UnexpectedEof)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line");
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if chunked { without_chunks(body) } else { body.to_vec() };
        Ok(Answer { status, body: serde_json::from_slice(&body).unwrap_or(Value::Null) })
    }

    /// Returns what a request is answered with.
    pub fn request(self, method: &str, path: &str, content_type: &str, body: &str) -> Answer {
        let answer = self.try_request(method, path, content_type, body);
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    fn must(self, method: &str, path: &str, content_type: &str, body: &str) -> Value {
        let answer = self.request(method, path, content_type, body);
        assert!((200..300).contains(&answer.status), "{method} {path} {body}: {}", answer.body);
        answer.body
    }

    /// Tells whether there is something at a path; while the server cannot be reached there is not.
    pub fn has(self, path: &str) -> bool {
        self.try_request("GET", path, "application/json", "").is_ok_and(|answer| answer.status == 200)
    }

    /// Returns an object or list.
    pub fn get(self, path: &str) -> Value {
        self.must("GET", path, "application/json", "")
    }

    /// Returns the items of a list, each with the type that only the list has.
    pub fn items(self, path: &str) -> Vec<Value> {
        let mut list = self.get(path);
        let kind = list["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).map(Value::from);
        let (kind, version) = (kind.expect("a list"), list["apiVersion"].take());
        let Value::Array(mut items) = list["items"].take() else { panic!("{path} is no list") };
        for item in &mut items {
            item["kind"] = kind.clone();
            item["apiVersion"] = version.clone();
        }
        items
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

/// Returns the header that makes a request one of the user who may do everything.
pub fn authorization() -> String {
    format!("Authorization: Bearer {}", USERS[0].1)
}

/// What `kubectl get` is asked for, as paths of the API.
pub struct Asked {
    /// One for each kind.
    pub paths: Vec<String>,
    /// Whether `metadata.managedFields` are shown.
    pub shows_managed_fields: bool,
}

/// Reads the arguments of `kubectl get`: kinds, a name, `-n`, `-A`, `-l`, `--field-selector` and `--show-managed-fields`.
pub fn asked(args: &[&str]) -> Asked {
    let (mut words, mut namespace, mut query) = (Vec::new(), Some("default"), String::new());
    let mut shows_managed_fields = false;
    let mut select = |parameter: &str, selector: &str| {
        let selector = utf8_percent_encode(selector, NON_ALPHANUMERIC);
        write!(query, "{}{parameter}={selector}", if query.is_empty() { '?' } else { '&' }).unwrap();
    };
    let mut args = args.iter().copied();
    while let Some(arg) = args.next() {
        let (flag, value) = arg.split_once('=').filter(|_| arg.starts_with("--")).unwrap_or((arg, ""));
        let mut value = || if value.is_empty() { args.next().expect("a value") } else { value };
        match flag {
            "-A" => namespace = None,
            "-n" | "--namespace" => namespace = Some(value()),
            "-l" => select("labelSelector", value()),
            "--field-selector" => select("fieldSelector", value()),
            "--show-managed-fields" => shows_managed_fields = true,
            _ => {
                assert!(!arg.starts_with('-'), "{arg} is not known here");
                words.extend(arg.split('/'));
            }
        }
    }
    let (kinds, name) = (words[0], words.get(1).map_or_else(String::new, |name| format!("/{name}")));
    let path = |kind| {
        let (version, namespaced, resource) = resource(kind);
        let namespace = namespace.filter(|_| namespaced).map_or_else(String::new, |of| format!("/namespaces/{of}"));
        format!("/{version}{namespace}/{resource}{name}{query}")
    };
    Asked { paths: kinds.split(',').map(path).collect(), shows_managed_fields }
}

/// Returns the version of a kind, whether it has namespaces, and its name in a path.
fn resource(kind: &str) -> (&'static str, bool, &'static str) {
    match kind {
        "ds" | "daemonset" | "daemonsets" | "daemonsets.apps" => ("apis/apps/v1", true, "daemonsets"),
        "daemonsets.apps.kruise.io" => ("apis/apps.kruise.io/v1beta1", true, "daemonsets"),
        "controllerrevisions" | "controllerrevisions.apps" => ("apis/apps/v1", true, "controllerrevisions"),
        "pod" | "pods" => ("api/v1", true, "pods"),
        "events" => ("api/v1", true, "events"),
        "limitranges" => ("api/v1", true, "limitranges"),
        "resourcequota" => ("api/v1", true, "resourcequotas"),
        "serviceaccount" | "serviceaccounts" => ("api/v1", true, "serviceaccounts"),
        "node" | "nodes" => ("api/v1", false, "nodes"),
        "namespaces" => ("api/v1", false, "namespaces"),
        "leases" => ("apis/coordination.k8s.io/v1", true, "leases"),
        "persistentvolumeclaims" => ("api/v1", true, "persistentvolumeclaims"),
        "persistentvolumes" => ("api/v1", false, "persistentvolumes"),
        "storageclasses" => ("apis/storage.k8s.io/v1", false, "storageclasses"),
        "csinodes" => ("apis/storage.k8s.io/v1", false, "csinodes"),
        "csidrivers" => ("apis/storage.k8s.io/v1", false, "csidrivers"),
        "csistoragecapacities" => ("apis/storage.k8s.io/v1", true, "csistoragecapacities"),
        "volumeattachments" => ("apis/storage.k8s.io/v1", false, "volumeattachments"),
        "deviceclasses" => ("apis/resource.k8s.io/v1", false, "deviceclasses"),
        "resourceclaims" => ("apis/resource.k8s.io/v1", true, "resourceclaims"),
        "resourceclaimtemplates" => ("apis/resource.k8s.io/v1", true, "resourceclaimtemplates"),
        "resourceslices" => ("apis/resource.k8s.io/v1", false, "resourceslices"),
        "runtimeclasses.node.k8s.io" => ("apis/node.k8s.io/v1", false, "runtimeclasses"),
        "priorityclasses.scheduling.k8s.io" => ("apis/scheduling.k8s.io/v1", false, "priorityclasses"),
        _ => panic!("{kind} is not known here: add its path"),
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
