//! Pods that are older than the last change to a ConfigMap or Secret that they use.

use jiff::Timestamp;

use super::page::Page;
use super::style;
use super::text::{count, time_since};
use crate::report::coverage::ReasonGroup;
use crate::report::rollout_status::{Suspect, SuspectKind};
use crate::report::stale_config::{ChangedObject, ConfigName, StaleConfig};

/// Writes which objects a DaemonSet uses that were changed after its pods started and are not refreshed, or that do not
/// exist, unless problems say so; refreshed ones, too, if a revision that only restarts pods fails.
pub(super) fn section(
    stale: &StaleConfig,
    problems: &[ReasonGroup],
    suspect: Option<&Suspect>,
    now: Timestamp,
    page: &mut Page<'_>,
) {
    let StaleConfig { pods, stale_pods, unknown_pods, changed, missing, unknown, fix } = stale;
    let of = pods.map_or("its pods".to_owned(), |pods| count(pods, "pod"));
    let is_it = |it: &ConfigName, (kind, name): &(&str, String)| it.kind.eq_ignore_ascii_case(kind) && it.name == *name;
    let is_told = |it: &ConfigName| problems.iter().filter_map(|one| one.missing.as_ref()).any(|one| is_it(it, one));
    let line = match stale_pods.filter(|pods| *pods > 0) {
        Some(stale) => format!("{stale} of {of} use a change only once they start again:"),
        None if !changed.is_empty() && suspect.is_some_and(|suspect| suspect.what == SuspectKind::Surroundings) => {
            "Changed since older pods started:".to_owned()
        }
        None if !missing.iter().all(is_told) => "New pods would not start, because the template requires:".to_owned(),
        None => return,
    };
    writeln!(page);
    page.paragraph(&line, style::problem);
    for object in changed {
        let ConfigName { kind, name } = &object.object;
        let age = time_since(object.changed_at, now);
        page.hanging(["  "; 2], &format!("{kind} {name} last written {age} ago, {}", how(object)), style::plain);
        let lead = format!("{}: ", count(object.pods, "pod"));
        let nodes = page.view.names(&object.nodes, lead.len() + 4);
        page.hanging(["    "; 2], &format!("{lead}{nodes}"), style::plain);
    }
    for (lead, objects) in [("does not exist: ", missing), ("last change not known: ", unknown)] {
        let names: Vec<String> = objects.iter().map(|ConfigName { kind, name }| format!("{kind} {name}")).collect();
        if !names.is_empty() {
            page.hanging(["  "; 2], &format!("{lead}{}", page.view.names(&names, lead.len() + 2)), style::in_progress);
        }
    }
    if *unknown_pods > 0 {
        let line = format!(
            "what they use is not known, because their revision could not be read: {}",
            count(*unknown_pods, "pod")
        );
        page.hanging(["  "; 2], &line, style::in_progress);
    }
    fix.iter().for_each(|fix| page.what_to_do(fix, "  "));
}

/// Returns how containers access a ConfigMap or Secret, and whether it is refreshed.
fn how(object: &ChangedObject) -> String {
    let by = object.by.iter().map(|by| by.field()).collect::<Vec<_>>().join(" and ");
    let refreshed = match (object.refreshed, object.by.iter().any(|by| by.is_refreshed())) {
        (true, _) => "refreshed, but the process may not have read it again",
        (false, true) => "only the volume is refreshed",
        (false, false) => "not refreshed",
    };
    format!("used by {by}: {refreshed}")
}
