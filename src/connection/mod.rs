//! The connection to an API server, as kubectl makes it with the same kubeconfig, flags and environment.
//!
//! `kubeconfig` chooses the server, the user and the namespace. `retry` retries the requests of [`Connection::send`], `auth`
//! authenticates them, with an `exec` plugin if `kuberc` allows it, and `connector` opens the connections. `observe` records
//! warnings and the server's clock, and `failure` words errors. `cluster::live` interprets the responses.
#![expect(clippy::disallowed_types, reason = "only this room connects to an API server")]

mod auth;
mod connector;
pub mod error;
mod exec;
mod failure;
mod kubeconfig;
mod kuberc;
mod look_path;
mod observe;
mod options;
#[cfg(unix)]
pub(crate) mod process_group;
mod retry;
mod server;
mod small_file;

pub use kubeconfig::{KubeconfigNames, names_in_kubeconfig};
pub(crate) use kubeconfig::{context_in_use, contexts_matching, is_among};
pub use observe::Observed;
pub use options::ConnectOptions;
pub(crate) use options::parse_duration;
pub(crate) use retry::{Retries, TooLongToWait};

use std::sync::Arc;
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use jiff::Timestamp;
use kube::client::{Body, ConfigExt};
use kube::config::AuthInfo;
use kube::{Client, Config};
use tokio::time::{Instant, timeout_at};
use tower::ServiceBuilder;
use tower::retry::RetryLayer;

use auth::{Authenticate, CredentialSource, has_authorization};
use connector::Connector;
use error::ConnectionError;
use retry::RepeatedUntil;

/// How long a server may be silent; the API server itself gives up after 60 seconds, too.
pub(crate) const SILENCE: Duration = Duration::from_secs(60);

/// The connection to one server.
pub(crate) struct Connection {
    client: Client,
    /// The server's host and port.
    pub(crate) server: String,
    /// The proxy for requests.
    proxy: Option<String>,
    authenticate: Authenticate,
    /// The namespace of the kubeconfig's context, or `default` if it has none.
    pub(crate) namespace: String,
    pub(crate) observed: Observed,
    /// The timeout of one request including its response.
    timeout: Option<Duration>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connection").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Connection {
    /// Prepares the connection that the kubeconfig and the flags describe. No request is sent yet, but a credential
    /// plugin is run. Fails if the kubeconfig or a flag is invalid, or there are no credentials.
    pub(crate) async fn open(options: &ConnectOptions, clock: fn() -> Timestamp) -> Result<Self, ConnectionError> {
        let mut config = kubeconfig::load(options)?;
        let user = std::mem::take(&mut config.auth_info);
        // Otherwise kube would run the plugin and read the certificates, too.
        config.auth_info = kubeconfig::impersonation(user.clone());
        config.headers.push((USER_AGENT, user_agent()));
        let user = server::credentials_for(&config.cluster_url, user)?;
        let oidc = auth_provider(&user)?;
        let headers = config.extra_headers_layer().map_err(|error| {
            ConnectionError::config(format!("cannot impersonate: {error}"))
                .hint("check --as, --as-uid, --as-group and --as-user-extra, and the user in the kubeconfig")
        })?;
        let (base_uri, namespace) = (config.base_uri_layer(), config.default_namespace.clone());
        let server = config.cluster_url.authority().map_or("", |authority| authority.as_str()).to_owned();
        let credentials = CredentialSource::new(options, user, Arc::new(clock))?;
        let connector = Connector::new(options, config)?;
        let proxy = connector.proxy_address();
        let authenticate = Authenticate::new(credentials, connector).await?;
        let service = ServiceBuilder::new()
            .layer(base_uri)
            .layer(headers)
            .layer(RetryLayer::new(Retries::default()))
            .option_layer(oidc)
            .service(authenticate.clone());
        let timeout = options.request_timeout.filter(|timeout| !timeout.is_zero());
        let client = Client::new(service, &*namespace);
        let observed = Observed::new(clock);
        Ok(Connection { client, server, proxy, authenticate, namespace, observed, timeout })
    }

