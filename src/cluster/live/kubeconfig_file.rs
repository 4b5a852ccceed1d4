//! Reads kubeconfig files and merges them.
//!
//! The types follow `k8s.io/client-go/tools/clientcmd/api/v1/types.go`, release 1.36: an absent or null value is
//! empty. kube's own types refuse entries that kubectl ignores (a context without a cluster, a user without a
//! name, an environment variable without a value) and accept files of another kind or version.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::cluster::error::ClusterError;
use crate::cluster::unpack::decode;
use crate::cluster::yaml;

/// The clusters, users and contexts of one file, or of several merged.
#[derive(Debug, Default)]
pub(super) struct Kubeconfig {
    pub clusters: BTreeMap<String, Cluster>,
    pub users: BTreeMap<String, User>,
    pub contexts: BTreeMap<String, Context>,
    /// Empty if not set.
    pub current_context: String,
}

/// How to reach an API server, and how to authenticate it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Cluster {
    pub server: String,
    pub tls_server_name: String,
    pub insecure_skip_tls_verify: bool,
    pub certificate_authority: String,
    #[serde(deserialize_with = "base64")]
    pub certificate_authority_data: Vec<u8>,
    pub proxy_url: String,
    pub disable_compression: bool,
    /// Data of other programs.
    pub extensions: Vec<Extension>,
}

/// How to authenticate to an API server.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct User {
    pub client_certificate: String,
    #[serde(deserialize_with = "base64")]
    pub client_certificate_data: Vec<u8>,
    pub client_key: String,
    #[serde(deserialize_with = "base64")]
    pub client_key_data: Vec<u8>,
    pub token: String,
    #[serde(rename = "tokenFile")]
    pub token_file: String,
    #[serde(rename = "as")]
    pub impersonate: String,
    pub as_uid: String,
    pub as_groups: Vec<String>,
    pub as_user_extra: BTreeMap<String, Vec<String>>,
    pub username: String,
    pub password: String,
    pub auth_provider: Option<AuthProvider>,
    pub exec: Option<Exec>,
}

/// A built-in way to obtain credentials.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct AuthProvider {
    pub name: String,
    pub config: BTreeMap<String, String>,
}

/// A credential plugin.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Exec {
    pub command: String,
    pub args: Vec<String>,
    pub env: Vec<Variable>,
    pub api_version: String,
    pub install_hint: String,
    pub provide_cluster_info: bool,
    pub interactive_mode: String,
}

/// An environment variable of a credential plugin.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Variable {
    pub name: String,
    pub value: String,
}

/// Data of another program.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Extension {
    pub name: String,
    pub extension: Value,
}

/// A cluster, a user and a namespace.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Context {
    pub cluster: String,
    pub user: String,
    pub namespace: String,
}

fn base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    // Go's decoder skips line breaks.
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    BASE64_STANDARD.decode(text).map_err(|_| serde::de::Error::custom("illegal base64 data"))
}

/// Reads and merges the files: the first file to set a name or the current context wins. Missing files are
/// skipped, unless `must_exist`.
///
/// # Errors
///
/// Fails if a file cannot be read, or is not a kubeconfig.
pub(super) fn read_all(paths: &[PathBuf], must_exist: bool) -> Result<Kubeconfig, ClusterError> {
    let mut merged = Kubeconfig::default();
    for path in paths {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => continue,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(unreadable(path, "no such file")),
            Err(error) => return Err(unreadable(path, &error.to_string())),
        };
        let mut config = parse(&text).map_err(|problem| unreadable(path, &problem))?;
        let absolute = std::path::absolute(path).map_err(|error| unreadable(path, &error.to_string()))?;
        if let Some(directory) = absolute.parent() {
            resolve_paths(&mut config, directory);
        }
        merge(&mut merged, config);
    }
    Ok(merged)
}

fn parse(text: &[u8]) -> Result<Kubeconfig, String> {
    let mut value = yaml::first_value(&decode(text).map_err(|error| error.to_string())?)?;
    if value.is_null() {
        return Ok(Kubeconfig::default());
    }
    if !value.is_object() {
        return Err("it is not a mapping".to_owned());
    }
    remove_nulls(&mut value);
    let text = |key: &str| match value.get(key) {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("{key} is not a string")),
    };
    let (kind, version) = (text("kind")?, text("apiVersion")?);
    if !matches!(kind.as_str(), "" | "Config") || !matches!(version.as_str(), "" | "v1") {
        return Err(format!("it is of kind {kind:?} and version {version:?}, not a v1 Config"));
    }
    Ok(Kubeconfig {
        clusters: entries(&value, "clusters", "cluster")?,
        users: entries(&value, "users", "user")?,
        contexts: entries(&value, "contexts", "context")?,
        current_context: text("current-context")?,
    })
}

/// Reads a list of named entries.
fn entries<T: Default + DeserializeOwned>(file: &Value, list: &str, key: &str) -> Result<BTreeMap<String, T>, String> {
    let items = match file.get(list) {
        None => return Ok(BTreeMap::new()),
        Some(Value::Array(items)) => items,
        Some(_) => return Err(format!("{list} is not a list")),
    };
    let mut entries = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        // serde's message would repeat the value, which may be a secret.
        let wrong = || format!("{list}[{index}] has a value of the wrong type or illegal base64 data");
        let name = match item.get("name") {
            None if item.is_object() => String::new(),
            Some(Value::String(name)) => name.clone(),
            _ => return Err(wrong()),
        };
        let entry = item.get(key).map_or_else(|| Ok(T::default()), T::deserialize).map_err(|_| wrong())?;
        if entries.insert(name.clone(), entry).is_some() {
            return Err(format!("duplicate name {name:?} in {list}"));
        }
    }
    Ok(entries)
}

fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => {
            items.retain(|value| !value.is_null());
            items.iter_mut().for_each(remove_nulls);
        }
        _ => {}
    }
}

/// Resolves relative paths against the directory of their file.
///
/// Ported from `ResolveLocalPaths`, k8s.io/client-go/tools/clientcmd/loader.go, release 1.36.
fn resolve_paths(config: &mut Kubeconfig, directory: &Path) {
    let resolve = |path: &mut String| {
        if !path.is_empty() {
            // Joining an absolute path gives that path. Components are normalized as by Go's `filepath.Join`.
            let joined: PathBuf = directory.join(&*path).components().collect();
            *path = joined.display().to_string();
        }
    };
    for cluster in config.clusters.values_mut() {
        resolve(&mut cluster.certificate_authority);
    }
    for user in config.users.values_mut() {
        for path in [&mut user.client_certificate, &mut user.client_key, &mut user.token_file] {
            resolve(path);
        }
        // A command without a separator is looked up in PATH.
        if let Some(exec) = user.exec.as_mut().filter(|exec| exec.command.contains(std::path::MAIN_SEPARATOR)) {
            resolve(&mut exec.command);
        }
    }
}

fn merge(merged: &mut Kubeconfig, config: Kubeconfig) {
    let Kubeconfig { clusters, users, contexts, current_context } = config;
    for (name, cluster) in clusters {
        merged.clusters.entry(name).or_insert(cluster);
    }
    for (name, user) in users {
        merged.users.entry(name).or_insert(user);
    }
    for (name, context) in contexts {
        merged.contexts.entry(name).or_insert(context);
    }
    if merged.current_context.is_empty() {
        merged.current_context = current_context;
    }
}

fn unreadable(path: &Path, problem: &str) -> ClusterError {
    ClusterError::config(format!("error loading config file {:?}: {problem}", path.display().to_string()))
        .hint("`kubectl config view` shows what kubectl reads; --kubeconfig names another file")
}
