//! Chooses the proxy as Go's `net/http` does, which kubectl leaves it to.
//!
//! Ported from `FromEnvironment` and `useProxy`, golang.org/x/net/http/httpproxy: loopback addresses are reached
//! directly, a leading dot in `NO_PROXY` stands for subdomains alone, and entries may have a port. kube compares
//! `NO_PROXY` with the proxy's address, fails on entries that it does not know, and sends loopback addresses
//! through the proxy.

use std::net::IpAddr;

use http::Uri;
use percent_encoding::percent_decode_str;

use super::options::ConnectOptions;
use crate::cluster::error::ClusterError;

/// A proxy, and how to authenticate to it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Proxy {
    pub scheme: Scheme,
    /// The address, with a port and without user and password.
    pub uri: Uri,
    /// User and password; the password may be empty.
    pub user: Option<(String, String)>,
}

/// How a proxy is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
    Socks5,
}

/// Returns the proxy for a server: `proxy-url` of the kubeconfig, else that of the environment.
///
/// # Errors
///
/// Fails if the proxy's address cannot be used.
pub(super) fn choose(options: &ConnectOptions, server: &Uri, proxy_url: &str) -> Result<Option<Proxy>, ClusterError> {
    if !proxy_url.is_empty() {
        return parse(proxy_url, "proxy-url").map(Some);
    }
    let is_https = server.scheme_str() == Some("https");
    let names = if is_https { ["HTTPS_PROXY", "https_proxy"] } else { ["HTTP_PROXY", "http_proxy"] };
    let found = names.into_iter().find_map(|name| Some((name, options.variable(name)?)));
    let Some((name, proxy)) = found else { return Ok(None) };
    if !is_https && options.variable("REQUEST_METHOD").is_some() {
        // A CGI server sets HTTP_PROXY from a header of the client.
        return Err(ClusterError::config(format!("refusing to use {name} in a CGI environment"))
            .hint(format!("unset {name} or REQUEST_METHOD")));
    }
    let no_proxy = options.variable("NO_PROXY").or_else(|| options.variable("no_proxy")).unwrap_or_default();
    if goes_direct(server, no_proxy) { Ok(None) } else { parse(proxy, name).map(Some) }
}

/// Checks `proxy-url` of a kubeconfig, which needs a scheme.
///
/// Ported from `parseProxyURL`, k8s.io/client-go/tools/clientcmd/helpers.go, release 1.36.
///
/// # Errors
///
/// Fails if kubectl would refuse the address.
pub(super) fn check_proxy_url(proxy: &str) -> Result<(), ClusterError> {
    match proxy.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase()).as_deref() {
        Some("http" | "https" | "socks5") => parse(proxy, "proxy-url").map(drop),
        Some(other) => Err(bad(proxy, "proxy-url", &format!("unsupported scheme {other:?}"))),
        None => Err(bad(proxy, "proxy-url", "it has no scheme")),
    }
}

fn bad(proxy: &str, origin: &str, problem: &str) -> ClusterError {
    // The address may hold a password: only what follows it is shown.
    let shown = proxy.rsplit_once('@').map_or(proxy, |(_, host)| host);
    ClusterError::config(format!("invalid proxy {shown:?} in {origin}: {problem}"))
        .hint("a proxy is written as http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT")
}

