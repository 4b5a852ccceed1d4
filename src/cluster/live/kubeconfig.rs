//! Chooses the cluster, the user and the namespace as kubectl does, from kubeconfig files, flags and the environment
//! of a pod.

use std::path::{Path, PathBuf};

use super::in_cluster::Pod;
use super::kubeconfig_check;
use super::kubeconfig_file::{self, Cluster, Context, Kubeconfig, User};
use super::options::{ConnectOptions, given};
use crate::cluster::error::ClusterError;
use crate::cluster::suggestions;

/// The directory of a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The API server to use, and the user to use it as.
#[derive(Debug, Default)]
pub(super) struct Target {
    pub cluster: Cluster,
    pub user: User,
    pub namespace: String,
}

/// Returns the target that kubeconfig files and flags describe, or the cluster of the pod that this process runs in.
///
/// # Errors
///
/// Fails if a file cannot be read, a named entry does not exist, kubectl would refuse an entry that is used, or
/// nothing is configured at all.
pub(super) fn load(options: &ConnectOptions) -> Result<Target, ClusterError> {
    load_in(options, Path::new(SERVICE_ACCOUNT))
}

fn load_in(options: &ConnectOptions, service_account: &Path) -> Result<Target, ClusterError> {
    let paths = paths(options);
    let config = kubeconfig_file::read_all(&paths, given(&options.kubeconfig).is_some())?;
    let context = context(options, &config)?;
    let mut cluster = cluster(options, &config, &context)?;
    let mut user = user(options, &config, &context)?;
    override_cluster(options, &mut cluster);
    override_user(options, &mut user);
    kubeconfig_check::user(&user)?;
    kubeconfig_check::cluster(&cluster)?;
    let pod = Pod::of(options, service_account);
    let namespace = match &pod {
        // As in `DeferredLoadingClientConfig.Namespace`, the pod's namespace counts whichever server is used.
        Some(pod) if context.namespace.is_empty() => pod.namespace(options),
        _ if context.namespace.is_empty() => "default".to_owned(),
        _ => context.namespace.clone(),
    };
    if cluster.server.is_empty() {
        if !context.cluster.is_empty() {
            return Err(ClusterError::config(format!("cluster {:?} has no server", context.cluster))
                .hint("set it in the kubeconfig, or give --server"));
        }
        if let Some(pod) = pod {
            (cluster, user) = pod.cluster_and_user(options, user);
        } else if let Some(server) = options.variable("KUBERNETES_MASTER") {
            server.clone_into(&mut cluster.server);
        } else {
            return Err(nothing_configured(options, &config, &paths));
        }
    }
    Ok(Target { cluster, user, namespace })
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

/// Returns the names that the kubeconfig files define.
///
/// # Errors
///
/// Fails if a file cannot be read.
pub fn names_in_kubeconfig(options: &ConnectOptions) -> Result<KubeconfigNames, ClusterError> {
    let config = kubeconfig_file::read_all(&paths(options), given(&options.kubeconfig).is_some())?;
    Ok(KubeconfigNames {
        contexts: config.contexts.into_keys().collect(),
        clusters: config.clusters.into_keys().collect(),
        users: config.users.into_keys().collect(),
    })
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

fn context(options: &ConnectOptions, config: &Kubeconfig) -> Result<Context, ClusterError> {
    let name = given(&options.context).unwrap_or(&config.current_context);
    let mut context = match config.contexts.get(name) {
        Some(context) => context.clone(),
        None if name.is_empty() => Context::default(),
        None => {
            let origin = if given(&options.context).is_some() { "context" } else { "the current context" };
            return Err(missing(origin, name, "contexts", config.contexts.keys()));
        }
    };
    if let Some(cluster) = given(&options.cluster) {
        cluster.clone_into(&mut context.cluster);
    }
    if let Some(user) = given(&options.user) {
        user.clone_into(&mut context.user);
    }
    Ok(context)
}

fn cluster(options: &ConnectOptions, config: &Kubeconfig, context: &Context) -> Result<Cluster, ClusterError> {
    match config.clusters.get(&context.cluster) {
        Some(cluster) => Ok(cluster.clone()),
        // --server needs no cluster of the kubeconfig.
        None if context.cluster.is_empty() => Ok(Cluster::default()),
        None if given(&options.server).is_some() && given(&options.cluster).is_none() => Ok(Cluster::default()),
        None => Err(missing("cluster", &context.cluster, "clusters", config.clusters.keys())),
    }
}

fn user(options: &ConnectOptions, config: &Kubeconfig, context: &Context) -> Result<User, ClusterError> {
    match config.users.get(&context.user) {
        Some(user) => Ok(user.clone()),
        // As in client-go, a context may name a user that does not exist.
        None if given(&options.user).is_none() => Ok(User::default()),
        None => Err(missing("user", &context.user, "users", config.users.keys())),
    }
}

/// Applies the flags about the cluster, which clear what they contradict.
///
/// Ported from `getCluster`, k8s.io/client-go/tools/clientcmd/client_config.go, release 1.36.
fn override_cluster(options: &ConnectOptions, cluster: &mut Cluster) {
    let authority = given(&options.certificate_authority);
    if options.insecure_skip_tls_verify || authority.is_some() {
        cluster.insecure_skip_tls_verify = options.insecure_skip_tls_verify;
        cluster.certificate_authority = authority.unwrap_or_default().to_owned();
        cluster.certificate_authority_data.clear();
    }
    let (name, server) = (given(&options.tls_server_name), given(&options.server));
    if name.is_some() || server.is_some() {
        cluster.tls_server_name = name.unwrap_or_default().to_owned();
    }
    if let Some(server) = server {
        server.clone_into(&mut cluster.server);
    }
}

/// Applies the flags about the user.
///
/// Ported from `getAuthInfo`, k8s.io/client-go/tools/clientcmd/client_config.go, release 1.36. Unlike there, a token
/// file of the kubeconfig does not replace `--token`.
fn override_user(options: &ConnectOptions, user: &mut User) {
    if let Some(token) = given(&options.token) {
        token.clone_into(&mut user.token);
        user.token_file.clear();
    }
    if let Some(path) = given(&options.client_certificate) {
        path.clone_into(&mut user.client_certificate);
        user.client_certificate_data.clear();
    }
    if let Some(path) = given(&options.client_key) {
        path.clone_into(&mut user.client_key);
        user.client_key_data.clear();
    }
    for (flag, field) in [
        (&options.username, &mut user.username),
        (&options.password, &mut user.password),
        (&options.as_, &mut user.impersonate),
        (&options.as_uid, &mut user.as_uid),
    ] {
        if let Some(value) = given(flag) {
            value.clone_into(field);
        }
    }
    if !options.as_group.is_empty() {
        user.as_groups.clone_from(&options.as_group);
    }
    // A flag's values replace those that the kubeconfig has for the same key.
    let extra = options.as_user_extra.iter().filter_map(|extra| extra.split_once('='));
    for (key, _) in extra.clone() {
        user.as_user_extra.remove(key);
    }
    for (key, value) in extra {
        user.as_user_extra.entry(key.to_owned()).or_default().push(value.to_owned());
    }
}

fn missing<'a>(
    what: &str,
    name: &str,
    plural: &str,
    existing: impl Iterator<Item = &'a String> + Clone,
) -> ClusterError {
    let existing = existing.map(String::as_str).filter(|name| !name.is_empty());
    let error = ClusterError::config(format!("{what} {name:?} does not exist"));
    let near = suggestions::near(name, existing.clone());
    if !near.is_empty() {
        return error.hint(format!("similar {plural}: {}", near.join(", ")));
    }
    let existing: Vec<&str> = existing.collect();
    match existing.as_slice() {
        [] => error.hint(format!("the kubeconfig has no {plural}")),
        existing if existing.len() > 10 => {
            error.hint(format!("`kubectl config get-{plural}` lists the {} that exist", existing.len()))
        }
        existing => error.hint(format!("existing {plural}: {}", existing.join(", "))),
    }
}

fn nothing_configured(options: &ConnectOptions, config: &Kubeconfig, paths: &[PathBuf]) -> ClusterError {
    if !config.contexts.is_empty() {
        let existing: Vec<&str> = config.contexts.keys().map(String::as_str).collect();
        return ClusterError::config("the kubeconfig has no current context")
            .hint(format!("choose one with --context: {}", existing.join(", ")));
    }
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let places = match (paths.as_slice(), options.variable("KUBECONFIG")) {
        ([], _) => "there is no kubeconfig".to_owned(),
        (paths, _) => format!("no kubeconfig names one ({})", paths.join(", ")),
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

    use super::{ConnectOptions, Target, load, load_in};
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
        fs::write(folder.path().join("ca.crt"), "").unwrap();
        fs::write(folder.path().join("second"), SECOND).unwrap();
        folder
    }

    fn options(folder: &TempDir, files: &[&str]) -> ConnectOptions {
        let list = std::env::join_paths(files.iter().map(|file| folder.path().join(file))).unwrap();
        let environment = BTreeMap::from([("KUBECONFIG".to_owned(), list.into_string().unwrap())]);
        ConnectOptions { environment, ..ConnectOptions::default() }
    }

    fn server(target: &Target) -> &str {
        &target.cluster.server
    }

    fn message(error: &ClusterError) -> String {
        format!("{error} | {}", error.hints().join(" | "))
    }

    #[test]
    fn missing_files_are_skipped_and_the_first_context_with_a_name_wins() {
        let folder = folder();
        let target = load(&options(&folder, &["absent", "first", "second"])).unwrap();
        assert_eq!((server(&target), target.namespace.as_str()), ("https://two:6443", "team"));
        assert_eq!(target.user.token_file, folder.path().join("token").display().to_string());
    }

    #[test]
    fn the_first_file_to_set_a_name_wins_and_paths_count_from_its_folder() {
        let folder = folder();
        let mut options = options(&folder, &["first", "second"]);
        options.context = Some("alpha".to_owned());
        let target = load(&options).unwrap();
        assert_eq!((server(&target), target.namespace.as_str()), ("https://one:6443", "default"));
        assert_eq!(target.cluster.certificate_authority, folder.path().join("ca.crt").display().to_string());
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
        assert_eq!(cluster.server, "https://elsewhere");
        assert_eq!((cluster.certificate_authority.as_str(), cluster.tls_server_name.as_str()), ("", ""));
        assert!(cluster.insecure_skip_tls_verify);
        assert_eq!(user.token, "given");
        assert_eq!((user.impersonate.as_str(), user.as_groups.len()), ("eve", 1));
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
            "the kubeconfig has no current context | choose one with --context: alpha"
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
        // Each of these is an error of another kind, or none.
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

    /// A directory of a service account, and the environment of its pod.
    fn pod() -> (TempDir, ConnectOptions) {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("token"), "of-the-pod\n").unwrap();
        fs::write(directory.path().join("namespace"), "monitoring\n").unwrap();
        let environment = [("KUBERNETES_SERVICE_HOST", "fd00::1"), ("KUBERNETES_SERVICE_PORT", "443")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        (directory, ConnectOptions { environment, ..ConnectOptions::default() })
    }

    #[test]
    fn in_a_pod_its_service_account_is_used() {
        let (directory, mut options) = pod();
        options.as_ = Some("eve".to_owned());
        let target = load_in(&options, directory.path()).unwrap();
        assert_eq!((server(&target), target.namespace.as_str()), ("https://[fd00::1]:443", "monitoring"));
        assert_eq!(target.user.token_file, directory.path().join("token").display().to_string());
        assert_eq!(target.user.impersonate, "eve");
        options.environment.insert("POD_NAMESPACE".to_owned(), "given".to_owned());
        assert_eq!(load_in(&options, directory.path()).unwrap().namespace, "given");
    }

    #[test]
    fn in_a_pod_the_namespace_of_a_context_without_a_cluster_wins() {
        let (directory, mut options) = pod();
        let path = directory.path().join("config");
        options.kubeconfig = Some(path.display().to_string());
        for (namespace, expected) in [("x", "x"), ("default", "default"), ("''", "monitoring")] {
            let config =
                format!("{{current-context: here, contexts: [{{name: here, context: {{namespace: {namespace}}}}}]}}");
            fs::write(&path, config).unwrap();
            let target = load_in(&options, directory.path()).unwrap();
            assert_eq!((server(&target), target.namespace.as_str()), ("https://[fd00::1]:443", expected));
        }
    }

    #[test]
    fn in_a_pod_a_kubeconfig_without_a_namespace_leaves_the_namespace_of_the_pod() {
        let (directory, mut options) = pod();
        options.server = Some("https://elsewhere".to_owned());
        let target = load_in(&options, directory.path()).unwrap();
        assert_eq!((server(&target), target.namespace.as_str()), ("https://elsewhere", "monitoring"));
        assert_eq!(target.user.token_file, "");
    }

    #[test]
    fn in_a_pod_flags_replace_the_authority_and_the_token() {
        let (directory, mut options) = pod();
        let authority = directory.path().join("other.crt");
        fs::write(&authority, "").unwrap();
        options.certificate_authority = Some(authority.display().to_string());
        options.token = Some("given".to_owned());
        let target = load_in(&options, directory.path()).unwrap();
        assert_eq!(target.cluster.certificate_authority, authority.display().to_string());
        assert_eq!((target.user.token.as_str(), target.user.token_file.as_str()), ("given", ""));
    }

    #[test]
    fn kubernetes_master_is_the_server_if_nothing_else_is_configured() {
        let environment = BTreeMap::from([("KUBERNETES_MASTER".to_owned(), "http://localhost:1".to_owned())]);
        let options = ConnectOptions { environment, ..ConnectOptions::default() };
        assert_eq!(server(&load(&options).unwrap()), "http://localhost:1");
    }

    #[test]
    fn entries_that_are_not_used_may_be_odd() {
        let folder = folder();
        let odd = "{contexts: [{name: odd, context: {}}, {name: null}], users: [{user: {}}, {name: u, user: {exec: {env: \
                   [{name: A, value: null}]}}}], clusters: [{name: c, cluster: {extensions: [{name: e}]}}]}";
        fs::write(folder.path().join("odd"), odd).unwrap();
        load(&options(&folder, &["second", "odd"])).unwrap();
    }

    #[test]
    fn files_of_another_kind_and_wrong_values_are_refused_without_repeating_them() {
        let folder = folder();
        for (text, problem) in [
            ("{kind: Pod, apiVersion: v1}", "it is of kind \"Pod\" and version \"v1\", not a v1 Config"),
            ("{apiVersion: v2}", "it is of kind \"\" and version \"v2\", not a v1 Config"),
            ("[secret]", "it is not a mapping"),
            ("{users: [{name: u, user: secret}]}", "users[0] has a value of the wrong type or illegal base64 data"),
            ("{users: [{name: u}, {name: u}]}", "duplicate name \"u\" in users"),
        ] {
            fs::write(folder.path().join("broken"), text).unwrap();
            let error = load(&options(&folder, &["broken"])).unwrap_err().to_string();
            assert!(error.ends_with(&format!(": {problem}")), "{error}");
        }
    }
}
