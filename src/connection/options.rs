//! The flags and the environment of a connection.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};

use crate::report::age;
use crate::report::fix::Command;

/// Flags about the connection, named as kubectl's are, and the environment. An empty flag counts as not given.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection to the API server")]
pub struct ConnectOptions {
    /// The kubeconfig file to use
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "from")]
    pub kubeconfig: Option<String>,
    /// The file of kubectl's preferences, whose policy for credential plugins applies
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "from")]
    pub kuberc: Option<String>,
    /// The context of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "from")]
    pub context: Option<String>,
    /// The cluster of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "from")]
    pub cluster: Option<String>,
    /// The user of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "from")]
    pub user: Option<String>,
    /// The address of the API server
    #[arg(short, long, global = true, value_name = "URL", conflicts_with = "from")]
    pub server: Option<String>,
    /// The bearer token to authenticate with
    #[arg(long, global = true, value_name = "TOKEN", conflicts_with = "from")]
    pub token: Option<String>,
    /// The user name for basic authentication
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "from")]
    pub username: Option<String>,
    /// The password for basic authentication
    #[arg(long, global = true, value_name = "PASSWORD", conflicts_with = "from")]
    pub password: Option<String>,
    /// A client certificate file
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "from")]
    pub client_certificate: Option<String>,
    /// The key file of the client certificate
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "from")]
    pub client_key: Option<String>,
    /// The user to act as
    #[arg(long = "as", global = true, value_name = "USER", conflicts_with = "from")]
    pub as_: Option<String>,
    /// A group to act as; can be given more than once
    #[arg(long, global = true, value_name = "GROUP", conflicts_with = "from")]
    pub as_group: Vec<String>,
    /// The uid to act as
    #[arg(long, global = true, value_name = "UID", conflicts_with = "from")]
    pub as_uid: Option<String>,
    /// An extra field to act with; can be given more than once
    #[arg(long, global = true, value_name = "KEY=VALUE", conflicts_with = "from")]
    pub as_user_extra: Vec<String>,
    /// A file of certificates to trust
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "from")]
    pub certificate_authority: Option<String>,
    /// Trust any server; the connection is then not secure
    #[arg(
        long, global = true, conflicts_with = "from", num_args = 0..=1, require_equals = true,
        action = ArgAction::Set, value_parser = BoolishValueParser::new(), default_value = "false", default_missing_value = "true",
        hide_default_value = true, hide_possible_values = true, value_name = "BOOL",
    )]
    pub insecure_skip_tls_verify: bool,
    /// The name that the server's certificate must have
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "from")]
    pub tls_server_name: Option<String>,
    /// How long one request may take, such as `30s`; 0 is no limit
    #[arg(long, global = true, value_name = "DURATION", conflicts_with = "from", value_parser = parse_duration)]
    pub request_timeout: Option<Duration>,
    /// The environment variables.
    #[arg(skip)]
    pub environment: BTreeMap<String, String>,
    /// Whether standard input is a terminal that a credential plugin may prompt on.
    #[arg(skip)]
    pub input_is_terminal: bool,
}

impl ConnectOptions {
    /// Returns the flags that lead a suggested command to the same cluster, as the same user. Secrets are left to variables.
    pub(crate) fn repeated(&self) -> Command {
        let (server, login) = match self.server.as_deref().map(without_user_info) {
            Some((address, None)) => (Some(address), None),
            Some((scheme, Some(host))) => (None, Some((scheme, host))),
            None => (None, None),
        };
        let mut flags = self.without_secrets(&server);
        if let Some((scheme, host)) = login {
            flags = flags.partly_variable("--server", &scheme, "LOGIN", &host);
        }
        if self.token.is_some() {
            flags = flags.variable("--token", "TOKEN");
        }
        if self.password.is_some() {
            flags = flags.variable("--password", "PASSWORD");
        }
        if self.insecure_skip_tls_verify { flags.switch("--insecure-skip-tls-verify") } else { flags }
    }

    /// Returns the flags except secrets, timeouts and whether to skip TLS verification.
    fn without_secrets(&self, server: &Option<String>) -> Command {
        let values = [
            ("--kubeconfig", &self.kubeconfig),
            ("--kuberc", &self.kuberc),
            ("--context", &self.context),
            ("--cluster", &self.cluster),
            ("--user", &self.user),
            ("--server", server),
            ("--username", &self.username),
            ("--client-certificate", &self.client_certificate),
            ("--client-key", &self.client_key),
            ("--as", &self.as_),
            ("--as-uid", &self.as_uid),
            ("--certificate-authority", &self.certificate_authority),
            ("--tls-server-name", &self.tls_server_name),
        ];
        let values = values.into_iter().filter_map(|(flag, value)| Some((flag, value.as_ref()?)));
        let groups = self.as_group.iter().map(|group| ("--as-group", group));
        let extra = self.as_user_extra.iter().map(|field| ("--as-user-extra", field));
        let flags = values.chain(groups).chain(extra);
        flags.fold(Command::default(), |flags, (flag, value)| flags.flag(flag, value))
    }

