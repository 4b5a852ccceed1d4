//! The effect of a change to a DaemonSet's spec on a cluster, in sentences.

use super::page::Page;
use super::style;
use super::text::{count, some_of};
use crate::report::age::format_age;
use crate::report::change::{Change, ChangePath};
use crate::report::plan::{Effect, Pace, PlanKind, Standstill};

/// Writes the effect of changes: how many pods a new template replaces, the pace of a rolling update if affected, and
/// the revisions that are deleted.
pub(super) fn write(effect: &Effect, kind: PlanKind, changes: &[Change], page: &mut Page<'_>) {
    let limit = ChangePath::default().field("spec").field("revisionHistoryLimit");
    let changes_pace = changes.iter().any(|change| change.path != limit);
    let sentences = match kind.changes_template() {
        true => [replaced(effect), None, None],
        false => [changes_pace.then(|| pace(effect)), duration(effect), revisions(effect)],
    };
    sentences.iter().flatten().for_each(|sentence| page.paragraph(sentence, style::plain))
}

/// Writes which nodes get or lose a pod, which happens immediately regardless of the update strategy.
pub(super) fn nodes(gained: &[String], lost: &[String], page: &mut Page<'_>) {
    let view = page.view;
    let line = |verb: [&str; 2], what: &str, nodes: &[String]| {
        let verb = if nodes.len() == 1 { verb[0] } else { verb[1] };
        let lead = format!("{} {verb} {what} immediately: ", count(nodes.len(), "node"));
        format!("{lead}{}", some_of(nodes, view.width.saturating_sub(lead.len())))
    };
    if !lost.is_empty() {
        let what = if lost.len() == 1 { "its pod" } else { "their pods" };
        writeln!(page, "{}", style::problem(view.show(&line(["loses", "lose"], what, lost))));
    }
    if !gained.is_empty() {
        writeln!(page, "{}", style::summary(view.show(&line(["gets", "get"], "a pod", gained))));
    }
}

/// Returns how many pods a new template replaces, and how many at a time; nothing under OnDelete.
fn replaced(effect: &Effect) -> Option<String> {
    let none = || "no pod has another template, so none will be replaced".to_owned();
    let Some(after) = effect.after else { return (effect.outdated == Some(0)).then(none) };
    let (pods, deleted) = match (effect.outdated, effect.not_replaced.unwrap_or(0)) {
        (Some(0), _) if !effect.nodes_gained.is_empty() => return None,
        (Some(0), _) => return Some(none()),
        (Some(outdated), deleted) if outdated == deleted => {
            return Some(format!("{} deleted, and none replaced", will_be(deleted)));
        }
        (Some(outdated), _) if effect.not_replaced.is_none() => {
            (format!("{} replaced (of those that could be read)", will_be(outdated)), 0)
        }
        (Some(outdated), deleted) => {
            let pods = match &effect.standstill {
                None => will_be(outdated - deleted),
                Some(Standstill { replaced: 0, .. }) => format!("none of {} will be", count(outdated - deleted, "pod")),
                Some(Standstill { replaced, .. }) => {
                    format!("{replaced} of {} will be", count(outdated - deleted, "pod"))
                }
            };
            (format!("{pods} replaced"), deleted)
        }
        (None, _) => (format!("{} will be replaced", count(effect.desired, "desired pod")), 0),
    };
    let deleted = if deleted == 0 { String::new() } else { format!(", and {deleted} will be deleted") };
    Some(format!("{pods}{deleted}; {} at a time; {}", limit(after), now(effect, after)))
}

/// Returns how many pods are replaced in total, if they are not all replaced at once.
fn in_all(effect: &Effect, pace: Pace) -> String {
    let all = effect.outdated.zip(effect.not_replaced).map(|(outdated, not_replaced)| outdated - not_replaced);
    let all = effect.standstill.as_ref().map_or(all, |standstill| Some(standstill.replaced));
    let later = all.filter(|all| pace.replaced_now.is_some_and(|now| 0 < now && now < *all));
    later.map_or_else(String::new, |all| format!(", and {all} in all"))
}

fn limit(pace: Pace) -> String {
    match pace.surges {
        true => format!("up to {} may have a second pod", count(pace.allowed, "node")),
        false => format!("up to {} may be unavailable", pace.allowed),
    }
}

