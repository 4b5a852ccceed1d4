//! The address of a server.

use std::net::IpAddr;

use http::uri::{Scheme, Uri};
use kube::config::AuthInfo;

use super::error::ConnectionError;

#[derive(Debug)]
pub(super) struct ServerAddress {
    pub(super) url: Uri,
    /// The user and the password in the address.
    pub(super) user_info: Option<(String, String)>,
}

impl ServerAddress {
    /// Parses an address as kubectl does: without a scheme it is plain HTTP.
    pub(super) fn parse(server: &str) -> Result<Self, ConnectionError> {
        let (scheme, rest) = server.split_once("://").unwrap_or(("http", server));
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (user_info, host) = match authority.rsplit_once('@') {
            Some((user_info, host)) => (Some(user_info), host),
            None => (None, authority),
        };
        let path = path.split(['?', '#']).next().unwrap_or_default();
        // Errors show this, so it never contains the password.
        let shown = format!("{scheme}://{host}{path}");
        let bad = |problem: String| {
            ConnectionError::config(format!("invalid server {shown:?}: {problem}"))
                .hint("a server is written as https://HOST:PORT; check the kubeconfig's cluster, or --server")
        };
        if host.is_empty() {
            return Err(bad("it has no host".to_owned()));
        }
        let url = shown.parse::<Uri>().map_err(|error| bad(error.to_string()))?;
        if !matches!(url.scheme_str(), Some("http" | "https")) {
            return Err(bad(format!("unsupported scheme {scheme:?}")));
        }
        let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
        let user_info = user_info.map(|user_info| {
            let (name, password) = user_info.split_once(':').unwrap_or((user_info, ""));
            (decode(name), decode(password))
        });
        Ok(ServerAddress { url, user_info })
    }
}

/// Tells whether a server is on this machine.
pub(super) fn is_loopback(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns the credentials for a server: none without TLS, as in kubectl. Fails if credentials would have to be sent
/// through a network without TLS.
pub(super) fn credentials_for(url: &Uri, user: AuthInfo) -> Result<AuthInfo, ConnectionError> {
    let secret = user.token.is_some()
        || user.token_file.is_some()
        || user.password.is_some()
        || user.exec.is_some()
        || user.auth_provider.is_some();
    match url.scheme() == Some(&Scheme::HTTPS) {
        true => Ok(user),
        false if secret && !is_loopback(url) => {
            Err(ConnectionError::config(format!("the server {url} does not use TLS: credentials would be readable"))
                .hint("write https:// in the kubeconfig's server or in --server"))
        }
        false => Ok(AuthInfo::default()),
    }
}

#[cfg(test)]
mod tests {
    use kube::config::AuthInfo;

    use super::{ServerAddress, credentials_for};

    #[test]
    fn servers_are_parsed_as_kubectl_parses_them() {
        for (server, url) in [
            ("https://one:6443", "https://one:6443/"),
            ("https://one/k8s/clusters/c-1/", "https://one/k8s/clusters/c-1/"),
            ("https://one?x=1", "https://one/"),
            ("localhost:8080", "http://localhost:8080/"),
            ("https://ann:secret@one", "https://one/"),
        ] {
            assert_eq!(ServerAddress::parse(server).unwrap().url.to_string(), url);
        }
        for (server, message) in [
            ("ftp://one", "invalid server \"ftp://one\": unsupported scheme \"ftp\""),
            ("https://", "invalid server \"https://\": it has no host"),
            ("https://a b", "invalid server \"https://a b\": invalid uri character"),
            ("https://ann:secret@a b", "invalid server \"https://a b\": invalid uri character"),
        ] {
            assert_eq!(ServerAddress::parse(server).unwrap_err().to_string(), message);
        }
        let user_info = ServerAddress::parse("https://ann:se%40cret@one").unwrap().user_info;
        assert_eq!(user_info, Some(("ann".to_owned(), "se@cret".to_owned())));
    }

    #[test]
    fn credentials_never_leave_the_machine_readable() {
        let user =
            || AuthInfo { token: Some("secret".into()), impersonate: Some("eve".to_owned()), ..AuthInfo::default() };
        let error = credentials_for(&"http://far:80".parse().unwrap(), user()).unwrap_err();
        assert_eq!(error.to_string(), "the server http://far:80/ does not use TLS: credentials would be readable");
        assert!(credentials_for(&"http://127.0.0.1:8001".parse().unwrap(), user()).unwrap().token.is_none());
        assert!(credentials_for(&"http://far:80".parse().unwrap(), AuthInfo::default()).is_ok());
        assert!(credentials_for(&"https://far".parse().unwrap(), user()).unwrap().token.is_some());
    }
}
