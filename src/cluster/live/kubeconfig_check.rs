//! Refuses the clusters and users that kubectl refuses.
//!
//! Ported from `validateClusterInfo` and `validateAuthInfo`, k8s.io/client-go/tools/clientcmd/validation.go, and from
//! the checks of `TLSConfigFor` and `HTTPWrappersForConfig`, k8s.io/client-go/transport, release 1.36.

use std::fs::File;

use super::kubeconfig_file::{Cluster, Exec, User};
use super::proxy;
use crate::cluster::error::ClusterError;

/// Checks a cluster, with the flags applied.
pub(super) fn cluster(cluster: &Cluster) -> Result<(), ClusterError> {
    if !cluster.proxy_url.is_empty() {
        proxy::check_proxy_url(&cluster.proxy_url)?;
    }
    if !cluster.certificate_authority.is_empty() && !cluster.certificate_authority_data.is_empty() {
        return Err(both("certificate-authority", "certificate-authority-data"));
    }
    readable("certificate-authority", &cluster.certificate_authority)
}

/// Checks a cluster that is reached over TLS.
pub(super) fn tls(cluster: &Cluster) -> Result<(), ClusterError> {
    let has_authority = !cluster.certificate_authority.is_empty() || !cluster.certificate_authority_data.is_empty();
    if has_authority && cluster.insecure_skip_tls_verify {
        return Err(invalid("a certificate authority and insecure-skip-tls-verify are both set").hint(
            "remove one of them from the cluster, or give --certificate-authority or --insecure-skip-tls-verify",
        ));
    }
    Ok(())
}

/// Checks a user, with the flags applied.
pub(super) fn user(user: &User) -> Result<(), ClusterError> {
    if !user.client_certificate.is_empty() || !user.client_certificate_data.is_empty() {
        if !user.client_certificate.is_empty() && !user.client_certificate_data.is_empty() {
            return Err(both("client-certificate", "client-certificate-data"));
        }
        match (user.client_key.is_empty(), user.client_key_data.is_empty()) {
            (false, false) => return Err(both("client-key", "client-key-data")),
            (true, true) => {
                return Err(invalid("the user has a client certificate without a key")
                    .hint("set client-key or client-key-data, or give --client-key"));
            }
            _ => {}
        }
        readable("client-certificate", &user.client_certificate)?;
        readable("client-key", &user.client_key)?;
    }
    if let Some(exec) = &user.exec {
        if user.auth_provider.is_some() {
            return Err(both("auth-provider", "exec"));
        }
        plugin(exec)?;
    }
    if (!user.token.is_empty() || !user.token_file.is_empty())
        && (!user.username.is_empty() || !user.password.is_empty())
    {
        return Err(invalid("the user has a token and a username or password; only one is allowed")
            .hint("remove one from the user, or choose another one with --user"));
    }
    if user.impersonate.is_empty()
        && (!user.as_uid.is_empty() || !user.as_groups.is_empty() || !user.as_user_extra.is_empty())
    {
        return Err(ClusterError::config("--as-group, --as-uid and --as-user-extra require a user to impersonate")
            .hint("give --as too"));
    }
    Ok(())
}

fn plugin(exec: &Exec) -> Result<(), ClusterError> {
    let refuse = |problem: &str| {
        Err(invalid(&format!("the user's exec plugin {problem}")).hint("correct the user's `exec` section"))
    };
    if exec.command.is_empty() {
        return refuse("has no command");
    }
    if exec.env.iter().any(|variable| variable.name.is_empty()) {
        return refuse("has an environment variable without a name");
    }
    match (exec.api_version.as_str(), exec.interactive_mode.as_str()) {
        ("", _) => refuse("has no apiVersion"),
        // `SetDefaults_ExecConfig` fills it in for older versions only.
        ("client.authentication.k8s.io/v1", "") => refuse("has no interactiveMode, which version v1 requires"),
        (
            "client.authentication.k8s.io/v1" | "client.authentication.k8s.io/v1beta1",
            "" | "Never" | "IfAvailable" | "Always",
        ) => Ok(()),
        ("client.authentication.k8s.io/v1" | "client.authentication.k8s.io/v1beta1", mode) => {
            refuse(&format!("has the unknown interactiveMode {mode:?}"))
        }
        (version, _) => refuse(&format!("has the unsupported apiVersion {version:?}")),
    }
}

