//! Sends requests: authenticates them, retries those that an overloaded server turned away, and collects warnings.
//!
//! kube retries requests that change something, for up to six minutes, and drops warnings.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, LOCATION, RETRY_AFTER, WARNING};
use http::{Method, StatusCode, Uri};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;

use super::connection::Connector;
use super::credentials::{CredentialSource, Credentials};
use super::tls::Identity;
use super::{failure, list};
use crate::cluster::error::ClusterError;

/// How often a request is retried after the time that the server asks for; as often as client-go does.
const MAX_RETRIES: u32 = 10;

/// How long to retry in total if the server does not say when.
const PATIENCE: Duration = Duration::from_secs(3);

/// The first pause before a retry if the server does not say when.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The shortest pause, whatever the server says.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// How many redirects are followed; as many as Go's client follows.
const MAX_REDIRECTS: u32 = 10;

/// How long a server may be silent; the API server itself gives up after 60 seconds.
const SILENCE: Duration = Duration::from_secs(75);

/// How long after its end a watch may still be open.
const GRACE: Duration = Duration::from_secs(5);

/// How much of an error's body is read, in bytes.
const LONGEST_REFUSAL: usize = 1 << 16;

/// JSON as the only accepted form.
pub(super) const JSON: &str = "application/json";
/// Protobuf as the preferred form: old servers and proxies send JSON.
pub(super) const PROTOBUF_OR_JSON: &str = "application/vnd.kubernetes.protobuf, application/json";

/// The connection to one server.
pub(super) struct Transport {
    connector: Box<Connector>,
    credentials: Box<CredentialSource>,
    /// The client, with the client certificate that its connections present.
    client: Mutex<Option<(Option<Identity>, Client)>>,
    url: Uri,
    /// The headers of every request.
    headers: HeaderMap,
    /// The limit of one request with its response.
    timeout: Option<Duration>,
    warnings: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Transport").field("url", &self.url).finish_non_exhaustive()
    }
}

/// What is sent.
struct Request {
    /// The path on the server, with its query.
    path: String,
    accept: &'static str,
    /// What is to be changed; `None` for a read.
    change: Option<Change>,
}

/// A request that changes something.
#[derive(Clone)]
pub(super) struct Change {
    pub(super) method: Method,
    pub(super) content_type: &'static str,
    pub(super) body: Bytes,
    /// Whether it is sent again if the server turns it away (429) before it has looked at it.
    pub(super) retries: bool,
}

/// A response whose body has not been read yet.
#[derive(Debug)]
pub(super) struct Response<'a> {
    transport: &'a Transport,
    /// What was requested, such as `list pods`.
    request: String,
    /// The media type, without parameters.
    pub content_type: String,
    body: Body,
    deadline: Option<Instant>,
    /// How long the server may be silent.
    max_silence: Duration,
}

impl Transport {
    pub(super) fn new(
        connector: Connector,
        credentials: CredentialSource,
        url: Uri,
        headers: HeaderMap,
        timeout: Option<Duration>,
    ) -> Self {
        Transport {
            connector: Box::new(connector),
            credentials: Box::new(credentials),
            client: Mutex::default(),
            url,
            headers,
            timeout,
            warnings: Mutex::default(),
        }
    }

    /// Obtains credentials, so that a plugin prompts before anything is shown.
    ///
    /// # Errors
    ///
    /// Fails if there are none.
    pub(super) async fn authenticate(&self) -> Result<(), ClusterError> {
        let credentials = self.credentials.current().await?;
        self.client(&credentials).map(drop)
    }

