//! Refusals because of a LimitRange: what it demands, and what it has set by default.

use std::collections::BTreeSet;

use super::create_failure::{Refused, refusal, rejected};
use super::finding::{Finding, edit};
use super::webhook;
use crate::model::event::Event;
use crate::model::pod::{Container, PodSpec};
use crate::model::quantity::Quantity;
use crate::model::snapshot::Snapshot;
use crate::model::snapshot::{LimitRange, LimitRangeItem};
use crate::report::fix::Command;
use crate::report::incident::Refuser;
use crate::report::reason::ReasonCode;

/// Returns the namespaces in which a LimitRange may have refused pods, by the events: its object tells which.
pub(crate) fn refused_namespaces(snapshot: &Snapshot) -> BTreeSet<String> {
    const SAYS: [&str; 3] = [" limit of ", " usage per ", " max limit to request ratio per "];
    let is_of_one =
        |event: &&Event| event.reason == "FailedCreate" && SAYS.iter().any(|says| event.message.contains(says));
    let refused = snapshot.events.iter().filter(is_of_one);
    refused.map(|event| event.involved_object.namespace.clone()).collect()
}

fn describe(refused: Refused<'_>, range: Option<&LimitRange>) -> Command {
    let command = Command::kubectl(&["describe", "limitrange"]).namespace(refused.namespace());
    match range {
        Some(range) => command.name(&range.metadata.name),
        None => command,
    }
}

/// Returns the LimitRange of the namespace with an item for containers or pods like that.
fn range_with<'a>(refused: Refused<'a>, has: impl Fn(&LimitRangeItem) -> bool) -> Option<&'a LimitRange> {
    let in_namespace = |range: &&LimitRange| range.metadata.namespace == refused.namespace();
    refused.snapshot.limit_ranges.iter().filter(in_namespace).find(|range| range.spec.limits.iter().any(&has))
}

/// Returns the LimitRange that gives this limit to containers that have none.
fn range_with_default<'a>(refused: Refused<'a>, resource: &str, limit: &Quantity) -> Option<&'a LimitRange> {
    range_with(refused, |item| {
        item.type_ == "Container" && item.default.get(resource).is_some_and(|default| default.nanos() == limit.nanos())
    })
}

/// Finds that a LimitRange allows less, or demands more, than a container or the pod has.
///
/// The messages are those of `minConstraint`, `maxConstraint` and `limitRequestRatioConstraint`,
/// plugin/pkg/admission/limitranger/admission.go, release 1.37.2: several are in brackets.
pub(super) fn violated(refused: Refused<'_>) -> Option<Finding> {
    let violations = refused.message.trim_start_matches('[').trim_end_matches(']');
    let demands: Vec<(Demand<'_>, &str)> =
        each(violations).into_iter().filter_map(|violation| Some((Demand::of(violation)?, violation))).collect();
    let (demand, _) = demands.first()?;
    let namespace = refused.namespace();
    let range = range_with(refused, |item| item.type_ == demand.type_ && demand.is_of(item));
    let who = match range {
        Some(range) => format!("limitrange {namespace}/{}", range.metadata.name),
        None => format!("a LimitRange of namespace {namespace}"),
    };
    let mut advice: Vec<String> = demands.iter().map(|(demand, violation)| demand.advice(refused, violation)).collect();
    // Several containers may violate the same bound.
    let mut seen = BTreeSet::new();
    advice.retain(|advice| seen.insert(advice.clone()));
    let advice = format!("{}; or change the LimitRange", advice.join("; "));
    let finding = Finding::new(ReasonCode::LimitRangeViolation, format!("{who} denied the pod: {violations}"), advice);
    let finding = finding.with_command(describe(refused, range));
    Some(match range {
        Some(range) => finding.refused_by(Refuser::LimitRange(range.metadata.name.clone())),
        None => finding,
    })
}

/// Returns whether a pod like that has nothing of what a LimitRange has refused in another one, by its message; `None` if that is not about
/// how much each container has at most.
pub fn allows(message: &str, spec: &PodSpec) -> Option<bool> {
    let violations = refusal(message).trim_start_matches('[').trim_end_matches(']');
    let is_met = |violation: &str| {
        let demand = Demand::of(violation).filter(|it| matches!(it.bound, Bound::Max) && it.type_ == "Container")?;
        let most = Quantity::new(demand.value).nanos()?;
        let of = |container: &'_ Container| {
            let Container { resources, .. } = container;
            [&resources.requests, &resources.limits].map(|all| all.get(demand.resource).and_then(Quantity::nanos))
        };
        Some(spec.all_containers().flat_map(of).flatten().all(|amount| amount <= most))
    };
    let met: Option<Vec<bool>> = each(violations).into_iter().map(is_met).collect();
    met.map(|met| met.into_iter().all(|met| met))
}