fn readable(what: &str, path: &str) -> Result<(), ClusterError> {
    if path.is_empty() {
        return Ok(());
    }
    File::open(path).map(drop).map_err(|error| {
        ClusterError::config(format!("unable to read {what} {path:?}: {error}"))
            .hint("check the path in the kubeconfig or the flag")
    })
}

fn both(one: &str, other: &str) -> ClusterError {
    invalid(&format!("{one} and {other} are both set")).hint(format!("remove one of them: {one} or {other}"))
}

fn invalid(problem: &str) -> ClusterError {
    ClusterError::config(format!("invalid configuration: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::{Cluster, User, cluster, tls, user};

    fn refusal<T: Default + serde::de::DeserializeOwned>(
        check: impl Fn(&T) -> Result<(), super::ClusterError>,
        yaml: &str,
    ) -> String {
        check(&serde_saphyr::from_str::<T>(yaml).unwrap()).map_or_else(|error| error.to_string(), |()| "ok".to_owned())
    }

    #[test]
    fn clusters_that_kubectl_refuses_are_refused() {
        for (yaml, problem) in [
            ("{server: 'https://one'}", "ok"),
            ("{proxy-url: 'http://proxy'}", "ok"),
            (
                "{certificate-authority: /dev/null, certificate-authority-data: QQ==}",
                "invalid configuration: certificate-authority and certificate-authority-data are both set",
            ),
            (
                "{certificate-authority: /no/such}",
                "unable to read certificate-authority \"/no/such\": No such file or directory (os error 2)",
            ),
        ] {
            assert_eq!(refusal::<Cluster>(cluster, yaml), problem, "{yaml}");
        }
        assert_eq!(
            refusal::<Cluster>(tls, "{certificate-authority: /dev/null, insecure-skip-tls-verify: true}"),
            "invalid configuration: a certificate authority and insecure-skip-tls-verify are both set"
        );
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
            (
                "{client-certificate: /dev/null}".to_owned(),
                "invalid configuration: the user has a client certificate without a key",
            ),
            (format!("{{exec: {{command: c, {V1}, interactiveMode: Never}}}}"), "ok"),
            ("{exec: {command: c, apiVersion: client.authentication.k8s.io/v1beta1}}".to_owned(), "ok"),
            (format!("{{exec: {{{V1}}}}}"), "invalid configuration: the user's exec plugin has no command"),
            (
                format!("{{exec: {{command: c, {V1}}}}}"),
                "invalid configuration: the user's exec plugin has no interactiveMode, which version v1 requires",
            ),
            (
                format!("{{exec: {{command: c, {V1}, interactiveMode: Sometimes}}}}"),
                "invalid configuration: the user's exec plugin has the unknown interactiveMode \"Sometimes\"",
            ),
            ("{exec: {command: c}}".to_owned(), "invalid configuration: the user's exec plugin has no apiVersion"),
            (
                "{exec: {command: c, apiVersion: client.authentication.k8s.io/v1alpha1}}".to_owned(),
                "invalid configuration: the user's exec plugin has the unsupported apiVersion \"client.authentication.k8s.io/v1alpha1\"",
            ),
            (
                format!("{{exec: {{command: c, {V1}, interactiveMode: Never, env: [{{value: v}}]}}}}"),
                "invalid configuration: the user's exec plugin has an environment variable without a name",
            ),
        ] {
            assert_eq!(refusal::<User>(user, &yaml), problem, "{yaml}");
        }
    }
}
