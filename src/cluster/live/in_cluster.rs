//! The cluster, the user and the namespace of a pod that this process runs in.

use std::path::Path;

use super::kubeconfig_file::{Cluster, User};
use super::options::{ConnectOptions, given};
use super::tls;

/// The pod that this process runs in.
pub(super) struct Pod<'a> {
    service_account: &'a Path,
    server: String,
}

impl<'a> Pod<'a> {
    /// Returns `None` outside of a cluster.
    ///
    /// Ported from `Possible` of `inClusterClientConfig`, k8s.io/client-go/tools/clientcmd/client_config.go, release
    /// 1.36.
    pub(super) fn of(options: &ConnectOptions, service_account: &'a Path) -> Option<Self> {
        let host = options.variable("KUBERNETES_SERVICE_HOST")?;
        let port = options.variable("KUBERNETES_SERVICE_PORT")?;
        let token = std::fs::metadata(service_account.join("token")).ok()?;
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        (!token.is_dir()).then(|| Pod { service_account, server: format!("https://{host}:{port}") })
    }

    pub(super) fn namespace(&self, options: &ConnectOptions) -> String {
        if let Some(namespace) = options.variable("POD_NAMESPACE") {
            return namespace.to_owned();
        }
        let file = std::fs::read_to_string(self.service_account.join("namespace")).unwrap_or_default();
        let namespace = file.trim();
        if namespace.is_empty() { "default".to_owned() } else { namespace.to_owned() }
    }

    /// Returns the cluster of the pod and the user of its service account, who impersonates as `user` does.
    ///
    /// Ported from `ClientConfig` of `inClusterClientConfig`, k8s.io/client-go/tools/clientcmd/client_config.go, release
    /// 1.36. Unlike there, flags to impersonate apply.
    pub(super) fn cluster_and_user(self, options: &ConnectOptions, user: User) -> (Cluster, User) {
        let path = |name: &str| self.service_account.join(name).display().to_string();
        // As in `InClusterConfig`, an unreadable authority leaves the system's authorities.
        let own = Some(path("ca.crt")).filter(|path| tls::reads_certificates(path));
        let authority = given(&options.certificate_authority).map(str::to_owned).or(own);
        let cluster = Cluster {
            server: self.server.clone(),
            certificate_authority: authority.unwrap_or_default(),
            ..Cluster::default()
        };
        let token = given(&options.token).unwrap_or_default().to_owned();
        let token_file = if token.is_empty() { path("token") } else { String::new() };
        let User { impersonate, as_uid, as_groups, as_user_extra, .. } = user;
        (cluster, User { token, token_file, impersonate, as_uid, as_groups, as_user_extra, ..User::default() })
    }
}