/// Divides a list of violations: they have commas of their own.
fn each(violations: &str) -> Vec<&str> {
    let begins = |part: &str| {
        part.starts_with("minimum ")
            || part.starts_with("maximum ")
            || part.contains(" max limit to request ratio per ")
    };
    let mut starts = vec![0];
    let parts = violations.match_indices(", ").map(|(at, separator)| at + separator.len());
    starts.extend(parts.filter(|at| begins(violations[*at..].split(',').next().unwrap_or_default())));
    let ends = starts.iter().skip(1).map(|start| start - 2).chain([violations.len()]);
    starts.iter().zip(ends).map(|(start, end)| &violations[*start..end]).collect()
}

/// What a LimitRange bounds.
enum Bound {
    Min,
    Max,
    Ratio,
}

/// What a LimitRange demands, by a message.
struct Demand<'a> {
    bound: Bound,
    resource: &'a str,
    type_: &'a str,
    value: &'a str,
}

impl<'a> Demand<'a> {
    fn of(violations: &'a str) -> Option<Self> {
        let (bound, resource, rest) =
            if let Some((resource, rest)) = violations.split_once(" max limit to request ratio per ") {
                (Bound::Ratio, resource, rest)
            } else {
                let (bound, rest) = match violations.split_once(' ')? {
                    ("maximum", rest) => (Bound::Max, rest),
                    ("minimum", rest) => (Bound::Min, rest),
                    _ => return None,
                };
                let (resource, rest) = rest.split_once(" usage per ")?;
                (bound, resource, rest)
            };
        let (type_, rest) = rest.split_once(" is ")?;
        let value = rest.split([',', ' ']).next().unwrap_or(rest);
        Some(Demand { bound, resource, type_, value: value.trim_end_matches('.') })
    }

    /// Returns what the template needs for it.
    fn advice(&self, refused: Refused<'_>, violation: &str) -> String {
        let Demand { resource, value, .. } = self;
        let mut containers = refused.daemon_set.spec.template.spec.all_containers();
        let has_limit = containers.any(|container| container.resources.limits.contains_key(*resource));
        let actual = violation.split_once("but limit is ").map(|(_, limit)| limit);
        let limit = actual.map(|limit| Quantity::new(limit.split([',', ' ']).next().unwrap_or_default()));
        match (&self.bound, limit) {
            (Bound::Max, Some(limit)) if !has_limit => match range_with_default(refused, resource, &limit) {
                Some(range) => format!(
                    "the {resource} limit is not in the template: limitrange {} sets it by default; set one of at most {value} in the \
                     template, or lower the default",
                    range.metadata.name
                ),
                None => format!("the {resource} limit is not in the template: set one of at most {value} there"),
            },
            (Bound::Max, None) if violation.contains("No limit is specified") => {
                format!("set a {resource} limit of at most {value} for each container in the template")
            }
            (Bound::Max, _) => format!("lower the {resource} of the {} to {value}", self.what()),
            (Bound::Min, _) => format!("request at least {value} of {resource} for the {}", self.what()),
            (Bound::Ratio, _) => {
                format!("set request and limit of {resource} so that the limit is at most {value} times the request")
            }
        }
    }

