//! Finds, merges and reads kubeconfig files as kubectl does, and picks the cluster and the user.
//!
//! Files of `KUBECONFIG` that are missing are skipped, the first to set a value wins, and where there
//! is no configuration at all the service account of a pod is used.

use std::path::{Path, PathBuf};

use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, KubeconfigError};

use super::options::ConnectOptions;
use crate::cluster::error::ClusterError;
use crate::cluster::suggestions;

/// The folder in which a pod finds its service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Which server to ask, as whom.
#[derive(Debug, Clone, Default)]
pub(super) struct Target {
    /// The cluster: its address, and how to know it.
    pub cluster: Cluster,
    /// The user's credentials.
    pub user: AuthInfo,
    /// The namespace of the context; `default` where it has none.
    pub namespace: String,
}

/// Returns the target that the kubeconfig and the flags describe.
///
/// # Errors
///
/// Fails where a file cannot be read, something that is named does not exist, or nothing is
/// configured at all.
pub(super) fn load(options: &ConnectOptions) -> Result<Target, ClusterError> {
    let paths = paths(options);
    let config = merge(options, &paths)?;
    let chosen = options.context.clone().or_else(|| config.current_context.clone());
    let context = context(options, &config, chosen.as_deref())?;
    let mut cluster = cluster(options, &config, &context)?;
    let user = user(options, &config, &context)?;
    override_cluster(options, &mut cluster);
    if cluster.server.as_deref().is_none_or(str::is_empty) {
        if !context.cluster.is_empty() {
            return Err(ClusterError::config(format!("cluster {:?} has no server", context.cluster))
                .hint("set it with `kubectl config set-cluster`, or give --server"));
        }
        return match in_cluster(options) {
            Some(target) => Ok(target),
            None => Err(nothing_configured(options, &config, &paths)),
        };
    }
    let namespace = context.namespace.filter(|namespace| !namespace.is_empty());
    let mut target = Target { cluster, user, namespace: namespace.unwrap_or_else(|| "default".to_owned()) };
    override_user(options, &mut target.user)?;
    Ok(target)
}

/// Returns the files to read, the most important first.
fn paths(options: &ConnectOptions) -> Vec<PathBuf> {
    if let Some(path) = &options.kubeconfig {
        return vec![PathBuf::from(path)];
    }
    if let Some(list) = options.variable("KUBECONFIG") {
        return std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect();
    }
    let home = options.variable("HOME").or_else(|| options.variable("USERPROFILE"));
    home.map(|home| Path::new(home).join(".kube").join("config")).into_iter().collect()
}

/// Reads and merges the files. Those that are missing are skipped, except one that was asked for.
fn merge(options: &ConnectOptions, paths: &[PathBuf]) -> Result<Kubeconfig, ClusterError> {
    let mut merged = Kubeconfig::default();
    for path in paths {
        let mut config = match Kubeconfig::read_from(path) {
            Ok(config) => config,
            Err(KubeconfigError::ReadConfig(source, _))
                if source.kind() == std::io::ErrorKind::NotFound && options.kubeconfig.is_none() =>
            {
                continue;
            }
            Err(error) => return Err(unreadable(path, &error)),
        };
        // An empty name is no name: the next file may give one.
        config.current_context = config.current_context.filter(|name| !name.is_empty());
        merged = merged.merge(config).map_err(|error| unreadable(path, &error))?;
    }
    Ok(merged)
}

fn unreadable(path: &Path, error: &KubeconfigError) -> ClusterError {
    let problem = match error {
        KubeconfigError::ReadConfig(source, _) if source.kind() == std::io::ErrorKind::NotFound => {
            "no such file".to_owned()
        }
        KubeconfigError::ReadConfig(source, _) => source.to_string(),
        // The first line has the place; the others repeat the file's text, secrets among it.
        KubeconfigError::Parse(source) => {
            source.without_snippet().to_string().lines().next().unwrap_or_default().to_owned()
        }
        other => other.to_string(),
    };
    ClusterError::config(format!("error loading config file {:?}: {problem}", path.display().to_string()))
        .hint("`kubectl config view` shows what kubectl reads; --kubeconfig names another file")
}

fn context(options: &ConnectOptions, config: &Kubeconfig, chosen: Option<&str>) -> Result<Context, ClusterError> {
    let Some(name) = chosen else {
        return Ok(Context { cluster: options.cluster.clone().unwrap_or_default(), ..Context::default() });
    };
    let found = config.contexts.iter().find(|context| context.name == name);
    let Some(found) = found else {
        let existing: Vec<&str> = config.contexts.iter().map(|context| context.name.as_str()).collect();
        let origin = if options.context.is_some() { "context" } else { "the current context" };
        return Err(missing(origin, name, "contexts", &existing));
    };
    let mut context = found.context.clone().unwrap_or_default();
    if let Some(cluster) = &options.cluster {
        context.cluster.clone_from(cluster);
    }
    Ok(context)
}