    /// Returns the warnings that the server has sent since the last call, each once.
    pub(super) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut locked(&self.warnings))
    }

    /// Requests a path with its query. `request` describes the request in errors.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached or does not answer with success.
    pub(super) async fn get(
        &self,
        request: &str,
        path: &str,
        accept: &'static str,
    ) -> Result<Response<'_>, ClusterError> {
        self.request(request, Request { path: self.full_path(path), accept, change: None }).await
    }

    /// Requests a watch, which the server ends after `seconds`. Until then it may be silent.
    ///
    /// # Errors
    ///
    /// Fails as [`Transport::get`] does.
    pub(super) async fn watch(
        &self,
        request: &str,
        path: &str,
        accept: &'static str,
        seconds: u32,
    ) -> Result<Response<'_>, ClusterError> {
        let response = self.get(request, path, accept).await?;
        let max_silence = Duration::from_secs(u64::from(seconds)) + GRACE;
        Ok(Response { deadline: None, max_silence, ..response })
    }

    /// Requests one object in JSON.
    ///
    /// # Errors
    ///
    /// Fails as [`Transport::get`] does, and if the response is not JSON.
    pub(super) async fn get_object<T: serde::de::DeserializeOwned>(
        &self,
        request: &str,
        path: &str,
    ) -> Result<T, ClusterError> {
        self.get_object_as(request, path, JSON).await
    }

    /// Requests one object in a form of JSON, such as a table.
    ///
    /// # Errors
    ///
    /// Fails as [`Transport::get_object`] does.
    pub(super) async fn get_object_as<T: serde::de::DeserializeOwned>(
        &self,
        request: &str,
        path: &str,
        accept: &'static str,
    ) -> Result<T, ClusterError> {
        self.get(request, path, accept).await?.object().await
    }

    /// Sends a change, and returns the resulting object.
    ///
    /// It is sent again only if the server says that it has not looked at it.
    ///
    /// # Errors
    ///
    /// Fails as [`Transport::get_object`] does. If the connection is lost, the outcome is unknown.
    pub(super) async fn change<T: serde::de::DeserializeOwned>(
        &self,
        request: &str,
        path: &str,
        change: Change,
    ) -> Result<T, ClusterError> {
        let change = Some(change);
        self.request(request, Request { path: self.full_path(path), accept: JSON, change }).await?.object().await
    }

    /// Adds the path of the server's address, such as that of a cluster behind a proxy.
    fn full_path(&self, path: &str) -> String {
        format!("{}{path}", self.url.path().trim_end_matches('/'))
    }

    /// Sends a request, and again if the server is too busy.
    ///
    /// Ported from `IsNextRetry`, k8s.io/client-go/rest/with_retry.go, release 1.36. Unlike there, a change is sent
    /// again only after 429, reads are retried for [`PATIENCE`] if there is no `Retry-After`, and a `Retry-After` beyond
    /// the request's timeout, or beyond [`SILENCE`] if it has none, ends the request.
    async fn request(&self, description: &str, mut request: Request) -> Result<Response<'_>, ClusterError> {
        let start = Instant::now();
        let deadline = self.timeout.map(|timeout| start + timeout);
        let last_retry = deadline.unwrap_or(start + SILENCE);
        let (mut retries, mut redirects, mut patience, mut pause) = (0, 0, PATIENCE, FIRST_PAUSE);
        loop {
            let response = match self.send_authenticated(deadline, &request).await {
                Ok(response) => response,
                Err(SendError::Reset(error)) if request.change.is_none() && !patience.is_zero() => {
                    let wait = pause.min(patience);
                    if wait > last_retry.saturating_duration_since(Instant::now()) {
                        return Err(error);
                    }
                    tokio::time::sleep(wait).await;
                    patience -= wait;
                    pause *= 2;
                    continue;
                }
                Err(SendError::Reset(error) | SendError::Other(error)) => return Err(error),
            };
            self.note_warnings(response.headers());
            let status = response.status();
            if status.is_success() {
                let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
                let content_type = content_type.unwrap_or_default().split(';').next().unwrap_or_default();
                let content_type = content_type.trim().to_ascii_lowercase();
                let (request, body) = (description.to_owned(), response.into_body());
                return Ok(Response { transport: self, request, content_type, body, deadline, max_silence: SILENCE });
            }
            if request.change.is_none()
                && status.is_redirection()
                && redirects < MAX_REDIRECTS
                && let Some(path) = self.redirect(response.headers())
            {
                redirects += 1;
                request.path = path;
                continue;
            }
            let is_read = request.change.is_none();
            let retries_change = request.change.as_ref().is_none_or(|change| change.retries);
            let retry_after = retry_after(response.headers());
            let wait = match retry_after {
                _ if !retries_change => None,
                Some(wait)
                    if retries < MAX_RETRIES
                        && (status == StatusCode::TOO_MANY_REQUESTS || (is_read && status.is_server_error())) =>
                {
                    retries += 1;
                    Some(wait.max(SHORTEST_PAUSE))
                }
                None if !patience.is_zero() && is_busy(status, is_read) => {
                    let wait = pause.min(patience);
                    patience -= wait;
                    pause *= 2;
                    Some(wait)
                }
                _ => None,
            };
            let is_in_time = |wait: &Duration| *wait <= last_retry.saturating_duration_since(Instant::now());
            let Some(wait) = wait.filter(is_in_time) else {
                let body = self.within(deadline, SILENCE, refusal(response.into_body())).await?;
                return Err(failure::refused(status, &body, wait.and(retry_after)));
            };
            drop(response);
            tokio::time::sleep(wait).await;
        }
    }

    /// Sends a request, and again with renewed credentials if the server rejects the first ones.
    async fn send_authenticated(
        &self,
        deadline: Option<Instant>,
        request: &Request,
    ) -> Result<http::Response<Body>, SendError> {
        let credentials = self.credentials.current().await?;
        let response = self.within(deadline, SILENCE, self.send(request, &credentials)).await??;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        match self.credentials.after_rejection(&credentials).await? {
            Some(renewed) => self.within(deadline, SILENCE, self.send(request, &renewed)).await?,
            None => Ok(response),
        }
    }

    async fn send(&self, request: &Request, credentials: &Credentials) -> Result<http::Response<Body>, SendError> {
        let Request { path, accept, change } = request;
        let invalid = |error: http::Error| ClusterError::config(format!("cannot request {path:?}: {error}"));
        let mut parts = self.url.clone().into_parts();
        parts.path_and_query = Some(path.parse().map_err(|error: http::uri::InvalidUri| invalid(error.into()))?);
        let builder = http::Request::builder().uri(Uri::from_parts(parts).map_err(|error| invalid(error.into()))?);
        let sent = match change {
            None => builder.method(Method::GET).body(Body::empty()),
            Some(Change { method, content_type, body, .. }) => {
                builder.method(method.clone()).header(CONTENT_TYPE, *content_type).body(Body::from(body.clone()))
            }
        };
        let mut sent = sent.map_err(invalid)?;
        let headers = sent.headers_mut();
        headers.extend(self.headers.clone());
        headers.insert(ACCEPT, http::HeaderValue::from_static(accept));
        if let Some(authorization) = &credentials.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        self.client(credentials)?.send(sent).await.map_err(|error| {
            let failed = failure::connection(self.server(), &error);
            if failure::is_reset(&error) { SendError::Reset(failed) } else { SendError::Other(failed) }
        })
    }

    /// Returns the client that presents the credentials' client certificate. Connections that present another one are
    /// not used again, as in client-go.
    fn client(&self, credentials: &Credentials) -> Result<Client, ClusterError> {
        let mut client = locked(&self.client);
        let wanted = credentials.identity.as_ref();
        match &*client {
            Some((identity, client))
                if identity.as_ref().map(std::sync::Arc::as_ptr) == wanted.map(std::sync::Arc::as_ptr) =>
            {
                Ok(client.clone())
            }
            _ => {
                let made = self.connector.client(wanted)?;
                *client = Some((wanted.cloned(), made.clone()));
                Ok(made)
            }
        }
    }

    /// Returns the server's host and port.
    fn server(&self) -> &str {
        self.url.authority().map_or("", |authority| authority.as_str())
    }

    /// Returns the path that a redirect leads to, if it stays on this server: credentials are for no other one.
    fn redirect(&self, headers: &HeaderMap) -> Option<String> {
        let location: Uri = headers.get(LOCATION)?.to_str().ok()?.parse().ok()?;
        let elsewhere = location.authority().is_some()
            && (location.authority() != self.url.authority() || location.scheme() != self.url.scheme());
        let path = location.path_and_query()?.as_str();
        (!elsewhere && path.starts_with('/')).then(|| path.to_owned())
    }

    /// Waits for a future until the deadline, and no longer than the server may be silent.
    async fn within<F: Future>(
        &self,
        deadline: Option<Instant>,
        max_silence: Duration,
        future: F,
    ) -> Result<F::Output, ClusterError> {
        let silence = Instant::now() + max_silence;
        let end = deadline.map_or(silence, |deadline| deadline.min(silence));
        tokio::time::timeout_at(end, future).await.map_err(|_| {
            let how = match self.timeout {
                Some(timeout) if end != silence => {
                    format!("no whole answer came within {} s (--request-timeout)", timeout.as_secs_f64())
                }
                _ => format!("no answer came within {} s", max_silence.as_secs()),
            };
            failure::timed_out(self.server(), &how)
        })
    }

    fn note_warnings(&self, headers: &HeaderMap) {
        for header in headers.get_all(WARNING) {
            let text = String::from_utf8_lossy(header.as_bytes());
            let mut warnings = locked(&self.warnings);
            if let Some(text) = warning_text(&text).filter(|text| !warnings.contains(text)) {
                warnings.push(text);
            }
        }
    }
}

