//! A small HTTP server on 127.0.0.1 for faults that a real API server cannot be made to show.

use std::io::{BufRead, BufReader, Read, Write};
use std::mem;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};
use tokio::net::TcpSocket;

/// The type of an answer in JSON.
pub const JSON: &str = "application/json";

/// What a client asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The method.
    pub method: String,
    /// The path and query.
    pub target: String,
    /// The headers, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// The client certificate that the connection presents.
    pub certificate: Option<Vec<u8>>,
}

impl Asked {
    /// Returns the value of a header, empty where it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }

    /// Returns the path without the query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap()
    }
}

/// What the server answers.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// Headers besides the content's length.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Whether the connection is closed before the last byte of the body.
    pub cut: bool,
    /// What follows the body, until the sender is dropped.
    pub more: Option<Arc<Mutex<Receiver<Vec<u8>>>>>,
}

impl Reply {
    /// An answer with a body of a type.
    pub fn of(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Reply {
            status,
            headers: vec![("content-type", content_type.to_owned())],
            body: body.into(),
            cut: false,
            more: None,
        }
    }

    /// An answer that goes on for as long as the sender is there.
    pub fn open(content_type: &str) -> (Self, Sender<Vec<u8>>) {
        let (sender, receiver) = channel();
        (Reply { more: Some(Arc::new(Mutex::new(receiver))), ..Self::of(200, content_type, "") }, sender)
    }

    /// No answer: the connection is closed.
    pub fn hang_up() -> Self {
        Reply::of(0, "", "")
    }

    /// Adds a header.
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

type Handler = Arc<dyn Fn(&Asked) -> Reply + Send + Sync>;

/// A running server; its threads end with the test process, or when it is stopped.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    is_stopped: Arc<AtomicBool>,
}

impl Server {
    /// Starts a server without TLS.
    pub fn start(handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::serve(Arc::new(handler), None)
    }

    /// Starts a server with TLS and the certificate of the fixtures.
    pub fn start_tls(handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let certificate = CertificateDer::from_pem_file(fixture("server.crt")).unwrap();
        let key = PrivateKeyDer::from_pem_file(fixture("server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(Arc::new(AnyCertificate))
            .with_single_cert(vec![certificate], key)
            .unwrap();
        Self::serve(Arc::new(handler), Some(Arc::new(tls)))
    }

    fn serve(handler: Handler, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let log = asked.clone();
        let is_stopped = Arc::<AtomicBool>::default();
        let ends = is_stopped.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let (handler, log, tls) = (handler.clone(), log.clone(), tls.clone());
                thread::spawn(move || match tls {
                    None => converse(stream, |_| None, &handler, &log),
                    Some(tls) => {
                        let connection = rustls::ServerConnection::new(tls).unwrap();
                        let stream = rustls::StreamOwned::new(connection, stream);
                        converse(stream, |stream| Some(stream.conn.peer_certificates()?[0].to_vec()), &handler, &log);
                    }
                });
            }
        });
        Server { address, asked, is_stopped }
    }

    /// Stops listening, so that thousands of servers in a test do not use up the open files of the process.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        // The listener waits for the next connection.
        drop(TcpStream::connect(self.address));
    }

    /// Returns what has been asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// Returns what answers in the place of an API server, which says nothing about what became of a request.
pub fn of_proxies() -> [(&'static str, Reply); 7] {
    let page = |code: u16, text: &str| Reply::of(code, "text/html", format!("<html><title>{text}</title></html>"));
    [
        ("302 of a proxy", Reply::of(302, "text/html", "").with("location", "/login")),
        ("400 of a proxy", page(400, "Bad Request")),
        ("401 of a proxy", page(401, "Sign in")),
        ("403 of a proxy", page(403, "Forbidden")),
        ("404 of a proxy", Reply::of(404, "text/plain; charset=utf-8", "404 page not found\n")),
        (
            "404 of a gateway",
            Reply::of(404, JSON, r#"{"status":"Failure","code":404,"reason":"NotFound","message":"no route matched"}"#),
        ),
        ("499 of a proxy", Reply::of(499, "text/plain", "client closed request")),
    ]
}

/// Returns the path of a certificate or key.
pub fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls");
    folder.join(name).display().to_string()
}

/// Returns an address that nothing listens on while this process runs.
pub fn closed_port() -> SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    // A socket that was closed leaves its port to the server of another test.
    mem::forget(socket);
    address
}

/// Answers one request after the other until the client leaves.
fn converse<S: Read + Write>(
    stream: S,
    certificate: impl Fn(&S) -> Option<Vec<u8>>,
    handler: &Handler,
    log: &Mutex<Vec<Asked>>,
) {
    let mut stream = BufReader::new(stream);
    while let Some(asked) = read_request(&mut stream) {
        let asked = Asked { certificate: certificate(stream.get_ref()), ..asked };
        log.lock().unwrap().push(asked.clone());
        let reply = handler(&asked);
        if reply.status == 0 {
            return;
        }
        let mut head = match reply.more {
            Some(_) => format!("HTTP/1.1 {} Words\r\nconnection: close\r\n", reply.status),
            None => format!("HTTP/1.1 {} Words\r\ncontent-length: {}\r\n", reply.status, reply.body.len()),
        };
        for (name, value) in &reply.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let body = if reply.cut { &reply.body[..reply.body.len().saturating_sub(1)] } else { &reply.body };
        let stream = stream.get_mut();
        let sent = stream.write_all(format!("{head}\r\n").as_bytes()).and_then(|()| stream.write_all(body));
        if sent.and_then(|()| stream.flush()).is_err() || reply.cut {
            return;
        }
        if let Some(more) = reply.more {
            let _ = more
                .lock()
                .unwrap()
                .iter()
                .try_for_each(|bytes| stream.write_all(&bytes).and_then(|()| stream.flush()));
            return;
        }
    }
    // Whoever did not speak HTTP is told so; whoever has left does not hear it.
    let _ = stream.get_mut().write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
}

/// Asks for a client certificate and accepts any, as a server does that leaves the decision to what is behind it.
#[derive(Debug)]
struct AnyCertificate;

impl ClientCertVerifier for AnyCertificate {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

fn read_request(stream: &mut impl BufRead) -> Option<Asked> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
            None => {
                let asked = Asked { method, target, headers, body: Vec::new(), certificate: None };
                let mut body = vec![0; asked.header("content-length").parse().unwrap_or(0)];
                stream.read_exact(&mut body).ok()?;
                return Some(Asked { body, ..asked });
            }
        }
    }
}
