//! Chooses the server, the user and the namespace as kubectl does, from kubeconfig files, flags and the environment of a pod.
//!
//! kube reads and merges the files. The flags and the error cases are ported from k8s.io/client-go/tools/clientcmd, release 1.37:
//! kube supports 3 of the flags, and rejects a missing file in `KUBECONFIG`.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use glob::{Pattern, PatternError};
use http::Uri;
use kube::Config;
use kube::config::{AuthInfo, Cluster, Context, ExecAuthCluster, ExecConfig, Kubeconfig, KubeconfigError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use secrecy::{ExposeSecret, SecretString};

use super::auth::has_authorization;
use super::connector::invalid_proxy;
use super::error::ConnectionError;
use super::options::{ConnectOptions, given};
use super::server::ServerAddress;
use super::small_file;
use crate::report::fix::{Command, Fix};

/// The most names in an error.
const LISTED: usize = 10;

/// Returns the server that kubeconfig files and flags describe, or that of the pod in which this process runs, with the
/// user and the namespace. Fails if a file cannot be read, a named entry does not exist, an entry that is used is
/// contradictory, or nothing is configured at all.
pub(super) fn load(options: &ConnectOptions) -> Result<Config, ConnectionError> {
    // kube reads the environment of the process itself.
    let pod = options.variable("KUBERNETES_SERVICE_HOST").and_then(|_| Config::incluster().ok());
    load_in(options, pod)
}

fn load_in(options: &ConnectOptions, pod: Option<Config>) -> Result<Config, ConnectionError> {
    let paths = paths(options);
    let kubeconfig = read(options, &paths)?;
    let context = context(options, &kubeconfig)?;
    let mut cluster = cluster(options, &kubeconfig, &context)?;
    let mut user = user(options, &kubeconfig, &context)?;
    override_cluster(options, &mut cluster);
    override_user(options, &mut user);
    check_user(&user)?;
    // As in `DeferredLoadingClientConfig.Namespace`, the pod's namespace is used for any server.
    let of_pod = pod.as_ref().map(|pod| pod.default_namespace.trim().to_owned());
    let namespace = [context.namespace, of_pod].into_iter().flatten().find(|namespace| !namespace.is_empty());
    let mut config = match (&cluster.server, pod) {
        (None, _) if !context.cluster.is_empty() => {
            return Err(ConnectionError::config(format!("cluster {:?} has no server", context.cluster))
                .hint("set it in the kubeconfig, or give --server"));
        }
        (None, Some(pod)) => of_pod_with_flags(pod, options, &cluster, user)?,
        (None, None) => {
            let master = options.variable("KUBERNETES_MASTER");
            let server = master.ok_or_else(|| nothing_configured(&kubeconfig, &paths))?.to_owned();
            of_cluster(&Cluster { server: Some(server), ..cluster }, user)?
        }
        (Some(_), _) => of_cluster(&cluster, user)?,
    };
    config.default_namespace = namespace.unwrap_or_else(|| "default".to_owned());
    Ok(config)
}

/// Returns the configuration for a cluster in the kubeconfig.
fn of_cluster(cluster: &Cluster, mut user: AuthInfo) -> Result<Config, ConnectionError> {
    let ServerAddress { url, user_info } = ServerAddress::parse(cluster.server.as_deref().unwrap_or_default())?;
    if let Some((name, password)) = user_info
        && !has_authorization(&user)
        && user.exec.is_none()
        && user.auth_provider.is_none()
    {
        // As in Go, the user and password in the address are used if there is no other authentication.
        (user.username, user.password) = (Some(name), Some(password.into()));
    }
    let insecure = cluster.insecure_skip_tls_verify.unwrap_or_default();
    if insecure && (cluster.certificate_authority.is_some() || cluster.certificate_authority_data.is_some()) {
        return Err(invalid("a certificate authority and insecure-skip-tls-verify are both set").hint(
            "remove one of them from the cluster, or give --certificate-authority or --insecure-skip-tls-verify",
        ));
    }
    let mut config = Config::new(url);
    config.accept_invalid_certs = insecure;
    let (shown, authorities) = with_authorities(cluster)?;
    config.root_cert = authorities;
    config.tls_server_name.clone_from(&cluster.tls_server_name);
    // Ported from `parseProxyURL`, k8s.io/client-go/tools/clientcmd/helpers.go, release 1.37.
    config.proxy_url = match &cluster.proxy_url {
        Some(proxy) => match proxy.parse::<Uri>() {
            Ok(parsed) if parsed.scheme().is_some() => Some(parsed),
            _ => return Err(invalid_proxy(proxy, "proxy-url")),
        },
        None => None,
    };
    if let Some(exec) = user.exec.as_mut().filter(|exec| exec.provide_cluster_info) {
        exec.cluster = Some(shown);
    }
    config.auth_info = user;
    Ok(config)
}

/// Returns the configuration for the pod's cluster, as its service account, impersonating as `user` does.
///
/// Ported from `ClientConfig` of `inClusterClientConfig`, k8s.io/client-go/tools/clientcmd/client_config.go, release
/// 1.37. Unlike there, impersonation flags apply.
fn of_pod_with_flags(
    mut pod: Config,
    options: &ConnectOptions,
    cluster: &Cluster,
    user: AuthInfo,
) -> Result<Config, ConnectionError> {
    if given(&options.certificate_authority).is_some() {
        (pod.root_cert, pod.root_cert_file) = (with_authorities(cluster)?.1, None);
    }
    let token = given(&options.token).map(SecretString::from);
    let token_file = pod.auth_info.token_file.filter(|_| token.is_none());
    pod.auth_info = AuthInfo { token, token_file, ..impersonation(user) };
    Ok(pod)
}

/// Returns whom a user impersonates, without credentials.
pub(super) fn impersonation(user: AuthInfo) -> AuthInfo {
    let AuthInfo { impersonate, impersonate_uid, impersonate_groups, impersonate_user_extra, .. } = user;
    AuthInfo { impersonate, impersonate_uid, impersonate_groups, impersonate_user_extra, ..AuthInfo::default() }
}

/// The CA certificates of a cluster, if it names them.
type Authorities = Option<Vec<Vec<u8>>>;

/// Returns what a plugin is told about a cluster, and the CA certificates.
fn with_authorities(cluster: &Cluster) -> Result<(ExecAuthCluster, Authorities), ConnectionError> {
    let unreadable = |problem: &str| unreadable_authority(cluster, problem);
    let mut with_data = cluster.clone();
    // kube reads files of any size.
    if let (None, Some(path)) = (&cluster.certificate_authority_data, &cluster.certificate_authority) {
        let pem = small_file::read(path.as_ref()).map_err(|error| unreadable(&error.to_string()))?;
        with_data.certificate_authority_data = Some(BASE64_STANDARD.encode(pem));
    }
    let shown = ExecAuthCluster::try_from(&with_data).map_err(|error| unreadable(&error.to_string()))?;
    let Some(pem) = &shown.certificate_authority_data else { return Ok((shown, None)) };
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|error| unreadable(&error.to_string()))?;
    if certificates.is_empty() {
        return Err(unreadable("there is no certificate in it"));
    }
    let authorities = certificates.into_iter().map(|certificate| certificate.to_vec()).collect();
    Ok((shown, Some(authorities)))
}

