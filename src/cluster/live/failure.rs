//! Turns refusals of the server and failures of the network into errors, worded as kubectl words them.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::time::Duration;

use http::StatusCode;
use kube::client::AuthError;
use rustls::{AlertDescription, CertificateError};
use serde::Deserialize;

use super::protobuf::{MAGIC, TypeMeta, Unknown};
use super::resolver::LookupError;
use crate::cluster::error::{ClusterError, DISRUPTION_BUDGET};

/// The used part of `metav1.Status`, in both wire forms.
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
}

impl Status {
    /// Parses an error of the API; returns `None` for anything else, such as the page of a proxy.
    ///
    /// The API server sets type and code of each of its errors: `ErrorToAPIStatus`,
    /// k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/status.go, release 1.36.
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

/// Returns the error of a response without success, and of a retry that the server wants too late.
///
/// This is the only place that decides whether an answer is one of the Kubernetes API. Whether an object exists, and whether
/// a change was refused, is believed of the API only.
pub(super) fn refused(request: &str, code: StatusCode, body: &[u8], retry_after: Option<Duration>) -> ClusterError {
    let wait = retry_after.map(|wait| format!("; it asks to wait {} s before the request is repeated", wait.as_secs()));
    let wait = wait.unwrap_or_default();
    match Status::parse(body).filter(|status| status.code == u32::from(code.as_u16())) {
        Some(status) => of_status(Status { message: status.message.clone() + &wait, ..status }),
        None => {
            let words = String::from_utf8_lossy(body);
            let words: String = words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
            let body = if words.is_empty() { "with an empty body".to_owned() } else { format!("{words:?}") };
            ClusterError::NotFromApi { request: request.to_owned(), code: code.as_u16(), body: body + &wait }
        }
    }
}

/// Returns the error of a status that the server sent.
pub(super) fn of_status(status: Status) -> ClusterError {
    let Status { message, reason, details, code } = status;
    let Details { name, kind, causes } = details.unwrap_or_default();
    let is_disruption_budget = causes.iter().any(|cause| cause.reason == DISRUPTION_BUDGET);
    let reason = if is_disruption_budget { DISRUPTION_BUDGET.to_owned() } else { reason };
    // Indented, further lines cannot pass for a hint of this program.
    let message = message.lines().collect::<Vec<_>>().join("\n  ");
    let reason: String = reason.chars().filter(|c| !c.is_control()).collect();
    let code = u16::try_from(code).unwrap_or_default();
    if code == StatusCode::UNAUTHORIZED.as_u16() {
        return ClusterError::Unauthorized { message };
    }
    let object = if name.is_empty() { String::new() } else { format!("{kind}/{name}") };
    ClusterError::Api { code, reason, message, object }
}

/// Returns the error of a connection that could not be made or was lost.
pub(super) fn connection(server: &str, error: &(dyn Error + 'static)) -> ClusterError {
    for cause in causes(error) {
        if let Some(error) = cause.downcast_ref::<AuthError>() {
            return ClusterError::Credentials {
                message: format!("getting credentials: {error}"),
                hints: vec!["log in again, or check the user's auth-provider in the kubeconfig".to_owned()],
            };
        }
        match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(ErrorKind::ConnectionRefused) => {
                return ClusterError::Connection {
                    message: format!(
                        "The connection to the server {server} was refused - did you specify the right host or port?"
                    ),
                    hints: Vec::new(),
                };
            }
            Some(ErrorKind::TimedOut) => return timed_out(server, "no answer came in time"),
            _ => {}
        }
    }
    // The outer errors say only that the request failed.
    let cause = causes(error).last().unwrap_or(error);
    let lookup = causes(error).find(|cause| cause.is::<LookupError>());
    let message = format!("Unable to connect to the server: {}", lookup.unwrap_or(cause));
    ClusterError::Connection { message, hints: hint(error).map(str::to_owned).into_iter().collect() }
}

/// Returns the error of a server that did not answer in time.
pub(super) fn timed_out(server: &str, how: &str) -> ClusterError {
    ClusterError::TimedOut { message: format!("Unable to connect to the server: {server}: {how}") }
}

/// Returns whether an established connection was lost before the response, as when a server restarts.
pub(super) fn is_reset(error: &(dyn Error + 'static)) -> bool {
    let mut reset = false;
    for cause in causes(error) {
        if cause.downcast_ref::<hyper_util::client::legacy::Error>().is_some_and(|error| error.is_connect()) {
            return false;
        }
        reset |= cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message)
            || cause.downcast_ref::<io::Error>().is_some_and(|error| {
                matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe)
            });
    }
    reset
}

