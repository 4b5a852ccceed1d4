//! Makes the client: whom it trusts, who it says it is, and how long it waits.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{HeaderValue, USER_AGENT};
use http::uri::{Scheme, Uri};
use kube::config::{AuthInfo, Cluster, ExecAuthCluster};
use kube::{Client, Config};

use super::kubeconfig::{self, Target};
use super::options::ConnectOptions;
use super::transport::Transport;
use super::{credentials, failure, proxy};
use crate::cluster::error::ClusterError;

/// How long to wait for a connection; as long as kubectl does.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a server may be silent; the API server itself gives up after 60 seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(75);

/// Makes the transport that the kubeconfig and the flags describe, and returns it with the namespace
/// of the context. Nothing is sent yet.
pub(super) fn open(options: &ConnectOptions) -> Result<(Transport, String), ClusterError> {
    let timeout = options.request_timeout.filter(|timeout| !timeout.is_zero());
    let Target { cluster, mut user, namespace } = kubeconfig::load(options)?;
    let url = server_url(cluster.server.as_deref().unwrap_or_default())?;
    if url.scheme() == Some(&Scheme::HTTPS) {
        refuse_removed_providers(&user)?;
        credentials::resolve(options, &cluster, &mut user)?;
    } else {
        user = without_credentials(&url, user)?;
    }
    let server = url.authority().map(ToString::to_string).unwrap_or_default();
    let mut config = Config::new(url.clone());
    config.default_namespace.clone_from(&namespace);
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or(false);
    (config.root_cert, config.root_cert_file) = authority(&cluster)?;
    config.tls_server_name = cluster.tls_server_name.clone().filter(|name| !name.is_empty());
    config.proxy_url = proxy::choose(options, &url, cluster.proxy_url.as_deref())?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    config.disable_compression = cluster.disable_compression.unwrap_or(false);
    config.default_retry = false;
    config.auth_info = user;
    config.headers.push((USER_AGENT, user_agent()));
    let client = Client::try_from(config).map_err(|error| unusable(&error))?;
    Ok((Transport::new(client, server, timeout), namespace))
}

/// Reads a server's address as kubectl does: without a scheme it is plain HTTP.
fn server_url(server: &str) -> Result<Uri, ClusterError> {
    let text = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    let bad = |problem: String| {
        ClusterError::config(format!("the server {server:?} cannot be used: {problem}"))
            .hint("a server is written as https://HOST:PORT; check the kubeconfig's cluster, or --server")
    };
    if text.ends_with("://") {
        return Err(bad("it has no host".to_owned()));
    }
    let url: Uri = text.parse().map_err(|error: http::uri::InvalidUri| bad(error.to_string()))?;
    if url.host().is_none_or(str::is_empty) {
        return Err(bad("it has no host".to_owned()));
    }
    match url.scheme_str() {
        Some("http" | "https") => Ok(url),
        other => Err(bad(format!("the scheme {:?} is not known", other.unwrap_or_default()))),
    }
}

/// Drops credentials for a server without TLS, as kubectl does, and refuses to go on where they would
/// have been needed on the way through a network.
fn without_credentials(url: &Uri, user: AuthInfo) -> Result<AuthInfo, ClusterError> {
    let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let loopback = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    let secret = user.token.is_some()
        || user.token_file.is_some()
        || user.exec.is_some()
        || user.auth_provider.is_some()
        || user.password.is_some();
    if secret && !loopback {
        return Err(ClusterError::config(format!(
            "the server {url} is not secure, and the credentials would be sent readable"
        ))
        .hint("write https:// in the kubeconfig's server or in --server"));
    }
    let AuthInfo { impersonate, impersonate_uid, impersonate_groups, impersonate_user_extra, .. } = user;
    Ok(AuthInfo { impersonate, impersonate_uid, impersonate_groups, impersonate_user_extra, ..AuthInfo::default() })
}

/// Refuses the ways to log in that kubectl no longer has.
fn refuse_removed_providers(user: &AuthInfo) -> Result<(), ClusterError> {
    match user.auth_provider.as_ref().map(|provider| provider.name.as_str()) {
        None | Some("oidc") => Ok(()),
        Some(name) => {
            Err(ClusterError::config(format!("the auth provider {name:?} of the kubeconfig is not supported"))
                .hint("gcp and azure have credential plugins instead: gke-gcloud-auth-plugin and kubelogin"))
        }
    }
}

/// The certificates to trust, as they are written and as a file that is read again when it changes.
type Authority = (Option<Vec<Vec<u8>>>, Option<PathBuf>);