fn unreadable_authority(cluster: &Cluster, problem: &str) -> ConnectionError {
    let origin = match (&cluster.certificate_authority_data, &cluster.certificate_authority) {
        (None, Some(path)) => format!("certificate-authority {path:?}"),
        _ => "certificate-authority-data".to_owned(),
    };
    ConnectionError::config(format!("unable to read {origin}: {problem}"))
        .hint("it must hold certificates in PEM format; check the cluster in the kubeconfig, or the flag")
}

/// The names that a kubeconfig defines.
#[derive(Debug, Default)]
pub struct KubeconfigNames {
    /// Contexts.
    pub contexts: Vec<String>,
    /// Clusters.
    pub clusters: Vec<String>,
    /// Users.
    pub users: Vec<String>,
}

/// Returns the names that the kubeconfig files define. Fails if a file cannot be read.
pub fn names_in_kubeconfig(options: &ConnectOptions) -> Result<KubeconfigNames, ConnectionError> {
    let Kubeconfig { contexts, clusters, auth_infos, .. } = read(options, &paths(options))?;
    let mut names = KubeconfigNames {
        contexts: contexts.into_iter().map(|context| context.name).collect(),
        clusters: clusters.into_iter().map(|cluster| cluster.name).collect(),
        users: auth_infos.into_iter().map(|user| user.name).collect(),
    };
    for names in [&mut names.contexts, &mut names.clusters, &mut names.users] {
        names.sort();
    }
    Ok(names)
}

/// Returns the contexts that match patterns such as `prod-*`, each once, by name. A name always matches itself. Fails
/// if a file cannot be read, or if a pattern is invalid or matches no context.
pub(crate) fn contexts_matching(
    options: &ConnectOptions,
    patterns: &[String],
) -> Result<BTreeSet<String>, ConnectionError> {
    let existing = names_in_kubeconfig(options)?.contexts;
    let mut found = BTreeSet::new();
    for text in patterns {
        // A name that is not a valid pattern matches itself.
        let is_match = |name: &&String| matches(text, name).unwrap_or_default();
        let matching: Vec<&String> = existing.iter().filter(is_match).collect();
        if matching.is_empty() {
            matches(text, "")?;
            let error = ConnectionError::config(format!("no context matches {text:?}"));
            return Err(listing(error, text, "contexts", existing.iter().map(|name| &**name)));
        }
        found.extend(matching.into_iter().cloned());
    }
    Ok(found)
}

/// Returns the context for requests; `None` without one, as in a pod. Fails if a file cannot be read.
pub(crate) fn context_in_use(options: &ConnectOptions) -> Result<Option<String>, ConnectionError> {
    match given(&options.context) {
        Some(context) => Ok(Some(context.to_owned())),
        None => Ok(read(options, &paths(options))?.current_context),
    }
}

