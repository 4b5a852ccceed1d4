//! Connects to an API server: address, TLS, proxy and the headers of every request.
//!
//! kube's client cannot authenticate to a SOCKS proxy, cannot replace a client certificate, and resolves names on threads
//! that hold the process; see `resolver`, `tls` and `proxy`.

use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::uri::{Scheme, Uri};
use hyper::rt::{Read, Write};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioExecutor;
use jiff::Timestamp;
use kube::Client;
use kube::client::{Body, ConfigExt};
use kube::config::AuthProviderConfig;
use rustls::pki_types::ServerName;
use tower::util::MapErr;
use tower::{BoxError, Layer, Service};

use super::credentials::{self, CredentialSource};
use super::kubeconfig::{self, Target};
use super::kubeconfig_file::{AuthProvider, User};
use super::options::ConnectOptions;
use super::proxy::{self, Proxy};
use super::resolver::Resolver;
use super::tls::{self, Identity, Verifier};
use super::transport::Transport;
use super::{kubeconfig_check, list};
use crate::cluster::error::ClusterError;

/// How long to wait for a connection, with its TLS handshake; as long as kubectl does.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// When a silent connection is probed, how often, and how many times in vain until it counts as lost: after 45 seconds, as
/// kubectl's HTTP/2 does. A quiet watch would otherwise wait for a server that is gone until its own time is over.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;

/// Makes clients for one server.
#[derive(Debug)]
pub(super) struct Connector {
    verifier: Verifier,
    server_name: Option<ServerName<'static>>,
    proxy: Option<Proxy>,
    /// The OIDC provider that authenticates requests without another `Authorization` header.
    oidc: Option<AuthProvider>,
}

/// Prepares the transport that the kubeconfig and the flags describe, and returns it with the namespace of the context.
/// Nothing is sent yet.
pub(super) fn open(options: &ConnectOptions, clock: fn() -> Timestamp) -> Result<(Transport, String), ClusterError> {
    let timeout = options.request_timeout.filter(|timeout| !timeout.is_zero());
    let Target { cluster, mut user, namespace } = kubeconfig::load(options)?;
    let Server { url, user_info } = Server::parse(&cluster.server)?;
    let has_header = !user.username.is_empty() || !user.token.is_empty() || !user.token_file.is_empty();
    if let Some((name, password)) = user_info
        && !has_header
        && user.exec.is_none()
        && user.auth_provider.is_none()
    {
        // As in Go, user and password of the address authenticate if nothing else does.
        (user.username, user.password) = (name, password);
    }
    let headers = headers(&user)?;
    let proxy = proxy::choose(options, &url, &cluster.proxy_url)?;
    let server_name = Some(&cluster.tls_server_name).filter(|name| !name.is_empty());
    let server_name = server_name.map(|name| ServerName::try_from(name.clone())).transpose().map_err(|_| {
        ClusterError::config(format!("invalid TLS server name {:?}", cluster.tls_server_name))
            .hint("check --tls-server-name and tls-server-name of the cluster")
    })?;
    let (credentials, oidc) = if url.scheme() == Some(&Scheme::HTTPS) {
        kubeconfig_check::tls(&cluster)?;
        let oidc = auth_provider(&user)?;
        (CredentialSource::new(options, &cluster, user, Arc::new(clock))?, oidc)
    } else {
        refuse_readable_credentials(&url, &user)?;
        (CredentialSource::none(Arc::new(clock)), None)
    };
    let connector = Connector { verifier: tls::verifier(&cluster)?, server_name, proxy, oidc };
    Ok((Transport::new(connector, credentials, url, headers, timeout, clock), namespace))
}

/// The address of a server.
#[derive(Debug)]
struct Server {
    url: Uri,
    user_info: Option<(String, String)>,
}

impl Server {
    /// Parses an address as kubectl does: without a scheme it is plain HTTP.
    fn parse(server: &str) -> Result<Self, ClusterError> {
        let (scheme, rest) = server.split_once("://").unwrap_or(("http", server));
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (user_info, host) = match authority.rsplit_once('@') {
            Some((user_info, host)) => (Some(user_info), host),
            None => (None, authority),
        };
        // Never with the password: this is what errors show.
        let shown = format!("{scheme}://{host}{path}");
        let bad = |problem: String| {
            ClusterError::config(format!("invalid server {shown:?}: {problem}"))
                .hint("a server is written as https://HOST:PORT; check the kubeconfig's cluster, or --server")
        };
        if host.is_empty() {
            return Err(bad("it has no host".to_owned()));
        }
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let url = format!("{scheme}://{host}{path}").parse::<Uri>().map_err(|error| bad(error.to_string()))?;
        if !matches!(url.scheme_str(), Some("http" | "https")) {
            return Err(bad(format!("unsupported scheme {scheme:?}")));
        }
        let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
        let user_info = user_info.map(|user_info| {
            let (name, password) = user_info.split_once(':').unwrap_or((user_info, ""));
            (decode(name), decode(password))
        });
        Ok(Server { url, user_info })
    }
}

