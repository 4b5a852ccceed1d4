//! What failing nodes have in common, and what to do about it.

use jiff::Timestamp;

use super::page::Page;
use super::style;
use super::text::{count, time_since};
use crate::report::all as every;
use crate::report::common_cause::{CommonCause, Feature, FeatureValue, Split};
use crate::report::coverage::DaemonSetCoverage;
use crate::report::rollout_status::{Suspect, SuspectConfiguration, SuspectKind};
use crate::report::stale_config::ConfigName;

/// Returns the likely cause, and how it splits the nodes.
pub fn sentence(cause: &CommonCause) -> String {
    let Split { failing, failing_with, available, available_with } = cause.nodes;
    if cause.shared.feature == Feature::Revision {
        let others = (failing - failing_with) + (available - available_with);
        let pods = |number: usize| if number == 1 { "the pod".to_owned() } else { every(number, "pod") };
        let rest = match failing - failing_with {
            0 if others == 1 => "; the pod of another revision is available".to_owned(),
            0 => format!("; {} of other revisions are available", pods(others)),
            number => format!("; {number} of {} of other revisions fail", count(others, "pod")),
        };
        let total = failing_with + available_with;
        let fails = if total == failing_with {
            format!("{} fail", pods(total))
        } else {
            format!("{failing_with} of its {total} pods fail")
        };
        return format!("{} ({fails}{rest})", named(&cause.shared));
    }
    let nodes = if let Some(code) = cause.code { format!("{code} nodes") } else { "failing nodes".to_owned() };
    let failing = share(failing_with, failing, &nodes);
    format!(
        "{} (on {failing} and {})",
        any_of(&cause.shared, &cause.also),
        share(available_with, available, "available nodes")
    )
}

/// Returns what is likely to blame: what the failing nodes have in common, or else what follows from the numbers of their pods.
pub(super) fn blame(causes: &[CommonCause], suspect: Option<&Suspect>, now: Timestamp) -> Vec<String> {
    let is_told = |what: SuspectKind| match what {
        SuspectKind::Revision => causes.iter().any(|cause| cause.revision.as_ref().is_some_and(|it| it.current)),
        // The age of nodes may only be that of their pods.
        SuspectKind::Nodes => {
            causes.iter().any(|cause| cause.revision.is_none() && cause.shared.feature != Feature::NodeAge)
        }
        SuspectKind::EveryRevision | SuspectKind::Surroundings | SuspectKind::Configuration => false,
    };
    let suspicion = suspect.filter(|suspect| !is_told(suspect.what)).and_then(suspicion);
    let causes = causes.iter().map(|cause| format!("Likely cause: {}", sentence(cause)));
    let configuration = suspect.and_then(|suspect| configuration(suspect, now));
    causes.chain(suspicion).chain(configuration).collect()
}

/// Returns which change of a ConfigMap or Secret fits what fails.
fn configuration(suspect: &Suspect, now: Timestamp) -> Option<String> {
    let SuspectConfiguration { object: ConfigName { kind, name }, changed_at, .. } = suspect.configuration.as_ref()?;
    let age = time_since(*changed_at, now);
    Some(match suspect.what {
        SuspectKind::Configuration => {
            let pods = match suspect.failing {
                1 => "the pod that has started since then fails".to_owned(),
                failing => format!("{} that have started since then fail", every(failing, "pod")),
            };
            let alike = alike(suspect).map_or_else(String::new, |alike| format!(" Only nodes with {alike} fail."));
            let others = if suspect.failing == 1 { "may fail" } else { "fail" };
            let others = match suspect.available + suspect.old_available {
                0 => ".".to_owned(),
                _ => format!(", and those that work started before.{alike} Pods that restart {others}, too."),
            };
            format!("{kind} {name} was last written {age} ago: {pods}{others}")
        }
        _ => format!(
            "{kind} {name} may be to blame as well: it was last written {age} ago, before these pods started and after the working ones did."
        ),
    })
}

/// Writes what is likely to blame, and what to do.
pub(super) fn causes(daemon_set: &DaemonSetCoverage, now: Timestamp, page: &mut Page<'_>) {
    // Nodes at fault are listed below.
    let suspect = daemon_set.suspect.as_ref();
    let is_listed = |it: &&Suspect| it.what == SuspectKind::Nodes && it.on.is_none() && !it.works_since_before;
    let suspect = suspect.filter(|suspect| !is_listed(suspect));
    let texts = blame(&daemon_set.common_causes, suspect, now);
    for (index, text) in texts.iter().enumerate() {
        page.paragraph(text, style::summary);
        let Some(cause) = daemon_set.common_causes.get(index) else { continue };
        if let Some(revision) = cause.revision.as_ref().filter(|revision| !revision.changes.is_empty()) {
            let text = format!("changed: {}", revision.changes.join(", "));
            page.hanging(["  "; 2], &text, style::plain);
        }
        cause.fixes.iter().for_each(|fix| page.what_to_do(fix, "  "));
    }
    let of_configuration = suspect.and_then(|suspect| suspect.configuration.as_ref()).map(|it| &it.fix);
    of_configuration.into_iter().chain(&daemon_set.rollback).for_each(|fix| page.what_to_do(fix, "  "));
}