/// Returns whether one of several comma-separated patterns matches the name of a context. A name always matches itself.
/// Fails if a pattern is invalid.
pub(crate) fn is_among(context: &str, patterns: &str) -> Result<bool, ConnectionError> {
    let mut matching = patterns.split(',').map(|text| matches(text.trim(), context));
    matching.try_fold(false, |found, is_match| Ok(found | is_match?))
}

/// Returns whether a pattern matches a name. Fails if the pattern is invalid and not the name itself.
fn matches(pattern: &str, name: &str) -> Result<bool, ConnectionError> {
    let invalid = |error: PatternError| ConnectionError::config(format!("invalid pattern {pattern:?}: {}", error.msg));
    Ok(pattern == name || Pattern::new(pattern).map_err(invalid)?.matches(name))
}

/// Returns the files to read, in order of precedence.
fn paths(options: &ConnectOptions) -> Vec<PathBuf> {
    if let Some(path) = given(&options.kubeconfig) {
        return vec![PathBuf::from(path)];
    }
    if let Some(list) = options.variable("KUBECONFIG") {
        return std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect();
    }
    let home = options.home_directory();
    home.map(|home| home.join(".kube").join("config")).into_iter().collect()
}

/// Reads and merges the files: the first file that sets a name or the current context wins. Missing files are skipped,
/// except that of `--kubeconfig`.
fn read(options: &ConnectOptions, paths: &[PathBuf]) -> Result<Kubeconfig, ConnectionError> {
    let mut merged = Kubeconfig::default();
    for path in paths {
        let bad = |problem: &str| {
            ConnectionError::config(format!("error loading config file {:?}: {problem}", path.display().to_string()))
                .hint(match given(&options.kubeconfig) {
                    Some(_) => "check the path that --kubeconfig gives",
                    None => "to use another file, add --kubeconfig FILE",
                })
                .hint(Fix::new("to see what is read", Command::kubectl(&["config", "view"])))
        };
        let absolute = std::path::absolute(path).map_err(|error| bad(&error.to_string()))?;
        // kube reads files of any size.
        let read = if small_file::is_pipe(&absolute) { Ok(Vec::new()) } else { small_file::read(&absolute) };
        if let Some(error) = read.err().filter(|error| error.kind() == ErrorKind::FileTooLarge) {
            return Err(bad(&error.to_string()));
        }
        let mut config = match Kubeconfig::read_from(absolute) {
            Ok(config) => config,
            Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == ErrorKind::NotFound => {
                if given(&options.kubeconfig).is_some() {
                    return Err(bad("no such file"));
                }
                continue;
            }
            Err(KubeconfigError::ReadConfig(error, _)) => return Err(bad(&error.to_string())),
            Err(KubeconfigError::Parse(error)) => {
                // The parser's message would repeat the text, which may be a secret.
                let place = error.location().map(|at| format!(": line {}, column {}", at.line(), at.column()));
                return Err(bad(&format!("it is not a kubeconfig{}", place.unwrap_or_default())));
            }
            Err(error) => return Err(bad(&error.to_string())),
        };
        let (kind, version) = (config.kind.take().unwrap_or_default(), config.api_version.take().unwrap_or_default());
        if !matches!((&*kind, &*version), ("" | "Config", "" | "v1")) {
            return Err(bad(&format!("it is of kind {kind:?} and version {version:?}, not a v1 Config")));
        }
        drop_empty([&mut config.current_context]);
        merged = merged.merge(config).map_err(|error| bad(&error.to_string()))?;
    }
    Ok(merged)
}

/// Turns empty strings into `None`: kubectl does not distinguish them.
fn drop_empty<const N: usize>(fields: [&mut Option<String>; N]) {
    for field in fields {
        drop(field.take_if(|text| text.is_empty()));
    }
}

fn context(options: &ConnectOptions, kubeconfig: &Kubeconfig) -> Result<Context, ConnectionError> {
    let current = kubeconfig.current_context.as_deref();
    let mut context = Context::default();
    if let Some(name) = given(&options.context).or(current) {
        let origin = if given(&options.context).is_some() { "context" } else { "the current context" };
        let found = kubeconfig.contexts.iter().find(|context| context.name == name);
        let found = found.ok_or_else(|| {
            missing(origin, name, "contexts", kubeconfig.contexts.iter().map(|context| &*context.name))
        })?;
        context = found.context.clone().unwrap_or_default();
    }
    if let Some(cluster) = given(&options.cluster) {
        cluster.clone_into(&mut context.cluster);
    }
    if let Some(user) = given(&options.user) {
        context.user = Some(user.to_owned());
    }
    drop_empty([&mut context.user, &mut context.namespace]);
    Ok(context)
}