fn cluster(options: &ConnectOptions, config: &Kubeconfig, context: &Context) -> Result<Cluster, ClusterError> {
    match config.clusters.iter().find(|cluster| cluster.name == context.cluster) {
        Some(found) => Ok(found.cluster.clone().unwrap_or_default()),
        // A server that is given needs no cluster of the kubeconfig.
        None if context.cluster.is_empty() || (options.server.is_some() && options.cluster.is_none()) => {
            Ok(Cluster::default())
        }
        None => {
            let existing: Vec<&str> = config.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
            Err(missing("cluster", &context.cluster, "clusters", &existing))
        }
    }
}

fn user(options: &ConnectOptions, config: &Kubeconfig, context: &Context) -> Result<AuthInfo, ClusterError> {
    let name = options.user.as_ref().or(context.user.as_ref());
    let found = name.and_then(|name| config.auth_infos.iter().find(|user| user.name == *name));
    match (found, &options.user) {
        (Some(found), _) => Ok(found.auth_info.clone().unwrap_or_default()),
        (None, Some(name)) => {
            let existing: Vec<&str> = config.auth_infos.iter().map(|user| user.name.as_str()).collect();
            Err(missing("user", name, "users", &existing))
        }
        // As in client-go, a context may name a user that does not exist.
        (None, None) => Ok(AuthInfo::default()),
    }
}

/// Applies the flags about the cluster, which clear what they contradict.
///
/// Ported from `getCluster`, k8s.io/client-go/tools/clientcmd/client_config.go, release 1.36.
fn override_cluster(options: &ConnectOptions, cluster: &mut Cluster) {
    if options.insecure_skip_tls_verify || options.certificate_authority.is_some() {
        cluster.insecure_skip_tls_verify = Some(options.insecure_skip_tls_verify);
        cluster.certificate_authority.clone_from(&options.certificate_authority);
        cluster.certificate_authority_data = None;
    }
    if options.tls_server_name.is_some() || options.server.is_some() {
        cluster.tls_server_name.clone_from(&options.tls_server_name);
    }
    if options.server.is_some() {
        cluster.server.clone_from(&options.server);
    }
}

/// Applies the flags about the user. A token goes before every other way to log in.
fn override_user(options: &ConnectOptions, user: &mut AuthInfo) -> Result<(), ClusterError> {
    if let Some(token) = options.token.as_ref().filter(|token| !token.is_empty()) {
        *user = AuthInfo {
            token: Some(token.clone().into()),
            client_certificate: user.client_certificate.take(),
            client_certificate_data: user.client_certificate_data.take(),
            client_key: user.client_key.take(),
            client_key_data: user.client_key_data.take(),
            impersonate: user.impersonate.take(),
            impersonate_uid: user.impersonate_uid.take(),
            impersonate_groups: user.impersonate_groups.take(),
            impersonate_user_extra: user.impersonate_user_extra.take(),
            ..AuthInfo::default()
        };
    } else if user.token_file.as_ref().is_some_and(|path| !path.is_empty()) {
        // As in client-go, the file is fresher than the token beside it.
        user.token = None;
    } else {
        user.token_file = None;
    }
    if options.as_.is_some() {
        user.impersonate.clone_from(&options.as_);
    }
    if !options.as_group.is_empty() {
        user.impersonate_groups = Some(options.as_group.clone());
    }
    if options.as_uid.is_some() {
        user.impersonate_uid.clone_from(&options.as_uid);
    }
    if user.impersonate.as_ref().is_none_or(String::is_empty)
        && (user.impersonate_groups.is_some() || user.impersonate_uid.is_some())
    {
        return Err(ClusterError::config("--as-group and --as-uid need a user to act as").hint("give --as too"));
    }
    Ok(())
}

fn missing(what: &str, name: &str, plural: &str, existing: &[&str]) -> ClusterError {
    let error = ClusterError::config(format!("{what} {name:?} does not exist"));
    let near = suggestions::near(name, existing.iter().copied());
    if !near.is_empty() {
        return error.hint(format!("similar {plural}: {}", near.join(", ")));
    }
    match existing {
        [] => error.hint(format!("the kubeconfig has no {plural}")),
        existing if existing.len() > 10 => {
            error.hint(format!("`kubectl config get-{plural}` lists the {} that exist", existing.len()))
        }
        existing => error.hint(format!("existing {plural}: {}", existing.join(", "))),
    }
}

