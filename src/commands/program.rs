//! The name by which the program was called, for help and suggested commands: krew installs a plugin under its name in
//! krew's index, and users may rename the file.

use std::ffi::OsString;
use std::path::Path;

use crate::report::fix::PROGRAM;

/// Returns the command that runs the program, such as `kubectl ds`, from the first word of a command line. kubectl runs
/// `kubectl-a_b-c` for `kubectl a-b c`.
pub(super) fn called(arguments: &[OsString]) -> &'static str {
    let file = arguments.first().and_then(|path| Path::new(path).file_name()?.to_str()).unwrap_or_default();
    let name = file.strip_suffix(".exe").unwrap_or(file).strip_prefix("kubectl-").unwrap_or_default();
    // Any other name is not a kubectl plugin, or would have to be quoted.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if name == "ds" || !begins || !name.chars().all(is_plain) {
        return PROGRAM;
    }
    format!("kubectl {}", name.replace('-', " ").replace('_', "-")).leak()
}

/// Returns the file name of the program that kubectl runs for this command.
pub(super) fn file(program: &str) -> String {
    program.replace('-', "_").replace(' ', "-")
}

/// Returns the file name of the program that kubectl runs to complete this command.
pub(super) fn completer(program: &str) -> String {
    file(program).replacen('-', "_complete-", 1)
}

#[cfg(test)]
mod tests {
    use super::{called, completer, file};

    #[test]
    fn the_words_are_those_that_kubectl_reads_in_the_file_name() {
        for (path, words, completing) in [
            ("/usr/bin/kubectl-ds", "kubectl ds", "kubectl_complete-ds"),
            ("kubectl-ds.exe", "kubectl ds", "kubectl_complete-ds"),
            ("bin/kubectl-daemonset_doctor", "kubectl daemonset-doctor", "kubectl_complete-daemonset_doctor"),
            ("kubectl-team-ds", "kubectl team ds", "kubectl_complete-team-ds"),
            ("kds", "kubectl ds", "kubectl_complete-ds"),
            ("kubectl-", "kubectl ds", "kubectl_complete-ds"),
            ("kubectl-x;reboot", "kubectl ds", "kubectl_complete-ds"),
            ("kubectl--rf", "kubectl ds", "kubectl_complete-ds"),
        ] {
            let program = called(&[path.into()]);
            assert_eq!((program, completer(program).as_str()), (words, completing), "{path}");
            assert!(path.contains(&file(program)) || program == "kubectl ds", "{path}");
        }
        assert_eq!(called(&[]), "kubectl ds");
    }
}