/// Parses a proxy's address, with the scheme and port that are implied.
fn parse(proxy: &str, origin: &str) -> Result<Proxy, ClusterError> {
    let proxy = proxy.trim();
    let (scheme, rest) = proxy.split_once("://").unwrap_or(("http", proxy));
    let (scheme, default_port) = match scheme.to_ascii_lowercase().as_str() {
        "http" => (Scheme::Http, 80),
        "https" => (Scheme::Https, 443),
        // The proxy resolves names either way, as in Go.
        "socks5" | "socks5h" => (Scheme::Socks5, 1080),
        other => return Err(bad(proxy, origin, &format!("unsupported scheme {other:?}"))),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let user = user.map(|user| {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        (decode(name), decode(password))
    });
    let port = host.rsplit_once(':').map(|(_, port)| port);
    let has_port = port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    let uri_scheme = if scheme == Scheme::Https { "https" } else { "http" };
    let address = if has_port { host.to_owned() } else { format!("{}:{default_port}", host.trim_end_matches(':')) };
    let uri: Uri = format!("{uri_scheme}://{address}/")
        .parse()
        .map_err(|error: http::uri::InvalidUri| bad(proxy, origin, &error.to_string()))?;
    if uri.host().is_none_or(str::is_empty) {
        return Err(bad(proxy, origin, "it has no host"));
    }
    Ok(Proxy { scheme, uri, user })
}

/// Returns whether a server is reached without the environment's proxy.
fn goes_direct(server: &Uri, no_proxy: &str) -> bool {
    let Some(host) = server.host() else { return true };
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase();
    let port = server.port_u16().unwrap_or(if server.scheme_str() == Some("https") { 443 } else { 80 });
    let address = host.parse::<IpAddr>().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    no_proxy.split(',').any(|entry| entry_matches(&entry.trim().to_ascii_lowercase(), &host, address, port))
}

fn entry_matches(entry: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    match entry {
        "" => return false,
        "*" => return true,
        _ => {}
    }
    if let Some((network, bits)) = entry.split_once('/') {
        let (Ok(network), Ok(bits), Some(address)) = (network.parse::<IpAddr>(), bits.parse::<u32>(), address) else {
            return false;
        };
        return in_network(address, network, bits);
    }
    let (entry, wanted_port) = split_port(entry);
    if wanted_port.is_some_and(|wanted| wanted != port) || entry.is_empty() {
        return false;
    }
    if let Ok(wanted) = entry.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return address == Some(wanted);
    }
    // `*.example.com` and `.example.com` stand for subdomains, `example.com` for itself as well.
    let (domain, itself) = match entry.strip_prefix('*').unwrap_or(entry) {
        dotted if dotted.starts_with('.') => (dotted.to_owned(), false),
        plain => (format!(".{plain}"), true),
    };
    host.ends_with(&domain) || (itself && host == &domain[1..])
}

/// Splits a port from an entry, if it has one: `host:443` and `[::1]:443`, not `::1`.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    match entry.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    }
}