/// Returns the API server of the cluster that this process runs in, where it runs in one.
///
/// Ported from `inClusterClientConfig`, k8s.io/client-go/tools/clientcmd/client_config.go, release 1.36.
fn in_cluster(options: &ConnectOptions) -> Option<Target> {
    let token = Path::new(SERVICE_ACCOUNT).join("token");
    let host = options.variable("KUBERNETES_SERVICE_HOST")?;
    let port = options.variable("KUBERNETES_SERVICE_PORT")?;
    if !token.is_file() {
        return None;
    }
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let authority = Path::new(SERVICE_ACCOUNT).join("ca.crt");
    let cluster = Cluster {
        server: Some(format!("https://{host}:{port}")),
        certificate_authority: Some(authority.display().to_string()).filter(|_| authority.is_file()),
        ..Cluster::default()
    };
    let mut user = AuthInfo { token_file: Some(token.display().to_string()), ..AuthInfo::default() };
    override_user(options, &mut user).ok()?;
    let file = std::fs::read_to_string(Path::new(SERVICE_ACCOUNT).join("namespace")).unwrap_or_default();
    let namespace = options.variable("POD_NAMESPACE").unwrap_or(file.trim());
    let namespace = if namespace.is_empty() { "default" } else { namespace };
    Some(Target { cluster, user, namespace: namespace.to_owned() })
}

fn nothing_configured(options: &ConnectOptions, config: &Kubeconfig, paths: &[PathBuf]) -> ClusterError {
    if !config.contexts.is_empty() {
        let existing: Vec<&str> = config.contexts.iter().map(|context| context.name.as_str()).collect();
        return ClusterError::config("the kubeconfig has no current context")
            .hint(format!("choose one with --context or `kubectl config use-context`: {}", existing.join(", ")));
    }
    let looked: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let places = match (looked.as_slice(), options.variable("KUBECONFIG")) {
        ([], _) => "there is no kubeconfig".to_owned(),
        (looked, _) => format!("no kubeconfig names one ({})", looked.join(", ")),
    };
    ClusterError::config(format!("no cluster is configured: {places}"))
        .hint("set KUBECONFIG, or give --kubeconfig or --server")
        .hint("--from FILE reads a dump instead of a cluster, and --from demo the one inside this program")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use tempfile::TempDir;

    use super::{ConnectOptions, Target, load};
    use crate::cluster::error::ClusterError;

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
        fs::write(folder.path().join("second"), SECOND).unwrap();
        folder
    }

    fn options(folder: &TempDir, files: &[&str]) -> ConnectOptions {
        let list = std::env::join_paths(files.iter().map(|file| folder.path().join(file))).unwrap();
        let environment = BTreeMap::from([("KUBECONFIG".to_owned(), list.into_string().unwrap())]);
        ConnectOptions { environment, ..ConnectOptions::default() }
    }

    fn server(target: &Target) -> &str {
        target.cluster.server.as_deref().unwrap()
    }

    fn message(error: &ClusterError) -> String {
        format!("{error} | {}", error.hints().join(" | "))
    }

    #[test]
    fn missing_files_are_skipped_and_the_first_context_with_a_name_wins() {
        let folder = folder();
        let target = load(&options(&folder, &["absent", "first", "second"])).unwrap();
        assert_eq!((server(&target), target.namespace.as_str()), ("https://two:6443", "team"));
        assert!(target.user.token.is_none(), "the token file goes before the token beside it");
        assert_eq!(target.user.token_file, Some(folder.path().join("token").display().to_string()));
    }

    #[test]
    fn the_first_file_to_set_a_name_wins_and_paths_count_from_its_folder() {
        let folder = folder();
        let mut options = options(&folder, &["first", "second"]);
        options.context = Some("alpha".to_owned());
        let target = load(&options).unwrap();
        assert_eq!((server(&target), target.namespace.as_str()), ("https://one:6443", "default"));
        assert_eq!(target.cluster.certificate_authority, Some(folder.path().join("ca.crt").display().to_string()));
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
        let Target { cluster, user, .. } = load(&options).unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://elsewhere"));
        assert_eq!((cluster.certificate_authority, cluster.tls_server_name), (None, None));
        assert_eq!(cluster.insecure_skip_tls_verify, Some(true));
        assert!(user.token.is_some());
        assert_eq!((user.impersonate.as_deref(), user.impersonate_groups.unwrap().len()), (Some("eve"), 1));
    }

    #[test]
    fn a_server_alone_needs_no_kubeconfig() {
        let options = ConnectOptions { server: Some("https://alone".to_owned()), ..ConnectOptions::default() };
        let target = load(&options).unwrap();
        assert_eq!((server(&target), target.namespace.as_str()), ("https://alone", "default"));
    }

    #[test]
    fn names_that_do_not_exist_come_with_those_that_do() {
        let folder = folder();
        let mut wrong = options(&folder, &["first", "second"]);
        wrong.context = Some("betta".to_owned());
        assert_eq!(message(&load(&wrong).unwrap_err()), "context \"betta\" does not exist | similar contexts: beta");
        wrong.context = Some("production".to_owned());
        assert_eq!(
            message(&load(&wrong).unwrap_err()),
            "context \"production\" does not exist | existing contexts: alpha, beta"
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
            "the kubeconfig has no current context | choose one with --context or `kubectl config use-context`: alpha"
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
            "--as-group and --as-uid need a user to act as | give --as too"
        );
    }
}
