//! The flags about the connection, as kubectl names them.

use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};

use super::parse::parse_duration;
use crate::cluster::live::ConnectOptions;
use crate::io::Io;

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
    /// Returns the flags that lead a suggested command to the same cluster, as the same user. Secrets are left out.
    pub(super) fn repeated(&self) -> Vec<String> {
        let server = self.server.as_deref().map(without_user_info);
        let values = [
            ("--kubeconfig", &self.kubeconfig),
            ("--context", &self.context),
            ("--cluster", &self.cluster),
            ("--user", &self.user),
            ("--server", &server),
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
        let flags = values.chain(groups).chain(extra).flat_map(|(flag, value)| [flag.to_owned(), value.clone()]);
        flags.chain(self.insecure_skip_tls_verify.then(|| "--insecure-skip-tls-verify".to_owned())).collect()
    }

    /// Makes sense of the flags.
    pub(super) fn resolve(self, io: &Io<'_>) -> ConnectOptions {
        let ConnectionArgs {
            kubeconfig,
            kuberc,
            context,
            cluster,
            user,
            server,
            token,
            username,
            password,
            client_certificate,
            client_key,
            as_,
            as_group,
            as_uid,
            as_user_extra,
            certificate_authority,
            insecure_skip_tls_verify,
            tls_server_name,
            request_timeout,
        } = self;
        ConnectOptions {
            kubeconfig,
            kuberc,
            context,
            cluster,
            user,
            server,
            token,
            username,
            password,
            client_certificate,
            client_key,
            as_,
            as_group,
            as_uid,
            as_user_extra,
            certificate_authority,
            insecure_skip_tls_verify,
            tls_server_name,
            request_timeout,
            environment: io.environment.clone(),
            input_is_terminal: io.input_is_terminal,
        }
    }
}

/// Returns an address without the name and the password that it may contain.
fn without_user_info(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").map_or(("", address), |(scheme, rest)| (scheme, rest));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match scheme {
        "" => format!("{host}{path}"),
        scheme => format!("{scheme}://{host}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::without_user_info;

    #[test]
    fn suggested_commands_repeat_no_password() {
        for (address, expected) in [
            ("http://user:pass@127.0.0.1:8080/a@b", "http://127.0.0.1:8080/a@b"),
            ("https://example.com", "https://example.com"),
            ("user:p@ss@example.com:6443", "example.com:6443"),
        ] {
            assert_eq!(without_user_info(address), expected);
        }
    }
}