fn in_network(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    let (one, other, width) = match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (u128::from(one.to_bits()), u128::from(other.to_bits()), 32),
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits(), other.to_bits(), 128),
        _ => return false,
    };
    bits <= width && (bits == 0 || (one ^ other) >> (width - bits) == 0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{ConnectOptions, Proxy, check_proxy_url, choose};

    fn proxy(variables: &[(&str, &str)], server: &str, proxy_url: &str) -> Result<String, String> {
        let environment: BTreeMap<_, _> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let options = ConnectOptions { environment, ..ConnectOptions::default() };
        match choose(&options, &server.parse().unwrap(), proxy_url) {
            Ok(Some(Proxy { scheme, uri, user })) => {
                let user = user.map(|(name, password)| format!("{name}:{password}@")).unwrap_or_default();
                Ok(format!("{scheme:?} {user}{}", uri.authority().unwrap()))
            }
            Ok(None) => Ok("direct".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_environment_gives_the_proxy_by_the_servers_scheme() {
        let both = [("HTTPS_PROXY", "http://secure:3128"), ("http_proxy", "http://plain:3128")];
        assert_eq!(proxy(&both, "https://api:6443", "").unwrap(), "Http secure:3128");
        assert_eq!(proxy(&both, "http://api:8080", "").unwrap(), "Http plain:3128");
        assert_eq!(proxy(&[("ALL_PROXY", "http://all:1")], "https://api", "").unwrap(), "direct");
        assert_eq!(proxy(&[("HTTPS_PROXY", ""), ("https_proxy", "low:1")], "https://api", "").unwrap(), "Http low:1");
    }

    #[test]
    fn the_kubeconfigs_proxy_goes_before_the_environment_and_no_proxy() {
        let variables = [("HTTPS_PROXY", "http://secure:3128"), ("NO_PROXY", "*")];
        assert_eq!(proxy(&variables, "https://127.0.0.1", "socks5://own:1080").unwrap(), "Socks5 own:1080");
        assert_eq!(proxy(&variables, "https://api", "").unwrap(), "direct");
    }

    #[test]
    fn addresses_get_a_scheme_and_a_port_that_the_client_knows() {
        for (written, used) in [
            ("proxy:3128", "Http proxy:3128"),
            ("proxy", "Http proxy:80"),
            ("https://proxy", "Https proxy:443"),
            ("socks5h://proxy", "Socks5 proxy:1080"),
            ("socks5://me:secret@proxy:1", "Socks5 me:secret@proxy:1"),
            ("HTTP://user:pa%40ss@proxy:8080/path", "Http user:pa@ss@proxy:8080"),
            ("http://user@proxy", "Http user:@proxy:80"),
            ("http://[::1]", "Http [::1]:80"),
        ] {
            assert_eq!(proxy(&[("HTTPS_PROXY", written)], "https://api", "").unwrap(), used, "{written}");
        }
    }

    #[test]
    fn addresses_that_cannot_be_used_say_why_and_keep_the_password() {
        for (written, message) in [
            ("ftp://proxy", "invalid proxy \"ftp://proxy\" in HTTPS_PROXY: unsupported scheme \"ftp\""),
            ("ftp://me:secret@proxy", "invalid proxy \"proxy\" in HTTPS_PROXY: unsupported scheme \"ftp\""),
            ("http://a b", "invalid proxy \"http://a b\" in HTTPS_PROXY: invalid uri character"),
        ] {
            assert_eq!(proxy(&[("HTTPS_PROXY", written)], "https://api", "").unwrap_err(), message);
        }
    }

    #[test]
    fn no_proxy_is_matched_against_the_server_as_go_matches_it() {
        for (no_proxy, server, direct) in [
            ("", "https://127.0.0.1:6443", true),
            ("", "https://localhost:6443", true),
            ("", "https://[::1]:6443", true),
            ("", "https://api.example.com", false),
            ("*", "https://api.example.com", true),
            ("example.com", "https://api.example.com", true),
            ("example.com", "https://example.com", true),
            ("example.com", "https://notexample.com", false),
            (".example.com", "https://api.example.com", true),
            (".example.com", "https://example.com", false),
            ("*.example.com", "https://API.example.com", true),
            ("other, example.com ,", "https://example.com", true),
            ("<local>,", "https://example.com", false),
            ("10.0.0.0/8", "https://10.1.2.3", true),
            ("10.0.0.0/8", "https://11.1.2.3", false),
            ("10.0.0.0/33", "https://10.1.2.3", false),
            ("10.1.2.3", "https://10.1.2.3:6443", true),
            ("fd00::/8", "https://[fd00::1]:6443", true),
            ("fd00::1", "https://[fd00::1]:6443", true),
            ("example.com:6443", "https://example.com:6443", true),
            ("example.com:6443", "https://example.com", false),
            ("10.1.2.3:443", "https://10.1.2.3", true),
        ] {
            let variables = [("HTTPS_PROXY", "proxy:3128"), ("NO_PROXY", no_proxy)];
            assert_eq!(proxy(&variables, server, "").unwrap() == "direct", direct, "{no_proxy} {server}");
        }
    }

    #[test]
    fn a_proxy_url_needs_a_scheme() {
        assert!(check_proxy_url("http://proxy").is_ok());
        for (proxy, message) in [
            ("proxy:3128", "invalid proxy \"proxy:3128\" in proxy-url: it has no scheme"),
            ("socks5h://proxy", "invalid proxy \"socks5h://proxy\" in proxy-url: unsupported scheme \"socks5h\""),
        ] {
            assert_eq!(check_proxy_url(proxy).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn http_proxy_is_refused_under_cgi() {
        let cgi = [("HTTP_PROXY", "evil:1"), ("REQUEST_METHOD", "GET")];
        assert_eq!(proxy(&cgi, "http://api", "").unwrap_err(), "refusing to use HTTP_PROXY in a CGI environment");
        assert_eq!(proxy(&[cgi[1], ("HTTPS_PROXY", "good:1")], "https://api", "").unwrap(), "Http good:1");
    }
}
