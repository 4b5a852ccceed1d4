//! Turns error responses of the API server into errors.

use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;

use super::protobuf::{MAGIC, Unknown};
use crate::cluster::error::{ClusterError, DISRUPTION_BUDGET};
use crate::cluster::type_meta::TypeMeta;

/// The used part of `metav1.Status`, in both wire formats.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    #[prost(string, tag = 3)]
    pub message: String,
    #[prost(string, tag = 4)]
    pub reason: String,
    #[prost(message, optional, tag = 5)]
    pub details: Option<Details>,
    /// The HTTP status.
    #[prost(uint32, tag = 6)]
    pub code: u32,
}

/// The used part of `metav1.StatusDetails`.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
pub(super) struct Details {
    #[prost(string, tag = 1)]
    pub name: String,
    /// The resource of the object.
    #[prost(string, tag = 3)]
    pub kind: String,
    #[prost(message, repeated, tag = 4)]
    pub causes: Vec<Cause>,
}

/// The used part of `metav1.StatusCause`.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
pub(super) struct Cause {
    #[prost(string, tag = 1)]
    pub reason: String,
    #[prost(string, tag = 2)]
    pub message: String,
}

impl Status {
    /// Parses an error of the API; returns `None` for anything else, such as the page of a proxy.
    ///
    /// The API server sets type and code of each of its errors: `ErrorToAPIStatus`,
    /// k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/status.go, release 1.37.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let (type_meta, status) = match body.strip_prefix(MAGIC) {
            Some(envelope) => {
                let Unknown { type_meta, raw } = prost::Message::decode(envelope).ok()?;
                (type_meta?, prost::Message::decode(raw.as_slice()).ok()?)
            }
            None => (serde_json::from_slice(body).ok()?, serde_json::from_slice(body).ok()?),
        };
        let TypeMeta { kind, api_version } = type_meta;
        (kind == "Status" && api_version == "v1").then_some(status)
    }
}

/// Returns the error for an unsuccessful response, or for a retry that the server wants too late.
///
/// This is the only place that decides whether a response comes from the Kubernetes API. Only the API is trusted on
/// whether an object exists and whether a change was refused.
pub(super) fn refused(request: &str, code: StatusCode, body: &[u8], retry_after: Option<Duration>) -> ClusterError {
    let wait = retry_after.map(|wait| format!("; it asks to wait {} s before the request is repeated", wait.as_secs()));
    let wait = wait.unwrap_or_default();
    let status = Status::parse(body).filter(|status| status.code == u32::from(code.as_u16()));
    match status.or_else(|| too_busy(code, body)) {
        Some(status) => of_status(Status { message: status.message.clone() + &wait, ..status }),
        None => {
            let words = String::from_utf8_lossy(body);
            let words: String = words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
            let body = if words.is_empty() { "with an empty body".to_owned() } else { format!("{words:?}") };
            ClusterError::NotFromApi { request: request.to_owned(), code: code.as_u16(), body: body + &wait }
        }
    }
}

/// The body that an API server sends if it is too busy to process a request, its only error without a status:
/// `tooManyRequests`, k8s.io/apiserver/pkg/server/filters/maxinflight.go, release 1.37.
const TOO_BUSY: &str = "Too many requests, please try again later.\n";

/// Returns the status that an API server would send if it were not too busy.
fn too_busy(code: StatusCode, body: &[u8]) -> Option<Status> {
    let is_busy = code == StatusCode::TOO_MANY_REQUESTS && body == TOO_BUSY.as_bytes();
    is_busy.then(|| Status {
        message: TOO_BUSY.trim_end().to_owned(),
        reason: "TooManyRequests".to_owned(),
        details: None,
        code: code.as_u16().into(),
    })
}

