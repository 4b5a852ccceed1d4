//! Chooses the proxy as Go's `net/http` does, which kubectl leaves it to.
//!
//! Ported from `FromEnvironment` and `useProxy`, golang.org/x/net/http/httpproxy: loopback goes
//! direct, a leading dot in `NO_PROXY` stands for subdomains alone, and entries may have a port.

use std::net::IpAddr;

use http::Uri;

use super::options::ConnectOptions;
use crate::cluster::error::ClusterError;

/// Returns the proxy for a server: the kubeconfig's `proxy-url`, or the environment's.
///
/// # Errors
///
/// Fails where the proxy's address cannot be used.
pub(super) fn choose(
    options: &ConnectOptions,
    server: &Uri,
    proxy_url: Option<&str>,
) -> Result<Option<Uri>, ClusterError> {
    if let Some(proxy) = proxy_url.filter(|proxy| !proxy.is_empty()) {
        return normalise(proxy, "proxy-url").map(Some);
    }
    let names = match server.scheme_str() {
        Some("https") => ["HTTPS_PROXY", "https_proxy"],
        _ => ["HTTP_PROXY", "http_proxy"],
    };
    let found = names.into_iter().find_map(|name| Some((name, options.variable(name)?)));
    let Some((name, proxy)) = found else { return Ok(None) };
    let no_proxy = options.variable("NO_PROXY").or_else(|| options.variable("no_proxy")).unwrap_or_default();
    if goes_direct(server, no_proxy) { Ok(None) } else { normalise(proxy, name).map(Some) }
}

/// Gives a proxy's address the form that the client takes: with a scheme, and one it knows.
fn normalise(proxy: &str, origin: &str) -> Result<Uri, ClusterError> {
    let proxy = proxy.trim();
    let bad = |problem: &str| {
        // The address may hold a password: only what follows it is shown.
        let shown = proxy.rsplit_once('@').map_or(proxy, |(_, host)| host);
        ClusterError::config(format!("the proxy {shown:?} of {origin} cannot be used: {problem}"))
            .hint("a proxy is written as http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT")
    };
    let (scheme, rest) = proxy.split_once("://").unwrap_or(("http", proxy));
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "http" => "http",
        "https" => "https",
        // Names are looked up by the proxy either way, as in Go.
        "socks5" | "socks5h" => "socks5",
        other => return Err(bad(&format!("the scheme {other:?} is not known"))),
    };
    if scheme == "socks5" && rest.contains('@') {
        return Err(bad("a SOCKS proxy that asks for a password is not supported"));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let port = host.rsplit_once(':').map(|(_, port)| port);
    let port_is_given = port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    let port = match scheme {
        _ if port_is_given => "",
        "http" => ":80",
        "https" => ":443",
        _ => ":1080",
    };
    let uri = format!("{scheme}://{authority}{port}/").parse::<Uri>().map_err(|error| bad(&error.to_string()))?;
    if uri.host().is_none_or(str::is_empty) { Err(bad("it has no host")) } else { Ok(uri) }
}

/// Tells whether a server is reached without the environment's proxy.
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

/// Splits a port from an entry, where it has one: `host:443` and `[::1]:443`, not `::1`.
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

    use super::{ConnectOptions, choose};

    fn proxy(variables: &[(&str, &str)], server: &str, proxy_url: Option<&str>) -> Result<String, String> {
        let environment: BTreeMap<_, _> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let options = ConnectOptions { environment, ..ConnectOptions::default() };
        match choose(&options, &server.parse().unwrap(), proxy_url) {
            Ok(Some(uri)) => Ok(uri.to_string()),
            Ok(None) => Ok("direct".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_environment_gives_the_proxy_by_the_servers_scheme() {
        let both = [("HTTPS_PROXY", "http://secure:3128"), ("http_proxy", "http://plain:3128")];
        assert_eq!(proxy(&both, "https://api:6443", None).unwrap(), "http://secure:3128/");
        assert_eq!(proxy(&both, "http://api:8080", None).unwrap(), "http://plain:3128/");
        assert_eq!(proxy(&[("ALL_PROXY", "http://all:1")], "https://api", None).unwrap(), "direct");
        assert_eq!(
            proxy(&[("HTTPS_PROXY", ""), ("https_proxy", "low:1")], "https://api", None).unwrap(),
            "http://low:1/"
        );
    }

    #[test]
    fn the_kubeconfigs_proxy_goes_before_the_environment_and_no_proxy() {
        let variables = [("HTTPS_PROXY", "http://secure:3128"), ("NO_PROXY", "*")];
        assert_eq!(proxy(&variables, "https://127.0.0.1", Some("socks5://own:1080")).unwrap(), "socks5://own:1080/");
        assert_eq!(proxy(&variables, "https://api", Some("")).unwrap(), "direct");
    }

    #[test]
    fn addresses_get_a_scheme_and_a_port_that_the_client_knows() {
        for (written, used) in [
            ("proxy:3128", "http://proxy:3128/"),
            ("proxy", "http://proxy:80/"),
            ("https://proxy", "https://proxy:443/"),
            ("socks5h://proxy", "socks5://proxy:1080/"),
            ("HTTP://user:pa%40ss@proxy:8080/path", "http://user:pa%40ss@proxy:8080/"),
            ("http://[::1]", "http://[::1]:80/"),
        ] {
            assert_eq!(proxy(&[("HTTPS_PROXY", written)], "https://api", None).unwrap(), used, "{written}");
        }
    }

    #[test]
    fn addresses_that_cannot_be_used_say_why_and_keep_the_password() {
        for (written, message) in [
            ("ftp://proxy", "the proxy \"ftp://proxy\" of HTTPS_PROXY cannot be used: the scheme \"ftp\" is not known"),
            (
                "socks5://me:secret@proxy:1080",
                "the proxy \"proxy:1080\" of HTTPS_PROXY cannot be used: a SOCKS proxy that asks for a password is not supported",
            ),
            ("http://a b", "the proxy \"http://a b\" of HTTPS_PROXY cannot be used: invalid uri character"),
        ] {
            assert_eq!(proxy(&[("HTTPS_PROXY", written)], "https://api", None).unwrap_err(), message);
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
            assert_eq!(proxy(&variables, server, None).unwrap() == "direct", direct, "{no_proxy} {server}");
        }
    }
}
