//! Sends requests: authenticates them, repeats those that an overloaded server turned away, and collects warnings.
//!
//! kube retries requests that change something, for up to six minutes, and drops warnings.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, LOCATION, WARNING};
use http::{Method, StatusCode, Uri};
use http_body_util::BodyExt;
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;

use super::connection::Connector;
use super::credentials::{CredentialSource, Credentials};
use super::failure;
use super::response::Response;
use super::retry::{Retries, retry_after};
use super::tls::Identity;
use crate::cluster::error::ClusterError;

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
    clock: fn() -> Timestamp,
    /// By how many seconds the server's clock is ahead of `clock`.
    skew: AtomicI64,
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

impl Transport {
    pub(super) fn new(
        connector: Connector,
        credentials: CredentialSource,
        url: Uri,
        headers: HeaderMap,
        timeout: Option<Duration>,
        clock: fn() -> Timestamp,
    ) -> Self {
        Transport {
            connector: Box::new(connector),
            credentials: Box::new(credentials),
            client: Mutex::default(),
            url,
            headers,
            timeout,
            warnings: Mutex::default(),
            clock,
            skew: AtomicI64::new(0),
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

    /// Returns the time by this machine's clock.
    pub(super) fn local_time(&self) -> Timestamp {
        (self.clock)()
    }

    /// Returns what the server's clock has shown at a time by this machine's.
    pub(super) fn server_time(&self, local: Timestamp) -> Timestamp {
        local.checked_add(self.clock_difference()).unwrap_or(local)
    }

    /// Returns by how much the server's clock is ahead of this machine's, as the dates of its answers show it.
    pub(super) fn clock_difference(&self) -> SignedDuration {
        SignedDuration::from_secs(self.skew.load(Ordering::Relaxed))
    }

    /// Notes by how much the server's clock is ahead of this machine's, from an answer to a request sent at a time.
    fn note_date(&self, sent: Timestamp, headers: &HeaderMap) {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        let Some(date) = date.and_then(|date| DateTimeParser::new().parse_timestamp(date).ok()) else { return };
        let (least, most) = (date.duration_since((self.clock)()).as_secs(), date.duration_since(sent).as_secs());
        // The date is in whole seconds, and was written somewhere between request and answer.
        let possible = least - 1..=most + 1;
        let known = self.skew.load(Ordering::Relaxed);
        // A slow answer says little: what it does not contradict stays.
        let skew = [known, 0].into_iter().find(|skew| possible.contains(skew));
        self.skew.store(skew.unwrap_or(i64::midpoint(least, most)), Ordering::Relaxed);
    }

    /// Returns the warnings that the server has sent since the last call, each once.
    pub(super) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut locked(&self.warnings))
    }

    /// Returns whether there are warnings that were not taken yet.
    pub(super) fn has_warnings(&self) -> bool {
        !locked(&self.warnings).is_empty()
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

    /// Sends a request, and again if the server is too busy: see [`Retries`].
    async fn request(&self, description: &str, mut request: Request) -> Result<Response<'_>, ClusterError> {
        let start = Instant::now();
        let deadline = self.timeout.map(|timeout| start + timeout);
        let mut retries = Retries::until(deadline.unwrap_or(start + SILENCE));
        let mut redirects = 0;
        loop {
            let sent = (self.clock)();
            let response = match self.send_authenticated(deadline, &request).await {
                Ok(response) => response,
                Err(SendError::Reset(error)) if request.change.is_none() => match retries.after_reset() {
                    Some(wait) => {
                        tokio::time::sleep(wait).await;
                        continue;
                    }
                    None => return Err(error),
                },
                Err(SendError::Reset(error) | SendError::Other(error)) => return Err(error),
            };
            self.note_warnings(response.headers());
            self.note_date(sent, response.headers());
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
            let retry_after = retry_after(response.headers());
            let wait = match &request.change {
                Some(change) if !change.retries => None,
                change => retries.after_refusal(status, retry_after, change.is_none()),
            };
            let Some(wait) = wait.filter(|wait| retries.allow(*wait)) else {
                let body = self.within(deadline, SILENCE, refusal(response.into_body())).await?;
                return Err(failure::refused(description, status, &body, wait.and(retry_after)));
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
    pub(super) fn server(&self) -> &str {
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
    pub(super) async fn within<F: Future>(
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
                    format!("the response was incomplete after {} s (--request-timeout)", timeout.as_secs_f64())
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

/// Locks data that is whole after every change.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