    fn is_of(&self, item: &LimitRangeItem) -> bool {
        let bounds = match self.bound {
            Bound::Min => &item.min,
            Bound::Max => &item.max,
            Bound::Ratio => &item.max_limit_request_ratio,
        };
        bounds.get(self.resource).is_some_and(|bound| bound.nanos() == Quantity::new(self.value).nanos())
    }

    fn what(&self) -> &'static str {
        if self.type_ == "Pod" { "pod" } else { "container" }
    }
}

/// Finds a request that is greater than a limit that is not in the template: admission has set the limit.
///
/// `mergePodResourceRequirements` of the LimitRanger gives default limits to containers, and `ValidateContainerResourceRequirements`,
/// pkg/apis/core/validation/validation.go, release 1.37.2, compares then: a template without the limit is valid.
pub(super) fn defaulted_limit(refused: Refused<'_>) -> Option<Finding> {
    let (before, rest) = refused.message.split_once(" limit of ")?;
    let (before, resource) = before.rsplit_once(' ')?;
    let is_equal = before.ends_with("must be equal to");
    if !is_equal && !before.ends_with("must be less than or equal to") {
        return None;
    }
    let limit = rest.split([',', ']', ' ']).next()?;
    let (path, problem) =
        before.rsplit_once("spec.").map(|(_, field)| field).and_then(|field| field.split_once(": "))?;
    let requested = problem.split('"').nth(1).unwrap_or_default();
    let (list, index) = path.split_once('[')?;
    let index: usize = index.split_once(']')?.0.parse().ok()?;
    let spec = &refused.daemon_set.spec.template.spec;
    let of = if list == "initContainers" { &spec.init_containers } else { &spec.containers };
    let namespace = refused.namespace();
    let Some(container) = of.get(index) else {
        let advice = "the container is not in the template: a mutating webhook has added it";
        return Some(rejected(refused, advice).with_command(webhook::list()));
    };
    let name = &container.name;
    if container.resources.limits.contains_key(resource) {
        // A webhook may have changed either.
        let is_own = [(&container.resources.limits, limit), (&container.resources.requests, requested)]
            .iter()
            .all(|(own, said)| own.get(resource).is_some_and(|own| own.nanos() == Quantity::new(*said).nanos()));
        let finding = |advice: &str| rejected(refused, advice);
        return Some(match is_own {
            true => finding(&format!("correct the {resource} of container {name} in the template"))
                .with_command(edit(refused.daemon_set)),
            false => finding("these are not the amounts of the template: a mutating webhook has changed them")
                .with_command(webhook::list()),
        });
    }
    let limit = Quantity::new(limit);
    let message = format!(
        "container {name} requests {requested} {resource}, but its {resource} limit is {}, which is not in the template",
        limit.text
    );
    let Some(range) = range_with_default(refused, resource, &limit) else {
        let message = format!("{message}: a LimitRange of namespace {namespace} or a mutating webhook sets it");
        let advice = format!("set a {resource} limit of at least {requested} in the template, or change what sets it");
        return Some(
            Finding::new(ReasonCode::LimitRangeViolation, message, advice).with_command(describe(refused, None)),
        );
    };
    let message = format!("{message}: limitrange {namespace}/{} sets it by default", range.metadata.name);
    // Another LimitRange may have the maximum.
    let too_low = range_with(refused, |item| {
        item.type_ == "Container"
            && item.max.get(resource).is_some_and(|max| max.nanos() < Quantity::new(requested).nanos())
    });
    let advice = match too_low {
        Some(max) => format!(
            "limitrange {} allows less {resource} than the container requests: raise its max and default, or lower the request in \
             the template",
            max.metadata.name
        ),
        None if is_equal => format!("set the {resource} limit in the template to the request"),
        None => format!(
            "set a {resource} limit of at least {requested} for container {name} in the template, or raise the default of the \
             LimitRange"
        ),
    };
    let finding =
        Finding::new(ReasonCode::LimitRangeViolation, message, advice).with_command(describe(refused, Some(range)));
    Some(finding.refused_by(Refuser::LimitRange(range.metadata.name.clone())))
}