fn cluster(options: &ConnectOptions, kubeconfig: &Kubeconfig, context: &Context) -> Result<Cluster, ConnectionError> {
    let found = kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster);
    let has_server = given(&options.server).is_some() && given(&options.cluster).is_none();
    // --server does not need a cluster in the kubeconfig.
    if found.is_none() && !context.cluster.is_empty() && !has_server {
        let existing = kubeconfig.clusters.iter().map(|cluster| &*cluster.name);
        return Err(missing("cluster", &context.cluster, "clusters", existing));
    }
    let mut cluster = found.and_then(|found| found.cluster.clone()).unwrap_or_default();
    drop_empty([
        &mut cluster.server,
        &mut cluster.certificate_authority,
        &mut cluster.certificate_authority_data,
        &mut cluster.proxy_url,
        &mut cluster.tls_server_name,
    ]);
    Ok(cluster)
}

fn user(options: &ConnectOptions, kubeconfig: &Kubeconfig, context: &Context) -> Result<AuthInfo, ConnectionError> {
    let found = kubeconfig.auth_infos.iter().find(|user| Some(&user.name) == context.user.as_ref());
    // As in client-go, a context may name a user that does not exist.
    if let (None, Some(name)) = (found, given(&options.user)) {
        return Err(missing("user", name, "users", kubeconfig.auth_infos.iter().map(|user| &*user.name)));
    }
    let mut user = found.and_then(|found| found.auth_info.clone()).unwrap_or_default();
    drop_empty([
        &mut user.username,
        &mut user.token_file,
        &mut user.client_certificate,
        &mut user.client_certificate_data,
        &mut user.client_key,
        &mut user.impersonate,
        &mut user.impersonate_uid,
    ]);
    for secret in [&mut user.password, &mut user.token, &mut user.client_key_data] {
        drop(secret.take_if(|secret| secret.expose_secret().is_empty()));
    }
    Ok(user)
}

/// Applies the flags for the cluster, which clear the fields that they contradict.
///
/// Ported from `getCluster`, k8s.io/client-go/tools/clientcmd/client_config.go, release 1.37.
fn override_cluster(options: &ConnectOptions, cluster: &mut Cluster) {
    let authority = given(&options.certificate_authority);
    if options.insecure_skip_tls_verify || authority.is_some() {
        cluster.insecure_skip_tls_verify = Some(options.insecure_skip_tls_verify);
        cluster.certificate_authority = authority.map(str::to_owned);
        cluster.certificate_authority_data = None;
    }
    let (name, server) = (given(&options.tls_server_name), given(&options.server));
    if name.is_some() || server.is_some() {
        cluster.tls_server_name = name.map(str::to_owned);
    }
    if let Some(server) = server {
        cluster.server = Some(server.to_owned());
    }
}

/// Applies the flags for the user.
///
/// Ported from `getAuthInfo`, k8s.io/client-go/tools/clientcmd/client_config.go, release 1.37. Unlike there, a token
/// file in the kubeconfig does not replace `--token`.
fn override_user(options: &ConnectOptions, user: &mut AuthInfo) {
    if let Some(token) = given(&options.token) {
        (user.token, user.token_file) = (Some(token.into()), None);
    }
    if let Some(path) = given(&options.client_certificate) {
        (user.client_certificate, user.client_certificate_data) = (Some(path.to_owned()), None);
    }
    if let Some(path) = given(&options.client_key) {
        (user.client_key, user.client_key_data) = (Some(path.to_owned()), None);
    }
    if let Some(password) = given(&options.password) {
        user.password = Some(password.into());
    }
    for (flag, field) in [
        (&options.username, &mut user.username),
        (&options.as_, &mut user.impersonate),
        (&options.as_uid, &mut user.impersonate_uid),
    ] {
        if let Some(value) = given(flag) {
            *field = Some(value.to_owned());
        }
    }
    if !options.as_group.is_empty() {
        user.impersonate_groups = Some(options.as_group.clone());
    }
    // A flag's values replace those in the kubeconfig for the same key.
    let extra = options.as_user_extra.iter().filter_map(|extra| extra.split_once('='));
    let all = user.impersonate_user_extra.get_or_insert_default();
    for (key, _) in extra.clone() {
        all.remove(key);
    }
    for (key, value) in extra {
        all.entry(key.to_owned()).or_default().push(value.to_owned());
    }
}

/// Rejects a user who would be authenticated differently than intended.
///
/// Ported from `validateAuthInfo`, k8s.io/client-go/tools/clientcmd/validation.go, and from `HTTPWrappersForConfig`,
/// k8s.io/client-go/transport/round_trippers.go, release 1.37.
fn check_user(user: &AuthInfo) -> Result<(), ConnectionError> {
    if let Some(exec) = &user.exec {
        check_plugin(exec)?;
    }
    if (user.token.is_some() || user.token_file.is_some()) && (user.username.is_some() || user.password.is_some()) {
        return Err(invalid("the user has a token and a username or password; only one is allowed")
            .hint("remove one from the user, or choose another one with --user"));
    }
    let has_more = user.impersonate_uid.is_some()
        || user.impersonate_groups.as_ref().is_some_and(|groups| !groups.is_empty())
        || user.impersonate_user_extra.as_ref().is_some_and(|extra| !extra.is_empty());
    if user.impersonate.is_none() && has_more {
        return Err(ConnectionError::config("--as-group, --as-uid and --as-user-extra require a user to impersonate")
            .hint("give --as too"));
    }
    Ok(())
}

