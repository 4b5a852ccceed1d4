//! Opens connections: keepalive, proxies and TLS.
//!
//! kube provides the TLS settings of a cluster. Its own connector cannot replace a client certificate, and its proxies
//! support no passwords for SOCKS and match `NO_PROXY` against the proxy.

use std::sync::Arc;
use std::time::Duration;

use http::uri::{Scheme, Uri};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::{Body, ConfigExt};
use rustls::pki_types::ServerName;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt};

use super::error::ConnectionError;
use super::options::ConnectOptions;
use super::server::is_loopback;

/// How long to wait for a connection, including its TLS handshake; the same as in kubectl.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// When a silent connection is probed, how often, and how many failed probes mean that it is lost: after 45 seconds, as
/// with kubectl's HTTP/2. Otherwise a quiet watch would wait for a dead server until its own timeout.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;

/// A client certificate with its chain and key.
pub(super) type Identity = Arc<CertifiedKey>;

/// Sends requests over its own connections.
pub(super) type HttpClient = BoxCloneSyncService<Request<Body>, Response<Incoming>, BoxError>;

/// Creates clients for one server.
pub(super) struct Connector {
    config: Config,
    server_name: Option<ServerName<'static>>,
    proxy: Option<Intercept>,
}

impl Connector {
    /// Prepares connections to a server; its credentials are not part of `config`. Fails if the address of a proxy or
    /// the expected name in the server's certificate is invalid.
    pub(super) fn new(options: &ConnectOptions, config: Config) -> Result<Self, ConnectionError> {
        let name = config.tls_server_name.clone().map(ServerName::try_from).transpose();
        let server_name = name.map_err(|_| {
            let name = config.tls_server_name.as_deref().unwrap_or_default();
            ConnectionError::config(format!("invalid TLS server name {name:?}"))
                .hint("check --tls-server-name and tls-server-name of the cluster")
        })?;
        let proxy = proxy(options, &config)?;
        Ok(Connector { config, server_name, proxy })
    }

    /// Returns the address of the proxy for requests, without a password.
    pub(super) fn proxy_address(&self) -> Option<String> {
        self.proxy.as_ref().map(|proxy| proxy.uri().to_string().trim_end_matches('/').to_owned())
    }

    /// Creates a client with a client certificate. Nothing is sent yet. Fails if TLS cannot be set up.
    pub(super) fn client(&self, identity: Option<&Identity>) -> Result<HttpClient, ConnectionError> {
        let mut tls = self.config.rustls_client_config().map_err(|error| {
            ConnectionError::config(format!("unable to set up TLS: {error}"))
                .hint("check the cluster's certificate-authority, or name one with --certificate-authority")
        })?;
        if let Some(identity) = identity {
            tls.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(CertifiedKey::clone(identity)));
        }
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_keepalive(Some(PROBE_AFTER));
        http.set_keepalive_interval(Some(PROBE_INTERVAL));
        http.set_keepalive_retries(Some(PROBES));
        let Some(proxy) = &self.proxy else { return Ok(self.client_over(http, tls)) };
        let tunnel = |authorization: Option<&http::HeaderValue>, connector| {
            let tunnel = Tunnel::new(proxy.uri().clone(), connector);
            if let Some(authorization) = authorization { tunnel.with_auth(authorization.clone()) } else { tunnel }
        };
        Ok(if is_socks(proxy.uri()) {
            let socks = SocksV5::new(proxy.uri().clone(), http);
            match proxy.raw_auth() {
                Some((name, password)) => self.client_over(socks.with_auth(name.to_owned(), password.to_owned()), tls),
                None => self.client_over(socks, tls),
            }
        } else {
            // This connector does not use TLS to an `http` proxy.
            let https = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
            self.client_over(tunnel(proxy.basic_auth(), https.enable_http1().wrap_connector(http)), tls)
        })
    }

    fn client_over<C>(&self, connector: C, tls: rustls::ClientConfig) -> HttpClient
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
        BoxCloneSyncService::new(client.map_err(BoxError::from))
    }
}

