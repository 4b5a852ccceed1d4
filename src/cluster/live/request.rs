//! Sends requests and reads responses, within limits of time and size.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::{KindRead, OnProgress, list, status};
use crate::cluster::error::ClusterError;
use crate::cluster::object::JSON;
use crate::connection::error::ConnectionError;
use crate::connection::{Connection, Retries, SILENCE, TooLongToWait, repeated_until};
use crate::model::snapshot::Kind;

/// The most bytes that are read of an error's body.
const LONGEST_REFUSAL: usize = 1 << 16;

/// Sends requests to one server.
pub(super) struct Transport {
    pub(super) connection: Connection,
    pub(super) on_progress: OnProgress,
    /// Whether a step was sent that may have been applied, or may still be: no answer says that it was not.
    pub(super) undecided: AtomicBool,
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.connection.fmt(formatter)
    }
}

/// A request that changes something.
pub(super) struct ChangeRequest {
    pub(super) method: Method,
    pub(super) content_type: &'static str,
    pub(super) body: Bytes,
    /// Whether it is retried if the API server was too busy (429) to process it.
    pub(super) retries: bool,
    /// Whether it is a step of a plan, and not only tried out.
    pub(super) is_step: bool,
}

impl Transport {
    /// Reports progress: objects of a kind that have been read, and their size as received.
    pub(super) fn progress(&self, kind: Kind, objects: usize, bytes: usize) {
        (self.on_progress)(KindRead { kind, objects, bytes });
    }

    /// Requests a path with its query. `request` describes the request in errors. Fails if the server cannot be reached
    /// or does not respond with success.
    pub(super) async fn get(
        &self,
        request: &str,
        path: &str,
        accept: &'static str,
    ) -> Result<Response<'_>, ClusterError> {
        let deadline = self.connection.deadline();
        let answer = self.send(path, accept, None, deadline).await?;
        let too_long = answer.extensions().get().copied();
        self.success(request, answer, deadline, too_long).await
    }

    /// Requests a watch, which may be silent for that long. Fails as [`Transport::get`] does.
    pub(super) async fn watch(
        &self,
        request: &str,
        path: &str,
        accept: &'static str,
        max_silence: Duration,
    ) -> Result<Response<'_>, ClusterError> {
        let response = self.get(request, path, accept).await?;
        Ok(Response { deadline: None, max_silence, ..response })
    }

    /// Requests one object in JSON, or in a JSON media type such as a table. Fails as [`Transport::get`] does, and if the response is
    /// not JSON.
    pub(super) async fn get_object<T: DeserializeOwned>(
        &self,
        request: &str,
        path: &str,
        accept: &'static str,
    ) -> Result<T, ClusterError> {
        self.get(request, path, accept).await?.object().await
    }

    /// Sends a change, and returns the resulting object.
    ///
    /// It is retried only if the API server itself says that it was too busy to process it; a proxy may have forwarded
    /// it. Fails as [`Transport::get_object`] does. If the connection is lost, the outcome is unknown.
    pub(super) async fn change<T: DeserializeOwned>(
        &self,
        request: &str,
        path: &str,
        change: ChangeRequest,
    ) -> Result<T, ClusterError> {
        let deadline = self.connection.deadline();
        let until = repeated_until(deadline);
        let mut retries = Retries::default();
        // What was lost before may still be carried out.
        let was_undecided = self.undecided.load(Ordering::Relaxed);
        loop {
            if change.is_step {
                self.undecided.store(true, Ordering::Relaxed);
            }
            let answer = self.send(path, JSON, Some(&change), deadline).await?;
            // A response that trickles in must not prevent the outcome of a change from being read.
            let end = deadline.unwrap_or_else(|| Instant::now() + SILENCE);
            let (code, headers) = (answer.status(), answer.headers());
            let may_repeat = change.retries && code == StatusCode::TOO_MANY_REQUESTS;
            let next = if may_repeat { retries.next(code, headers, until, false) } else { None };
            let too_long = next.and_then(Result::err);
            let answer = self.success(request, answer, Some(end), too_long).await;
            if change.is_step && matches!(answer, Err(ClusterError::Api { code: 429, .. })) {
                self.undecided.store(was_undecided, Ordering::Relaxed);
            }
            match (answer, next) {
                (Ok(response), _) => return response.object().await,
                (Err(ClusterError::Api { .. }), Some(Ok(wait))) => sleep(wait).await,
                (Err(error), _) => return Err(error),
            }
        }
    }

    /// Sends a request. Redirects are not followed: credentials are for one server, and API servers send none.
    async fn send(
        &self,
        path: &str,
        accept: &'static str,
        change: Option<&ChangeRequest>,
        deadline: Option<Instant>,
    ) -> Result<http::Response<Body>, ClusterError> {
        let builder = Request::builder().uri(path).header(ACCEPT, accept);
        let request = match change {
            None => builder.body(Body::empty()),
            Some(ChangeRequest { method, content_type, body, .. }) => {
                builder.method(method).header(CONTENT_TYPE, *content_type).body(Body::from(body.clone()))
            }
        };
        let request = request.map_err(|error| ConnectionError::config(format!("cannot request {path:?}: {error}")))?;
        Ok(self.connection.send(request, deadline).await?)
    }

    /// Returns a successful response with its body, or else the error.
    async fn success(
        &self,
        description: &str,
        answer: http::Response<Body>,
        deadline: Option<Instant>,
        too_long: Option<TooLongToWait>,
    ) -> Result<Response<'_>, ClusterError> {
        let code = answer.status();
        if !code.is_success() {
            let body = self.connection.within(deadline, SILENCE, refusal(answer.into_body())).await?;
            let body = self.connection.without_credentials(body);
            return Err(status::refused(description, code, &body, too_long.map(|TooLongToWait(wait)| wait)));
        }
        let content_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().split(';').next().unwrap_or_default();
        Ok(Response {
            transport: self,
            request: description.to_owned(),
            content_type: content_type.trim().to_ascii_lowercase(),
            body: answer.into_body(),
            deadline,
            max_silence: SILENCE,
        })
    }
}

