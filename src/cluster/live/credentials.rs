//! Authenticates requests, and renews what authenticates them during a run.
//!
//! Ported from k8s.io/client-go/plugin/pkg/client/auth/exec/exec.go and k8s.io/client-go/transport/token_source.go,
//! release 1.36. Unlike there, a request that was answered with 401 is sent again with renewed credentials. kube
//! renews no client certificate, and panics on a token that a header cannot carry.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;

use super::exec_plugin::{Output, Plugin};
use super::kubeconfig_file::{Cluster, User};
use super::kuberc::PluginPolicy;
use super::options::ConnectOptions;
use super::tls::{self, Identity};
use crate::cluster::error::ClusterError;

/// How long files are used before they are read again: client-go's period of a minute less its leeway of 10 seconds.
const FILE_LIFETIME: SignedDuration = SignedDuration::from_secs(50);

/// The longest time before their expiration at which credentials are renewed.
const LONGEST_LEEWAY: SignedDuration = SignedDuration::from_secs(10);

/// Tells the time.
pub(super) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What authenticates a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Credentials {
    /// The value of the `Authorization` header.
    pub authorization: Option<HeaderValue>,
    pub identity: Option<Identity>,
    /// Increases with each renewal.
    generation: u64,
}

/// The credentials of a user, always current.
pub(super) struct CredentialSource {
    origin: Origin,
    clock: Clock,
    /// Locked during a renewal, so that all requests wait for the same one.
    current: Mutex<Option<(Credentials, Lifetime)>>,
}

/// Where credentials come from.
enum Origin {
    /// The kubeconfig, and files that it names.
    Kubeconfig(Box<User>),
    Plugin(Box<Plugin>),
}

/// When credentials are to be renewed.
#[derive(Debug, Clone, Copy)]
enum Lifetime {
    Unlimited,
    Until(Timestamp),
}

impl CredentialSource {
    /// Prepares the credentials of a user for a server with TLS. Nothing is read or run yet.
    ///
    /// # Errors
    ///
    /// Fails if a plugin is used that cannot be run.
    pub(super) fn new(
        options: &ConnectOptions,
        cluster: &Cluster,
        user: User,
        clock: Clock,
    ) -> Result<Self, ClusterError> {
        let has_certificate = !user.client_certificate.is_empty() || !user.client_certificate_data.is_empty();
        // As in `UpdateTransportConfig`, any other credentials leave the plugin idle.
        let idle =
            has_certificate || !user.token.is_empty() || !user.token_file.is_empty() || !user.username.is_empty();
        let origin = match &user.exec {
            Some(exec) if !idle => {
                let policy = PluginPolicy::read(options)?;
                Origin::Plugin(Box::new(Plugin::new(options, cluster, exec, &policy)?))
            }
            _ => Origin::Kubeconfig(Box::new(user)),
        };
        Ok(CredentialSource { origin, clock, current: Mutex::default() })
    }

    /// Returns no credentials, for a server without TLS.
    pub(super) fn none(clock: Clock) -> Self {
        CredentialSource { origin: Origin::Kubeconfig(Box::default()), clock, current: Mutex::default() }
    }

    /// Returns credentials that have not expired, renewed if necessary.
    ///
    /// # Errors
    ///
    /// Fails if there are none, or their plugin fails.
    pub(super) async fn current(&self) -> Result<Credentials, ClusterError> {
        let mut current = self.current.lock().await;
        match &*current {
            Some((credentials, Lifetime::Unlimited)) => Ok(credentials.clone()),
            Some((credentials, Lifetime::Until(end))) if (self.clock)() < *end => Ok(credentials.clone()),
            _ => self.renew(&mut current).await,
        }
    }