/// Refuses to go on if credentials would be needed on the way through a network without TLS. For a loopback address they
/// are left out, as kubectl does everywhere.
fn refuse_readable_credentials(url: &Uri, user: &User) -> Result<(), ClusterError> {
    let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let loopback = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    let secret = !user.token.is_empty()
        || !user.token_file.is_empty()
        || !user.password.is_empty()
        || user.exec.is_some()
        || user.auth_provider.is_some();
    if secret && !loopback {
        return Err(ClusterError::config(format!("the server {url} does not use TLS: credentials would be readable"))
            .hint("write https:// in the kubeconfig's server or in --server"));
    }
    Ok(())
}

/// Returns the OIDC provider of a user, and refuses those that kubectl no longer has.
fn auth_provider(user: &User) -> Result<Option<AuthProvider>, ClusterError> {
    let has_header = !user.token.is_empty() || !user.token_file.is_empty() || !user.username.is_empty();
    match &user.auth_provider {
        None => Ok(None),
        Some(provider) if provider.name == "oidc" => Ok(Some(provider.clone()).filter(|_| !has_header)),
        Some(AuthProvider { name, .. }) => {
            Err(ClusterError::config(format!("the auth provider {name:?} of the kubeconfig is not supported"))
                .hint("gcp and azure have credential plugins instead: gke-gcloud-auth-plugin and kubelogin"))
        }
    }
}

/// Returns the headers of every request: the program, and the user to impersonate.
///
/// Ported from `NewImpersonatingRoundTripper`, k8s.io/client-go/transport/round_trippers.go, release 1.36.
fn headers(user: &User) -> Result<HeaderMap, ClusterError> {
    let mut headers = HeaderMap::from_iter([(USER_AGENT, user_agent())]);
    let mut add = |name: &str, value: &str| {
        let invalid = || ClusterError::config(format!("{name} cannot be sent: invalid value {value:?}"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).map_err(|_| invalid())?);
        Ok::<(), ClusterError>(())
    };
    for (name, value) in [("impersonate-user", &user.impersonate), ("impersonate-uid", &user.as_uid)] {
        if !value.is_empty() {
            add(name, value)?;
        }
    }
    for group in &user.as_groups {
        add("impersonate-group", group)?;
    }
    for (key, values) in &user.as_user_extra {
        let mut name = "impersonate-extra-".to_owned();
        name.push_str(&list::escape(key));
        for value in values {
            add(&name, value)?;
        }
    }
    Ok(headers)
}

impl Connector {
    /// Makes a client that presents a client certificate. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// Fails if TLS or the OIDC provider cannot be set up.
    pub(super) fn client(&self, identity: Option<&Identity>) -> Result<Client, ClusterError> {
        let tls = tls::client_config(self.verifier.clone(), identity)?;
        let mut http = HttpConnector::new_with_resolver(Resolver::system());
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_keepalive(Some(PROBE_AFTER));
        http.set_keepalive_interval(Some(PROBE_INTERVAL));
        http.set_keepalive_retries(Some(PROBES));
        let Some(Proxy { scheme, uri, user }) = &self.proxy else { return self.client_over(http, tls) };
        let authorization = user.as_ref().and_then(|(name, password)| credentials::basic(name, password));
        match scheme {
            proxy::Scheme::Socks5 => {
                let socks = SocksV5::new(uri.clone(), http);
                match user.clone() {
                    Some((name, password)) => self.client_over(socks.with_auth(name, password), tls),
                    None => self.client_over(socks, tls),
                }
            }
            proxy::Scheme::Http => self.client_over(tunnel(uri, http, authorization), tls),
            proxy::Scheme::Https => {
                let https = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
                let https = https.enable_http1().wrap_connector(http);
                self.client_over(tunnel(uri, https, authorization), tls)
            }
        }
    }

