//! The flags and the environment of a connection.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Flags about the connection, named as kubectl's are, and the environment. An empty flag counts as not given.
#[derive(Debug, Clone, Default)]
pub struct ConnectOptions {
    /// `--kubeconfig`: the one file to read, instead of those of `KUBECONFIG`.
    pub kubeconfig: Option<String>,
    /// `--kuberc`: the file of kubectl's preferences.
    pub kuberc: Option<String>,
    /// `--context`.
    pub context: Option<String>,
    /// `--cluster`.
    pub cluster: Option<String>,
    /// `--user`.
    pub user: Option<String>,
    /// `--server`.
    pub server: Option<String>,
    /// `--token`.
    pub token: Option<String>,
    /// `--username`.
    pub username: Option<String>,
    /// `--password`.
    pub password: Option<String>,
    /// `--client-certificate`: a file in PEM format.
    pub client_certificate: Option<String>,
    /// `--client-key`: a file in PEM format.
    pub client_key: Option<String>,
    /// `--as`: the user to impersonate.
    pub as_: Option<String>,
    /// `--as-group`: the groups to impersonate.
    pub as_group: Vec<String>,
    /// `--as-uid`: the UID to impersonate.
    pub as_uid: Option<String>,
    /// `--as-user-extra`: extra fields to impersonate, as `KEY=VALUE`.
    pub as_user_extra: Vec<String>,
    /// `--certificate-authority`: a file of certificates to trust.
    pub certificate_authority: Option<String>,
    /// `--insecure-skip-tls-verify`: whether any server is trusted.
    pub insecure_skip_tls_verify: bool,
    /// `--tls-server-name`: the name that the server's certificate must have.
    pub tls_server_name: Option<String>,
    /// `--request-timeout`; zero is no limit.
    pub request_timeout: Option<Duration>,
    /// The environment variables.
    pub environment: BTreeMap<String, String>,
    /// Whether standard input is a terminal that a credential plugin may prompt on.
    pub input_is_terminal: bool,
}

impl ConnectOptions {
    /// Returns an environment variable; an empty one counts as unset.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(super) fn home_directory(&self) -> Option<PathBuf> {
        self.variable("HOME").or_else(|| self.variable("USERPROFILE")).map(PathBuf::from)
    }
}

/// Returns the value of a flag; an empty one counts as not given, as in kubectl.
pub(super) fn given(flag: &Option<String>) -> Option<&str> {
    flag.as_deref().filter(|value| !value.is_empty())
}