    /// Returns other credentials than those that the server has rejected, or `None` if there are no others.
    ///
    /// # Errors
    ///
    /// Fails if a plugin fails.
    pub(super) async fn after_rejection(&self, rejected: &Credentials) -> Result<Option<Credentials>, ClusterError> {
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

    async fn renew(&self, current: &mut Option<(Credentials, Lifetime)>) -> Result<Credentials, ClusterError> {
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

    fn read(&self, user: &User, previous: Option<&Credentials>) -> Result<(Credentials, Lifetime), ClusterError> {
        // As in client-go, files that can no longer be read leave what was read last.
        let authorization = match (authorization(user), previous) {
            (Ok(authorization), _) => authorization,
            (Err(_), Some(previous)) => previous.authorization.clone(),
            (Err(error), None) => return Err(error),
        };
        let identity = match (identity(user), previous) {
            (Ok(identity), _) => identity,
            (Err(_), Some(previous)) => previous.identity.clone(),
            (Err(error), None) => return Err(error),
        };
        let has_files = [&user.token_file, &user.client_certificate].iter().any(|path| !path.is_empty());
        let lifetime = if has_files { Lifetime::Until((self.clock)() + FILE_LIFETIME) } else { Lifetime::Unlimited };
        Ok((Credentials { authorization, identity, generation: 0 }, lifetime))
    }

    fn accept(&self, output: Output) -> Result<(Credentials, Lifetime), String> {
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        let authorization = filled(output.token).map(|token| bearer(&token)).transpose()?;
        let identity = match (filled(output.client_certificate_data), filled(output.client_key_data)) {
            (Some(certificate), Some(key)) => Some(tls::identity(certificate.as_bytes(), key.as_bytes())?),
            _ => None,
        };
        let now = (self.clock)();
        let lifetime = match output.expiration_timestamp {
            // A plugin's own cache may return credentials that expire soon; a share of what is left keeps it from
            // running for every request.
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

/// Returns the `Authorization` header of a user.
///
/// Ported from `HTTPWrappersForConfig` and `NewBearerAuthWithRefreshRoundTripper`,
/// k8s.io/client-go/transport/round_trippers.go, release 1.36.
fn authorization(user: &User) -> Result<Option<HeaderValue>, ClusterError> {
    let invalid =
        |problem: String| ClusterError::config(problem).hint("check --token and the user's token in the kubeconfig");
    let token = match read_token(&user.token_file) {
        Ok(None) => user.token.clone(),
        // The file is fresher than the token beside it.
        Ok(Some(token)) => token,
        Err(_) if !user.token.is_empty() => user.token.clone(),
        Err(error) => return Err(error),
    };
    if !token.is_empty() {
        return bearer(&token).map(Some).map_err(invalid);
    }
    if !user.username.is_empty() {
        return Ok(basic(&user.username, &user.password));
    }
    Ok(None)
}

/// Reads a token file, if there is one.
fn read_token(path: &str) -> Result<Option<String>, ClusterError> {
    if path.is_empty() {
        return Ok(None);
    }
    let bad = |problem: String| ClusterError::Credentials {
        message: format!("unable to read token file {path:?}: {problem}"),
        hints: vec!["check tokenFile of the user in the kubeconfig".to_owned()],
    };
    let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
    match text.trim() {
        "" => Err(bad("it is empty".to_owned())),
        token => Ok(Some(token.to_owned())),
    }
}

fn bearer(token: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_bytes(format!("Bearer {token}").as_bytes())
        .map_err(|_| "invalid bearer token: it contains a line break or another control character".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns the header value of basic authentication.
pub(super) fn basic(username: &str, password: &str) -> Option<HeaderValue> {
    let encoded = BASE64_STANDARD.encode(format!("{username}:{password}"));
    let mut value = HeaderValue::from_str(&format!("Basic {encoded}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn identity(user: &User) -> Result<Option<Identity>, ClusterError> {
    let read = |path: &str, data: &Vec<u8>| if data.is_empty() { std::fs::read(path) } else { Ok(data.clone()) };
    if user.client_certificate.is_empty() && user.client_certificate_data.is_empty() {
        return Ok(None);
    }
    let identity = read(&user.client_certificate, &user.client_certificate_data)
        .and_then(|certificate| Ok((certificate, read(&user.client_key, &user.client_key_data)?)))
        .map_err(|error| error.to_string())
        .and_then(|(certificate, key)| tls::identity(&certificate, &key));
    identity.map(Some).map_err(|problem| ClusterError::Credentials {
        message: format!("invalid client certificate: {problem}"),
        hints: vec!["check client-certificate and client-key of the user in the kubeconfig".to_owned()],
    })
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
    use tempfile::TempDir;

    use super::{Cluster, ConnectOptions, CredentialSource, Credentials, User};
    use crate::cluster::live::kubeconfig_file::Exec;

    /// A clock that a test moves, in seconds.
    #[derive(Clone, Default)]
    struct Time(Arc<AtomicI64>);

    impl Time {
        fn set(&self, second: i64) {
            self.0.store(second, Ordering::Relaxed);
        }

        fn source(&self, user: User) -> CredentialSource {
            let time = self.0.clone();
            let clock = Arc::new(move || Timestamp::from_second(time.load(Ordering::Relaxed)).unwrap());
            CredentialSource::new(&ConnectOptions::default(), &Cluster::default(), user, clock).unwrap()
        }
    }

    /// A user whose plugin notes each run in `runs`, and returns its number as the token and the content of
    /// `expiration` as its expiration. It fails if there is no such file.
    fn plugin(directory: &Path) -> User {
        let script = format!(
            "cd {} && echo run >> runs && echo \"{{apiVersion: client.authentication.k8s.io/v1, status: {{token: \
             token-$(wc -l < runs | tr -d ' '), expirationTimestamp: '$(cat expiration)'}}}}\"  && test -e expiration",
            directory.display()
        );
        let exec = Exec {
            api_version: "client.authentication.k8s.io/v1".to_owned(),
            command: "/bin/sh".to_owned(),
            args: vec!["-c".to_owned(), script],
            interactive_mode: "Never".to_owned(),
            ..Exec::default()
        };
        User { exec: Some(exec), ..User::default() }
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
        let user = User { token_file: path.display().to_string(), token: String::new(), ..User::default() };
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
        let user = User { token: "mine".to_owned(), token_file: "/no/such".to_owned(), ..User::default() };
        let credentials = block_on(Time::default().source(user).current()).unwrap();
        assert_eq!(token(&credentials), "Bearer mine");
    }

    #[test]
    fn other_credentials_leave_the_plugin_idle() {
        let directory = tempfile::tempdir().unwrap();
        let user = User { username: "ann".to_owned(), ..plugin(directory.path()) };
        let credentials = block_on(Time::default().source(user).current()).unwrap();
        assert_eq!(token(&credentials), "Basic YW5uOg==");
    }
}
