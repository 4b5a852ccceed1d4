//! Refusals by a resource quota.

use std::collections::BTreeMap;

use super::create_failure::Refused;
use super::finding::{Finding, edit};
use crate::facts::exceeded_quota::{EXCEEDED_QUOTA, ExceededQuota, amounts};
use crate::model::pod::{Container, PodSpec};
use crate::model::quantity::Quantity;
use crate::report::fix::Command;
use crate::report::incident::Refuser;
use crate::report::reason::ReasonCode;
use crate::scheduling::resources::{exact_limits, exact_requests};

/// Returns whether a quota is used up, and not what the pod lacks for it.
pub fn exceeds_quota(message: &str) -> bool {
    message.contains(EXCEEDED_QUOTA)
}

/// Returns whether a quota that refused a pod was not overdrawn: a pod that is deleted gives back as much as one like it takes.
pub fn is_within_quota(message: &str) -> bool {
    is_within(message) == Some(true)
}

/// Returns whether a quota that refused a pod was overdrawn, so that it refuses one like it although another one is deleted for it.
pub fn is_above_quota(message: &str) -> bool {
    is_within(message) == Some(false)
}

/// Returns whether no more of a quota is used than it allows; `None` if the message does not tell.
fn is_within(message: &str) -> Option<bool> {
    let exceeded = ExceededQuota::of(message)?;
    let limits: BTreeMap<String, Quantity> = amounts(exceeded.limited).into_iter().collect();
    let is_within =
        |(resource, used): &(String, Quantity)| limits.get(resource).is_some_and(|limit| used.nanos() <= limit.nanos());
    Some(amounts(exceeded.used).iter().all(is_within))
}

/// Returns whether a quota has room for a pod like that, by the message with which it refused another one; `None` if that does not tell.
pub fn has_room_for(message: &str, spec: &PodSpec) -> Option<bool> {
    let exceeded = ExceededQuota::of(message)?;
    let limited: BTreeMap<String, Quantity> = amounts(exceeded.limited).into_iter().collect();
    let (requests, limits) = (exact_requests(spec, None), exact_limits(spec));
    let taken = |resource: &str| match resource.split_once('.') {
        Some(("limits", resource)) => limits.get(resource).copied(),
        Some(("requests", resource)) => requests.get(resource).copied(),
        // Such as `memory`, or a resource whose name has a domain.
        _ => requests.get(resource).copied(),
    };
    let fits = |(resource, used): (String, Quantity)| {
        Some(used.nanos()? + taken(&resource)? <= limited.get(&resource)?.nanos()?)
    };
    let fits: Option<Vec<bool>> = amounts(exceeded.used).into_iter().map(fits).collect();
    fits.filter(|fits| !fits.is_empty()).map(|fits| fits.into_iter().all(|fits| fits))
}

/// Finds a resource quota.
pub(super) fn exceeded(refused: Refused<'_>) -> Option<Finding> {
    let describe = Command::kubectl(&["describe", "resourcequota"]).namespace(refused.namespace());
    let of = |quota: &str, message: String, advice: String, command: Command| {
        let finding = Finding::new(ReasonCode::QuotaExceeded, message, advice).with_command(command);
        Some(finding.refused_by(Refuser::Quota(quota.to_owned())))
    };
    if let Some(rest) = refused.after(EXCEEDED_QUOTA) {
        let Some(ExceededQuota { name: quota, requested, used, limited }) = ExceededQuota::of(refused.message) else {
            let quota = rest.split_once(", requested: ").map_or(rest, |(quota, _)| quota);
            let advice = "raise the quota, or free some of it".to_owned();
            return of(quota, format!("exceeded quota {quota}"), advice, describe.name(quota));
        };
        let message = format!("exceeded quota {quota}: requested {requested}, used {used}, limited {limited}");
        return of(quota, message, advice(refused, requested, limited), describe.name(quota));
    }
    if let Some(rest) = refused.after("failed quota: ") {
        let (quota, demand) = rest.split_once(": ")?;
        let advice = "set it in the template, or give the namespace a LimitRange with a default for it".to_owned();
        return of(quota, format!("quota {quota}: {demand}"), advice, edit(refused.daemon_set));
    }
    if let Some(rest) = refused.after("status unknown for quota: ") {
        let quota = rest.split(", ").next().unwrap_or(rest);
        let message = format!("the usage of quota {quota} is not known yet, and until it is nothing is admitted");
        let advice = "wait; if it persists, check kube-controller-manager".to_owned();
        return of(quota, message, advice, describe.name(quota));
    }
    let rest = refused.after("insufficient quota to ")?;
    let namespace = refused.namespace();
    let advice = match rest.contains("PriorityClass") {
        true => format!(
            "the API server admits pods of this priority class only where a ResourceQuota allows them: create one in namespace \
             {namespace} whose scopeSelector is PriorityClass In (that class), or use another class"
        ),
        false => format!("create a ResourceQuota in namespace {namespace} that covers it"),
    };
    Some(
        Finding::new(ReasonCode::QuotaExceeded, format!("insufficient quota to {rest}"), advice).with_command(describe),
    )
}

/// Returns what helps with a quota that is used up: to free some of it does not if one pod requests more than all of it.
fn advice(refused: Refused<'_>, requested: &str, limited: &str) -> String {
    let (requested, limited) = (amounts(requested), amounts(limited));
    let limit =
        |resource: &str| limited.iter().find(|(known, _)| known == resource).and_then(|(_, amount)| amount.nanos());
    let never = requested.iter().find(|(resource, amount)| amount.nanos() > limit(resource).or(amount.nanos()));
    let raise = match never {
        Some((resource, amount)) => format!("raise the quota: one pod takes {resource}={} of it", amount.text),
        None => "raise the quota, or free some of it".to_owned(),
    };
    let of_containers = requested.iter().find_map(|(resource, _)| {
        let (kind, name) = match resource.split_once('.') {
            Some((kind @ ("requests" | "limits"), name)) => (kind, name),
            _ if matches!(resource.as_str(), "cpu" | "memory" | "ephemeral-storage") => ("requests", resource.as_str()),
            _ => return None,
        };
        Some((kind, name))
    });
    let Some((kind, resource)) = of_containers else { return raise };
    let spec = &refused.daemon_set.spec.template.spec;
    let sets = |container: &Container| match kind {
        // A limit is the request of a container that has none.
        "requests" => {
            container.resources.requests.contains_key(resource) || container.resources.limits.contains_key(resource)
        }
        _ => container.resources.limits.contains_key(resource),
    };
    if spec.all_containers().any(sets) || spec.resources.is_some() {
        return format!("{raise}; or lower the {resource} {kind} in the template");
    }
    format!("{raise}; the template sets no {resource} {kind}, so a LimitRange of the namespace or a webhook does")
}