/// Returns what is likely to blame, with the supporting numbers.
fn suspicion(suspect: &Suspect) -> Option<String> {
    let number = suspect.revision?;
    let all = suspect.failing + suspect.available;
    let where_it_runs = match (suspect.failing, all) {
        (_, 1) => "the only node that runs it".to_owned(),
        (failing, all) if failing == all => format!("{} that run it", every(all, "node")),
        (failing, all) => format!("{failing} of {all} nodes that run it"),
    };
    Some(match suspect.what {
        SuspectKind::Revision if suspect.is_refused => format!(
            "The API server refuses pods of revision {number} on {}, and older pods are available on {}: the revision or \
             a policy of the cluster is to blame.",
            count(suspect.failing, "node"),
            count(suspect.old_available, "node")
        ),
        SuspectKind::Revision if !suspect.raised_requests.is_empty() => {
            let raised = suspect.raised_requests.iter();
            let raised: Vec<String> =
                raised.map(|raised| format!("{} ({} → {})", raised.resource, raised.from, raised.to)).collect();
            format!(
                "Revision {number} requests the {} that is missing on {}: older pods would fit there.",
                raised.join(" and the "),
                count(suspect.failing, "node")
            )
        }
        SuspectKind::Revision => match alike(suspect) {
            None if suspect.old_available == 0 => {
                format!("Revision {number} is likely to blame: it fails on {where_it_runs}.")
            }
            None => format!(
                "Revision {number} is likely to blame: it fails on {where_it_runs}, and older pods are available on {}.",
                count(suspect.old_available, "node")
            ),
            Some(alike) if suspect.old_available == 0 => format!(
                "Revision {number} is likely to blame: it fails on {} with {alike}, which ran an older revision before, and works on the \
                 other nodes.",
                every(suspect.failing, "node"),
            ),
            Some(alike) => format!(
                "Revision {number} is likely to blame: of the nodes with {alike}, it fails on {}, and older pods are available on {}; where \
                 it works, {} another.",
                match suspect.failing {
                    1 => "the only one that runs it".to_owned(),
                    2 => "both that run it".to_owned(),
                    failing => format!("all {failing} that run it"),
                },
                suspect.old_available,
                if suspect.available == 1 { "the node has" } else { "nodes have" },
            ),
        },
        SuspectKind::Nodes => match alike(suspect) {
            Some(alike) => format!(
                "Revision {number} fails on {} with {alike}, and works on {}: it may not be made for such nodes, or they lack what it needs.",
                every(suspect.failing, "node"),
                count(suspect.available, "other node"),
            ),
            None if suspect.available == 0 => format!(
                "Revision {number} is not likely to blame: on {where_it_runs}, all other pods have failed since before its \
                 rollout."
            ),
            None if suspect.works_since_before => format!(
                "Revision {number} works on {} of {all} nodes that run it, but its pods there have run since before the first of the \
                 others failed: either {} at fault, or something in the cluster has changed, and pods that restart fail, too.",
                suspect.available,
                if suspect.failing == 1 {
                    "the other node is".to_owned()
                } else {
                    format!("the other {} are", count(suspect.failing, "node"))
                }
            ),
            None => format!(
                "Revision {number} works on {} of {all} nodes that run it: the problem is likely specific to the other {}.",
                suspect.available,
                if suspect.failing == 1 { "node".to_owned() } else { count(suspect.failing, "node") }
            ),
        },
        SuspectKind::Configuration => return None,
        SuspectKind::EveryRevision => format!(
            "Revision {number} is not likely to blame: pods of an older revision fail for the same reason on {}, or did so before its rollout.",
            count(suspect.old_failing, "node")
        ),
        SuspectKind::Surroundings => format!(
            "Revision {number} is not likely to blame: it only restarts pods, which fail on {where_it_runs}. What pods find when they \
             start has changed, such as a ConfigMap, a Secret or the image behind a tag: pods that restart fail, too."
        ),
    })
}

/// Returns what all nodes have where a revision fails, and no other.
fn alike(suspect: &Suspect) -> Option<String> {
    suspect.on.as_ref().map(|on| any_of(on, &suspect.also))
}

fn any_of(first: &FeatureValue, also: &[FeatureValue]) -> String {
    let names: Vec<String> = std::iter::once(first).chain(also).map(named).collect();
    names.join(" or ")
}

fn named(FeatureValue { feature, value }: &FeatureValue) -> String {
    let feature = match feature {
        Feature::Revision => "revision",
        Feature::NodePool => "node pool",
        Feature::Zone => "zone",
        Feature::InstanceType => "instance type",
        Feature::KernelVersion => "kernel",
        Feature::OsImage => "OS image",
        Feature::Architecture => "architecture",
        Feature::KubeletVersion => "kubelet",
        Feature::ContainerRuntime => "container runtime",
        Feature::NodeAge => "node age of",
    };
    format!("{feature} {value}")
}

fn share(part: usize, whole: usize, things: &str) -> String {
    match part {
        0 => format!("none of the {whole} {things}"),
        _ if part == whole && whole == 2 => format!("both {things}"),
        _ if part == whole => format!("all {whole} {things}"),
        _ => format!("{part} of {whole} {things}"),
    }
}
