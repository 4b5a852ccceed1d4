//! Runs credential plugins.
//!
//! Ported from k8s.io/client-go/plugin/pkg/client/auth/exec/exec.go, release 1.37. kube runs a plugin once for each place that may
//! need its output, blocks the runtime meanwhile, looks it up in the plugin's own `PATH`, and has no plugin policy.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use jiff::{Timestamp, civil};
use kube::config::{ExecAuthCluster, ExecConfig, ExecInteractiveMode};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::timeout;

use super::error::ConnectionError;
use super::kuberc::PluginPolicy;
use super::look_path::look_path;
use super::options::ConnectOptions;
#[cfg(unix)]
use super::process_group::ProcessGroup;
use crate::encode::sanitize::sanitize;

/// How long a plugin may take, unless `--request-timeout` is given. client-go waits forever.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// The most bytes that a plugin may write: certificates and tokens have a few thousand.
const LONGEST_OUTPUT: u64 = 1 << 20;

/// A credential plugin, ready to run any number of times.
#[derive(Debug)]
pub(super) struct Plugin {
    /// The program as named in the kubeconfig.
    command: String,
    path: PathBuf,
    args: Vec<String>,
    environment: BTreeMap<String, String>,
    api_version: String,
    interactive: bool,
    /// Its timeout; `None` if there is none.
    time_limit: Option<Duration>,
}

/// The output of a plugin.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Output {
    #[serde(deserialize_with = "expiry")]
    pub expiration_timestamp: Option<Timestamp>,
    pub token: Option<String>,
    pub client_certificate_data: Option<String>,
    pub client_key_data: Option<String>,
}

/// Reads an expiration time: plugins that mean "never" write the last hours of the year 9999, which Go supports but `Timestamp`
/// does not.
fn expiry<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let is_time = |local: &str| local.parse::<civil::DateTime>().is_ok();
    match text.parse() {
        Err(_) if text.starts_with("9999-12-3") && text.get(..19).is_some_and(is_time) => Ok(Some(Timestamp::MAX)),
        read => read.map(Some).map_err(D::Error::custom),
    }
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
    cluster: Option<&'a ExecAuthCluster>,
    interactive: bool,
}

/// The object that a plugin writes.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ExecCredential {
    api_version: String,
    kind: String,
    status: Option<Output>,
}

