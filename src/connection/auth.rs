//! Authenticates requests, and renews credentials during a run.
//!
//! Ported from k8s.io/client-go/plugin/pkg/client/auth/exec/exec.go and k8s.io/client-go/transport/token_source.go,
//! release 1.37. Unlike there, a request that was answered with 401 is sent again with renewed credentials. kube does
//! not renew client certificates, and panics on a token that a header cannot contain.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use kube::config::AuthInfo;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use secrecy::ExposeSecret;
use tower::{BoxError, Service, ServiceExt};

use super::connector::{Connector, HttpClient, Identity};
use super::error::ConnectionError;
use super::exec::{Output, Plugin};
use super::kuberc::PluginPolicy;
use super::options::ConnectOptions;
use super::retry::clone_request;
use super::{SILENCE, small_file};

/// How long files are used before they are read again: client-go's period of one minute minus its leeway of 10 seconds.
const FILE_LIFETIME: SignedDuration = SignedDuration::from_secs(50);

/// The longest time before expiration at which credentials are renewed.
const LONGEST_LEEWAY: SignedDuration = SignedDuration::from_secs(10);

/// Returns the current time.
pub(super) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Sends requests with credentials, each over a connection that presents the client certificate of its credentials.
#[derive(Clone)]
pub(super) struct Authenticate(Arc<State>);

struct State {
    credentials: CredentialSource,
    connector: Connector,
    /// The client, with the client certificate of its connections.
    client: Mutex<Option<(Option<Identity>, HttpClient)>>,
    /// The `Authorization` header of the last request.
    sent: Mutex<Option<HeaderValue>>,
}

/// The fewest bytes of a secret that is searched for in responses: any text may contain shorter ones by chance.
const SHORTEST_SECRET: usize = 8;

impl Authenticate {
    /// Obtains credentials, so that a plugin prompts before anything is shown. Fails if there are none, or TLS cannot be set up.
    pub(super) async fn new(credentials: CredentialSource, connector: Connector) -> Result<Self, ConnectionError> {
        let state = State { credentials, connector, client: Mutex::default(), sent: Mutex::default() };
        state.client(&state.credentials.current().await?)?;
        Ok(Authenticate(Arc::new(state)))
    }

    /// Removes the token or password of the last request from a response.
    pub(super) fn hide_credentials(&self, answer: Vec<u8>) -> Vec<u8> {
        let sent = self.0.sent.lock().unwrap_or_else(PoisonError::into_inner);
        without_secret(answer, sent.as_ref())
    }
}

/// Removes the secret of an `Authorization` header from a response.
fn without_secret(answer: Vec<u8>, header: Option<&HeaderValue>) -> Vec<u8> {
    let secret = header.and_then(|header| header.to_str().ok()?.split_once(' ')).map(|(_, secret)| secret);
    let is_repeated = |secret: &&str| {
        secret.len() >= SHORTEST_SECRET && answer.windows(secret.len()).any(|part| part == secret.as_bytes())
    };
    match secret.filter(is_repeated) {
        Some(secret) => String::from_utf8_lossy(&answer).replace(secret, "REDACTED").into_bytes(),
        None => answer,
    }
}

impl Service<Request<Body>> for Authenticate {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let state = self.0.clone();
        async move {
            let (credentials, again) = (state.credentials.current().await?, clone_request(&request));
            let response = state.send(&credentials, request).await?;
            let Some(again) = again.filter(|_| response.status() == StatusCode::UNAUTHORIZED) else {
                return Ok(response);
            };
            match state.credentials.after_rejection(&credentials).await? {
                Some(renewed) => state.send(&renewed, again).await,
                None => Ok(response),
            }
        }
        .boxed()
    }
}

impl State {
    async fn send(
        &self,
        credentials: &Credentials,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, BoxError> {
        if let Some(authorization) = &credentials.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner) = request.headers().get(AUTHORIZATION).cloned();
        let sent = self.client(credentials)?.oneshot(request);
        tokio::time::timeout(SILENCE, sent).await?
    }

    /// Returns the client with the credentials' client certificate. Connections with another one are not reused, as in client-go.
    fn client(&self, credentials: &Credentials) -> Result<HttpClient, ConnectionError> {
        // The value is consistent after every change, so a poisoned lock is usable.
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = credentials.identity.as_ref();
        match &*client {
            Some((identity, client)) if identity.as_ref().map(Arc::as_ptr) == wanted.map(Arc::as_ptr) => {
                Ok(client.clone())
            }
            _ => {
                let made = self.connector.client(wanted)?;
                *client = Some((wanted.cloned(), made.clone()));
                Ok(made)
            }
        }
    }
}

