//! Reads from kubectl's preferences which credential plugins may run.
//!
//! Ported from k8s.io/kubectl/pkg/kuberc/{kuberc,marshal}.go and from `ValidatePluginPolicy` and
//! `checkAllowlistLocked`, k8s.io/client-go/plugin/pkg/client/auth/exec/exec.go, release 1.37. kube has no such policy.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::error::ConnectionError;
use super::look_path::look_path;
use super::options::{ConnectOptions, given};
use super::small_file;
use crate::encode::documents::{Document, documents};

/// Which credential plugins may run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum PluginPolicy {
    #[default]
    AllowAll,
    DenyAll,
    Allowlist(Vec<String>),
}

/// The required kind of a document in the file.
const KIND: &str = "Preference";

/// The version that supports the policy.
const VERSION: &str = "kubectl.config.k8s.io/v1beta1";

/// The previous version, in which a policy is ignored.
const OLD_VERSION: &str = "kubectl.config.k8s.io/v1alpha1";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preferences {
    api_version: String,
    kind: String,
    credential_plugin_policy: Option<String>,
    credential_plugin_allowlist: Option<Vec<Entry>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Entry {
    /// The deprecated name of `command`.
    name: Option<String>,
    command: Option<String>,
}

impl PluginPolicy {
    /// Reads the policy from the preferences file that kubectl would use. Fails if the file cannot be read or has a contradictory
    /// policy.
    pub(super) fn read(options: &ConnectOptions) -> Result<Self, ConnectionError> {
        let disabled = options
            .variable("KUBECTL_KUBERC")
            .is_some_and(|value| matches!(value, "0" | "f" | "F" | "false" | "FALSE" | "False"));
        if disabled {
            return Ok(PluginPolicy::AllowAll);
        }
        let flag = given(&options.kuberc);
        let (path, explicit) = match (flag, options.variable("KUBERC")) {
            (None, Some("off")) => return Ok(PluginPolicy::AllowAll),
            (Some(_), Some("off")) => {
                return Err(ConnectionError::config("KUBERC=off and --kuberc are mutually exclusive")
                    .hint("unset KUBERC, or leave out --kuberc"));
            }
            (Some(path), _) | (None, Some(path)) => (PathBuf::from(path), true),
            (None, None) => match options.home_directory() {
                Some(home) => (home.join(".kube").join("kuberc"), false),
                None => return Ok(PluginPolicy::AllowAll),
            },
        };
        let bad = |problem: &str| {
            ConnectionError::config(format!("kuberc {:?}: {problem}", path.display().to_string()))
                .hint("correct the file, or set KUBERC=off to ignore it")
        };
        let text = match small_file::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound && !explicit => return Ok(PluginPolicy::AllowAll),
            Err(error) => return Err(bad(&error.to_string())),
        };
        Self::parse(&String::from_utf8_lossy(&text)).map_err(|problem| bad(&problem))
    }

    /// Returns the policy of the first document that can be read, so that one file can serve several releases: `decodePreference`.
    fn parse(text: &str) -> Result<Self, String> {
        let documents = documents(text);
        if documents.is_empty() {
            return Ok(PluginPolicy::AllowAll);
        }
        let read = |document: &Document<'_>| serde_saphyr::from_str::<Preferences>(document.text).ok();
        let is_preference =
            |read: &Preferences| read.kind == KIND && [VERSION, OLD_VERSION].contains(&read.api_version.as_str());
        let preferences = documents.iter().filter_map(read).find(is_preference);
        match preferences.ok_or("no valid preferences found")? {
            preferences if preferences.api_version == OLD_VERSION => Ok(PluginPolicy::AllowAll),
            preferences => Self::of(preferences),
        }
    }

    fn of(preferences: Preferences) -> Result<Self, String> {
        let Preferences { credential_plugin_policy: policy, credential_plugin_allowlist: entries, .. } = preferences;
        match (policy.as_deref().unwrap_or_default(), entries) {
            ("" | "AllowAll", None) => Ok(PluginPolicy::AllowAll),
            ("DenyAll", None) => Ok(PluginPolicy::DenyAll),
            ("Allowlist", Some(entries)) if !entries.is_empty() => {
                Ok(PluginPolicy::Allowlist(entries.into_iter().map(Entry::command).collect::<Result<_, _>>()?))
            }
            ("Allowlist", _) => Err("credentialPluginPolicy is \"Allowlist\", and the allowlist is empty".to_owned()),
            (policy @ ("" | "AllowAll" | "DenyAll"), Some(_)) => {
                Err(format!("credentialPluginPolicy is {policy:?}, and there is an allowlist"))
            }
            (policy, _) => Err(format!("unknown credentialPluginPolicy {policy:?}")),
        }
    }

    /// Checks that a plugin may run: `command` is its name in the kubeconfig, `path` the program that was found.
    pub(super) fn check(&self, command: &str, path: &Path, options: &ConnectOptions) -> Result<(), ConnectionError> {
        let refuse = |why: &str| {
            Err(ConnectionError::credentials(format!("getting credentials: plugin {command:?} not allowed: {why}"))
                .hint("the policy is set by credentialPluginPolicy in kubectl's kuberc file"))
        };
        match self {
            PluginPolicy::AllowAll => Ok(()),
            PluginPolicy::DenyAll => refuse("policy set to \"DenyAll\""),
            PluginPolicy::Allowlist(entries) => {
                let allowed = entries.iter().any(|entry| {
                    entry == command
                        || Path::new(entry) == path
                        || (Path::new(entry).file_name() == path.file_name()
                            && look_path(entry, options).is_ok_and(|found| found == path))
                });
                if allowed { Ok(()) } else { refuse("it is not in the allowlist") }
            }
        }
    }
}