impl Plugin {
    /// Prepares a plugin whose `exec` section was checked. Fails if the program is not found, is not allowed by
    /// `policy`, or needs a terminal but there is none.
    pub(super) fn new(
        options: &ConnectOptions,
        exec: &ExecConfig,
        policy: &PluginPolicy,
    ) -> Result<Self, ConnectionError> {
        let command = exec.command.as_deref().unwrap_or_default();
        let interactive = match exec.interactive_mode {
            Some(ExecInteractiveMode::Never) => false,
            Some(ExecInteractiveMode::Always) if !options.input_is_terminal => {
                return Err(problem(command, "it requires a terminal, and standard input is not one"));
            }
            _ => options.input_is_terminal,
        };
        let path = look_path(command, options).map_err(|error| {
            let hint = sanitize(exec.install_hint.as_deref().unwrap_or_default().trim());
            let message = format!("getting credentials: exec: executable {command} not found: {error}");
            ConnectionError::credentials(message).hint(match hint.is_empty() {
                true => "install it, or correct its name in the kubeconfig".to_owned(),
                false => hint,
            })
        })?;
        policy.check(command, &path, options)?;
        let api_version = exec.api_version.clone().unwrap_or_default();
        let spec = Spec { cluster: exec.cluster.as_ref(), interactive };
        let input = Input { kind: "ExecCredential", api_version: &api_version, spec };
        let input = serde_json::to_string(&input).map_err(|error| problem(command, &error.to_string()))?;
        let mut environment = options.environment.clone();
        for variable in exec.env.iter().flatten() {
            if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
                environment.insert(name.clone(), value.clone());
            }
        }
        environment.insert("KUBERNETES_EXEC_INFO".to_owned(), input);
        let args = exec.args.clone().unwrap_or_default();
        let time_limit =
            Some(options.request_timeout.unwrap_or(DEFAULT_TIMEOUT)).filter(|time_limit| !time_limit.is_zero());
        Ok(Plugin { command: command.to_owned(), path, args, environment, api_version, interactive, time_limit })
    }

    /// Runs the plugin. It is killed if the future is dropped. Fails if the plugin cannot be run, fails, takes too long, or writes
    /// no credentials.
    pub(super) async fn run(&self) -> Result<Output, ConnectionError> {
        let ended = match self.time_limit {
            Some(time_limit) => timeout(time_limit, self.output()).await.map_err(|_| {
                let flag = if time_limit == DEFAULT_TIMEOUT { "" } else { " (--request-timeout)" };
                self.problem(&format!(
                    "it has not ended and closed its output within {} s{flag}",
                    time_limit.as_secs_f64()
                ))
            })?,
            None => self.output().await,
        };
        let (status, output) = ended.map_err(|error| self.problem(&error.to_string()))?;
        if !status.success() {
            let how = if let Some(code) = status.code() { format!("exit code {code}") } else { status.to_string() };
            let message = format!("getting credentials: exec: executable {} failed with {how}", self.command);
            return Err(
                ConnectionError::credentials(message).hint("run it by hand to see what it needs, such as a new login")
            );
        }
        self.read(&output).map_err(|message| problem(&self.command, &message))
    }

    /// Returns how the plugin ended, and what it wrote.
    async fn output(&self) -> std::io::Result<(ExitStatus, Vec<u8>)> {
        let mut command = Command::new(&self.path);
        command.args(&self.args).env_clear().envs(&self.environment).kill_on_drop(true);
        command.stdin(if self.interactive { Stdio::inherit() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::inherit());
        #[cfg(unix)]
        if !self.interactive {
            command.process_group(0);
        }
        let mut child = command.spawn()?;
        // A plugin that prompts stays in the terminal's process group.
        #[cfg(unix)]
        let mut group = if self.interactive { None } else { ProcessGroup::of(&child) };
        let mut output = Vec::new();
        if let Some(written) = child.stdout.take() {
            written.take(LONGEST_OUTPUT + 1).read_to_end(&mut output).await?;
        }
        if output.len() as u64 > LONGEST_OUTPUT {
            return Err(std::io::Error::other(format!("it has written more than {LONGEST_OUTPUT} bytes")));
        }
        let status = child.wait().await?;
        #[cfg(unix)]
        if let Some(group) = &mut group {
            group.has_ended = true;
        }
        Ok((status, output))
    }

    fn read(&self, output: &[u8]) -> Result<Output, String> {
        let credential: ExecCredential = serde_json::from_slice(output)
            .map_err(drop)
            .or_else(|()| serde_saphyr::from_slice(output).map_err(drop))
            // The parser's message would repeat the output, which may contain a token.
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

    /// Returns the error for unusable output.
    pub(super) fn problem(&self, problem: &str) -> ConnectionError {
        self::problem(&self.command, problem)
    }
}

fn problem(command: &str, problem: &str) -> ConnectionError {
    ConnectionError::credentials(format!("getting credentials: exec: plugin {command:?}: {problem}"))
        .hint("check the user's `exec` section in the kubeconfig")
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::{
        ConnectOptions, ConnectionError, ExecAuthCluster, ExecConfig, ExecInteractiveMode, Output, Plugin, PluginPolicy,
    };

    const V1: &str = "client.authentication.k8s.io/v1";

    fn exec(script: &str) -> ExecConfig {
        ExecConfig {
            api_version: Some(V1.to_owned()),
            command: Some("/bin/sh".to_owned()),
            args: Some(vec!["-c".to_owned(), script.to_owned()]),
            interactive_mode: Some(ExecInteractiveMode::Never),
            ..ExecConfig::default()
        }
    }

    fn run(exec: &ExecConfig) -> Result<Output, ConnectionError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { Plugin::new(&ConnectOptions::default(), exec, &PluginPolicy::default())?.run().await })
    }

    #[test]
    fn the_input_is_what_client_go_passes() {
        let input = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"cluster":{"server":"https://one"},"interactive":false}}"#;
        let script = format!(
            "[ \"$KUBERNETES_EXEC_INFO\" = '{input}' ] || exit 9\n\
             echo \"{{apiVersion: {V1}, status: {{token: t, expirationTimestamp: '2026-11-21T12:00:00Z'}}}}\""
        );
        let cluster = ExecAuthCluster { server: Some("https://one".to_owned()), ..ExecAuthCluster::default() };
        let output = run(&ExecConfig { cluster: Some(cluster), ..exec(&script) }).unwrap();
        assert_eq!(output.token.as_deref(), Some("t"));
        assert_eq!(output.expiration_timestamp, Some("2026-11-21T12:00:00Z".parse().unwrap()));
    }

    #[test]
    fn a_credential_may_never_expire() {
        for (time, expected) in [
            ("'9999-12-31T23:59:59Z'", Some(jiff::Timestamp::MAX)),
            ("'9999-12-30T23:59:59Z'", Some(jiff::Timestamp::MAX)),
            ("null", None),
        ] {
            let script = format!("echo \"{{apiVersion: {V1}, status: {{token: t, expirationTimestamp: {time}}}}}\"");
            assert_eq!(run(&exec(&script)).unwrap().expiration_timestamp, expected, "{time}");
        }
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
    fn a_plugin_that_hangs_or_floods_is_ended() {
        for (script, time_limit, message) in [
            ("sleep 600", 300, "it has not ended and closed its output within 0.3 s (--request-timeout)"),
            ("exec sleep 600", 300, "it has not ended and closed its output within 0.3 s (--request-timeout)"),
            ("sleep 600 & wait", 300, "it has not ended and closed its output within 0.3 s (--request-timeout)"),
            ("exec 1>&-; sleep 600", 300, "it has not ended and closed its output within 0.3 s (--request-timeout)"),
            ("echo '{'; sleep 600", 300, "it has not ended and closed its output within 0.3 s (--request-timeout)"),
            ("cat /dev/zero", 60_000, "it has written more than 1048576 bytes"),
            ("yes", 60_000, "it has written more than 1048576 bytes"),
            ("yes; echo '{}'", 0, "it has written more than 1048576 bytes"),
        ] {
            let options = ConnectOptions {
                request_timeout: Some(std::time::Duration::from_millis(time_limit)),
                environment: [("PATH".to_owned(), "/bin:/usr/bin".to_owned())].into(),
                ..ConnectOptions::default()
            };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let error = runtime.block_on(async {
                Plugin::new(&options, &exec(script), &PluginPolicy::default())?.run().await.map(|_| ())
            });
            let error = error.unwrap_err().to_string();
            assert_eq!(error, format!("getting credentials: exec: plugin \"/bin/sh\": {message}"), "{script}");
        }
    }

    #[test]
    fn a_plugin_that_is_not_installed_says_how_to_install_it() {
        let exec = ExecConfig {
            command: Some("/no/such/plugin".to_owned()),
            install_hint: Some("brew install\x1b[31m plugin".to_owned()),
            ..exec("")
        };
        let error = run(&exec).unwrap_err();
        assert_eq!(
            error.to_string(),
            "getting credentials: exec: executable /no/such/plugin not found: executable file not found in PATH"
        );
        assert!(!error.hints()[0].advice.contains('\x1b'), "{:?}", error.hints());
    }
}