/// What authenticates a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Credentials {
    pub authorization: Option<HeaderValue>,
    pub identity: Option<Identity>,
    /// Increases with each renewal.
    generation: u64,
}

/// The credentials of a user, always current.
pub(super) struct CredentialSource {
    origin: Origin,
    clock: Clock,
    /// Locked during a renewal, so that all requests wait for the same renewal.
    current: tokio::sync::Mutex<Option<(Credentials, Lifetime)>>,
}

/// Where credentials come from.
enum Origin {
    /// The kubeconfig and the files that it names.
    Kubeconfig(Box<AuthInfo>),
    Plugin(Box<Plugin>),
}

/// When credentials are to be renewed.
#[derive(Debug, Clone, Copy)]
enum Lifetime {
    Unlimited,
    Until(Timestamp),
}

impl CredentialSource {
    /// Prepares the credentials of a user. Nothing is read or run yet. Fails if a plugin is needed that cannot be run.
    pub(super) fn new(options: &ConnectOptions, user: AuthInfo, clock: Clock) -> Result<Self, ConnectionError> {
        // As in `UpdateTransportConfig`, the plugin is not used if there are other credentials.
        let idle =
            has_authorization(&user) || user.client_certificate.is_some() || user.client_certificate_data.is_some();
        let origin = match &user.exec {
            Some(exec) if !idle => {
                let policy = PluginPolicy::read(options)?;
                Origin::Plugin(Box::new(Plugin::new(options, exec, &policy)?))
            }
            _ => Origin::Kubeconfig(Box::new(user)),
        };
        Ok(CredentialSource { origin, clock, current: tokio::sync::Mutex::default() })
    }

    /// Returns credentials that have not expired, renewed if necessary. Fails if there are none, or their plugin fails.
    pub(super) async fn current(&self) -> Result<Credentials, ConnectionError> {
        let mut current = self.current.lock().await;
        match &*current {
            Some((credentials, Lifetime::Unlimited)) => Ok(credentials.clone()),
            Some((credentials, Lifetime::Until(end))) if (self.clock)() < *end => Ok(credentials.clone()),
            _ => self.renew(&mut current).await,
        }
    }

    /// Returns other credentials after the server has rejected these, or `None` if there are none. Fails if a plugin fails.
    pub(super) async fn after_rejection(&self, rejected: &Credentials) -> Result<Option<Credentials>, ConnectionError> {
        let mut current = self.current.lock().await;
        if let Some((credentials, _)) =
            current.as_ref().filter(|(current, _)| current.generation != rejected.generation)
        {
            return Ok(Some(credentials.clone()));
        }
        if matches!(current.as_ref(), Some((_, Lifetime::Unlimited))) && matches!(self.origin, Origin::Kubeconfig(_)) {
            return Ok(None);
        }
        let renewed = self.renew(&mut current).await?;
        let differs = renewed.authorization != rejected.authorization || !same(&renewed.identity, &rejected.identity);
        Ok(differs.then_some(renewed))
    }

    async fn renew(&self, current: &mut Option<(Credentials, Lifetime)>) -> Result<Credentials, ConnectionError> {
        let previous = current.as_ref().map(|(credentials, _)| credentials.clone());
        let (mut credentials, lifetime) = match &self.origin {
            Origin::Kubeconfig(user) => self.read(user, previous.as_ref())?,
            Origin::Plugin(plugin) => {
                let output = plugin.run().await?;
                self.accept(output).map_err(|problem| plugin.problem(&problem))?
            }
        };
        let previous = previous.unwrap_or_default();
        credentials.generation = previous.generation + 1;
        if same(&credentials.identity, &previous.identity) {
            // The same certificate keeps its connections.
            credentials.identity = previous.identity;
        }
        *current = Some((credentials.clone(), lifetime));
        Ok(credentials)
    }