impl Entry {
    fn command(self) -> Result<String, String> {
        match (self.name.filter(|name| !name.is_empty()), self.command.filter(|command| !command.is_empty())) {
            (Some(name), Some(command)) if name != command => {
                Err(format!("an allowlist entry has both name {name:?} and command {command:?}"))
            }
            (None, None) => Err("an allowlist entry is empty".to_owned()),
            (name, command) => {
                let command = command.or(name).unwrap_or_default();
                let normalized: PathBuf = Path::new(&command).components().collect();
                if normalized.as_os_str() == command.as_str() && !command.starts_with("./") {
                    Ok(command)
                } else {
                    Err(format!("the path {command:?} of the allowlist is not normalized"))
                }
            }
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::path::Path;

    use super::{ConnectOptions, PluginPolicy};

    fn policy(text: &str) -> Result<PluginPolicy, String> {
        PluginPolicy::parse(&text.replacen('{', "{apiVersion: kubectl.config.k8s.io/v1beta1, kind: Preference, ", 1))
    }

    #[test]
    fn of_several_documents_the_first_that_can_be_read_counts() {
        const OLD: &str =
            "{apiVersion: kubectl.config.k8s.io/v1alpha1, kind: Preference, credentialPluginPolicy: DenyAll}";
        const DENY: &str =
            "{apiVersion: kubectl.config.k8s.io/v1beta1, kind: Preference, credentialPluginPolicy: DenyAll}";
        const FUTURE: &str = "{apiVersion: kubectl.config.k8s.io/v9, kind: Preference, credentialPluginPolicy: [1]}";
        const OTHER: &str = "{apiVersion: v1, kind: Config}";
        const INVALID: &str = "{apiVersion: kubectl.config.k8s.io/v1beta1, kind: Preference, credentialPluginPolicy: [";
        let none = || Err("no valid preferences found".to_owned());
        for (documents, expected) in [
            (&[][..], Ok(PluginPolicy::AllowAll)),
            (&["# nothing", ""], Ok(PluginPolicy::AllowAll)),
            (&[DENY], Ok(PluginPolicy::DenyAll)),
            (&[OLD], Ok(PluginPolicy::AllowAll)),
            (&[DENY, OLD], Ok(PluginPolicy::DenyAll)),
            (&[OLD, DENY], Ok(PluginPolicy::AllowAll)),
            (&[FUTURE, DENY], Ok(PluginPolicy::DenyAll)),
            (&[OTHER, "", DENY], Ok(PluginPolicy::DenyAll)),
            (&[INVALID, DENY], Ok(PluginPolicy::DenyAll)),
            (&[OTHER], none()),
            (&[FUTURE, INVALID], none()),
            (&["kind: Preference"], none()),
        ] {
            assert_eq!(PluginPolicy::parse(&documents.join("\n---\n")), expected, "{documents:?}");
        }
    }

    #[test]
    fn policies_are_read_as_kubectl_reads_them() {
        let allowlist = |entry: &str| Ok(PluginPolicy::Allowlist(vec![entry.to_owned()]));
        for (text, expected) in [
            ("{defaults: []}", Ok(PluginPolicy::AllowAll)),
            ("{credentialPluginPolicy: DenyAll}", Ok(PluginPolicy::DenyAll)),
            ("{credentialPluginPolicy: Allowlist, credentialPluginAllowlist: [{name: aws}]}", allowlist("aws")),
            (
                "{credentialPluginPolicy: Allowlist, credentialPluginAllowlist: [{command: /bin/sh}]}",
                allowlist("/bin/sh"),
            ),
            (
                "{credentialPluginPolicy: Allowlist}",
                Err("credentialPluginPolicy is \"Allowlist\", and the allowlist is empty".to_owned()),
            ),
            (
                "{credentialPluginAllowlist: [{name: aws}]}",
                Err("credentialPluginPolicy is \"\", and there is an allowlist".to_owned()),
            ),
            ("{credentialPluginPolicy: Maybe}", Err("unknown credentialPluginPolicy \"Maybe\"".to_owned())),
            (
                "{credentialPluginPolicy: Allowlist, credentialPluginAllowlist: [{command: /bin//sh}]}",
                Err("the path \"/bin//sh\" of the allowlist is not normalized".to_owned()),
            ),
        ] {
            assert_eq!(policy(text), expected, "{text}");
        }
    }

    #[test]
    fn a_plugin_must_be_in_the_allowlist_by_name_or_path() {
        let environment = [("PATH".to_owned(), "/bin".to_owned())].into();
        let options = ConnectOptions { environment, ..ConnectOptions::default() };
        for (entry, command, allowed) in
            [("sh", "sh", true), ("/bin/sh", "sh", true), ("sh", "/bin/sh", true), ("cat", "sh", false)]
        {
            let policy = PluginPolicy::Allowlist(vec![entry.to_owned()]);
            assert_eq!(policy.check(command, Path::new("/bin/sh"), &options).is_ok(), allowed, "{entry} {command}");
        }
        assert!(PluginPolicy::DenyAll.check("sh", Path::new("/bin/sh"), &options).is_err());
    }
}