fn pace(effect: &Effect) -> String {
    let start = format!("with {}", count(effect.desired, "desired pod"));
    let Some(after) = effect.after else {
        let outdated = match effect.outdated {
            None => String::new(),
            Some(1) => "; 1 pod is on an older revision".to_owned(),
            Some(outdated) => format!("; {outdated} pods are on an older revision"),
        };
        return format!("{start}: the controller replaces a pod only after it is deleted{outdated}");
    };
    let instead = match effect.before {
        None => String::new(),
        Some(before) if before.surges == after.surges && before.allowed == after.allowed => " as before".to_owned(),
        Some(before) if before.surges == after.surges => format!(" instead of {}", before.allowed),
        Some(before) if before.surges => {
            format!(" instead of {} with a second pod", count(before.allowed, "node"))
        }
        Some(before) => format!(" instead of {}", count(before.allowed, "unavailable pod")),
    };
    format!("{start}: {}{instead}; {}{}", limit(after), now(effect, after), in_all(effect, after))
}

/// Returns how much of the limit is used, and the consequences.
fn now(effect: &Effect, pace: Pace) -> String {
    // With a longer minReadySeconds, pods that are available now no longer count as such.
    let before = effect.before.and_then(|before| before.in_use);
    let counts_more = before.zip(pace.in_use).is_some_and(|(before, after)| before < after);
    let in_use = match (pace.in_use, pace.surges) {
        (None, true) => "how many have one now is not known".to_owned(),
        (None, false) => "how many are unavailable now is not known".to_owned(),
        (Some(0), true) => "no node has one now".to_owned(),
        (Some(0), false) => "none is unavailable now".to_owned(),
        (Some(1), true) => "1 node has one now".to_owned(),
        (Some(number), true) => format!("{number} nodes have one now"),
        (Some(number), false) => match (number, counts_more) {
            (1, false) => "1 is unavailable now".to_owned(),
            (_, false) => format!("{number} are unavailable now"),
            (1, true) => "1 will count as unavailable".to_owned(),
            (_, true) => format!("{number} will count as unavailable"),
        },
    };
    let (Some(replaced), Some(outdated)) = (pace.replaced_now, effect.outdated) else { return in_use };
    // A pod deleted on a node that is down is not replaced.
    let replaced = effect.standstill.as_ref().map_or(replaced, |standstill| replaced.min(standstill.replaced));
    let before = effect.before.and_then(|before| before.replaced_now).filter(|before| *before > 0);
    let instead = before.map_or_else(String::new, |before| format!(" instead of {before}"));
    match (outdated, replaced) {
        (0, _) => format!("{in_use}; no pod is on an older revision, so none will be replaced"),
        (_, 0) if pace.in_use.is_some_and(|in_use| in_use < pace.allowed) => {
            format!("{in_use}; none will be replaced immediately")
        }
        (_, 0) => format!("{in_use}, so none will be replaced immediately"),
        (_, replaced) if pace.surges => {
            format!("{in_use}, so {} will be created immediately{instead}", count(replaced, "new pod"))
        }
        // Unavailable pods are replaced regardless of the limit.
        (_, replaced) if pace.in_use.is_some_and(|in_use| in_use >= pace.allowed) => {
            let they = match (replaced, counts_more) {
                (_, true) => "they will count as unavailable",
                (1, false) => "it is already unavailable",
                (_, false) => "they are already unavailable",
            };
            format!("{in_use}; {} replaced immediately{instead}, because {they}", will_be(replaced))
        }
        (_, replaced) => format!("{in_use}, so {} replaced immediately{instead}", will_be(replaced)),
    }
}

fn duration(effect: &Effect) -> Option<String> {
    // While the strategy is suspended, there is no pace to compare with.
    let (before, after) = (effect.before?.min_rollout_seconds, effect.after?.min_rollout_seconds);
    (before != after).then(|| {
        let (before, after) = (format_age(before), format_age(after));
        format!("a rollout to {} nodes takes at least {after} instead of {before}", effect.desired)
    })
}

fn revisions(effect: &Effect) -> Option<String> {
    let deleted = effect.revisions_deleted.as_ref()?;
    Some(match deleted.as_slice() {
        [] => "no revision will be deleted".to_owned(),
        [only] => format!("revision {only} will be deleted"),
        several => {
            let several: Vec<String> = several.iter().map(ToString::to_string).collect();
            format!("revisions {} will be deleted", several.join(", "))
        }
    })
}

fn will_be(pods: i64) -> String {
    format!("{} will be", count(pods, "pod"))
}
