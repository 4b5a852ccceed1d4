//! The full explanation of a node: rules, resources and pods.

use jiff::Timestamp;

use super::coverage::{incidents, incomplete, restarting};
use super::page::Page;
use super::style;
use super::text::{columns, count, time_since};
use crate::report::coverage::CoverageReport;
use crate::report::node_coverage::{Check, EventLine, Explanation, NodeCoverage, PodStory};
use crate::report::reason::Reason;

/// The columns of a rule's name, with the space around it.
const RULE_WIDTH: usize = 24;

/// The columns of a heading, with the space after it.
const HEADING_WIDTH: usize = 14;

/// Writes the explanations: the answer, what to do, and then the checks. Checks with nothing to check are shown if
/// `wide` is set.
pub fn explanation(report: &CoverageReport, wide: bool, page: &mut Page<'_>) {
    incidents(report, page);
    let nodes = report.daemon_sets.iter().flat_map(|of| of.nodes.iter().map(move |node| (node, of)));
    for (index, (node, of)) in nodes.enumerate() {
        if index > 0 {
            writeln!(page);
        }
        let mut story = Story { now: report.now, wide, page: &mut *page };
        match &node.explanation {
            Some(explanation) => story.node(node, explanation),
            // The node was deleted, or could not be read: only its pods are known.
            None => story.pods_without_node(node),
        }
        let is_told = |concern: &Reason| node.reasons.iter().any(|reason| reason.code == concern.code);
        for concern in of.concerns.iter().filter(|concern| !is_told(concern)) {
            page.advice(&format!("{}: {}", concern.code, concern.message), Some(&concern.fix), "");
        }
        if of.restarting.iter().any(|group| group.nodes.contains(&node.name)) {
            restarting(&of.restarting, page);
        }
    }
    incomplete(&report.incomplete, page)
}

/// Returns the check that failed for the primary reason, if there is one: of several with its code, the one that it tells of.
fn cause<'e>(node: &NodeCoverage, explanation: &'e Explanation) -> Option<&'e Check> {
    let reason = node.reasons.first()?;
    let checks = explanation.eligibility.iter().chain(&explanation.scheduling).chain(&explanation.not_ready);
    let failed = checks.filter(|check| check.passed == Some(false) && check.code == Some(reason.code));
    failed.clone().find(|check| reason.message.starts_with(&*check.detail)).or_else(|| failed.into_iter().next())
}

/// The explanation of a node, being written on a page.
struct Story<'a, 'v> {
    now: Timestamp,
    wide: bool,
    page: &'a mut Page<'v>,
}

impl Story<'_, '_> {
    fn node(&mut self, node: &NodeCoverage, explanation: &Explanation) {
        self.page.paragraph(&explanation.summary, style::summary);
        if let Some(reason) = node.reasons.first() {
            self.page.what_to_do(&reason.fix, "");
        }
        let eligible = if node.should_run { style::healthy("yes") } else { style::problem("no") };
        writeln!(self.page, "\n{:<HEADING_WIDTH$}{eligible}", "Eligible:");
        let cause = cause(node, explanation);
        self.checks(&explanation.eligibility, cause);
        if !explanation.scheduling.is_empty() {
            let is = |passed| explanation.scheduling.iter().any(|check| check.passed == passed);
            let fits = match (is(Some(false)), is(None)) {
                (true, _) => style::problem("does not fit"),
                (false, true) => style::in_progress("not known"),
                (false, false) => style::healthy("fits"),
            };
            writeln!(self.page, "{:<HEADING_WIDTH$}{fits}", "Scheduling:");
            self.checks(&explanation.scheduling, cause);
        }
        if let Some(check) = &explanation.not_ready {
            writeln!(self.page, "{:<HEADING_WIDTH$}{}", "Node:", style::problem("not ready"));
            self.checks(std::slice::from_ref(check), cause);
        }
        if let Some(verdict) = &explanation.scheduler_says {
            let agrees = match verdict.agrees {
                Some(true) => ", agrees",
                Some(false) => ", differs from the recomputed result",
                None => "",
            };
            self.lines("Scheduler:", &format!("{} ({}{agrees})", verdict.message, self.ago(verdict.at)));
        }
        for pod in &explanation.pods {
            self.pod(pod, explanation.scheduler_says.is_some());
        }
        self.events("Events of the DaemonSet:", explanation.events.iter().collect());
        if !explanation.near_misses.is_empty() {
            writeln!(self.page, "Almost eligible:");
            explanation.near_misses.iter().for_each(|sentence| self.indented(sentence));
        }
        self.reasons("Other reasons:", node.reasons.get(1..).unwrap_or_default())
    }