fn check_plugin(exec: &ExecConfig) -> Result<(), ConnectionError> {
    let version = exec.api_version.as_deref().unwrap_or_default();
    let problem = match version.strip_prefix("client.authentication.k8s.io/") {
        _ if exec.command.as_deref().unwrap_or_default().is_empty() => "has no command".to_owned(),
        // `SetDefaults_ExecConfig` fills it in for older versions only.
        Some("v1") if exec.interactive_mode.is_none() => "has no interactiveMode, which version v1 requires".to_owned(),
        Some("v1" | "v1beta1") => return Ok(()),
        _ => format!("has the unsupported apiVersion {version:?}"),
    };
    Err(invalid(&format!("the user's exec plugin {problem}")).hint("correct the user's `exec` section"))
}

fn invalid(problem: &str) -> ConnectionError {
    ConnectionError::config(format!("invalid configuration: {problem}"))
}

fn missing<'a>(what: &str, name: &str, plural: &str, existing: impl Iterator<Item = &'a str>) -> ConnectionError {
    listing(ConnectionError::config(format!("{what} {name:?} does not exist")), name, plural, existing)
}

/// Adds the existing names to an error, the most similar ones first.
fn listing<'a>(
    error: ConnectionError,
    name: &str,
    plural: &str,
    existing: impl Iterator<Item = &'a str>,
) -> ConnectionError {
    let mut existing: Vec<&str> = existing.filter(|name| !name.is_empty()).collect();
    existing.sort_by_key(|existing| strsim::osa_distance(existing, name));
    let more = existing.len().saturating_sub(LISTED);
    if existing.is_empty() {
        return error.hint(format!("the kubeconfig has no {plural}"));
    }
    let listed = existing[..existing.len() - more].iter().copied();
    let error = error.hint(Fix::new(format!("existing {plural}"), Command::choice("", listed)));
    match more {
        0 => error,
        more => error.hint(Fix::new(
            format!("{more} more exist; to list them"),
            Command::kubectl(&["config", &format!("get-{plural}")]),
        )),
    }
}

