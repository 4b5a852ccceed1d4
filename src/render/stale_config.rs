//! Pods that are older than the last change of a ConfigMap or Secret that they use.

use super::coverage::incomplete;
use super::page::Page;
use super::style;
use super::text::{count, time_since};
use crate::encode::sanitize::sanitize;
use crate::report::stale_config::{ChangedObject, ConfigName, StaleConfig, StaleConfigReport};

/// Writes how many DaemonSets have stale pods, and what each of them uses that was changed.
pub fn stale_config(report: &StaleConfigReport, page: &mut Page<'_>) {
    page.paragraph(&summary(report), style::answer);
    for daemon_set in &report.daemon_sets {
        let StaleConfig { changed, missing, unknown, unknown_pods, .. } = daemon_set;
        if !(changed.is_empty() && missing.is_empty() && unknown.is_empty()) || *unknown_pods > 0 {
            writeln!(page);
            section(daemon_set, report, page);
        }
    }
    incomplete(&report.incomplete, page)
}

fn summary(report: &StaleConfigReport) -> String {
    let of = count(report.daemon_sets.len(), "DaemonSet");
    let stale = report.daemon_sets.iter().filter(|daemon_set| is_stale(daemon_set)).count();
    let lacking = report.daemon_sets.iter().filter(|daemon_set| !daemon_set.missing.is_empty()).count();
    if lacking > 0 {
        let require = if lacking == 1 { "requires" } else { "require" };
        let lacking = format!("{lacking} of {of} {require} a ConfigMap or Secret that does not exist");
        return match stale {
            0 => lacking,
            1 => format!("{lacking}; 1 has pods that are older than their configuration"),
            stale => format!("{lacking}; {stale} have pods that are older than their configuration"),
        };
    }
    match stale {
        0 if report.daemon_sets.iter().all(|daemon_set| daemon_set.stale_pods.is_some()) => {
            let is_changed = report.daemon_sets.iter().any(|daemon_set| !daemon_set.changed.is_empty());
            let except = if is_changed { ", except mounted files that are refreshed" } else { "" };
            format!("{of}: no pod uses outdated values of ConfigMaps and Secrets{except}")
        }
        0 => format!("{of}: no pod is known to use outdated values of ConfigMaps and Secrets"),
        1 => format!("1 of {of} has pods that are older than their configuration"),
        stale => format!("{stale} of {of} have pods that are older than their configuration"),
    }
}

fn is_stale(daemon_set: &StaleConfig) -> bool {
    daemon_set.stale_pods.is_some_and(|pods| pods > 0)
}

fn section(daemon_set: &StaleConfig, report: &StaleConfigReport, page: &mut Page<'_>) {
    let StaleConfig { namespace, name, pods, stale_pods, unknown_pods, changed, missing, unknown, fix } = daemon_set;
    let of = pods.map_or("its pods".to_owned(), |pods| count(pods, "pod"));
    let line = match stale_pods.filter(|pods| *pods > 0) {
        Some(stale) => format!("{namespace}/{name}: {stale} of {of} started before a change"),
        None if !missing.is_empty() => format!("{namespace}/{name}: new pods would not start"),
        None if changed.is_empty() => format!("{namespace}/{name}: not known for {of}"),
        None => format!("{namespace}/{name}: the kubelet refreshes the mounted files"),
    };
    let is_trouble = is_stale(daemon_set) || !missing.is_empty();
    page.paragraph(&line, if is_trouble { style::trouble } else { style::plain });
    for object in changed {
        let ConfigName { kind, name } = &object.object;
        let age = time_since(object.changed_at, report.now);
        page.hanging(["  "; 2], &format!("{kind} {name} last written {age} ago, {}", how(object)), style::plain);
        let lead = format!("{}: ", count(object.pods, "pod"));
        let nodes = page.view.names(&object.nodes, lead.len() + 4);
        page.hanging(["    "; 2], &format!("{lead}{nodes}"), style::plain);
    }
    for (lead, objects) in [("does not exist: ", missing), ("last change not known: ", unknown)] {
        let names: Vec<String> = objects.iter().map(|ConfigName { kind, name }| format!("{kind} {name}")).collect();
        if !names.is_empty() {
            page.hanging(["  "; 2], &format!("{lead}{}", page.view.names(&names, lead.len() + 2)), style::moving);
        }
    }
    if *unknown_pods > 0 {
        let line = format!(
            "what they use is not known, because their revision could not be read: {}",
            count(*unknown_pods, "pod")
        );
        page.hanging(["  "; 2], &line, style::moving);
    }
    if let Some(fix) = fix {
        page.what_to_do(fix, "  ");
    }
}

/// Returns how a ConfigMap or Secret gets to containers, and whether it is refreshed.
fn how(object: &ChangedObject) -> String {
    let by = object.by.iter().map(|by| by.field()).collect::<Vec<_>>().join(" and ");
    let refreshed = match (object.refreshed, object.by.iter().any(|by| by.is_refreshed())) {
        (true, _) => "refreshed, but the process may not have read it again",
        (false, true) => "only the volume is refreshed",
        (false, false) => "not refreshed",
    };
    format!("used by {by}: {refreshed}")
}

/// Writes the names of the DaemonSets with stale pods, or that lack something, as `kubectl get ds -o name` does.
pub fn names(report: &StaleConfigReport, page: &mut Page<'_>) {
    let stale = report.daemon_sets.iter().filter(|daemon_set| is_stale(daemon_set) || !daemon_set.missing.is_empty());
    stale.for_each(|daemon_set| writeln!(page, "daemonset.apps/{}", sanitize(&daemon_set.name)))
}
