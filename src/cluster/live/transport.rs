//! Asks the server, with patience for an overloaded one, and hands on what it warns of.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, RETRY_AFTER, WARNING};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;

use super::failure;
use crate::cluster::error::ClusterError;

/// How long to wait in all for a server that says it is overloaded.
const PATIENCE: Duration = Duration::from_secs(3);

/// The first pause before a question is repeated, where the server does not say how long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The shortest pause, whatever the server says.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// The most bytes of a refusal that are read.
const LONGEST_REFUSAL: usize = 1 << 16;

/// What the server may answer with.
pub(super) const JSON: &str = "application/json";
/// What the server may answer with where protobuf is understood: old servers and proxies send JSON.
pub(super) const PROTOBUF_OR_JSON: &str = "application/vnd.kubernetes.protobuf, application/json";

/// The connection to one server.
pub(super) struct Transport {
    client: Client,
    /// The server's host and port.
    server: String,
    /// How long a question may take with its answer.
    timeout: Option<Duration>,
    warnings: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Transport").field("server", &self.server).finish_non_exhaustive()
    }
}

/// What is sent.
struct Question<'a> {
    /// The path, with its query.
    path: &'a str,
    /// What may be answered with.
    accept: &'static str,
    /// The JSON Patch, where something is to be changed.
    patch: Option<Bytes>,
}

/// An answer whose body is still to come.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    transport: &'a Transport,
    /// What was asked, such as `list pods`.
    request: String,
    /// The media type, without parameters.
    pub content_type: String,
    body: Body,
    deadline: Option<Instant>,
}

impl Transport {
    pub(super) fn new(client: Client, server: String, timeout: Option<Duration>) -> Self {
        Transport { client, server, timeout, warnings: Mutex::default() }
    }

    /// Returns what the server has warned of since the last call, each warning once.
    pub(super) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks for a path, with its query. `request` says in words what is asked.
    ///
    /// # Errors
    ///
    /// Fails where the server cannot be reached, or answers with anything but success.
    pub(super) async fn get(
        &self,
        request: &str,
        path: &str,
        accept: &'static str,
    ) -> Result<Answer<'_>, ClusterError> {
        let question = Question { path, accept, patch: None };
        self.ask(request, question, |status| {
            matches!(
                status,
                StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
            )
        })
        .await
    }

    /// Sends a JSON Patch, and reads the object that it gives.
    ///
    /// It is sent again only where the server says that it has not looked at it.
    ///
    /// # Errors
    ///
    /// Fails as [`Transport::get_object`] does. Where the connection is lost, nobody knows what became of it.
    pub(super) async fn patch_object<T: serde::de::DeserializeOwned>(
        &self,
        request: &str,
        path: &str,
        patch: Vec<u8>,
    ) -> Result<T, ClusterError> {
        let question = Question { path, accept: JSON, patch: Some(patch.into()) };
        self.ask(request, question, |status| status == StatusCode::TOO_MANY_REQUESTS).await?.object().await
    }

    /// Asks, and once more after a pause where the server is too busy to answer.
    async fn ask(
        &self,
        request: &str,
        question: Question<'_>,
        is_busy: impl Fn(StatusCode) -> bool,
    ) -> Result<Answer<'_>, ClusterError> {
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        let mut patience = PATIENCE;
        let mut pause = FIRST_PAUSE;
        loop {
            let response = self.within(deadline, self.send(&question)).await??;
            self.note_warnings(response.headers());
            let status = response.status();
            if status.is_success() {
                let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
                let content_type = content_type.unwrap_or_default().split(';').next().unwrap_or_default();
                let content_type = content_type.trim().to_ascii_lowercase();
                let (request, body) = (request.to_owned(), response.into_body());
                return Ok(Answer { transport: self, request, content_type, body, deadline });
            }
            let wait = match retry_after(response.headers()) {
                Some(wait) => wait.max(SHORTEST_PAUSE),
                None => pause.min(patience),
            };
            if !is_busy(status) || patience.is_zero() || wait > patience {
                let body = self.within(deadline, refusal(response.into_body())).await?;
                return Err(failure::refused(status, &body));
            }
            drop(response);
            self.within(deadline, tokio::time::sleep(wait)).await?;
            patience -= wait;
            pause *= 2;
        }
    }

    /// Asks for one object in JSON.
    ///
    /// # Errors
    ///
    /// Fails as [`Transport::get`] does, and where the answer is no JSON.
    pub(super) async fn get_object<T: serde::de::DeserializeOwned>(
        &self,
        request: &str,
        path: &str,
    ) -> Result<T, ClusterError> {
        self.get(request, path, JSON).await?.object().await
    }

    async fn send(&self, question: &Question<'_>) -> Result<Response<Body>, ClusterError> {
        let Question { path, accept, patch } = question;
        let request = match patch {
            None => Request::get(*path).header(ACCEPT, *accept).body(Body::empty()),
            Some(patch) => Request::patch(*path)
                .header(ACCEPT, *accept)
                .header(CONTENT_TYPE, "application/json-patch+json")
                .body(Body::from(patch.clone())),
        };
        let request = request.map_err(|error| ClusterError::config(format!("cannot ask for {path:?}: {error}")))?;
        self.client.send(request).await.map_err(|error| failure::connection(&self.server, &error))
    }

    async fn within<F: Future>(&self, deadline: Option<Instant>, future: F) -> Result<F::Output, ClusterError> {
        match (deadline, self.timeout) {
            (Some(deadline), Some(timeout)) => tokio::time::timeout_at(deadline, future).await.map_err(|_| {
                failure::timed_out(
                    &self.server,
                    &format!("no whole answer came within {} s (--request-timeout)", timeout.as_secs_f64()),
                )
            }),
            _ => Ok(future.await),
        }
    }

    fn note_warnings(&self, headers: &HeaderMap) {
        for header in headers.get_all(WARNING) {
            let text = String::from_utf8_lossy(header.as_bytes());
            let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(text) = warning_text(&text).filter(|text| !warnings.contains(text)) {
                warnings.push(text);
            }
        }
    }
}

impl Answer<'_> {
    /// Returns the next bytes of the body, or nothing at its end.
    ///
    /// # Errors
    ///
    /// Fails where the connection is lost or time runs out.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ClusterError> {
        loop {
            let frame = self.transport.within(self.deadline, self.body.frame()).await?;
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
                            self.transport.server, self.request
                        ),
                        hints: vec!["try again".to_owned()],
                    });
                }
            }
        }
    }

    /// Reads the body as one object in JSON.
    ///
    /// # Errors
    ///
    /// Fails where the connection is lost, and where the body is no such JSON.
    async fn object<T: serde::de::DeserializeOwned>(mut self) -> Result<T, ClusterError> {
        let mut text = Vec::new();
        while let Some(bytes) = self.next().await? {
            text.extend_from_slice(&bytes);
        }
        serde_json::from_slice(&text).map_err(|error| self.broken(error.to_string()))
    }

    /// Makes the error of an answer that is not what it should be.
    pub(super) fn broken(&self, problem: impl Into<String>) -> ClusterError {
        ClusterError::Answer { request: self.request.clone(), problem: problem.into() }
    }
}

/// Reads what a server says to a refusal, as far as it is sensible.
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

/// Returns how long the server asks to wait, where it says so in seconds.
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
