//! Runs credential plugins.
//!
//! Ported from k8s.io/client-go/plugin/pkg/client/auth/exec/exec.go, release 1.36. kube runs a plugin once for each of the
//! places that may need its output, blocks the runtime meanwhile, looks it up in the plugin's own `PATH`, and
//! knows no plugin policy.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::process::Command;

use super::kubeconfig_file::{Cluster, Exec};
use super::kuberc::PluginPolicy;
use super::look_path::look_path;
use super::options::ConnectOptions;
use super::tls;
use crate::cluster::error::ClusterError;
use crate::encode::sanitize::sanitize;

/// The extension of a cluster that is passed to plugins.
const CLUSTER_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// A credential plugin, ready to run any number of times.
#[derive(Debug)]
pub(super) struct Plugin {
    /// The program as the kubeconfig names it.
    command: String,
    path: PathBuf,
    args: Vec<String>,
    environment: BTreeMap<String, String>,
    api_version: String,
    interactive: bool,
}

/// The output of a plugin.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Output {
    pub expiration_timestamp: Option<Timestamp>,
    pub token: Option<String>,
    pub client_certificate_data: Option<String>,
    pub client_key_data: Option<String>,
}

/// The input of a plugin: `ExecCredential` of client.authentication.k8s.io.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Input<'a> {
    kind: &'static str,
    api_version: &'a str,
    spec: Spec<'a>,
}

#[derive(Serialize)]
struct Spec<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<ClusterInfo<'a>>,
    interactive: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ClusterInfo<'a> {
    server: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    tls_server_name: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    insecure_skip_tls_verify: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    certificate_authority_data: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    proxy_url: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disable_compression: bool,
    config: Option<&'a Value>,
}

/// What a plugin writes.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ExecCredential {
    api_version: String,
    kind: String,
    status: Option<Output>,
}

impl Plugin {
    /// Prepares a plugin that [`super::kubeconfig_check`] has accepted.
    ///
    /// # Errors
    ///
    /// Fails if the program is not found, is not allowed by `policy`, or needs a terminal that is not there.
    pub(super) fn new(
        options: &ConnectOptions,
        cluster: &Cluster,
        exec: &Exec,
        policy: &PluginPolicy,
    ) -> Result<Self, ClusterError> {
        let interactive = match exec.interactive_mode.as_str() {
            "Never" => false,
            "Always" if !options.input_is_terminal => {
                return Err(problem(&exec.command, "it requires a terminal, and standard input is not one"));
            }
            _ => options.input_is_terminal,
        };
        let path = look_path(&exec.command, options).map_err(|error| {
            let hint = Some(sanitize(exec.install_hint.trim())).filter(|hint| !hint.is_empty());
            let hint = hint.unwrap_or_else(|| "install it, or correct its name in the kubeconfig".to_owned());
            ClusterError::Credentials {
                message: format!("getting credentials: exec: executable {} not found: {error}", exec.command),
                hints: vec![hint],
            }
        })?;
        policy.check(&exec.command, &path, options)?;
        let cluster = exec.provide_cluster_info.then(|| cluster_info(cluster)).transpose();
        let cluster = cluster.map_err(|error| problem(&exec.command, &format!("certificate authority: {error}")))?;
        let spec = Spec { cluster, interactive };
        let input = Input { kind: "ExecCredential", api_version: &exec.api_version, spec };
        let input = serde_json::to_string(&input).map_err(|error| problem(&exec.command, &error.to_string()))?;
        let mut environment = options.environment.clone();
        environment.extend(exec.env.iter().map(|variable| (variable.name.clone(), variable.value.clone())));
        environment.insert("KUBERNETES_EXEC_INFO".to_owned(), input);
        Ok(Plugin {
            command: exec.command.clone(),
            path,
            args: exec.args.clone(),
            environment,
            api_version: exec.api_version.clone(),
            interactive,
        })
    }

    /// Runs the plugin. It is killed if the future is dropped.
    ///
    /// # Errors
    ///
    /// Fails if the plugin cannot be run, fails, or writes no credentials.
    pub(super) async fn run(&self) -> Result<Output, ClusterError> {
        let output = Command::new(&self.path)
            .args(&self.args)
            .env_clear()
            .envs(&self.environment)
            .stdin(if self.interactive { Stdio::inherit() } else { Stdio::null() })
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|error| problem(&self.command, &error.to_string()))?;
        if !output.status.success() {
            let how = match output.status.code() {
                Some(code) => format!("exit code {code}"),
                None => output.status.to_string(),
            };
            return Err(ClusterError::Credentials {
                message: format!("getting credentials: exec: executable {} failed with {how}", self.command),
                hints: vec!["run it by hand to see what it needs, such as a new login".to_owned()],
            });
        }
        self.read(&output.stdout).map_err(|message| problem(&self.command, &message))
    }

    fn read(&self, output: &[u8]) -> Result<Output, String> {
        let credential: ExecCredential = serde_json::from_slice(output)
            .map_err(drop)
            .or_else(|()| serde_saphyr::from_slice(output).map_err(drop))
            // The parser's message would repeat the output, which may hold a token.
            .map_err(|()| "its output is not an ExecCredential")?;
        if !matches!(credential.kind.as_str(), "" | "ExecCredential") || credential.api_version != self.api_version {
            return Err(format!(
                "it must return {} ExecCredential, and returned {}",
                self.api_version,
                sanitize(&format!("{} {}", credential.api_version, credential.kind)),
            ));
        }
        let output = credential.status.ok_or("it returned no status")?;
        let has = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
        match (has(&output.client_certificate_data), has(&output.client_key_data), has(&output.token)) {
            (false, false, false) => Err("it returned neither a token nor a certificate and key".to_owned()),
            (true, false, _) | (false, true, _) => Err("it returned only one of certificate and key".to_owned()),
            _ => Ok(output),
        }
    }

    /// Returns the error of output that cannot be used.
    pub(super) fn problem(&self, problem: &str) -> ClusterError {
        self::problem(&self.command, problem)
    }
}