/// Returns the error for a status from the server.
pub(super) fn of_status(status: Status) -> ClusterError {
    let Status { message, reason, details, code } = status;
    let Details { name, kind, causes } = details.unwrap_or_default();
    // Only the cause names the budget.
    let (reason, message) = match causes.into_iter().find(|cause| cause.reason == DISRUPTION_BUDGET) {
        Some(cause) => (cause.reason, if cause.message.is_empty() { message } else { cause.message }),
        None => (reason, message),
    };
    // The API server puts the whole object before the error in a JSON Patch: `applyPatchToCurrentObject`,
    // k8s.io/apiserver/pkg/endpoints/handlers/patch.go, release 1.37.2.
    let message = match message.rsplit_once("\": strict decoding error: ") {
        Some((_, problem)) => format!("strict decoding error: {problem}"),
        None => message,
    };
    // Further lines are marked, so that none can be mistaken for a hint or advice of this program.
    let message = message.lines().collect::<Vec<_>>().join("\n  | ");
    let reason: String = reason.chars().filter(|c| !c.is_control()).collect();
    let code = u16::try_from(code).unwrap_or_default();
    if code == StatusCode::UNAUTHORIZED.as_u16() {
        return ClusterError::Unauthorized { message };
    }
    let object = if name.is_empty() { String::new() } else { format!("{kind}/{name}") };
    ClusterError::Api { code, reason, message, object }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::{TOO_BUSY, refused};
    use crate::cluster::error::ClusterError;

    fn answer(code: u16, body: &str) -> ClusterError {
        refused("delete pods", StatusCode::from_u16(code).unwrap(), body.as_bytes(), None)
    }

    const ABSENT: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
        "message":"pods \"agent-a\" not found","reason":"NotFound","details":{"name":"agent-a","kind":"pods"},"code":404}"#;

    #[test]
    fn only_a_status_about_an_object_says_that_it_does_not_exist() {
        assert!(answer(404, ABSENT).is_absence_of("pods", "agent-a"));
        assert!(!answer(404, ABSENT).is_absence_of("pods", "agent-b"));
        assert!(!answer(404, ABSENT).is_absence_of("daemonsets", "agent-a"));
        // The last one is that of a webhook, which may use any code and reason.
        let without_details = ABSENT.replace(r#","details":{"name":"agent-a","kind":"pods"}"#, "");
        for body in ["404 page not found\n", "", "{}", "null", "[]", "<html>", without_details.as_str()] {
            assert!(!answer(404, body).is_absence_of("pods", "agent-a"), "{body}");
        }
    }

    #[test]
    fn an_unknown_field_is_told_without_the_object_that_has_it() {
        let message = r#" \"\" is invalid: patch: Invalid value: \"{\\\"kind\\\":1}\": strict decoding error: unknown field \"spec.a\""#;
        let status =
            format!(r#"{{"kind":"Status","apiVersion":"v1","message":"{message}","reason":"Invalid","code":422}}"#);
        let error = answer(422, &status);
        assert_eq!(error.to_string(), "Error from server (Invalid): strict decoding error: unknown field \"spec.a\"");
    }

    #[test]
    fn what_is_no_status_of_that_code_leaves_the_outcome_unknown() {
        let others = [("\"Status\"", "\"Error\""), ("\"v1\"", "\"v2\""), ("404}", "403}"), ("404}", "\"404\"}")];
        for body in others.map(|(from, to)| ABSENT.replacen(from, to, 1)) {
            let error = answer(404, &body);
            assert!(matches!(error, ClusterError::NotFromApi { code: 404, .. }), "{body}: {error:?}");
        }
        for code in [302, 400, 401, 403, 404, 408, 409, 410, 429, 499, 500, 503] {
            assert!(answer(code, "<html>").outcome_unknown(), "{code}");
        }
        assert!(!answer(404, ABSENT).outcome_unknown());
    }

    #[test]
    fn an_api_server_that_is_too_busy_has_not_looked_at_a_change() {
        let busy = answer(429, "Too many requests, please try again later.\n");
        assert!(matches!(busy, ClusterError::Api { code: 429, .. }) && !busy.outcome_unknown(), "{busy:?}");
        for (code, body) in [(429, "Too many requests, please try again later."), (403, TOO_BUSY), (429, "{}")] {
            assert!(answer(code, body).outcome_unknown(), "{code} {body}");
        }
    }
}