fn is_socks(proxy: &Uri) -> bool {
    matches!(proxy.scheme_str(), Some("socks5" | "socks5h"))
}

/// Returns the proxy for a server: `proxy-url` of the kubeconfig, else the one in the environment, which is not used
/// for servers on this machine.
///
/// Ported from `parseProxyURL`, k8s.io/client-go/tools/clientcmd/helpers.go, release 1.37, and from `FromEnvironment`,
/// golang.org/x/net/http/httpproxy.
fn proxy(options: &ConnectOptions, config: &Config) -> Result<Option<Intercept>, ConnectionError> {
    let server = &config.cluster_url;
    if let Some(proxy) = &config.proxy_url {
        return parse_proxy(&proxy.to_string(), "proxy-url", server).map(Some);
    }
    let is_https = server.scheme() == Some(&Scheme::HTTPS);
    let names = if is_https { ["HTTPS_PROXY", "https_proxy"] } else { ["HTTP_PROXY", "http_proxy"] };
    let found = names.into_iter().find_map(|name| Some((name, options.variable(name)?)));
    let Some((name, proxy)) = found.filter(|_| !is_loopback(server)) else { return Ok(None) };
    let no_proxy = options.variable("NO_PROXY").or_else(|| options.variable("no_proxy")).unwrap_or_default();
    let is_excepted = Matcher::builder().all("http://any").no(no_proxy.replace("*.", ".")).build();
    match is_excepted.intercept(server) {
        Some(_) => parse_proxy(proxy, name, server).map(Some),
        None => Ok(None),
    }
}

/// Parses a proxy's address, whose scheme defaults to `http`.
fn parse_proxy(proxy: &str, origin: &str, server: &Uri) -> Result<Intercept, ConnectionError> {
    let parse = |proxy: &str| Matcher::builder().all(proxy).build().intercept(server);
    let (proxy, parsed) = (proxy.trim(), parse(proxy.trim()));
    match parsed.as_ref().map(|parsed| (parsed.uri().scheme_str(), parsed.uri().port())) {
        // The client has no default port for SOCKS.
        Some((Some("socks5" | "socks5h"), None)) => {
            let start = proxy.find("://").map_or(0, |at| at + 3);
            let end = proxy[start..].find(['/', '?', '#']).map_or(proxy.len(), |at| start + at);
            parse(&format!("{}:1080", &proxy[..end]))
        }
        Some((Some("http" | "https"), _) | (Some("socks5" | "socks5h"), Some(_))) => parsed,
        _ => None,
    }
    .ok_or_else(|| invalid_proxy(proxy, origin))
}

/// Returns the error for an unusable proxy address.
pub(super) fn invalid_proxy(proxy: &str, origin: &str) -> ConnectionError {
    // The address may contain a password: only the part after it is shown.
    let shown = proxy.rsplit_once('@').map_or(proxy, |(_, host)| host);
    ConnectionError::config(format!("invalid proxy {shown:?} in {origin}"))
        .hint("a proxy is written as http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT")
}

#[cfg(test)]
mod tests {
    use super::{Config, ConnectOptions};

    fn proxy(variables: &[(&str, &str)], server: &str, proxy_url: &str) -> Result<String, String> {
        let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let options = ConnectOptions { environment, ..ConnectOptions::default() };
        let mut config = Config::new(server.parse().unwrap());
        config.proxy_url = Some(proxy_url).filter(|url| !url.is_empty()).map(|url| url.parse().unwrap());
        let proxy = super::proxy(&options, &config).map_err(|error| error.to_string())?;
        let Some(proxy) = proxy else { return Ok("direct".to_owned()) };
        let user = proxy.raw_auth().map(|(name, password)| format!("{name}:{password}@")).unwrap_or_default();
        let basic = proxy.basic_auth().map(|basic| format!(" {}", basic.to_str().unwrap())).unwrap_or_default();
        Ok(format!("{} {user}{}{basic}", proxy.uri().scheme_str().unwrap(), proxy.uri().authority().unwrap()))
    }