/// Returns an error and what caused it, the outermost first.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error: &&'a (dyn Error + 'static)| {
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            // The source of such an error is the source of what it wraps.
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

/// Returns whether a server's certificate was rejected because it may sign others.
pub(super) fn is_authority_as_server(error: &CertificateError) -> bool {
    matches!(webpki_error(error), Some(webpki::Error::CaUsedAsEndEntity))
}

/// Returns the error that rustls has no name of its own for.
fn webpki_error(error: &CertificateError) -> Option<&webpki::Error> {
    match error {
        CertificateError::Other(other) => other.0.downcast_ref(),
        _ => None,
    }
}

/// Returns what to do about a failure of TLS or of the name lookup.
fn hint(error: &(dyn Error + 'static)) -> Option<&'static str> {
    causes(error).find_map(|cause| {
        if let Some(error) = cause.downcast_ref::<rustls::Error>() {
            return tls_hint(error);
        }
        if cause.is::<LookupError>() {
            return Some(
                "the server's name is not known; check the kubeconfig's server, and that you are in the right network",
            );
        }
        let end = cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::UnexpectedEof);
        end.then_some("the server or a proxy closed the connection; check the address, and that the port uses TLS")
    })
}

fn tls_hint(error: &rustls::Error) -> Option<&'static str> {
    match error {
        rustls::Error::InvalidCertificate(error) => certificate_hint(error),
        rustls::Error::InvalidMessage(_) => {
            Some("the server does not speak TLS on this port; check the port, or write http:// in --server")
        }
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity => {
                Some("the server and this client have no cipher or kind of key in common; P-521 keys are not supported")
            }
            AlertDescription::ProtocolVersion => Some("the server supports neither TLS 1.2 nor TLS 1.3"),
            AlertDescription::UnrecognisedName => {
                Some("the server does not know this name; give the right one with --tls-server-name or --server")
            }
            AlertDescription::NoCertificate
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::DecryptError
            | AlertDescription::CertificateRequired => Some(
                "the server does not accept this client's certificate; check the user's client-certificate and client-key",
            ),
            _ => None,
        },
        _ => None,
    }
}

fn certificate_hint(error: &CertificateError) -> Option<&'static str> {
    match error {
        CertificateError::UnknownIssuer => Some(
            "the server's certificate is signed by an authority that is not trusted; name the authority's file with --certificate-authority",
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Some("the server's certificate is for another name; give the right one with --tls-server-name or --server")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            Some("the server's certificate has expired, or this machine's clock is wrong")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Some("the server's certificate is not valid yet: this machine's clock may be wrong")
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => Some(
            "a certificate of the server is signed by a kind of key that is not supported, such as P-521; have it issued with another one",
        ),
        _ => match webpki_error(error)? {
            webpki::Error::UnsupportedCertVersion => Some(
                "the server's certificate is of X.509 version 1, which is not supported; have it issued as version 3",
            ),
            webpki::Error::CaUsedAsEndEntity => Some(
                "the server's certificate is a certificate authority's; to trust it, name its file with --certificate-authority",
            ),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::refused;
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
        // The last is that of a webhook, which may use any code and reason.
        let without_details = ABSENT.replace(r#","details":{"name":"agent-a","kind":"pods"}"#, "");
        for body in ["404 page not found\n", "", "{}", "null", "[]", "<html>", without_details.as_str()] {
            assert!(!answer(404, body).is_absence_of("pods", "agent-a"), "{body}");
        }
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
            let is_on_its_way = matches!(code, 408 | 499..);
            assert_eq!(answer(code, "<html>").is_refused_on_the_way(), !is_on_its_way, "{code}");
        }
        assert!(!answer(404, ABSENT).outcome_unknown());
    }
}
