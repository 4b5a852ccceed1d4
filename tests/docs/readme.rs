//! The output shown in the README and the documents is what the program prints.

use std::process::Command;

use serde_json::Value;

use super::read;
use crate::screens::files;

/// Returns what a command prints on a screen of 100 columns.
pub(super) fn printed(command: &str) -> String {
    let arguments = command.strip_prefix("kubectl ds ").expect("the command is `kubectl ds`");
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"))
        .args(shlex::split(arguments).unwrap())
        .env_clear()
        .envs([("COLUMNS", "100"), ("LANG", "C.UTF-8")])
        .output()
        .unwrap();
    // 3 is the answer of `status` on a rollout that is not complete.
    let is_answered = matches!(output.status.code(), Some(0 | 3));
    let shown = if is_answered { output.stdout } else { output.stderr };
    assert!(is_answered || shown.starts_with(b"{\"apiVersion\""), "{command}");
    String::from_utf8(shown).unwrap()
}

/// Checks, or brings up to date, the output in a document with at least so many commands.
fn check(name: &str, at_least: usize) {
    let path = format!("{}/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let mut fresh = String::new();
    let mut shown = 0;
    for (index, part) in text.split("```console\n").enumerate() {
        if index == 0 {
            fresh.push_str(part);
            continue;
        }
        let (block, rest) = part.split_once("```\n").expect("each block ends");
        let command = block.lines().next().and_then(|line| line.strip_prefix("$ ")).expect("a command comes first");
        fresh.push_str(&format!("```console\n$ {command}\n{}```\n{rest}", printed(command)));
        shown += 1;
    }
    assert!(shown >= at_least, "{name} shows too little output");
    if std::env::var_os("KUBECTL_DS_UPDATE").is_some() {
        std::fs::write(path, fresh).unwrap();
    } else {
        assert!(fresh == text, "{name} is stale: run `KUBECTL_DS_UPDATE=1 cargo test docs`, and look at what changed");
    }
}

#[test]
fn its_output_is_real() {
    check("README.md", 3);
}

#[test]
fn the_output_of_the_tour_is_real() {
    check("docs/tour.md", 4);
    check("docs/common-causes.md", 1);
}

#[test]
fn no_page_is_longer_than_two_screens() {
    let pages = std::fs::read_dir(format!("{}/docs", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut seen = 0;
    for path in pages.map(|page| page.unwrap().path()).filter(|path| path.extension().is_some_and(|it| it == "md")) {
        let name = path.file_name().unwrap().to_str().unwrap();
        // Reference pages that are generated.
        if !["reference.md", "reason-codes.md"].contains(&name) {
            let lines = std::fs::read_to_string(&path).unwrap().lines().count();
            assert!(lines <= 120, "{name} has {lines} lines");
            seen += 1;
        }
    }
    assert!(seen > 25, "{seen} pages");
}

#[test]
fn what_the_readme_links_to_is_there() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("README.md")).unwrap();
    let links = text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
    let pictures = text.split('"').filter(|word| word.starts_with("docs/"));
    let mut seen = 0;
    for link in links.chain(pictures).filter(|link| !link.starts_with("https://")) {
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let there = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{link}: {error}"));
        let is_heading = |line: &str| {
            line.starts_with('#') && line.to_lowercase().replace(' ', "-").trim_matches(['#', '-', '?']) == heading
        };
        assert!(heading.is_empty() || there.lines().any(is_heading), "{link}: no such heading");
        seen += 1;
    }
    assert!(seen > 15, "{seen} links");
}

#[test]
fn the_tests_that_hold_the_promises_of_security_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = ["src", "tests"].map(|folder| files(&root.join(folder), "rs")).concat();
    let code: String = sources.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let text = std::fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let promises = text.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | `"));
    let mut seen = 0;
    for (promise, tests) in promises {
        for test in tests.trim_end_matches("` |").split("`, `") {
            assert!(code.contains(&format!("fn {test}(")), "{promise}: there is no test {test}");
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen} tests");
}

#[test]
fn the_session_for_agents_is_real() {
    check("docs/agents.md", 4);
}

/// Looks a path such as `daemonSets[].problems[].code` up in a report.
fn is_there(report: &Value, path: &str) -> bool {
    let (field, rest) = path.split_once('.').unwrap_or((path, ""));
    let value = &report[field.trim_end_matches("[]")];
    let is_there = |value: &Value| !value.is_null() && (rest.is_empty() || is_there(value, rest));
    match value.as_array() {
        Some(values) => field.ends_with("[]") && values.iter().any(is_there),
        None => !field.ends_with("[]") && is_there(value),
    }
}

#[test]
fn the_answers_for_agents_are_where_the_table_says() {
    let text = read("agents.md");
    let mut checked = 0;
    for row in text.lines().filter(|line| line.contains(" -o json` | ")) {
        let mut code = row.split('`').skip(1).step_by(2);
        let command = code.next().unwrap().replace("-n NAMESPACE", "-n logging").replace("NAME", "fluent-bit");
        let report = serde_json::from_str(&printed(&format!("{} --from demo", command.replace("NODE", "general-c2"))));
        let report: Value = report.unwrap();
        for path in code {
            assert!(is_there(&report, path), "{command}: {path}");
            checked += 1;
        }
    }
    assert!(checked > 20, "only {checked} paths");
}

#[test]
fn the_output_about_alerts_is_real() {
    check("docs/alerts.md", 3);
}

#[test]
fn the_output_about_revisions_changes_and_upgrades_is_real() {
    for page in [
        "docs/rollout.md",
        "docs/history.md",
        "docs/changes.md",
        "docs/pipelines-upgrades.md",
        "docs/staged-rollouts.md",
    ] {
        check(page, 1);
    }
}