    fn pods_without_node(&mut self, node: &NodeCoverage) {
        let pods = count(node.pods.len(), "pod");
        let what = match node.eligibility_unknown {
            true => format!("could not be read, so whether it is eligible is unknown; {pods} on it"),
            false => format!("no longer exists; {pods} left on it"),
        };
        let sentence = format!("node {} {what}", self.page.view.show(&node.name));
        self.page.paragraph(&sentence, style::summary);
        self.reasons("Reasons:", &node.reasons)
    }

    fn checks(&mut self, checks: &[Check], cause: Option<&Check>) {
        for check in checks.iter().filter(|check| self.wide || !check.trivial) {
            let (mark, styled): (&str, fn(String) -> String) = match check.passed {
                Some(true) => ("ok", style::healthy),
                Some(false) => ("no", style::problem),
                None => ("?", style::in_progress),
            };
            let rule = self.page.view.show(&check.rule);
            let padding = " ".repeat((RULE_WIDTH - 6).saturating_sub(columns(&rule)).max(1));
            let is_cause = cause.is_some_and(|cause| std::ptr::eq(cause, check));
            let arrow = if is_cause { format!(" {}", self.page.view.back_arrow()) } else { String::new() };
            let lead = format!("  {}{rule}{padding}", styled(format!("{mark:<4}")));
            let detail = format!("{}{arrow}", check.detail);
            self.page.hanging([&lead, &" ".repeat(RULE_WIDTH)], &detail, style::plain);
        }
    }

    /// Writes a pod, without the events of the scheduler if its message is shown already.
    fn pod(&mut self, pod: &PodStory, scheduler_is_shown: bool) {
        self.lines("Pod:", &format!("{}: {}", pod.name, pod.phase));
        for container in &pod.containers {
            let ready = if container.ready { "ready" } else { "not ready" };
            let restarts = match container.restarts {
                0 => String::new(),
                1 => ", 1 restart".to_owned(),
                number => format!(", {number} restarts"),
            };
            let last =
                if container.last_end.is_empty() { String::new() } else { format!("; before: {}", container.last_end) };
            let text = format!("{} {}: {}, {ready}{restarts}{last}", container.role, container.name, container.state);
            self.indented(&text);
        }
        for gate in &pod.readiness_gates {
            self.indented(&format!("readiness gate {gate}"));
        }
        for condition in &pod.conditions {
            self.indented(&format!("condition {condition}"));
        }
        for finalizer in &pod.finalizers {
            self.indented(&format!("finalizer {finalizer}"));
        }
        let is_shown = |event: &&EventLine| scheduler_is_shown && !self.wide && event.reason == "FailedScheduling";
        let events: Vec<&EventLine> = pod.events.iter().filter(|event| !is_shown(event)).collect();
        self.events("Events of the pod:", events)
    }

    fn events(&mut self, heading: &str, events: Vec<&EventLine>) {
        if events.is_empty() {
            return;
        }
        writeln!(self.page, "{heading}");
        for event in events {
            let times = if event.count > 1 { format!(" (x{})", event.count) } else { String::new() };
            let ago = self.ago(event.at);
            self.indented(&format!("{ago}{times} {}: {}", event.reason, event.message));
        }
    }

    fn ago(&self, at: Option<Timestamp>) -> String {
        at.map_or_else(|| "some time ago".to_owned(), |at| format!("{} ago", time_since(at, self.now)))
    }

    fn reasons(&mut self, heading: &str, reasons: &[Reason]) {
        if reasons.is_empty() {
            return;
        }
        writeln!(self.page, "{heading}");
        for reason in reasons {
            self.indented(&format!("{}: {}", reason.code, reason.message));
            self.page.what_to_do(&reason.fix, "  ");
        }
    }

    /// Writes a heading with text after it.
    fn lines(&mut self, heading: &str, text: &str) {
        let lead = format!("{heading:<HEADING_WIDTH$}");
        self.page.hanging([&lead, &" ".repeat(HEADING_WIDTH)], text, style::plain);
    }

    fn indented(&mut self, text: &str) {
        self.page.hanging(["  ", "    "], text, style::plain)
    }
}