fn authority(cluster: &Cluster) -> Result<Authority, ClusterError> {
    let Cluster { certificate_authority, certificate_authority_data, .. } = cluster;
    let empty = |text: &Option<String>| text.as_deref().is_none_or(str::is_empty);
    if empty(certificate_authority) && empty(certificate_authority_data) {
        return Ok((None, None));
    }
    let origin = match certificate_authority {
        Some(file) if empty(certificate_authority_data) => format!("certificate authority {file:?}"),
        _ => "certificate-authority-data of the kubeconfig".to_owned(),
    };
    let bad = |problem: String| {
        ClusterError::config(format!("unable to read the {origin}: {problem}"))
            .hint("it must hold certificates in PEM format")
    };
    let read = ExecAuthCluster::try_from(cluster).map_err(|error| bad(innermost(&error)))?;
    let pem = read.certificate_authority_data.unwrap_or_default();
    let certificates = certificates(&pem).map_err(bad)?;
    Ok((Some(certificates), None))
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// Reads the certificates of a PEM file, in binary form.
fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let text = String::from_utf8_lossy(pem);
    let mut certificates = Vec::new();
    let mut rest = text.as_ref();
    while let Some((_, after)) = rest.split_once("-----BEGIN CERTIFICATE-----") {
        let (body, after) = after.split_once("-----END CERTIFICATE-----").ok_or("a certificate has no end")?;
        let body: String = body.split_whitespace().collect();
        certificates.push(BASE64_STANDARD.decode(body).map_err(|error| format!("a certificate is broken: {error}"))?);
        rest = after;
    }
    if certificates.is_empty() { Err("there is no certificate in it".to_owned()) } else { Ok(certificates) }
}

/// Returns the name and version that the server's logs show, in the form of kubectl's.
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

/// Makes the error of a configuration that no client can be made of.
fn unusable(error: &kube::Error) -> ClusterError {
    let cause = match error {
        kube::Error::RustlsTls(source) => source.to_string(),
        kube::Error::Auth(source) => source.to_string(),
        other => other.to_string(),
    };
    let error = ClusterError::config(format!("the kubeconfig's certificates or credentials cannot be used: {cause}"));
    match failure::hint(&cause) {
        Some(hint) => error.hint(hint),
        None => {
            error.hint("check the user's client-certificate and client-key, and the cluster's certificate-authority")
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::config::{AuthInfo, Cluster};

    use super::{authority, certificates, refuse_removed_providers, server_url, user_agent, without_credentials};

    #[test]
    fn servers_are_read_as_kubectl_reads_them() {
        for (server, url) in [
            ("https://one:6443", "https://one:6443/"),
            ("https://one/k8s/clusters/c-1/", "https://one/k8s/clusters/c-1/"),
            ("localhost:8080", "http://localhost:8080/"),
        ] {
            assert_eq!(server_url(server).unwrap().to_string(), url);
        }
        for (server, message) in [
            ("ftp://one", "the server \"ftp://one\" cannot be used: the scheme \"ftp\" is not known"),
            ("https://", "the server \"https://\" cannot be used: it has no host"),
            ("https://a b", "the server \"https://a b\" cannot be used: invalid uri character"),
        ] {
            assert_eq!(server_url(server).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn credentials_never_leave_the_machine_readable() {
        let user = AuthInfo {
            token: Some("secret".to_owned().into()),
            impersonate: Some("eve".to_owned()),
            ..AuthInfo::default()
        };
        let error = without_credentials(&"http://far:80".parse().unwrap(), user.clone()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the server http://far:80/ is not secure, and the credentials would be sent readable"
        );
        let near = without_credentials(&"http://127.0.0.1:8001".parse().unwrap(), user).unwrap();
        assert!(near.token.is_none() && near.impersonate.is_some());
        assert!(without_credentials(&"http://far:80".parse().unwrap(), AuthInfo::default()).is_ok());
    }

    #[test]
    fn removed_providers_name_what_replaces_them() {
        let provider = kube::config::AuthProviderConfig { name: "gcp".to_owned(), ..Default::default() };
        let user = AuthInfo { auth_provider: Some(provider), ..AuthInfo::default() };
        let error = refuse_removed_providers(&user).unwrap_err();
        assert_eq!(error.to_string(), "the auth provider \"gcp\" of the kubeconfig is not supported");
    }

    #[test]
    fn an_authority_must_be_there_and_hold_certificates() {
        assert_eq!(
            certificates(b"x\n-----BEGIN CERTIFICATE-----\nAQ\nID\n-----END CERTIFICATE-----\n").unwrap(),
            [[1, 2, 3]]
        );
        let file = |path: &str| Cluster { certificate_authority: Some(path.to_owned()), ..Cluster::default() };
        let data = |text: &str| Cluster { certificate_authority_data: Some(text.to_owned()), ..Cluster::default() };
        for (cluster, message) in [
            (
                file("/no/such"),
                "unable to read the certificate authority \"/no/such\": No such file or directory (os error 2)",
            ),
            (
                data("aGVsbG8="),
                "unable to read the certificate-authority-data of the kubeconfig: there is no certificate in it",
            ),
        ] {
            assert_eq!(authority(&cluster).unwrap_err().to_string(), message);
        }
        assert!(
            authority(&data("!")).unwrap_err().to_string().starts_with("unable to read the certificate-authority-data")
        );
    }

    #[test]
    fn the_server_is_told_program_version_and_system() {
        let agent = user_agent().to_str().unwrap().to_owned();
        assert!(agent.starts_with(concat!("kubectl-ds/", env!("CARGO_PKG_VERSION"), " (")), "{agent}");
        assert!(!agent.contains("x86_64"), "{agent}");
    }
}
