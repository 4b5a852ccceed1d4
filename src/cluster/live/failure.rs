//! Puts into words what the server refuses and what the network does, as kubectl does.

use std::error::Error;

use http::StatusCode;
use serde::Deserialize;

use crate::cluster::error::ClusterError;

/// `metav1.Status`, as far as it matters, in both wire forms.
#[derive(Clone, PartialEq, prost::Message, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    /// A sentence for people.
    #[prost(string, tag = 3)]
    pub message: String,
    /// A word for programs.
    #[prost(string, tag = 4)]
    pub reason: String,
}

/// `runtime.Unknown`, as far as it matters.
#[derive(Clone, PartialEq, prost::Message)]
struct Unknown {
    #[prost(bytes = "vec", tag = 2)]
    raw: Vec<u8>,
}

/// Makes the error of an answer whose HTTP status is none of success.
pub(super) fn refused(code: StatusCode, body: &[u8]) -> ClusterError {
    let status = match body.strip_prefix(b"k8s\0") {
        Some(envelope) => <Unknown as prost::Message>::decode(envelope)
            .and_then(|unknown| <Status as prost::Message>::decode(unknown.raw.as_slice()))
            .ok(),
        None => serde_json::from_slice::<Status>(body).ok(),
    };
    let Status { message, reason } = status.unwrap_or_default();
    let reason = if reason.is_empty() { reason_of(code) } else { reason };
    let message = if message.is_empty() {
        let words = String::from_utf8_lossy(body);
        let words: String = words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
        let words = if words.is_empty() { "without a word of explanation".to_owned() } else { format!("{words:?}") };
        format!("the server answered with status {}, {words}", code.as_u16())
    } else {
        message
    };
    if code == StatusCode::UNAUTHORIZED {
        return ClusterError::Unauthorized { message };
    }
    ClusterError::Api { code: code.as_u16(), reason, message }
}

/// Returns the API's word for an HTTP status that came without one.
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

/// Makes the error of a connection that could not be made or was lost.
pub(super) fn connection(server: &str, error: &(dyn Error + 'static)) -> ClusterError {
    let mut chain = Vec::new();
    let mut source = Some(error);
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            match error.kind() {
                std::io::ErrorKind::ConnectionRefused => {
                    return ClusterError::Connection {
                        message: format!(
                            "The connection to the server {server} was refused - did you specify the right host or port?"
                        ),
                        hints: Vec::new(),
                    };
                }
                std::io::ErrorKind::TimedOut => return timed_out(server, "no answer came in time"),
                _ => {}
            }
        }
        chain.push(error.to_string());
        source = error.source();
    }
    let cause = innermost(&chain);
    let mut error =
        ClusterError::Connection { message: format!("Unable to connect to the server: {cause}"), hints: Vec::new() };
    if let Some(hint) = hint(&cause) {
        error = error.hint(hint);
    }
    error
}

/// Makes the error of a server that did not answer in time.
pub(super) fn timed_out(server: &str, how: &str) -> ClusterError {
    ClusterError::TimedOut { message: format!("Unable to connect to the server: {server}: {how}") }
}

/// Returns the words that say most: the outer ones of the HTTP client say only that it failed.
fn innermost(chain: &[String]) -> String {
    let wrapper = |words: &&String| {
        ["client error", "error trying to connect", "ServiceError", "HyperError", "tcp connect error", "dns error"]
            .iter()
            .any(|start| words.starts_with(start))
    };
    let mut words: Vec<&String> = chain.iter().filter(|words| !wrapper(words)).collect();
    // A source often repeats what its holder has said.
    words.dedup_by(|inner, outer| outer.contains(inner.as_str()));
    let words: Vec<&str> = words.into_iter().map(String::as_str).collect();
    if words.is_empty() { chain.last().cloned().unwrap_or_default() } else { words.join(": ") }
}

/// Returns what to do about a failure of TLS or of the name service.
pub(super) fn hint(cause: &str) -> Option<&'static str> {
    let any = |parts: &[&str]| parts.iter().any(|part| cause.contains(part));
    if any(&["UnsupportedCertVersion"]) {
        Some("a certificate is of X.509 version 1, which is not supported here; have it issued as version 3")
    } else if any(&["UnknownIssuer", "CaUsedAsEndEntity", "not trusted"]) {
        Some(
            "the server's certificate is signed by an authority that is not trusted; name the authority's file with --certificate-authority",
        )
    } else if any(&["NotValidForName", "certificate not valid for name"]) {
        Some("the server's certificate is for another name; give the right one with --tls-server-name or --server")
    } else if any(&["Expired", "expired"]) {
        Some("a certificate has expired, or this machine's clock is wrong")
    } else if any(&["NotValidYet"]) {
        Some("a certificate is not valid yet: this machine's clock may be wrong")
    } else if any(&["received fatal alert"]) {
        Some("the server does not accept this client's certificate; check the user's client-certificate and client-key")
    } else if any(&["InvalidContentType", "corrupt message"]) {
        Some("the server does not speak TLS on this port; check the port, or write http:// in --server")
    } else if any(&["tls handshake eof"]) {
        Some("the server or a proxy on the way hung up; check the address, and that the port speaks TLS")
    } else if any(&["lookup address", "Name or service not known", "nodename nor servname"]) {
        Some("the server's name is not known; check the kubeconfig's server, and that you are in the right network")
    } else {
        None
    }
}