/// Why a request was not answered.
enum SendError {
    /// The connection was lost before an answer.
    Reset(ClusterError),
    Other(ClusterError),
}

impl From<ClusterError> for SendError {
    fn from(error: ClusterError) -> Self {
        SendError::Other(error)
    }
}

impl Response<'_> {
    /// Returns the next bytes of the body, or `None` at its end.
    ///
    /// # Errors
    ///
    /// Fails if the connection is lost or time runs out.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ClusterError> {
        loop {
            let frame = self.transport.within(self.deadline, self.max_silence, self.body.frame()).await?;
            match frame {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => {
                    return Err(ClusterError::Connection {
                        message: format!(
                            "the connection to the server {} was lost in the answer to {}: {error}",
                            self.transport.server(),
                            self.request
                        ),
                        hints: vec!["try again".to_owned()],
                    });
                }
            }
        }
    }

    /// Reads the body as one object in JSON.
    async fn object<T: serde::de::DeserializeOwned>(mut self) -> Result<T, ClusterError> {
        let text = self.text(list::MAX_JSON).await?;
        serde_json::from_str(&text).map_err(|error| self.broken(list::json_problem(&error)))
    }

    /// Reads the rest of the body as text.
    ///
    /// # Errors
    ///
    /// Fails if the connection is lost, and if the text is not UTF-8 or longer than `max` bytes.
    pub(super) async fn text(&mut self, max: usize) -> Result<String, ClusterError> {
        let mut text = Vec::new();
        while let Some(bytes) = self.next().await? {
            if text.len() + bytes.len() > max {
                return Err(self.broken(format!("it is longer than {max} bytes")));
            }
            text.extend_from_slice(&bytes);
        }
        String::from_utf8(text).map_err(|error| self.broken(error.to_string()))
    }

    /// Returns the error of a response that is not what was requested.
    pub(super) fn broken(&self, problem: impl Into<String>) -> ClusterError {
        ClusterError::Answer { request: self.request.clone(), problem: problem.into() }
    }
}

