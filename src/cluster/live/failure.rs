//! Turns refusals of the server and failures of the network into errors, worded as kubectl words them.

use std::error::Error;
use std::fmt::Write;
use std::io::{self, ErrorKind};
use std::time::Duration;

use http::StatusCode;
use kube::client::AuthError;
use rustls::{AlertDescription, CertificateError};
use serde::Deserialize;

use super::protobuf::{MAGIC, Unknown};
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

/// Returns the error of a response without success, and of a retry that the server wants too late.
pub(super) fn refused(code: StatusCode, body: &[u8], retry_after: Option<Duration>) -> ClusterError {
    let status = match body.strip_prefix(MAGIC) {
        Some(envelope) => <Unknown as prost::Message>::decode(envelope)
            .and_then(|unknown| <Status as prost::Message>::decode(unknown.raw.as_slice()))
            .ok(),
        None => serde_json::from_slice::<Status>(body).ok(),
    };
    let mut status = status.unwrap_or_default();
    if status.message.is_empty() {
        let words = String::from_utf8_lossy(body);
        let words: String = words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
        let words = if words.is_empty() { "with an empty body".to_owned() } else { format!("{words:?}") };
        status.message = format!("the server answered with status {}, {words}", code.as_u16());
    }
    if let Some(wait) = retry_after {
        let _ = write!(status.message, "; it asks to wait {} s before the request is repeated", wait.as_secs());
    }
    of_status(code, status)
}

/// Returns the error of a status that the server sent.
pub(super) fn of_status(code: StatusCode, status: Status) -> ClusterError {
    let Status { message, reason, details, .. } = status;
    let mut causes = details.iter().flat_map(|details| &details.causes);
    let is_disruption_budget = causes.any(|cause| cause.reason == DISRUPTION_BUDGET);
    let reason = if is_disruption_budget { DISRUPTION_BUDGET.to_owned() } else { reason };
    let reason = if reason.is_empty() { reason_of(code) } else { reason };
    // Indented, further lines cannot pass for a hint of this program.
    let message = message.lines().collect::<Vec<_>>().join("\n  ");
    let reason: String = reason.chars().filter(|c| !c.is_control()).collect();
    if code == StatusCode::UNAUTHORIZED {
        return ClusterError::Unauthorized { message };
    }
    ClusterError::Api { code: code.as_u16(), reason, message }
}

/// Returns the API's reason for an HTTP status that came without one.
fn reason_of(code: StatusCode) -> String {
    match code.as_u16() {
        400 => "BadRequest".to_owned(),
        403 => "Forbidden".to_owned(),
        404 => "NotFound".to_owned(),
        410 => "Expired".to_owned(),
        429 => "TooManyRequests".to_owned(),
        500 => "InternalError".to_owned(),
        503 => "ServiceUnavailable".to_owned(),
        504 => "Timeout".to_owned(),
        other => format!("HTTP {other}"),
    }
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