fn cluster_info(cluster: &Cluster) -> std::io::Result<ClusterInfo<'_>> {
    let config = cluster.extensions.iter().find(|extension| extension.name == CLUSTER_EXTENSION);
    Ok(ClusterInfo {
        server: &cluster.server,
        tls_server_name: &cluster.tls_server_name,
        insecure_skip_tls_verify: cluster.insecure_skip_tls_verify,
        certificate_authority_data: BASE64_STANDARD.encode(tls::authority(cluster)?),
        proxy_url: &cluster.proxy_url,
        disable_compression: cluster.disable_compression,
        config: config.map(|extension| &extension.extension),
    })
}

fn problem(command: &str, problem: &str) -> ClusterError {
    ClusterError::Credentials {
        message: format!("getting credentials: exec: plugin {command:?}: {problem}"),
        hints: vec!["check the user's `exec` section in the kubeconfig".to_owned()],
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::{Cluster, ConnectOptions, Exec, Output, Plugin, PluginPolicy};
    use crate::cluster::error::ClusterError;

    const V1: &str = "client.authentication.k8s.io/v1";

    fn exec(script: &str) -> Exec {
        Exec {
            api_version: V1.to_owned(),
            command: "/bin/sh".to_owned(),
            args: vec!["-c".to_owned(), script.to_owned()],
            interactive_mode: "Never".to_owned(),
            ..Exec::default()
        }
    }

    fn run(exec: &Exec) -> Result<Output, ClusterError> {
        let cluster = Cluster { server: "https://one".to_owned(), ..Cluster::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            Plugin::new(&ConnectOptions::default(), &cluster, exec, &PluginPolicy::default())?.run().await
        })
    }

    #[test]
    fn the_input_is_what_client_go_passes() {
        let input = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"cluster":{"server":"https://one","config":null},"interactive":false}}"#;
        let script = format!(
            "[ \"$KUBERNETES_EXEC_INFO\" = '{input}' ] || exit 9\n\
             echo \"{{apiVersion: {V1}, status: {{token: t, expirationTimestamp: '2026-11-21T12:00:00Z'}}}}\""
        );
        let output = run(&Exec { provide_cluster_info: true, ..exec(&script) }).unwrap();
        assert_eq!(output.token.as_deref(), Some("t"));
        assert_eq!(output.expiration_timestamp, Some("2026-11-21T12:00:00Z".parse().unwrap()));
    }

    #[test]
    fn each_way_to_fail_says_what_happened() {
        const PLUGIN: &str = "getting credentials: exec: plugin \"/bin/sh\": ";
        let v1 = format!(r#"{{"apiVersion":"{V1}","kind":"ExecCredential""#);
        for (script, message) in [
            ("exit 3".to_owned(), "getting credentials: exec: executable /bin/sh failed with exit code 3".to_owned()),
            ("echo secret".to_owned(), format!("{PLUGIN}its output is not an ExecCredential")),
            (
                format!("echo '{v1},\"status\":{{\"token\":\"t\",\"expirationTimestamp\":\"soon\"}}}}'"),
                format!("{PLUGIN}its output is not an ExecCredential"),
            ),
            (format!("echo '{v1}}}'"), format!("{PLUGIN}it returned no status")),
            (
                format!("echo '{v1},\"status\":{{}}}}'"),
                format!("{PLUGIN}it returned neither a token nor a certificate and key"),
            ),
            (
                format!("echo '{v1},\"status\":{{\"clientKeyData\":\"k\"}}}}'"),
                format!("{PLUGIN}it returned only one of certificate and key"),
            ),
            (
                r#"echo '{"apiVersion":"v0","kind":"ExecCredential","status":{"token":"t"}}'"#.to_owned(),
                format!("{PLUGIN}it must return {V1} ExecCredential, and returned v0 ExecCredential"),
            ),
        ] {
            assert_eq!(run(&exec(&script)).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_plugin_that_is_not_installed_says_how_to_install_it() {
        let exec = Exec {
            command: "/no/such/plugin".to_owned(),
            install_hint: "brew install\x1b[31m plugin".to_owned(),
            ..exec("")
        };
        let error = run(&exec).unwrap_err();
        assert_eq!(
            error.to_string(),
            "getting credentials: exec: executable /no/such/plugin not found: executable file not found in PATH"
        );
        assert!(!error.hints()[0].contains('\x1b'), "{:?}", error.hints());
    }
}
