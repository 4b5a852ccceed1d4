//! docs/man: a manual page for each command, from the same definitions as `--help` and docs/reference.md.

use std::collections::BTreeMap;
use std::process::Command as Process;

use clap::{Arg, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::reference::{subcommands, usage};
use super::{must_be, path};
use crate::support::has_program;

#[test]
fn the_manual_pages_are_fresh() {
    std::fs::create_dir_all(path("man")).unwrap();
    let pages = pages();
    for (name, text) in &pages {
        must_be(&format!("man/{name}"), text);
    }
    let there = std::fs::read_dir(path("man")).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let others: Vec<String> = there.filter(|name| !pages.contains_key(name)).collect();
    assert!(others.is_empty(), "pages of no command: {others:?}");
}

#[test]
fn groff_reads_the_manual_pages_without_a_warning() {
    if !has_program("groff") {
        return;
    }
    for name in pages().keys() {
        let groff =
            Process::new("groff").args(["-man", "-ww", "-Tutf8", "-P-cbou"]).arg(path(&format!("man/{name}"))).output();
        let groff = groff.unwrap();
        let warnings = String::from_utf8_lossy(&groff.stderr);
        assert!(groff.status.success() && warnings.is_empty(), "{warnings}");
        let text = String::from_utf8(groff.stdout).unwrap();
        for heading in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "SEE ALSO"] {
            assert!(text.lines().any(|line| line == heading), "{name} has no {heading}:\n{text}");
        }
    }
}

/// Returns the pages by file name: `kubectl-ds.1`, and one for each subcommand.
fn pages() -> BTreeMap<String, String> {
    let mut root = kubectl_ds::commands::command();
    root.build();
    let documented: Vec<(String, &Command)> =
        subcommands(&root).map(|subcommand| (format!("kubectl-ds-{}", subcommand.get_name()), subcommand)).collect();
    let titles: Vec<&str> = documented.iter().map(|(title, _)| title.as_str()).collect();
    let mut pages = BTreeMap::from([page("kubectl-ds", root.clone(), &titles)]);
    pages.extend(documented.iter().map(|(title, subcommand)| {
        let own = |flag: Arg| if flag.is_global_set() { flag.hide(true) } else { flag };
        page(title, (*subcommand).clone().mut_args(own), &["kubectl-ds"])
    }));
    pages
}

/// Returns the name and the text of a page.
fn page(title: &str, command: Command, see_also: &[&str]) -> (String, String) {
    let usage = usage(&command);
    let examples = command.get_before_help().map(ToString::to_string).expect("every command has examples");
    let described = command.override_usage(usage).mut_arg("help", |flag| flag.hide(true));
    // Without the version, so that a release changes no page.
    let man = Man::new(described).title(title).source("");
    let mut text = Vec::new();
    man.render_title(&mut text).unwrap();
    man.render_name_section(&mut text).unwrap();
    man.render_synopsis_section(&mut text).unwrap();
    man.render_description_section(&mut text).unwrap();
    man.render_options_section(&mut text).unwrap();
    let mut rest = Roff::new();
    rest.control("SH", ["EXAMPLES"]).control("nf", []);
    for line in examples.lines() {
        rest.text([roman(line)]);
    }
    rest.control("fi", []).control("SH", ["SEE ALSO"]);
    for title in see_also {
        rest.text([bold(*title), roman("(1)")]);
    }
    let text = String::from_utf8(text).unwrap() + &rest.to_roff();
    // Written once: every section begins with it.
    let preamble = Roff::new().render();
    (format!("{title}.1"), preamble.clone() + &text.replace(&preamble, ""))
}