    /// Returns the deadline for the complete response to a request that is sent now.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.timeout.map(|timeout| Instant::now() + timeout)
    }

    /// Sends a request for a path, and retries it if the server is too busy, unless it is a change. Fails if there are
    /// no credentials, or if the server cannot be reached or does not answer in time.
    pub(crate) async fn send(
        &self,
        mut request: Request<Body>,
        deadline: Option<Instant>,
    ) -> Result<Response<Body>, ConnectionError> {
        request.extensions_mut().insert(RepeatedUntil(repeated_until(deadline)));
        let sent = self.observed.local_time();
        let answer = self.client.send(request);
        let answer = match deadline {
            Some(deadline) => timeout_at(deadline, answer).await.map_err(|_| self.incomplete())?,
            None => answer.await,
        };
        let answer = answer.map_err(|error| {
            let error = failure::unanswered(&self.server, &error);
            match self.proxy.as_ref().filter(|_| error.is_about_the_server()) {
                Some(proxy) => {
                    error.hint(format!("requests go through the proxy {proxy}; check that it lets them pass"))
                }
                None => error,
            }
        })?;
        self.observed.note(sent, answer.headers());
        Ok(answer)
    }

    /// Removes the request's credentials from a response: a server may repeat them in an error.
    pub(crate) fn without_credentials(&self, answer: Vec<u8>) -> Vec<u8> {
        self.authenticate.hide_credentials(answer)
    }

    /// Waits for a part of a response until the deadline, and no longer than the server may be silent. Fails on timeout.
    pub(crate) async fn within<F: Future>(
        &self,
        deadline: Option<Instant>,
        max_silence: Duration,
        part: F,
    ) -> Result<F::Output, ConnectionError> {
        let silence = Instant::now() + max_silence;
        let end = deadline.map_or(silence, |deadline| deadline.min(silence));
        timeout_at(end, part).await.map_err(|_| match end == silence {
            true => failure::timed_out(&self.server, &format!("no answer came within {} s", max_silence.as_secs())),
            false => self.incomplete(),
        })
    }

    fn incomplete(&self) -> ConnectionError {
        let (limit, flag) = self.timeout.map_or((SILENCE, ""), |timeout| (timeout, " (--request-timeout)"));
        let how = format!("the response was incomplete after {} s{flag}", limit.as_secs_f64());
        failure::timed_out(&self.server, &how)
    }
}

/// Returns when the last retry of a request with a deadline may start.
pub(crate) fn repeated_until(deadline: Option<Instant>) -> Instant {
    deadline.unwrap_or_else(|| Instant::now() + SILENCE)
}

/// Returns the authentication layer for a user with an OIDC provider, and rejects the providers that kubectl no longer supports.
fn auth_provider(user: &AuthInfo) -> Result<Option<kube::client::middleware::AuthLayer>, ConnectionError> {
    let Some(provider) = &user.auth_provider else { return Ok(None) };
    if provider.name != "oidc" {
        return Err(ConnectionError::config(format!(
            "the auth provider {:?} of the kubeconfig is not supported",
            provider.name
        ))
        .hint("gcp and azure have credential plugins instead: gke-gcloud-auth-plugin and kubelogin"));
    }
    if has_authorization(user) {
        return Ok(None);
    }
    let mut config = Config::new(http::Uri::default());
    config.auth_info.auth_provider = Some(provider.clone());
    config.auth_layer().map_err(|error| {
        ConnectionError::config(format!("invalid auth provider {:?}: {error}", provider.name))
            .hint("check auth-provider of the user in the kubeconfig")
    })
}

/// Returns the `User-Agent` header in kubectl's format.
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
    use kube::config::AuthProviderConfig;

    use super::{AuthInfo, auth_provider, user_agent};

    #[test]
    fn removed_providers_name_their_replacement() {
        let provider = AuthProviderConfig { name: "gcp".to_owned(), ..AuthProviderConfig::default() };
        let user = AuthInfo { auth_provider: Some(provider), ..AuthInfo::default() };
        let error = auth_provider(&user).err().unwrap();
        assert_eq!(error.to_string(), "the auth provider \"gcp\" of the kubeconfig is not supported");
    }

    #[test]
    fn the_server_is_told_program_version_and_system() {
        let agent = user_agent().to_str().unwrap().to_owned();
        assert!(agent.starts_with(concat!("kubectl-ds/", env!("CARGO_PKG_VERSION"), " (")), "{agent}");
        assert!(!agent.contains("x86_64"), "{agent}");
    }
}
