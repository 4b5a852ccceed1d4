//! Runs the credential plugin of a user, once.
//!
//! kube runs it once for each of the places that may need what it gives. Here it runs before the
//! client is made, and what it gives stands in the user's credentials from then on.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kube::config::{AuthInfo, Cluster, ExecAuthCluster, ExecConfig, ExecInteractiveMode};
use serde::{Deserialize, Serialize};

use super::options::ConnectOptions;
use crate::cluster::error::ClusterError;

/// What a plugin is told, and what it gives: `ExecCredential` of client.authentication.k8s.io.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ExecCredential {
    api_version: String,
    kind: String,
    #[serde(skip_deserializing)]
    spec: Spec,
    #[serde(skip_serializing)]
    status: Option<Status>,
}

#[derive(Debug, Default, Serialize)]
struct Spec {
    interactive: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<ExecAuthCluster>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// Replaces a credential plugin by what it gives. A token that is there already makes it idle.
///
/// # Errors
///
/// Fails where the plugin cannot be run, fails, or gives no credentials.
pub(super) fn resolve(options: &ConnectOptions, cluster: &Cluster, user: &mut AuthInfo) -> Result<(), ClusterError> {
    let Some(exec) = user.exec.take() else { return Ok(()) };
    if user.token.is_some() || user.token_file.is_some() {
        return Ok(());
    }
    let Status { token, client_certificate_data, client_key_data } = run(options, cluster, &exec)?;
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
    match (filled(client_certificate_data), filled(client_key_data), filled(token)) {
        (None, None, None) => {
            return Err(problem(&exec, "it gave neither a token nor a certificate with its key"));
        }
        (Some(_), None, _) | (None, Some(_), _) => {
            return Err(problem(&exec, "it gave only one of certificate and key"));
        }
        (certificate, key, token) => {
            if let (Some(certificate), Some(key)) = (certificate, key) {
                user.client_certificate_data = Some(BASE64_STANDARD.encode(certificate));
                user.client_key_data = Some(BASE64_STANDARD.encode(key).into());
            }
            user.token = token.map(Into::into);
        }
    }
    Ok(())
}

fn run(options: &ConnectOptions, cluster: &Cluster, exec: &ExecConfig) -> Result<Status, ClusterError> {
    let program = exec.command.as_deref().filter(|command| !command.is_empty());
    let program = program.ok_or_else(|| problem(exec, "the kubeconfig names no command"))?;
    let api_version = exec.api_version.clone().unwrap_or_default();
    let interactive = match exec.interactive_mode {
        Some(ExecInteractiveMode::Never) => false,
        Some(ExecInteractiveMode::Always) if !options.input_is_terminal => {
            return Err(problem(exec, "it must ask questions, and standard input is not a terminal"));
        }
        _ => options.input_is_terminal,
    };
    let cluster = if exec.provide_cluster_info {
        Some(ExecAuthCluster::try_from(cluster).map_err(|error| problem(exec, &error.to_string()))?)
    } else {
        None
    };
    let told = ExecCredential {
        api_version: api_version.clone(),
        kind: "ExecCredential".to_owned(),
        spec: Spec { interactive, cluster },
        status: None,
    };
    let told = serde_json::to_string(&told).map_err(|error| problem(exec, &error.to_string()))?;
    let own: BTreeMap<&String, &String> = exec
        .env
        .iter()
        .flatten()
        .filter_map(|variable| Some((variable.get("name")?, variable.get("value")?)))
        .collect();
    let output = Command::new(program)
        .args(exec.args.iter().flatten())
        .env_clear()
        .envs(&options.environment)
        .envs(own)
        .env("KUBERNETES_EXEC_INFO", told)
        .stdin(if interactive { Stdio::inherit() } else { Stdio::null() })
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                let hint = exec.install_hint.as_deref().filter(|hint| !hint.trim().is_empty());
                let hint = hint.unwrap_or("install it, or check that the kubeconfig names it rightly");
                let found = ClusterError::Credentials {
                    message: format!("getting credentials: exec: executable {program} not found"),
                    hints: Vec::new(),
                };
                found.hint(without_controls(hint.trim()))
            }
            _ => problem(exec, &error.to_string()),
        })?;
    if !output.status.success() {
        let how = match output.status.code() {
            Some(code) => format!("exit code {code}"),
            None => output.status.to_string(),
        };
        return Err(ClusterError::Credentials {
            message: format!("getting credentials: exec: executable {program} failed with {how}"),
            hints: vec!["run it by hand to see what it needs, such as a new login".to_owned()],
        });
    }
    let given: ExecCredential = serde_json::from_slice(&output.stdout)
        .map_err(drop)
        .or_else(|()| serde_saphyr::from_slice(&output.stdout).map_err(drop))
        // What was written may hold the token: the parser's words would show it.
        .map_err(|()| problem(exec, "what it wrote is no ExecCredential"))?;
    if given.kind != "ExecCredential" || (!api_version.is_empty() && given.api_version != api_version) {
        let (wanted, got) = (format!("{api_version} ExecCredential"), format!("{} {}", given.api_version, given.kind));
        return Err(problem(exec, &format!("it should give {wanted}, and gave {}", without_controls(&got))));
    }
    given.status.ok_or_else(|| problem(exec, "it gave no status"))
}