    #[test]
    fn the_environment_gives_the_proxy_by_the_servers_scheme() {
        let both = [("HTTPS_PROXY", "http://secure:3128"), ("http_proxy", "http://plain:3128")];
        assert_eq!(proxy(&both, "https://api:6443", "").unwrap(), "http secure:3128");
        assert_eq!(proxy(&both, "http://api:8080", "").unwrap(), "http plain:3128");
        assert_eq!(proxy(&[("ALL_PROXY", "http://all:1")], "https://api", "").unwrap(), "direct");
        assert_eq!(proxy(&[("HTTPS_PROXY", ""), ("https_proxy", "low:1")], "https://api", "").unwrap(), "http low:1");
    }

    #[test]
    fn the_kubeconfigs_proxy_goes_before_the_environment_and_no_proxy() {
        let variables = [("HTTPS_PROXY", "http://secure:3128"), ("NO_PROXY", "*")];
        assert_eq!(proxy(&variables, "https://127.0.0.1", "socks5://own:1080").unwrap(), "socks5 own:1080");
        assert_eq!(proxy(&variables, "https://api", "").unwrap(), "direct");
    }

    #[test]
    fn addresses_get_a_scheme_and_a_port_that_the_client_knows() {
        for (written, used) in [
            ("proxy:3128", "http proxy:3128"),
            ("proxy", "http proxy"),
            ("https://proxy", "https proxy"),
            ("socks5h://proxy", "socks5h proxy:1080"),
            ("socks5://proxy:pw@proxy/path", "socks5 proxy:pw@proxy:1080"),
            ("socks5://me:secret@proxy:1", "socks5 me:secret@proxy:1"),
            ("HTTP://user:pa%40ss@proxy:8080/path", "http proxy:8080 Basic dXNlcjpwYUBzcw=="),
            ("http://user@proxy", "http proxy Basic dXNlcjo="),
        ] {
            assert_eq!(proxy(&[("HTTPS_PROXY", written)], "https://api", "").unwrap(), used, "{written}");
        }
    }

    #[test]
    fn addresses_that_cannot_be_used_are_refused_without_their_password() {
        for (written, shown) in
            [("ftp://proxy", "ftp://proxy"), ("socks4://me:secret@proxy", "proxy"), ("http://me:secret@a b", "a b")]
        {
            let error = proxy(&[("HTTPS_PROXY", written)], "https://api", "").unwrap_err();
            assert_eq!(error, format!("invalid proxy {shown:?} in HTTPS_PROXY"));
        }
    }

    #[test]
    fn servers_of_no_proxy_and_of_this_machine_are_reached_directly() {
        for (no_proxy, server, direct) in [
            ("", "https://localhost:6443", true),
            ("", "https://127.0.0.2", true),
            ("", "https://[::1]:6443", true),
            ("", "https://10.0.0.1", false),
            ("*", "https://api", true),
            ("example.com", "https://api.example.com", true),
            ("example.com", "https://example.com", true),
            ("example.com", "https://notexample.com", false),
            (".example.com", "https://api.example.com", true),
            ("*.example.com", "https://API.example.com", true),
            ("other, example.com ,", "https://example.com", true),
            ("<local>,", "https://example.com", false),
            ("10.0.0.0/8", "https://10.1.2.3", true),
            ("10.0.0.0/8", "https://11.1.2.3", false),
            ("10.1.2.3", "https://10.1.2.3:6443", true),
            ("fd00::/8", "https://[fd00::1]:6443", true),
        ] {
            let variables = [("HTTPS_PROXY", "proxy:3128"), ("NO_PROXY", no_proxy)];
            assert_eq!(proxy(&variables, server, "").unwrap() == "direct", direct, "{no_proxy} {server}");
        }
    }
}