    fn read(
        &self,
        user: &AuthInfo,
        previous: Option<&Credentials>,
    ) -> Result<(Credentials, Lifetime), ConnectionError> {
        // As in client-go, if files can no longer be read, the last values stay.
        let (of_previous, identity_before) = previous.map(|it| (it.authorization.clone(), it.identity.clone())).unzip();
        let authorization = authorization(user).or_else(|error| of_previous.ok_or(error))?;
        let identity = identity(user).or_else(|error| identity_before.ok_or(error))?;
        let has_files = user.token_file.is_some() || user.client_certificate.is_some();
        let lifetime = if has_files { Lifetime::Until((self.clock)() + FILE_LIFETIME) } else { Lifetime::Unlimited };
        Ok((Credentials { authorization, identity, generation: 0 }, lifetime))
    }

    fn accept(&self, output: Output) -> Result<(Credentials, Lifetime), String> {
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        let authorization = filled(output.token).map(|token| bearer(&token)).transpose()?;
        let identity = match (filled(output.client_certificate_data), filled(output.client_key_data)) {
            (Some(certificate), Some(key)) => Some(parse_identity(certificate.as_bytes(), key.as_bytes())?),
            _ => None,
        };
        let now = (self.clock)();
        let lifetime = match output.expiration_timestamp {
            // A plugin's own cache may return credentials that expire soon; renewing them after a share of the
            // remaining time avoids running it for every request.
            Some(expiration) if expiration > now => {
                let left = expiration.duration_since(now);
                Lifetime::Until(expiration - LONGEST_LEEWAY.min(left / 10))
            }
            // Already expired by this machine's clock, which may be wrong: the server decides.
            _ => Lifetime::Unlimited,
        };
        Ok((Credentials { authorization, identity, generation: 0 }, lifetime))
    }
}

/// Returns whether two client certificates are the same.
fn same(one: &Option<Identity>, other: &Option<Identity>) -> bool {
    one.as_ref().map(|identity| &identity.cert) == other.as_ref().map(|identity| &identity.cert)
}

/// Tells whether a user has an `Authorization` header from the kubeconfig or from flags.
pub(super) fn has_authorization(user: &AuthInfo) -> bool {
    user.token.is_some() || user.token_file.is_some() || user.username.is_some()
}

/// Returns the `Authorization` header of a user.
///
/// Ported from `HTTPWrappersForConfig` and `NewBearerAuthWithRefreshRoundTripper`,
/// k8s.io/client-go/transport/round_trippers.go, release 1.37.
fn authorization(user: &AuthInfo) -> Result<Option<HeaderValue>, ConnectionError> {
    let token = user.token.as_ref().map(|token| token.expose_secret().to_owned());
    let token = match user.token_file.as_deref().map(read_token).transpose() {
        // The file is newer than the token next to it.
        Ok(of_file) => of_file.or(token),
        Err(error) => Some(token.ok_or(error)?),
    };
    let invalid =
        |problem: String| ConnectionError::config(problem).hint("check --token and the user's token in the kubeconfig");
    if let Some(token) = token {
        return bearer(&token).map(Some).map_err(invalid);
    }
    let Some(name) = &user.username else { return Ok(None) };
    let password = user.password.as_ref().map_or("", |password| password.expose_secret());
    let encoded = BASE64_STANDARD.encode(format!("{name}:{password}"));
    header(&format!("Basic {encoded}")).map(Some).map_err(invalid)
}