/// A response whose body has not been read yet.
#[derive(Debug)]
pub(super) struct Response<'a> {
    pub(super) transport: &'a Transport,
    /// What was requested, such as `list pods`.
    request: String,
    /// The media type, without parameters.
    pub(super) content_type: String,
    body: Body,
    deadline: Option<Instant>,
    /// How long the server may be silent.
    max_silence: Duration,
}

impl Response<'_> {
    /// Returns the next bytes of the body, or `None` at its end. Fails if the connection is lost or time runs out.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ClusterError> {
        loop {
            match self.transport.connection.within(self.deadline, self.max_silence, self.body.frame()).await? {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => {
                    let (server, request) = (&self.transport.connection.server, &self.request);
                    let lost =
                        format!("the connection to the server {server} was lost in the answer to {request}: {error}");
                    return Err(ConnectionError::lost(lost).hint("try again").into());
                }
            }
        }
    }

    /// Reads the body as one JSON object.
    async fn object<T: DeserializeOwned>(mut self) -> Result<T, ClusterError> {
        let text = self.text(list::MAX_JSON).await?;
        serde_json::from_str(&text).map_err(|error| self.broken(list::json_problem(&error)))
    }

    /// Reads the rest of the body as text. Fails if the connection is lost, or if the text is not UTF-8 or longer than `max` bytes.
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

    /// Returns the error for a response that is not what was requested.
    pub(super) fn broken(&self, problem: impl Into<String>) -> ClusterError {
        ClusterError::Answer { request: self.request.clone(), problem: problem.into() }
    }
}

/// Reads the body of an error, until it ends, breaks off or is too long.
async fn refusal(mut body: Body) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        bytes.extend(frame.into_data().unwrap_or_default());
        if bytes.len() > LONGEST_REFUSAL {
            break;
        }
    }
    bytes
}
