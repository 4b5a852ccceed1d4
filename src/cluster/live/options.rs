//! What the flags and the environment say about the connection.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cluster::error::ClusterError;

/// Flags about the connection, named as kubectl's are, and the surroundings.
#[derive(Debug, Clone, Default)]
pub struct ConnectOptions {
    /// `--kubeconfig`: the one file to read, instead of those of `KUBECONFIG`.
    pub kubeconfig: Option<String>,
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
    /// `--as`: the user to act as.
    pub as_: Option<String>,
    /// `--as-group`: the groups to act as.
    pub as_group: Vec<String>,
    /// `--as-uid`: the uid to act as.
    pub as_uid: Option<String>,
    /// `--certificate-authority`: a file of certificates to trust.
    pub certificate_authority: Option<String>,
    /// `--insecure-skip-tls-verify`: whether any server is trusted.
    pub insecure_skip_tls_verify: bool,
    /// `--tls-server-name`: the name that the server's certificate must have.
    pub tls_server_name: Option<String>,
    /// `--request-timeout`, as it was written; see [`parse_timeout`].
    pub request_timeout: Option<String>,
    /// The environment variables.
    pub environment: BTreeMap<String, String>,
    /// Whether standard input is a terminal that a credential plugin may ask questions on.
    pub input_is_terminal: bool,
}

impl ConnectOptions {
    /// Returns an environment variable; one that is empty counts as unset.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// Reads `--request-timeout` as kubectl does: whole seconds, or a number with its unit such as
/// `1.5s`, `2m` or `1h30m`. Zero means no limit and gives nothing.
///
/// Ported from `ParseTimeout`, k8s.io/client-go/tools/clientcmd/helpers.go, release 1.36; a negative
/// time is an error here.
///
/// # Errors
///
/// Fails where the text is no time.
pub fn parse_timeout(text: &str) -> Result<Option<Duration>, ClusterError> {
    let duration = match text.parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => parse_go_duration(text),
    };
    match duration {
        Some(duration) => Ok(Some(duration).filter(|duration| !duration.is_zero())),
        None => Err(ClusterError::config(format!("--request-timeout {text:?} is no time"))
            .hint("give whole seconds, or a number with its unit: 1s, 2m, 3h; 0 means no limit")),
    }
}

/// Reads `time.ParseDuration`'s format: decimal numbers, each with a unit.
fn parse_go_duration(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let part = number.parse::<f64>().ok()? * seconds;
        total = total.checked_add(Duration::try_from_secs_f64(part).ok()?)?;
        if after.is_empty() {
            return Some(total);
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::parse_timeout;

    #[test]
    fn timeouts_are_read_as_kubectl_reads_them() {
        for (text, milliseconds) in [
            ("30", 30_000),
            ("30s", 30_000),
            ("1m", 60_000),
            ("1.5s", 1_500),
            ("250ms", 250),
            ("1h30m", 5_400_000),
            ("0", 0),
            ("0s", 0),
        ] {
            let expected = Some(Duration::from_millis(milliseconds)).filter(|duration| !duration.is_zero());
            assert_eq!(parse_timeout(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn text_that_is_no_time_says_what_would_be() {
        for text in ["", "soon", "5 s", "-5", "-5s", "5d", "s", "1e400s", "99999999999999999999h"] {
            let error = parse_timeout(text).unwrap_err();
            assert_eq!(error.to_string(), format!("--request-timeout {text:?} is no time"));
            assert_eq!(error.hints().len(), 1);
        }
    }
}