fn read_token(path: &str) -> Result<String, ConnectionError> {
    let bad = |problem: String| {
        ConnectionError::credentials(format!("unable to read token file {path:?}: {problem}"))
            .hint("check tokenFile of the user in the kubeconfig")
    };
    let bytes = small_file::read(path.as_ref()).map_err(|error| bad(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| bad("stream did not contain valid UTF-8".to_owned()))?;
    match text.trim() {
        "" => Err(bad("it is empty".to_owned())),
        token => Ok(token.to_owned()),
    }
}

fn bearer(token: &str) -> Result<HeaderValue, String> {
    header(&format!("Bearer {token}"))
}

fn header(value: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_bytes(value.as_bytes())
        .map_err(|_| "invalid bearer token: it contains a line break or another control character".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

fn identity(user: &AuthInfo) -> Result<Option<Identity>, ConnectionError> {
    if user.client_certificate.is_none() && user.client_certificate_data.is_none() {
        return Ok(None);
    }
    let read = |data: Option<&str>, path: Option<&String>| match (data, path) {
        // Go's decoder skips line breaks.
        (Some(data), _) => BASE64_STANDARD.decode(data.replace(['\r', '\n'], "")).map_err(|error| error.to_string()),
        (None, Some(path)) => {
            small_file::read(path.as_ref()).map_err(|error| format!("unable to read {path:?}: {error}"))
        }
        (None, None) => {
            Err("there is no client key; set client-key or client-key-data, or give --client-key".to_owned())
        }
    };
    let key = user.client_key_data.as_ref().map(|key| key.expose_secret());
    let identity = read(user.client_certificate_data.as_deref(), user.client_certificate.as_ref())
        .and_then(|certificate| parse_identity(&certificate, &read(key, user.client_key.as_ref())?));
    identity.map(Some).map_err(|problem| {
        ConnectionError::credentials(format!("invalid client certificate: {problem}"))
            .hint("check client-certificate and client-key of the user in the kubeconfig")
    })
}

/// Parses a client certificate and its key in PEM format. Returns what is wrong with them.
fn parse_identity(certificate: &[u8], key: &[u8]) -> Result<Identity, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(|error| format!("client certificate: {error}"))?;
    if chain.is_empty() {
        return Err("client certificate: there is no certificate in it".to_owned());
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("client key: {error}"))?;
    let key = default_provider().key_provider.load_private_key(key).map_err(|error| {
        format!("client key: {error}; P-256, P-384, Ed25519 and RSA keys of at least 2048 bits are supported, P-521 keys are not")
    })?;
    let identity = CertifiedKey::new(chain, key);
    match identity.keys_match() {
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err("the client key does not belong to the client certificate".to_owned())
        }
        // A certificate that this library cannot parse, such as one of version 1, is left to the server.
        _ => Ok(Arc::new(identity)),
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use futures::future::join_all;
    use jiff::Timestamp;
    use kube::config::{ExecConfig, ExecInteractiveMode};
    use tempfile::TempDir;

    use super::{AuthInfo, ConnectOptions, CredentialSource, Credentials};

    /// A clock in seconds that a test can advance.
    #[derive(Clone, Default)]
    struct Time(Arc<AtomicI64>);

    impl Time {
        fn set(&self, second: i64) {
            self.0.store(second, Ordering::Relaxed);
        }

        fn source(&self, user: AuthInfo) -> CredentialSource {
            let time = self.0.clone();
            let clock = Arc::new(move || Timestamp::from_second(time.load(Ordering::Relaxed)).unwrap());
            CredentialSource::new(&ConnectOptions::default(), user, clock).unwrap()
        }
    }

    /// A user whose plugin records each run in `runs`, and returns its number as the token and the content of
    /// `expiration` as its expiration. It fails if there is no such file.
    fn plugin(directory: &Path) -> AuthInfo {
        let script = format!(
            "cd {} && echo run >> runs && echo \"{{apiVersion: client.authentication.k8s.io/v1, status: {{token: \
             token-$(wc -l < runs | tr -d ' '), expirationTimestamp: '$(cat expiration)'}}}}\"  && test -e expiration",
            directory.display()
        );
        let exec = ExecConfig {
            api_version: Some("client.authentication.k8s.io/v1".to_owned()),
            command: Some("/bin/sh".to_owned()),
            args: Some(vec!["-c".to_owned(), script]),
            interactive_mode: Some(ExecInteractiveMode::Never),
            ..ExecConfig::default()
        };
        AuthInfo { exec: Some(exec), ..AuthInfo::default() }
    }

    fn expire_at(directory: &TempDir, second: i64) {
        let expiration = Timestamp::from_second(second).unwrap();
        fs::write(directory.path().join("expiration"), expiration.to_string()).unwrap();
    }

    fn token(credentials: &Credentials) -> &str {
        credentials.authorization.as_ref().unwrap().to_str().unwrap()
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn tokens_that_live_five_seconds_are_renewed_before_they_expire_during_a_run_of_a_minute() {
        let (directory, time) = (tempfile::tempdir().unwrap(), Time::default());
        let source = time.source(plugin(directory.path()));
        let mut expiration = 0;
        let mut last = String::new();
        block_on(async {
            for second in 0..60 {
                time.set(second);
                expire_at(&directory, second + 5);
                let credentials = source.current().await.unwrap();
                if token(&credentials) != last {
                    token(&credentials).clone_into(&mut last);
                    expiration = second + 5;
                }
                assert!(second < expiration, "the token of second {second} expired at {expiration}");
            }
        });
        assert_eq!(last, "Bearer token-12");
    }

    #[test]
    fn requests_that_are_rejected_at_once_wait_for_one_renewal() {
        let (directory, time) = (tempfile::tempdir().unwrap(), Time::default());
        let source = time.source(plugin(directory.path()));
        expire_at(&directory, 1_000);
        block_on(async {
            let first = join_all((0..20).map(|_| source.current())).await;
            let first: Vec<Credentials> = first.into_iter().collect::<Result<_, _>>().unwrap();
            assert!(first.iter().all(|credentials| token(credentials) == "Bearer token-1"));
            let renewed = join_all(first.iter().map(|credentials| source.after_rejection(credentials))).await;
            for credentials in renewed {
                assert_eq!(token(&credentials.unwrap().unwrap()), "Bearer token-2");
            }
        });
    }

    #[test]
    fn a_plugin_that_fails_to_renew_is_reported() {
        let (directory, time) = (tempfile::tempdir().unwrap(), Time::default());
        let source = time.source(plugin(directory.path()));
        expire_at(&directory, 5);
        block_on(async {
            let credentials = source.current().await.unwrap();
            fs::remove_file(directory.path().join("expiration")).unwrap();
            let message = "getting credentials: exec: executable /bin/sh failed with exit code 1";
            assert_eq!(source.after_rejection(&credentials).await.unwrap_err().to_string(), message);
            time.set(6);
            assert_eq!(source.current().await.unwrap_err().to_string(), message);
        });
    }

    #[test]
    fn a_token_that_has_expired_on_arrival_is_used_until_it_is_rejected() {
        let (directory, time) = (tempfile::tempdir().unwrap(), Time::default());
        let source = time.source(plugin(directory.path()));
        time.set(100);
        expire_at(&directory, 50);
        block_on(async {
            for _ in 0..3 {
                assert_eq!(token(&source.current().await.unwrap()), "Bearer token-1");
            }
        });
    }

    #[test]
    fn a_token_file_is_trimmed_and_read_again_every_minute() {
        let (directory, time) = (tempfile::tempdir().unwrap(), Time::default());
        let path = directory.path().join("token");
        let user = AuthInfo { token_file: Some(path.display().to_string()), ..AuthInfo::default() };
        let source = time.source(user);
        block_on(async {
            fs::write(&path, "").unwrap();
            let error = source.current().await.unwrap_err().to_string();
            assert_eq!(error, format!("unable to read token file {:?}: it is empty", path.display().to_string()));
            fs::write(&path, " one\n").unwrap();
            let one = source.current().await.unwrap();
            assert_eq!(token(&one), "Bearer one");
            fs::write(&path, "two").unwrap();
            time.set(49);
            assert_eq!(token(&source.current().await.unwrap()), "Bearer one");
            time.set(51);
            assert_eq!(token(&source.current().await.unwrap()), "Bearer two");
            fs::remove_file(&path).unwrap();
            time.set(120);
            let two = source.current().await.unwrap();
            assert_eq!(token(&two), "Bearer two");
            assert!(source.after_rejection(&two).await.unwrap().is_none());
        });
    }

    #[test]
    fn a_token_beside_a_missing_token_file_is_used() {
        let user =
            AuthInfo { token: Some("mine".into()), token_file: Some("/no/such".to_owned()), ..AuthInfo::default() };
        let credentials = block_on(Time::default().source(user).current()).unwrap();
        assert_eq!(token(&credentials), "Bearer mine");
    }

    #[test]
    fn a_secret_that_the_server_repeats_is_hidden() {
        let hidden = |answer: &str, header: &str| {
            let header = super::header(header).unwrap();
            String::from_utf8(super::without_secret(answer.into(), Some(&header))).unwrap()
        };
        assert_eq!(hidden("unknown token sesame-open", "Bearer sesame-open"), "unknown token REDACTED");
        assert_eq!(hidden("unknown token other", "Bearer sesame-open"), "unknown token other");
        assert_eq!(hidden("an error", "Bearer a"), "an error");
    }

    #[test]
    fn other_credentials_leave_the_plugin_idle() {
        let directory = tempfile::tempdir().unwrap();
        let user = AuthInfo { username: Some("ann".to_owned()), ..plugin(directory.path()) };
        let credentials = block_on(Time::default().source(user).current()).unwrap();
        assert_eq!(token(&credentials), "Basic YW5uOg==");
    }
}
