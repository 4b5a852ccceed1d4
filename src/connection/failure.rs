//! Turns network failures into errors with kubectl's wording.

use std::error::Error;
use std::io::{self, ErrorKind};

use kube::client::AuthError;
use rustls::{AlertDescription, CertificateError};
use tokio::time::error::Elapsed;

use super::SILENCE;
use super::error::ConnectionError;

/// Returns the error for a request without a response.
pub(super) fn unanswered(server: &str, error: &(dyn Error + 'static)) -> ConnectionError {
    for cause in causes(error) {
        if let Some(error) = cause.downcast_ref::<ConnectionError>() {
            return error.clone();
        }
        if let Some(error) = cause.downcast_ref::<AuthError>() {
            return ConnectionError::credentials(format!("getting credentials: {error}"))
                .hint("log in again, or check the user's auth-provider in the kubeconfig");
        }
        if cause.is::<Elapsed>() {
            return timed_out(server, &format!("no answer came within {} s", SILENCE.as_secs()));
        }
        match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(ErrorKind::ConnectionRefused) => {
                return ConnectionError::lost(format!(
                    "The connection to the server {server} was refused - did you specify the right host or port?"
                ));
            }
            Some(ErrorKind::TimedOut) => return timed_out(server, "no answer came in time"),
            _ => {}
        }
    }
    let is_malformed = |cause: &(dyn Error + 'static)| cause.downcast_ref().is_some_and(hyper::Error::is_parse);
    if let Some(problem) = causes(error).find(|cause| is_malformed(*cause)) {
        return ConnectionError::lost(format!("the answer of the server {server} is not valid HTTP: {problem}"))
            .hint("check that the server is a Kubernetes API server, and that no proxy changes its answers");
    }
    // The outer errors say only that the request failed.
    let cause = causes(error).last().unwrap_or(error);
    // hyper-util has no public type for it.
    if causes(error).any(|cause| cause.to_string() == "dns error") {
        let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
        return ConnectionError::lost(format!("Unable to connect to the server: lookup {host}: {cause}")).hint(
            "the server's name is not known; check the kubeconfig's server, and that you are in the right network",
        );
    }
    if is_reset(error) {
        return ConnectionError::lost(format!("the server {server} closed the connection before it answered: {cause}"))
            .hint("it may be restarting, or a proxy in front of it may have ended the connection; try again");
    }
    let lost = ConnectionError::lost(format!("Unable to connect to the server: {cause}"));
    match causes(error).find_map(|cause| tls_hint(cause.downcast_ref()?)) {
        Some(hint) => lost.hint(hint),
        None => lost,
    }
}

/// Returns the error for a server that did not answer in time.
pub(super) fn timed_out(server: &str, how: &str) -> ConnectionError {
    ConnectionError::timed_out(format!("Unable to connect to the server: {server}: {how}"))
}

/// Returns whether an established connection was lost before the response, for example because the server restarts.
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

/// Returns an error and its causes, the outermost first.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error: &&'a (dyn Error + 'static)| {
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            // The source of such an error is the source of the error that it wraps.
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

fn tls_hint(error: &rustls::Error) -> Option<&'static str> {
    let certificate = match error {
        rustls::Error::InvalidMessage(_) => {
            return Some("the server does not speak TLS on this port; check the port, or write http:// in --server");
        }
        rustls::Error::AlertReceived(
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::CertificateRequired,
        ) => {
            return Some(
                "the server does not accept this client's certificate; check the user's client-certificate and client-key",
            );
        }
        rustls::Error::InvalidCertificate(certificate) => certificate,
        _ => return None,
    };
    match certificate {
        CertificateError::UnknownIssuer => Some(
            "the server's certificate is signed by an authority that is not trusted; name the authority's file with --certificate-authority",
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Some("the server's certificate is for another name; give the right one with --tls-server-name or --server")
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            Some("the server's certificate has expired or is not valid yet, or this machine's clock is wrong")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::unanswered;

    #[test]
    fn a_connection_that_was_made_and_lost_is_not_one_that_could_not_be_made() {
        for (kind, begins) in [
            (ErrorKind::ConnectionReset, "the server api:6443 closed the connection before it answered: "),
            (ErrorKind::ConnectionRefused, "The connection to the server api:6443 was refused - "),
            (ErrorKind::AddrNotAvailable, "Unable to connect to the server: "),
        ] {
            let told = unanswered("api:6443", &Error::from(kind)).to_string();
            assert!(told.starts_with(begins), "{kind:?}: {told}");
        }
    }
}