/// Locks data that is whole after every change.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether a request may succeed a moment later. A change must not have been looked at.
fn is_busy(status: StatusCode, is_read: bool) -> bool {
    match status {
        StatusCode::TOO_MANY_REQUESTS => true,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => is_read,
        _ => false,
    }
}

/// Reads the body of an error, up to [`LONGEST_REFUSAL`].
async fn refusal(mut body: Body) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        if let Some(data) = frame.data_ref() {
            bytes.extend_from_slice(data);
        }
        if bytes.len() > LONGEST_REFUSAL {
            break;
        }
    }
    bytes
}

/// Returns how long the server asks to wait, in the form of seconds that client-go knows.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// Returns the text of a warning in the API's form: `299 - "text"`.
fn warning_text(header: &str) -> Option<String> {
    let (_, quoted) = header.strip_prefix("299 ")?.split_once(" \"")?;
    let mut text = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => return Some(text).filter(|text| !text.is_empty()),
            '\\' => text.push(characters.next()?),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::warning_text;

    #[test]
    fn a_warning_is_taken_out_of_its_quotes() {
        assert_eq!(warning_text(r#"299 - "old \"v1\" \\ API""#).as_deref(), Some(r#"old "v1" \ API"#));
        for header in ["", "299", "199 - \"other code\"", "299 - \"no end", "299 - \"\""] {
            assert_eq!(warning_text(header), None, "{header}");
        }
    }
}