fn nothing_configured(kubeconfig: &Kubeconfig, paths: &[PathBuf]) -> ConnectionError {
    if !kubeconfig.contexts.is_empty() {
        let existing = kubeconfig.contexts.iter().map(|context| &*context.name);
        return ConnectionError::config("the kubeconfig has no current context")
            .hint(Fix::new("choose one", Command::choice("--context", existing)));
    }
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let places = match paths.as_slice() {
        [] => "there is no kubeconfig".to_owned(),
        paths => format!("no kubeconfig names one ({})", paths.join(", ")),
    };
    ConnectionError::config(format!("no cluster is configured: {places}"))
        .hint("set KUBECONFIG, or give --kubeconfig or --server")
        .hint("--from FILE reads a dump instead of a cluster, and --from demo the one inside this program")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use tempfile::TempDir;

    use super::{Config, ConnectOptions, ConnectionError, ExposeSecret, Fix, contexts_matching, load, load_in};

    const FIRST: &str = "
apiVersion: v1
kind: Config
current-context: \"\"
contexts:
- {name: alpha, context: {cluster: one, user: ann, namespace: \"\"}}
clusters:
- {name: one, cluster: {server: 'https://one:6443', certificate-authority: ca.crt, tls-server-name: uno}}
users:
- {name: ann, user: {token: first}}
";
    const SECOND: &str = "
current-context: beta
contexts:
- {name: alpha, context: {cluster: two, user: bob}}
- {name: beta, context: {cluster: two, user: bob, namespace: team}}
clusters:
- {name: one, cluster: {server: 'https://not-this-one:6443'}}
- {name: two, cluster: {server: 'https://two:6443'}}
users:
- {name: bob, user: {token: second, tokenFile: token}}
";

    fn folder() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("first"), FIRST).unwrap();
        fs::copy(
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tls/authority.crt"),
            folder.path().join("ca.crt"),
        )
        .unwrap();
        fs::write(folder.path().join("second"), SECOND).unwrap();
        folder
    }

    fn options(folder: &TempDir, files: &[&str]) -> ConnectOptions {
        let list = std::env::join_paths(files.iter().map(|file| folder.path().join(file))).unwrap();
        let environment = BTreeMap::from([("KUBECONFIG".to_owned(), list.into_string().unwrap())]);
        ConnectOptions { environment, ..ConnectOptions::default() }
    }

    fn server(config: &Config) -> String {
        config.cluster_url.to_string()
    }

    /// Returns server and namespace.
    fn target(config: &Config) -> (String, &str) {
        (server(config), &config.default_namespace)
    }

    fn token(config: &Config) -> Option<&str> {
        config.auth_info.token.as_ref().map(|token| token.expose_secret())
    }

    fn hints(error: &ConnectionError) -> Vec<String> {
        let hint = |Fix { advice, command }: &Fix| match command {
            Some(command) => format!("{advice}: {command}"),
            None => advice.clone(),
        };
        error.hints().iter().map(hint).collect()
    }

    fn message(error: &ConnectionError) -> String {
        format!("{error} | {}", hints(error).join(" | "))
    }

    #[test]
    fn patterns_choose_contexts_once_each_and_none_is_in_vain() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("config");
        let names = ["prod-us", "prod-eu", "arn:aws:eks:eu-1:1:cluster/prod", "odd[1]", "odd1"];
        let contexts = names.map(|name| format!("- {{name: '{name}', context: {{cluster: c}}}}\n")).concat();
        fs::write(&path, format!("apiVersion: v1\nkind: Config\ncontexts:\n{contexts}")).unwrap();
        let options = ConnectOptions { kubeconfig: Some(path.display().to_string()), ..ConnectOptions::default() };
        let matching = |patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
            contexts_matching(&options, &patterns).map(Vec::from_iter).map_err(|error| error.to_string())
        };
        for (patterns, expected) in [
            (&["prod-*"][..], &["prod-eu", "prod-us"][..]),
            (&["*prod"], &["arn:aws:eks:eu-1:1:cluster/prod"]),
            (&["*-eu", "prod-*"], &["prod-eu", "prod-us"]),
            (&["prod-[ae]?"], &["prod-eu"]),
            // Special characters in a name are not always meant as a pattern.
            (&["odd[1]"], &["odd1", "odd[1]"]),
        ] {
            assert_eq!(matching(patterns).unwrap(), expected, "{patterns:?}");
        }
        for (patterns, expected) in [
            (&["prod-*", "stage-*"][..], "no context matches \"stage-*\""),
            (&["PROD-*"], "no context matches \"PROD-*\""),
            (&[""], "no context matches \"\""),
            (&["prod-["], "invalid pattern \"prod-[\": invalid range pattern"),
        ] {
            assert_eq!(matching(patterns).unwrap_err(), expected, "{patterns:?}");
        }
        let options = ConnectOptions { kubeconfig: Some("no-such-file".to_owned()), ..ConnectOptions::default() };
        assert!(contexts_matching(&options, &["*".to_owned()]).is_err());
    }

    #[test]
    fn missing_files_are_skipped_and_the_first_context_with_a_name_wins() {
        let folder = folder();
        let config = load(&options(&folder, &["absent", "first", "second"])).unwrap();
        assert_eq!(target(&config), ("https://two:6443/".to_owned(), "team"));
        assert_eq!(config.auth_info.token_file, Some(folder.path().join("token").display().to_string()));
    }

    #[test]
    fn the_first_file_to_set_a_name_wins_and_paths_count_from_its_folder() {
        let folder = folder();
        let mut options = options(&folder, &["first", "second"]);
        options.context = Some("alpha".to_owned());
        let config = load(&options).unwrap();
        assert_eq!(target(&config), ("https://one:6443/".to_owned(), "default"));
        assert!(config.root_cert.is_some());
    }

    #[test]
    fn flags_clear_what_they_contradict() {
        let folder = folder();
        let mut options = options(&folder, &["first"]);
        options.context = Some("alpha".to_owned());
        options.server = Some("https://elsewhere".to_owned());
        options.insecure_skip_tls_verify = true;
        options.token = Some("given".to_owned());
        options.as_ = Some("eve".to_owned());
        options.as_group = vec!["admins".to_owned()];
        let config = load(&options).unwrap();
        assert_eq!(server(&config), "https://elsewhere/");
        assert_eq!((&config.root_cert, &config.tls_server_name), (&None, &None));
        assert!(config.accept_invalid_certs);
        assert_eq!(token(&config), Some("given"));
        assert_eq!(config.auth_info.impersonate.as_deref(), Some("eve"));
        assert_eq!(config.auth_info.impersonate_groups.unwrap().len(), 1);
    }

    #[test]
    fn a_server_alone_needs_no_kubeconfig() {
        let options = ConnectOptions { server: Some("https://alone".to_owned()), ..ConnectOptions::default() };
        let config = load(&options).unwrap();
        assert_eq!(target(&config), ("https://alone/".to_owned(), "default"));
    }

    #[test]
    fn names_that_do_not_exist_come_with_those_that_do() {
        let folder = folder();
        let mut wrong = options(&folder, &["first", "second"]);
        wrong.context = Some("betta".to_owned());
        assert_eq!(
            message(&load(&wrong).unwrap_err()),
            "context \"betta\" does not exist | existing contexts: beta, alpha"
        );
        wrong.context = Some("production".to_owned());
        assert_eq!(
            message(&load(&wrong).unwrap_err()),
            "context \"production\" does not exist | existing contexts: beta, alpha"
        );
        wrong = options(&folder, &["second"]);
        wrong.cluster = Some("three".to_owned());
        assert_eq!(
            message(&load(&wrong).unwrap_err()),
            "cluster \"three\" does not exist | existing clusters: one, two"
        );
        wrong = options(&folder, &["second"]);
        wrong.user = Some("carol".to_owned());
        assert_eq!(message(&load(&wrong).unwrap_err()), "user \"carol\" does not exist | existing users: bob");
    }

    #[test]
    fn no_context_no_file_and_no_environment_each_say_what_to_do() {
        let folder = folder();
        assert_eq!(
            message(&load(&options(&folder, &["first"])).unwrap_err()),
            "the kubeconfig has no current context | choose one: --context alpha"
        );
        let absent = folder.path().join("absent").display().to_string();
        let error = load(&options(&folder, &["absent"])).unwrap_err();
        assert_eq!(error.to_string(), format!("no cluster is configured: no kubeconfig names one ({absent})"));
        let error = load(&ConnectOptions::default()).unwrap_err();
        assert_eq!(error.to_string(), "no cluster is configured: there is no kubeconfig");
        let named = ConnectOptions { kubeconfig: Some(absent.clone()), ..ConnectOptions::default() };
        let error = load(&named).unwrap_err();
        assert_eq!(error.to_string(), format!("error loading config file {absent:?}: no such file"));
    }

    #[test]
    fn a_broken_file_is_named_with_the_line() {
        let folder = folder();
        let path = folder.path().join("broken");
        fs::write(&path, "apiVersion: v1\nclusters:\n- name: [\nusers: {}\ntoken: secret-text\n").unwrap();
        let error = load(&options(&folder, &["first", "broken"])).unwrap_err().to_string();
        assert!(error.starts_with(&format!("error loading config file {:?}: ", path.display().to_string())), "{error}");
        assert!(error.contains("line "), "{error}");
        assert!(!error.contains("secret-text"), "{error}");
        // Each of these is a different error, or none.
        for text in [
            "{secret-text: 1, secret-text: 2, clusters: 1}",
            "users: [{name: a, user: {token: {secret-text: 1, secret-text: 2}}}]",
            "users: [{name: a, user: {token: !secret-text x}}]",
            "users: [{name: a, user: {token: *secret-text}}]",
            "users: &secret-text [*secret-text]",
            "secret-text",
            "kind: 1\n<<: secret-text",
            "\"secret-text\\q\": 1",
            "!<secret-text",
            "%secret-text",
            "secret-text: secret-text: x",
            "- secret-text\nsecret-text: x",
        ] {
            fs::write(&path, text).unwrap();
            let error = load(&options(&folder, &["broken"])).unwrap_err().to_string();
            assert!(!error.contains("secret-text"), "{text}: {error}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_device_without_end_is_no_kubeconfig() {
        let error = |path: &str| {
            let options = ConnectOptions { kubeconfig: Some(path.to_owned()), ..ConnectOptions::default() };
            load(&options).unwrap_err().to_string()
        };
        assert_eq!(error("/dev/zero"), "error loading config file \"/dev/zero\": it is larger than 64 MiB");
        assert_eq!(error("/dev/null"), "no cluster is configured: no kubeconfig names one (/dev/null)");
    }

    #[test]
    fn a_group_without_a_user_to_act_as_is_refused() {
        let options = ConnectOptions {
            server: Some("https://alone".to_owned()),
            as_group: vec!["admins".to_owned()],
            ..ConnectOptions::default()
        };
        assert_eq!(
            message(&load(&options).unwrap_err()),
            "--as-group, --as-uid and --as-user-extra require a user to impersonate | give --as too"
        );
    }

    /// The configuration that kube reads in a pod.
    fn pod() -> Option<Config> {
        let mut pod = Config::new("https://[fd00::1]".parse().unwrap());
        pod.default_namespace = "monitoring\n".to_owned();
        pod.auth_info.token_file = Some("/of/the/pod".to_owned());
        pod.root_cert_file = Some("/authority/of/the/pod".into());
        Some(pod)
    }

    #[test]
    fn in_a_pod_its_service_account_is_used() {
        let options = ConnectOptions { as_: Some("eve".to_owned()), ..ConnectOptions::default() };
        let config = load_in(&options, pod()).unwrap();
        assert_eq!(target(&config), ("https://[fd00::1]/".to_owned(), "monitoring"));
        assert_eq!(config.auth_info.token_file.as_deref(), Some("/of/the/pod"));
        assert_eq!(config.auth_info.impersonate.as_deref(), Some("eve"));
    }

    #[test]
    fn in_a_pod_the_namespace_of_a_context_without_a_cluster_wins() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        let options = ConnectOptions { kubeconfig: Some(path.display().to_string()), ..ConnectOptions::default() };
        for (namespace, expected) in [("x", "x"), ("default", "default"), ("''", "monitoring")] {
            let context = format!("{{name: here, context: {{cluster: '', namespace: {namespace}}}}}");
            fs::write(&path, format!("{{current-context: here, contexts: [{context}]}}")).unwrap();
            let config = load_in(&options, pod()).unwrap();
            assert_eq!(target(&config), ("https://[fd00::1]/".to_owned(), expected));
        }
    }

    #[test]
    fn in_a_pod_a_kubeconfig_without_a_namespace_leaves_the_namespace_of_the_pod() {
        let options = ConnectOptions { server: Some("https://elsewhere".to_owned()), ..ConnectOptions::default() };
        let config = load_in(&options, pod()).unwrap();
        assert_eq!(target(&config), ("https://elsewhere/".to_owned(), "monitoring"));
        assert_eq!(config.auth_info.token_file, None);
    }

    #[test]
    fn in_a_pod_flags_replace_the_authority_and_the_token() {
        let folder = folder();
        let options = ConnectOptions {
            certificate_authority: Some(folder.path().join("ca.crt").display().to_string()),
            token: Some("given".to_owned()),
            ..ConnectOptions::default()
        };
        let config = load_in(&options, pod()).unwrap();
        assert_eq!((config.root_cert.map(|certificates| certificates.len()), config.root_cert_file), (Some(1), None));
        assert_eq!(config.auth_info.token_file, None);
        assert_eq!(config.auth_info.token.unwrap().expose_secret(), "given");
    }

    #[test]
    fn kubernetes_master_is_the_server_if_nothing_else_is_configured() {
        let environment = BTreeMap::from([("KUBERNETES_MASTER".to_owned(), "http://localhost:1".to_owned())]);
        let options = ConnectOptions { environment, ..ConnectOptions::default() };
        assert_eq!(server(&load(&options).unwrap()), "http://localhost:1/");
    }

    #[test]
    fn files_of_another_kind_and_wrong_values_are_refused_without_repeating_them() {
        let folder = folder();
        for (text, problem) in [
            ("{kind: Pod, apiVersion: v1}", "it is of kind \"Pod\" and version \"v1\", not a v1 Config"),
            ("{apiVersion: v2}", "it is of kind \"\" and version \"v2\", not a v1 Config"),
            ("[secret]", "it is not a kubeconfig: line 1, column 1"),
            ("{users: [{name: u, user: secret}]}", "it is not a kubeconfig: line 1, column 26"),
        ] {
            fs::write(folder.path().join("broken"), text).unwrap();
            let error = load(&options(&folder, &["broken"])).unwrap_err().to_string();
            assert!(error.ends_with(&format!(": {problem}")), "{error}");
        }
    }

    #[test]
    fn authorities_that_cannot_be_read_are_refused() {
        for (cluster, problem) in [
            ("certificate-authority: /no/such", "unable to read certificate-authority \"/no/such\": "),
            #[cfg(unix)]
            (
                "certificate-authority: /dev/zero",
                "unable to read certificate-authority \"/dev/zero\": it is larger than 64 MiB",
            ),
            (
                "certificate-authority-data: aGVsbG8=",
                "unable to read certificate-authority-data: there is no certificate in it",
            ),
            (
                "certificate-authority-data: aGVsbG8=, insecure-skip-tls-verify: true",
                "invalid configuration: a certificate authority and insecure-skip-tls-verify are both set",
            ),
            ("proxy-url: 'proxy:3128'", "invalid proxy \"proxy:3128\" in proxy-url"),
        ] {
            let folder = folder();
            let clusters = format!("clusters: [{{name: one, cluster: {{server: 'https://one', {cluster}}}}}]");
            fs::write(folder.path().join("broken"), clusters).unwrap();
            let mut options = options(&folder, &["broken"]);
            options.cluster = Some("one".to_owned());
            let error = load(&options).unwrap_err().to_string();
            assert!(error.starts_with(problem), "{error}");
        }
    }

    #[test]
    fn users_that_kubectl_refuses_are_refused() {
        const V1: &str = "apiVersion: client.authentication.k8s.io/v1";
        for (yaml, problem) in [
            ("{token: t, tokenFile: /no/such}".to_owned(), "ok"),
            ("{username: ann}".to_owned(), "ok"),
            (
                "{username: ann, token: t}".to_owned(),
                "invalid configuration: the user has a token and a username or password; only one is allowed",
            ),
            (
                "{as-user-extra: {scope: [all]}}".to_owned(),
                "--as-group, --as-uid and --as-user-extra require a user to impersonate",
            ),
            (format!("{{exec: {{command: c, {V1}, interactiveMode: Never}}}}"), "ok"),
            ("{exec: {command: c, apiVersion: client.authentication.k8s.io/v1beta1}}".to_owned(), "ok"),
            (format!("{{exec: {{{V1}}}}}"), "invalid configuration: the user's exec plugin has no command"),
            (
                format!("{{exec: {{command: c, {V1}}}}}"),
                "invalid configuration: the user's exec plugin has no interactiveMode, which version v1 requires",
            ),
            (
                "{exec: {command: c}}".to_owned(),
                "invalid configuration: the user's exec plugin has the unsupported apiVersion \"\"",
            ),
            (
                "{exec: {command: c, apiVersion: client.authentication.k8s.io/v1alpha1}}".to_owned(),
                "invalid configuration: the user's exec plugin has the unsupported apiVersion \"client.authentication.k8s.io/v1alpha1\"",
            ),
        ] {
            let user = serde_saphyr::from_str(&yaml).unwrap();
            let found = super::check_user(&user).map_or_else(|error| error.to_string(), |()| "ok".to_owned());
            assert_eq!(found, problem, "{yaml}");
        }
    }
}
