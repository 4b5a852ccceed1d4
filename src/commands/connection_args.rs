//! The flags about the connection, as kubectl names them.

use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};

use super::parse::parse_duration;
use crate::connection::ConnectOptions;
use crate::io::Io;
use crate::report::fix::Command;

/// The flags about the connection, as kubectl names them.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct ConnectionArgs {
    /// The kubeconfig file to use
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "from")]
    kubeconfig: Option<String>,
    /// The file of kubectl's preferences, whose policy for credential plugins applies
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "from")]
    kuberc: Option<String>,
    /// The context of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "from")]
    context: Option<String>,
    /// The cluster of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "from")]
    cluster: Option<String>,
    /// The user of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "from")]
    user: Option<String>,
    /// The address of the API server
    #[arg(short, long, global = true, value_name = "URL", conflicts_with = "from")]
    server: Option<String>,
    /// The bearer token to authenticate with
    #[arg(long, global = true, value_name = "TOKEN", conflicts_with = "from")]
    token: Option<String>,
    /// The user name for basic authentication
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "from")]
    username: Option<String>,
    /// The password for basic authentication
    #[arg(long, global = true, value_name = "PASSWORD", conflicts_with = "from")]
    password: Option<String>,
    /// A client certificate file
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "from")]
    client_certificate: Option<String>,
    /// The key file of the client certificate
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "from")]
    client_key: Option<String>,
    /// The user to act as
    #[arg(long = "as", global = true, value_name = "USER", conflicts_with = "from")]
    as_: Option<String>,
    /// A group to act as; can be given more than once
    #[arg(long, global = true, value_name = "GROUP", conflicts_with = "from")]
    as_group: Vec<String>,
    /// The uid to act as
    #[arg(long, global = true, value_name = "UID", conflicts_with = "from")]
    as_uid: Option<String>,
    /// An extra field to act with; can be given more than once
    #[arg(long, global = true, value_name = "KEY=VALUE", conflicts_with = "from")]
    as_user_extra: Vec<String>,
    /// A file of certificates to trust
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "from")]
    certificate_authority: Option<String>,
    /// Trust any server; the connection is then not secure
    #[arg(
        long, global = true, conflicts_with = "from", num_args = 0..=1, require_equals = true,
        action = ArgAction::Set, value_parser = BoolishValueParser::new(), default_value = "false", default_missing_value = "true",
        hide_default_value = true, hide_possible_values = true, value_name = "BOOL",
    )]
    insecure_skip_tls_verify: bool,
    /// The name that the server's certificate must have
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "from")]
    tls_server_name: Option<String>,
    /// How long one request may take, such as `30s`; 0 is no limit
    #[arg(long, global = true, value_name = "DURATION", conflicts_with = "from", value_parser = parse_duration)]
    request_timeout: Option<Duration>,
}

impl ConnectionArgs {
    /// Returns the flags that lead a suggested command to the same cluster, as the same user. Secrets are left to variables.
    pub(super) fn repeated(&self) -> Command {
        let (server, login) = match self.server.as_deref().map(without_user_info) {
            Some((address, None)) => (Some(address), None),
            Some((scheme, Some(host))) => (None, Some((scheme, host))),
            None => (None, None),
        };
        let values = [
            ("--kubeconfig", &self.kubeconfig),
            ("--kuberc", &self.kuberc),
            ("--context", &self.context),
            ("--cluster", &self.cluster),
            ("--user", &self.user),
            ("--server", &server),
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
        let mut flags = flags.fold(Command::default(), |flags, (flag, value)| flags.flag(flag, value));
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

    /// Makes sense of the flags.
    pub(super) fn resolve(self, io: &Io<'_>) -> ConnectOptions {
        ConnectOptions {
            kubeconfig: self.kubeconfig,
            kuberc: self.kuberc,
            context: self.context,
            cluster: self.cluster,
            user: self.user,
            server: self.server,
            token: self.token,
            username: self.username,
            password: self.password,
            client_certificate: self.client_certificate,
            client_key: self.client_key,
            as_: self.as_,
            as_group: self.as_group,
            as_uid: self.as_uid,
            as_user_extra: self.as_user_extra,
            certificate_authority: self.certificate_authority,
            insecure_skip_tls_verify: self.insecure_skip_tls_verify,
            tls_server_name: self.tls_server_name,
            request_timeout: self.request_timeout,
            environment: io.environment.clone(),
            input_is_terminal: io.input_is_terminal,
        }
    }
}

/// Returns an address; one with a name and a password as what stands before them, and from the `@` on.
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
    use clap::{Args, FromArgMatches};

    use super::ConnectionArgs;

    /// Every flag but the limit of time decides which cluster or user is meant.
    #[test]
    fn suggested_commands_lead_to_the_same_cluster_and_repeat_no_secret() {
        let command = || ConnectionArgs::augment_args(clap::Command::new("test").arg(clap::Arg::new("from")));
        let repeated = |arguments: &[&str]| {
            let matches = command().try_get_matches_from([&["test"], arguments].concat()).unwrap();
            ConnectionArgs::from_arg_matches(&matches).unwrap().repeated().to_string()
        };
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
