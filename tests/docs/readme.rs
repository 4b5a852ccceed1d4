//! What the README and the documents show is what the program prints.

use std::process::Command;

/// Returns what a command prints on a screen of 100 columns.
pub(super) fn printed(command: &str) -> String {
    let arguments = command.strip_prefix("kubectl ds ").expect("the command is `kubectl ds`");
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl-ds"))
        .args(arguments.split(' '))
        .env_clear()
        .envs([("COLUMNS", "100"), ("LANG", "C.UTF-8")])
        .output()
        .unwrap();
    // 3 is the answer of `status` on a rollout that is not complete.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{command}");
    String::from_utf8(output.stdout).unwrap()
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
    check("docs/tour.md", 7);
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
fn the_output_about_alerts_is_real() {
    check("docs/alerts.md", 3);
}
