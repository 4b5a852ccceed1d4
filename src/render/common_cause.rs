//! What failing nodes have in common, and what to do about it.

use super::page::Page;
use super::style;
use super::text::count;
use crate::report::common_cause::{CommonCause, Feature, FeatureValue, Split};

/// Returns the likely cause, and how it splits the nodes.
pub fn sentence(cause: &CommonCause) -> String {
    let Split { failing, failing_with, available, available_with } = cause.nodes;
    if cause.shared.feature == Feature::Revision {
        let others = (failing - failing_with) + (available - available_with);
        let pods = |number: usize| if number == 1 { "the pod".to_owned() } else { format!("all {number} pods") };
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
    let names: Vec<String> = std::iter::once(&cause.shared).chain(&cause.also).map(named).collect();
    let nodes = match cause.code {
        Some(code) => format!("{code} nodes"),
        None => "failing nodes".to_owned(),
    };
    let failing = share(failing_with, failing, &nodes);
    format!("{} (on {failing} and {})", names.join(" or "), share(available_with, available, "available nodes"))
}

/// Writes the likely causes, and what to do.
pub fn causes(causes: &[CommonCause], page: &mut Page<'_>) {
    for cause in causes {
        page.paragraph(&format!("Likely cause: {}", sentence(cause)), style::answer);
        if let Some(revision) = cause.revision.as_ref().filter(|revision| !revision.changes.is_empty()) {
            let text = format!("changed: {}", revision.changes.join(", "));
            page.hanging(["  "; 2], &text, style::plain);
        }
        for fix in &cause.fixes {
            page.what_to_do(fix, "  ");
        }
    }
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
        Feature::NodeAge => "node age of",
    };
    format!("{feature} {value}")
}

fn share(part: usize, whole: usize, things: &str) -> String {
    match part {
        0 => format!("none of the {whole} {things}"),
        _ if part == whole => format!("all {whole} {things}"),
        _ => format!("{part} of {whole} {things}"),
    }
}