fn problem(exec: &ExecConfig, problem: &str) -> ClusterError {
    let program = exec.command.as_deref().unwrap_or_default();
    ClusterError::Credentials {
        message: format!("getting credentials: exec: plugin {program:?}: {problem}"),
        hints: vec!["check the user's `exec` section in the kubeconfig".to_owned()],
    }
}

/// Returns text of another program's without what could steer a terminal.
fn without_controls(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(all(test, unix))]
mod tests {
    use kube::config::{AuthInfo, Cluster, ExecConfig};

    use super::{ConnectOptions, resolve};
    use crate::cluster::error::ClusterError;

    /// A user whose plugin is a shell script.
    fn user(script: &str) -> AuthInfo {
        let exec = ExecConfig {
            api_version: Some("client.authentication.k8s.io/v1".to_owned()),
            command: Some("/bin/sh".to_owned()),
            args: Some(vec!["-c".to_owned(), script.to_owned()]),
            ..ExecConfig::default()
        };
        AuthInfo { exec: Some(exec), ..AuthInfo::default() }
    }

    fn run(user: &mut AuthInfo) -> Result<(), ClusterError> {
        resolve(&ConnectOptions::default(), &Cluster::default(), user)
    }

    #[test]
    fn a_plugin_is_replaced_by_the_token_it_gives() {
        let mut user = user(
            r#"case "$KUBERNETES_EXEC_INFO" in *'"interactive":false'*) ;; *) exit 9;; esac
               echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}'"#,
        );
        run(&mut user).unwrap();
        assert!(user.token.is_some() && user.exec.is_none());
    }

    #[test]
    fn a_token_that_is_there_leaves_the_plugin_idle() {
        let mut user = AuthInfo { token: Some("mine".to_owned().into()), ..user("exit 1") };
        run(&mut user).unwrap();
        assert!(user.exec.is_none());
    }

    #[test]
    fn each_way_to_fail_says_what_happened() {
        let v1 = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential""#;
        for (script, message) in [
            ("exit 3".to_owned(), "getting credentials: exec: executable /bin/sh failed with exit code 3"),
            (
                "echo secret".to_owned(),
                "getting credentials: exec: plugin \"/bin/sh\": what it wrote is no ExecCredential",
            ),
            (format!("echo '{v1}}}'"), "getting credentials: exec: plugin \"/bin/sh\": it gave no status"),
            (
                format!("echo '{v1},\"status\":{{}}}}'"),
                "getting credentials: exec: plugin \"/bin/sh\": it gave neither a token nor a certificate with its key",
            ),
            (
                format!("echo '{v1},\"status\":{{\"clientKeyData\":\"k\"}}}}'"),
                "getting credentials: exec: plugin \"/bin/sh\": it gave only one of certificate and key",
            ),
            (
                r#"echo '{"apiVersion":"v0","kind":"ExecCredential","status":{"token":"t"}}'"#.to_owned(),
                "getting credentials: exec: plugin \"/bin/sh\": it should give client.authentication.k8s.io/v1 \
                 ExecCredential, and gave v0 ExecCredential",
            ),
        ] {
            assert_eq!(run(&mut user(&script)).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_plugin_that_is_not_installed_says_how_to_install_it() {
        let mut user = user("");
        let exec = user.exec.as_mut().unwrap();
        exec.command = Some("/no/such/plugin".to_owned());
        exec.install_hint = Some("brew install\x1b[31m plugin".to_owned());
        let error = run(&mut user).unwrap_err();
        assert_eq!(error.to_string(), "getting credentials: exec: executable /no/such/plugin not found");
        assert_eq!(error.hints(), ["brew install [31m plugin"]);
    }
}