    fn client_over<C>(&self, connector: C, tls: rustls::ClientConfig) -> Result<Client, ClusterError>
    where
        C: Service<Uri> + Clone + Send + Sync + 'static,
        C::Response: Connection + Read + Write + Send + Unpin + 'static,
        C::Future: Send + 'static,
        C::Error: Into<BoxError>,
    {
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let builder = match &self.server_name {
            Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name.clone())),
            None => builder,
        };
        let mut connector = TimeoutConnector::new(builder.enable_http1().wrap_connector(connector));
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
        let client = MapErr::new(client, BoxError::from);
        // The namespace is that of kube's typed requests, which are not used.
        let Some(provider) = &self.oidc else { return Ok(Client::new(client, "default")) };
        let mut config = kube::Config::new(Uri::default());
        config.auth_info.auth_provider = Some(AuthProviderConfig {
            name: provider.name.clone(),
            config: provider.config.clone().into_iter().collect(),
            ..AuthProviderConfig::default()
        });
        let layer = config.auth_layer().map_err(|error| {
            ClusterError::config(format!("invalid auth provider {:?}: {error}", provider.name))
                .hint("check auth-provider of the user in the kubeconfig")
        })?;
        Ok(match layer {
            Some(layer) => Client::new(layer.layer(client), "default"),
            None => Client::new(client, "default"),
        })
    }
}

fn tunnel<C>(proxy: &Uri, connector: C, authorization: Option<HeaderValue>) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.clone(), connector);
    match authorization {
        Some(authorization) => tunnel.with_auth(authorization),
        None => tunnel,
    }
}

/// Returns the `User-Agent` header, in kubectl's form.
fn user_agent() -> HeaderValue {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    };
    let text = format!("kubectl-ds/{} ({system}/{machine})", env!("CARGO_PKG_VERSION"));
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("kubectl-ds"))
}

#[cfg(test)]
mod tests {
    use super::{AuthProvider, Server, User, auth_provider, headers, refuse_readable_credentials, user_agent};

    #[test]
    fn servers_are_parsed_as_kubectl_parses_them() {
        for (server, url) in [
            ("https://one:6443", "https://one:6443/"),
            ("https://one/k8s/clusters/c-1/", "https://one/k8s/clusters/c-1/"),
            ("https://one?x=1", "https://one/"),
            ("localhost:8080", "http://localhost:8080/"),
            ("https://ann:secret@one", "https://one/"),
        ] {
            assert_eq!(Server::parse(server).unwrap().url.to_string(), url);
        }
        for (server, message) in [
            ("ftp://one", "invalid server \"ftp://one\": unsupported scheme \"ftp\""),
            ("https://", "invalid server \"https://\": it has no host"),
            ("https://a b", "invalid server \"https://a b\": invalid uri character"),
            ("https://ann:secret@a b", "invalid server \"https://a b\": invalid uri character"),
        ] {
            assert_eq!(Server::parse(server).unwrap_err().to_string(), message);
        }
        let user_info = Server::parse("https://ann:se%40cret@one").unwrap().user_info;
        assert_eq!(user_info, Some(("ann".to_owned(), "se@cret".to_owned())));
    }

    #[test]
    fn credentials_never_leave_the_machine_readable() {
        let user = User { token: "secret".to_owned(), impersonate: "eve".to_owned(), ..User::default() };
        let error = refuse_readable_credentials(&"http://far:80".parse().unwrap(), &user).unwrap_err();
        assert_eq!(error.to_string(), "the server http://far:80/ does not use TLS: credentials would be readable");
        assert!(refuse_readable_credentials(&"http://127.0.0.1:8001".parse().unwrap(), &user).is_ok());
        assert!(refuse_readable_credentials(&"http://far:80".parse().unwrap(), &User::default()).is_ok());
    }

    #[test]
    fn removed_providers_name_their_replacement() {
        let provider = AuthProvider { name: "gcp".to_owned(), ..AuthProvider::default() };
        let user = User { auth_provider: Some(provider), ..User::default() };
        let error = auth_provider(&user).unwrap_err();
        assert_eq!(error.to_string(), "the auth provider \"gcp\" of the kubeconfig is not supported");
    }

    #[test]
    fn keys_of_extra_fields_are_escaped() {
        let extra = [("Example.com/Scope".to_owned(), vec!["a".to_owned(), "b".to_owned()])];
        let user = User { impersonate: "eve".to_owned(), as_user_extra: extra.into(), ..User::default() };
        let headers = headers(&user).unwrap();
        assert_eq!(headers.get_all("impersonate-extra-example.com%2fscope").iter().count(), 2);
        assert!(super::headers(&User { impersonate: "e\nve".to_owned(), ..User::default() }).is_err());
    }

    #[test]
    fn the_server_is_told_program_version_and_system() {
        let agent = user_agent().to_str().unwrap().to_owned();
        assert!(agent.starts_with(concat!("kubectl-ds/", env!("CARGO_PKG_VERSION"), " (")), "{agent}");
        assert!(!agent.contains("x86_64"), "{agent}");
    }
}
