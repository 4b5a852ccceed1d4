//! Reads the bodies of responses, within limits of time and size.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::Instant;

use super::list;
use super::transport::Transport;
use crate::cluster::error::ClusterError;

/// A response whose body has not been read yet.
#[derive(Debug)]
pub(super) struct Response<'a> {
    pub(super) transport: &'a Transport,
    /// What was requested, such as `list pods`.
    pub(super) request: String,
    /// The media type, without parameters.
    pub(super) content_type: String,
    pub(super) body: Body,
    pub(super) deadline: Option<Instant>,
    /// How long the server may be silent.
    pub(super) max_silence: Duration,
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
    pub(super) async fn object<T: serde::de::DeserializeOwned>(mut self) -> Result<T, ClusterError> {
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
