//! The workflows: their steps are checked against the files that they name, and a job can be run here.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn workflow(name: &str) -> Value {
    serde_saphyr::from_str(&read(&format!(".github/workflows/{name}.yml"))).unwrap()
}

/// Returns the jobs of all workflows, as `WORKFLOW/JOB`.
fn jobs() -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for name in ["ci", "nightly", "release"] {
        let workflow = workflow(name);
        let jobs = workflow["jobs"].as_object().expect("jobs");
        found.extend(jobs.iter().map(|(job, steps)| (format!("{name}/{job}"), steps.clone())));
    }
    found
}

/// Returns the scripts of a job's steps.
fn scripts(job: &Value) -> Vec<&str> {
    job["steps"].as_array().expect("steps").iter().filter_map(|step| step["run"].as_str()).collect()
}

fn bash(arguments: &[&str], directory: &Path) -> Command {
    let mut command = Command::new("bash");
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    command
}

#[test]
fn bash_reads_every_step() {
    for (name, job) in jobs() {
        for script in scripts(&job) {
            let output = bash(&["-n", "-c", script], Path::new(ROOT)).output().unwrap();
            assert!(output.status.success(), "{name}: {script}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn every_action_is_pinned_to_a_commit_and_every_script_exists() {
    for (name, job) in jobs() {
        for step in job["steps"].as_array().unwrap() {
            let Some((_, version)) = step["uses"].as_str().map(|uses| uses.split_once('@').expect("a version")) else {
                continue;
            };
            assert!(version.len() == 40 && version.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}: {step}");
        }
        let words = scripts(&job).into_iter().flat_map(|script| script.split([' ', '\n', '"']));
        for path in words.filter(|word| word.starts_with(".ci/")) {
            assert!(Path::new(ROOT).join(path).is_file(), "{name}: {path} does not exist");
        }
    }
}

#[test]
fn the_nightly_tests_each_release_that_is_promised() {
    let files = fs::read_dir(Path::new(ROOT).join("tests/controlplane")).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let built: BTreeSet<String> =
        files.filter_map(|name| Some(name.strip_suffix(".mod")?.to_owned())).filter(|name| name != "kwok").collect();
    let nightly = workflow("nightly");
    let of_matrix = |job: &str, key: &str| -> BTreeSet<String> {
        let values = nightly["jobs"][job]["strategy"]["matrix"][key].as_array().unwrap();
        values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(of_matrix("releases", "release"), built);
    let readme = read("README.md");
    assert!(built.iter().all(|release| readme.contains(release)), "README.md names other releases than {built:?}");

    let script = read(".ci/nightly");
    for part in of_matrix("parts", "part").iter().flat_map(|parts| parts.split(' ')) {
        assert!(script.contains(&format!("\n{part}() ")), ".ci/nightly has no part {part:?}");
    }
    let refused = bash(&[".ci/nightly", "unknown"], Path::new(ROOT)).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_tag_must_be_the_version_and_be_in_the_changelog() {
    let release = workflow("release");
    let script = scripts(&release["jobs"]["draft"])[0];
    let (version, directory) = (env!("CARGO_PKG_VERSION"), tempfile::tempdir().unwrap());
    std::fs::copy(Path::new(ROOT).join("Cargo.toml"), directory.path().join("Cargo.toml")).unwrap();
    let is_accepted = |tag: &str, heading: &str| {
        std::fs::write(directory.path().join("CHANGELOG.md"), format!("# Changelog\n\n## {heading}\n")).unwrap();
        let mut command = bash(&["-e", "-c", script], directory.path());
        command.env("GITHUB_REF_NAME", tag).status().unwrap().success()
    };
    assert!(is_accepted(&format!("v{version}"), &format!("{version} (2026-12-01)")));
    assert!(!is_accepted(&format!("v{version}"), &format!("Unreleased: {version}")));
    assert!(!is_accepted("v99.0.0", "99.0.0"));
    assert!(!is_accepted("nonsense", version));
    let tag = concat!(" --tag v", env!("CARGO_PKG_VERSION"), "\n");
    assert!(read("README.md").contains(tag), "README.md installs another version than{tag}");
}

/// Runs the steps of the job that `KUBECTL_DS_JOB` names, such as `ci/promises`, in a clone of what is committed.
#[test]
#[ignore = "a tool: KUBECTL_DS_JOB=ci/promises cargo test --test main a_job_runs_here -- --ignored --nocapture"]
fn a_job_runs_here() {
    let wanted = std::env::var("KUBECTL_DS_JOB").expect("KUBECTL_DS_JOB names a job");
    let (_, job) = jobs().into_iter().find(|(name, _)| *name == wanted).expect("a job of a workflow");
    let directory = tempfile::tempdir().unwrap();
    let clone = directory.path().join("kubectl-ds");
    let status = Command::new("git").args(["clone", "--quiet", ROOT]).arg(&clone).status().unwrap();
    assert!(status.success(), "git clone {ROOT}");
    for script in scripts(&job) {
        assert!(!script.contains("${{"), "depends on the matrix: {script}");
        let mut command = bash(&["-e", "-o", "pipefail", "-c", script], &clone);
        command
            .env("RUNNER_TEMP", directory.path())
            .env("RUSTUP_TOOLCHAIN", workflow("ci")["env"]["RUSTUP_TOOLCHAIN"].as_str().unwrap());
        assert!(command.status().unwrap().success(), "{wanted}: {script}");
    }
}