    /// Returns an environment variable; an empty one counts as unset.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the directory that contains `.kube`.
    ///
    /// Ported from `HomeDir`, k8s.io/client-go/util/homedir/homedir.go, release 1.37, for files that are only read.
    pub(super) fn home_directory(&self) -> Option<PathBuf> {
        let home = self.variable("HOME").map(PathBuf::from);
        if !cfg!(windows) {
            return home;
        }
        let drive = self.variable("HOMEDRIVE").zip(self.variable("HOMEPATH"));
        let drive = drive.map(|(drive, path)| PathBuf::from(format!("{drive}{path}")));
        let profile = self.variable("USERPROFILE").map(PathBuf::from);
        let candidates: Vec<PathBuf> = [home, drive, profile].into_iter().flatten().collect();
        let has_config = |directory: &&PathBuf| directory.join(".kube").join("config").is_file();
        candidates.iter().find(has_config).or(candidates.first()).cloned()
    }
}

/// Returns the value of a flag; an empty one counts as not given, as in kubectl.
pub(super) fn given(flag: &Option<String>) -> Option<&str> {
    flag.as_deref().filter(|value| !value.is_empty())
}

/// Parses a duration: whole seconds, as in kubectl, or numbers with units such as `1.5s`, `2m`, `1h30m` or `2d`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = match text.parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => age::parse_duration(text).and_then(|duration| duration.try_into().ok()),
    };
    // The longest duration in Go: 292 years.
    let duration = duration.filter(|duration: &Duration| i64::try_from(duration.as_nanos()).is_ok());
    duration.ok_or_else(|| "give whole seconds, or a number with its unit: 1s, 2m, 3h, 4d".to_owned())
}

/// Splits the user info out of an address: returns the part before it, and the part from the `@`.
fn without_user_info(address: &str) -> (String, Option<String>) {
    let (scheme, rest) = match address.find("://") {
        Some(at) => address.split_at(at + 3),
        None => ("", address),
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        None => (address.to_owned(), None),
        Some((_, host)) => (scheme.to_owned(), Some(format!("@{host}{path}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::{Args, FromArgMatches};

    use super::{ConnectOptions, parse_duration};

    #[test]
    fn durations_are_read_as_kubectl_reads_them_or_in_days() {
        for (text, milliseconds) in [
            ("30", 30_000),
            ("30s", 30_000),
            ("1m", 60_000),
            ("1.5s", 1_500),
            ("250ms", 250),
            ("1h30m", 5_400_000),
            ("0", 0),
            ("0s", 0),
            ("5d", 432_000_000),
        ] {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_millis(milliseconds), "{text}");
        }
        for text in ["", "soon", "5 s", "-5", "-5s", "5mo", "s", "1e400s", "99999999999999999999h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    /// All flags but the timeout determine the cluster or the user.
    #[test]
    fn suggested_commands_lead_to_the_same_cluster_and_repeat_no_secret() {
        let command = || ConnectOptions::augment_args(clap::Command::new("test").arg(clap::Arg::new("from")));
        let options = |arguments: &[&str]| {
            let matches = command().try_get_matches_from([&["test"], arguments].concat()).unwrap();
            ConnectOptions::from_arg_matches(&matches).unwrap()
        };
        let repeated = |arguments: &[&str]| options(arguments).repeated().to_string();
        for argument in command().get_arguments().filter_map(|argument| argument.get_long()) {
            let flag = format!("--{argument}");
            let words = match argument {
                "insecure-skip-tls-verify" => vec![&*flag],
                "request-timeout" => vec![&*flag, "5s"],
                _ => vec![&*flag, "a b"],
            };
            let expected = match argument {
                "request-timeout" => "kubectl".to_owned(),
                "insecure-skip-tls-verify" => format!("kubectl {flag}"),
                "token" | "password" => format!(r#"kubectl {flag} "${{{}:?}}""#, argument.to_uppercase()),
                _ => format!("kubectl {flag} 'a b'"),
            };
            assert_eq!(repeated(&words), expected);
        }
        assert_eq!(repeated(&[]), "kubectl");
        assert_eq!(repeated(&["--as-group", "a", "--as-group", "b"]), "kubectl --as-group a --as-group b");
        for (address, expected) in [
            ("https://example.com", "https://example.com"),
            ("http://user:pass@127.0.0.1:8080/a@b", r#"http://"${LOGIN:?}"@127.0.0.1:8080/a@b"#),
            ("user:p@ss@example.com:6443", r#""${LOGIN:?}"@example.com:6443"#),
        ] {
            assert_eq!(repeated(&["--server", address]), format!("kubectl --server {expected}"));
        }
    }
}
