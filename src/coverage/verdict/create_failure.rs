//! Why the API server did not create a pod, by the message of the controller's `FailedCreate` event.
//!
//! The messages are those of the API server's admission plugins, release 1.37.2; each rule names its source.

use super::finding::{Finding, edit};
use super::near_miss;
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::Snapshot;
use crate::report::fix::Command;
use crate::report::incident::Refuser;
use crate::report::reason::ReasonCode;

/// Finds why a pod of the DaemonSet could not be created, from the message of a `FailedCreate` event.
pub fn classify(snapshot: &Snapshot, daemon_set: &DaemonSet, message: &str) -> Finding {
    let message = refusal(message);
    quota_exceeded(daemon_set, message)
        .or_else(|| pod_security_denied(daemon_set, message))
        .or_else(|| webhook_unavailable(message))
        .or_else(|| webhook_denied(message))
        .or_else(|| service_account_missing(message))
        .or_else(|| priority_class_missing(snapshot, daemon_set, message))
        .or_else(|| runtime_class_missing(snapshot, daemon_set, message))
        .or_else(|| limit_range_violation(daemon_set, message))
        .unwrap_or_else(|| pod_spec_rejected(daemon_set, message))
}

/// Returns the API server's message, without the prefixes of the event recorder and the controller.
pub fn refusal(message: &str) -> &str {
    let message = message.strip_prefix("(combined from similar events): ").unwrap_or(message);
    let message = message.strip_prefix("Error creating: ").unwrap_or(message);
    // `pods "agent-" is forbidden: `: the name means nothing, because the pod was never created.
    match message.split_once(" is forbidden: ") {
        Some((object, words)) if object == "pods" || object.starts_with("pods \"") => words,
        _ => message,
    }
}

/// Returns whether two messages with which pods of a DaemonSet were refused have the same cause. Where anyone may refuse, that
/// is who: a webhook or a policy may be about the pods of people, and not about those of controllers.
pub(crate) fn have_same_cause(snapshot: &Snapshot, daemon_set: &DaemonSet, one: &str, other: &str) -> bool {
    let code = |message| classify(snapshot, daemon_set, message).code;
    let is_same = |part: fn(&str) -> &str| part(refusal(one)) == part(refusal(other));
    code(one) == code(other)
        && match code(one) {
            ReasonCode::WebhookDenied => is_same(refuser),
            ReasonCode::PodSpecRejected => is_same(problem),
            _ => true,
        }
}

/// Returns the name of the webhook or the policy that has denied a pod.
fn refuser(message: &str) -> &str {
    let name = |before: &str, end: char| message.split_once(before)?.1.split(end).next();
    name("admission webhook \"", '"').or_else(|| name("olicy '", '\'')).unwrap_or(message)
}

/// Returns what is wrong with a pod: its name means nothing, because it was never created.
fn problem(message: &str) -> &str {
    match message.split_once(" is invalid: ") {
        Some((object, problem)) if object.starts_with("Pod \"") => problem,
        _ => message,
    }
}

const EXCEEDED_QUOTA: &str = "exceeded quota: ";

/// Returns whether a quota is used up, and not what the pod lacks for it.
pub fn exceeds_quota(message: &str) -> bool {
    message.contains(EXCEEDED_QUOTA)
}

/// Finds a resource quota: `plugin/resourcequota/controller.go` of k8s.io/apiserver.
fn quota_exceeded(daemon_set: &DaemonSet, message: &str) -> Option<Finding> {
    let namespace = &daemon_set.metadata.namespace;
    let finding = |message: String, advice: &str, quota: &str| {
        let describe = Command::kubectl(&["describe", "resourcequota"]).namespace(namespace);
        let finding = Finding::new(ReasonCode::QuotaExceeded, message, advice);
        Some(match quota {
            "" => finding.with_command(describe),
            _ => finding.with_command(describe.name(quota)).refused_by(Refuser::Quota(quota.to_owned())),
        })
    };
    if let Some((_, rest)) = message.split_once(EXCEEDED_QUOTA) {
        let mut parts = rest.splitn(2, ", requested: ");
        let quota = parts.next().unwrap_or_default();
        let numbers = parts.next().and_then(|numbers| {
            let (requested, rest) = numbers.split_once(", used: ")?;
            let (used, limited) = rest.split_once(", limited: ")?;
            Some(format!(": requested {requested}, used {used}, limited {limited}"))
        });
        let message = format!("exceeded quota {quota}{}", numbers.unwrap_or_default());
        return finding(message, "raise the quota, or free some of it", quota);
    }
    if let Some((_, rest)) = message.split_once("failed quota: ") {
        let (quota, demand) = rest.split_once(": ")?;
        let message = format!("quota {quota}: {demand}");
        let finding = Finding::new(ReasonCode::QuotaExceeded, message, "set it in the template");
        return Some(finding.with_command(edit(daemon_set)).refused_by(Refuser::Quota(quota.to_owned())));
    }
    if let Some((_, rest)) = message.split_once("status unknown for quota: ") {
        let quota = rest.split(", ").next().unwrap_or(rest);
        let message = format!("the usage of quota {quota} is not known yet, and until it is nothing is admitted");
        return finding(message, "wait; if it persists, check kube-controller-manager", quota);
    }
    let (_, rest) = message.split_once("insufficient quota to ")?;
    finding(format!("insufficient quota to {rest}"), "create a quota that covers it", "")
}

/// Finds pod security admission: `admission/admission.go` of k8s.io/pod-security-admission.
fn pod_security_denied(daemon_set: &DaemonSet, message: &str) -> Option<Finding> {
    let (_, rest) = message.split_once("violates PodSecurity ")?;
    let (level, violations) = rest.split_once(": ").unwrap_or((rest, ""));
    let level = level.trim_matches('"');
    let namespace = &daemon_set.metadata.namespace;
    let message = format!("namespace {namespace} enforces pod security level {level}: {}", without_asides(violations));
    let finding = |advice: String| {
        let finding = Finding::new(ReasonCode::PodSecurityDenied, message.as_str(), advice);
        finding.refused_by(Refuser::PodSecurity(level.to_owned()))
    };
    let needs_node = ["hostPath", "host namespaces", "hostPort"].iter().any(|access| violations.contains(access));
    let needed = match needs_node {
        true => Some("privileged"),
        false => violations.contains("restricted volume types").then_some("baseline"),
    };
    Some(if let Some(needed) = needed {
        let advice = format!(
            "this needs pod security level {needed}, and no securityContext makes up for it: ask the owner of namespace \
             {namespace} to label it pod-security.kubernetes.io/enforce={needed}, or move the DaemonSet to a namespace \
             with that label; to list those"
        );
        let get =
            Command::kubectl(&["get", "namespaces"]).flag("-l", format!("pod-security.kubernetes.io/enforce={needed}"));
        finding(advice).with_command(get)
    } else {
        finding(format!("set the securityContext in the template as level {level} requires"))
            .with_command(edit(daemon_set))
    })
}

/// Drops what is in parentheses: where in the pod each violation is.
fn without_asides(text: &str) -> String {
    let mut depth = 0_usize;
    let mut kept = String::new();
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => kept.push(c),
            _ => {}
        }
    }
    kept.replace(" ,", ",").trim().to_owned()
}

/// Finds a webhook that cannot be called: `pkg/util/webhook/error.go` of k8s.io/apiserver.
fn webhook_unavailable(message: &str) -> Option<Finding> {
    let (_, rest) = message.split_once("failed calling webhook ")?;
    let (webhook, why) = rest.split_once(['"']).and_then(|(_, rest)| rest.split_once('"')).unwrap_or((rest, ""));
    let why = why.trim_start_matches([':', ';', ' ']);
    let why = why.strip_prefix("failed to call webhook: ").unwrap_or(why);
    let finding = Finding::new(
        ReasonCode::WebhookUnavailable,
        format!("failed calling admission webhook {webhook}: {why}"),
        "restore the service behind the webhook, or correct its configuration",
    );
    let list = Command::kubectl(&["get", "mutatingwebhookconfigurations,validatingwebhookconfigurations"]);
    Some(finding.with_command(list).refused_by(Refuser::UnavailableWebhook(webhook.to_owned())))
}

/// Finds a webhook or admission policy that denies the pod:
/// `pkg/admission/plugin/webhook/errors/statuserror.go` and
/// `pkg/admission/plugin/policy/validating/plugin.go` of k8s.io/apiserver.
fn webhook_denied(message: &str) -> Option<Finding> {
    if let Some((_, rest)) = message.split_once("admission webhook \"") {
        let (webhook, why) = rest.split_once("\" denied the request")?;
        let why = why.trim_start_matches([':', ' ']);
        let finding = Finding::new(
            ReasonCode::WebhookDenied,
            format!("admission webhook {webhook} denied the pod: {why}"),
            "change the template accordingly, or the webhook's rules",
        );
        return Some(finding.refused_by(Refuser::Webhook(webhook.to_owned())));
    }
    let (kind, rest) = message.split_once("olicy '")?;
    let (policy, rest) = rest.split_once('\'')?;
    let (_, why) = rest.split_once("denied request")?;
    let why = why.trim_start_matches([':', ' ']);
    let finding = Finding::new(
        ReasonCode::WebhookDenied,
        format!("admission policy {policy} denied the pod: {why}"),
        "change the template accordingly, or the policy",
    );
    // A mutating policy, and one that cannot be evaluated, is called a policy and no more.
    let get = match kind.ends_with("ValidatingAdmissionP") {
        true => Command::kubectl(&["get", "validatingadmissionpolicies", "-o", "yaml"]).name(policy),
        false => Command::kubectl(&["get", "validatingadmissionpolicies,mutatingadmissionpolicies", "-o", "yaml"])
            .flag("--field-selector", format!("metadata.name={policy}")),
    };
    Some(finding.with_command(get).refused_by(Refuser::Policy(policy.to_owned())))
}

/// Finds a missing service account: `plugin/pkg/admission/serviceaccount/admission.go`.
fn service_account_missing(message: &str) -> Option<Finding> {
    let (_, rest) = message.split_once("error looking up service account ")?;
    let (account, _) = rest.split_once(": ").unwrap_or((rest, ""));
    let (namespace, name) = account.split_once('/')?;
    let finding = Finding::new(
        ReasonCode::ServiceAccountMissing,
        format!("serviceaccount {name} not found in namespace {namespace}"),
        "create it with its role bindings, or correct serviceAccountName",
    );
    Some(finding.with_command(Command::kubectl(&["create", "serviceaccount"]).namespace(namespace).name(name)))
}

/// Finds a missing priority class: `plugin/pkg/admission/priority/admission.go`.
fn priority_class_missing(snapshot: &Snapshot, daemon_set: &DaemonSet, message: &str) -> Option<Finding> {
    let (_, rest) = message.split_once("no PriorityClass with name ")?;
    let class = rest.split_whitespace().next()?;
    let known = snapshot.priority_classes.iter().map(|class| class.metadata.name.as_str());
    let near = near_miss::near_name(class, known);
    let message = format!("priorityclass {class} not found");
    Some(class_missing(daemon_set, ReasonCode::PriorityClassMissing, message, "priorityClassName", near))
}

/// Finds a missing runtime class: `plugin/pkg/admission/runtimeclass/admission.go`.
fn runtime_class_missing(snapshot: &Snapshot, daemon_set: &DaemonSet, message: &str) -> Option<Finding> {
    let (_, rest) = message.split_once("RuntimeClass \"")?;
    let (class, rest) = rest.split_once('"')?;
    if !rest.starts_with(" not found") {
        return None;
    }
    let known = snapshot.runtime_classes.iter().map(|class| class.metadata.name.as_str());
    let near = near_miss::near_name(class, known);
    let message = format!("runtimeclass {class} not found");
    Some(class_missing(daemon_set, ReasonCode::RuntimeClassMissing, message, "runtimeClassName", near))
}

/// Finds a class that does not exist, and the one that was likely meant.
fn class_missing(
    daemon_set: &DaemonSet,
    code: ReasonCode,
    message: String,
    field: &str,
    near: Option<&str>,
) -> Finding {
    let advice = match near {
        Some(near) => format!("correct {field}: likely {near}"),
        None => format!("create the class, or correct {field}"),
    };
    Finding::new(code, message, advice).with_command(edit(daemon_set))
}

/// Finds a LimitRange: `plugin/pkg/admission/limitranger/admission.go`.
fn limit_range_violation(daemon_set: &DaemonSet, message: &str) -> Option<Finding> {
    let usage = ["maximum ", "minimum "].iter().any(|bound| message.contains(bound)) && message.contains(" usage per ");
    if !usage && !message.contains(" max limit to request ratio per ") {
        return None;
    }
    let namespace = &daemon_set.metadata.namespace;
    let violations = message.trim_start_matches('[').trim_end_matches(']');
    let finding = Finding::new(
        ReasonCode::LimitRangeViolation,
        format!("a LimitRange of namespace {namespace} denied the pod: {violations}"),
        "change the resources in the template, or the LimitRange",
    );
    Some(finding.with_command(Command::kubectl(&["describe", "limitrange"]).namespace(namespace)))
}

/// Finds that the API server rejected the pod for a reason without a code of its own.
fn pod_spec_rejected(daemon_set: &DaemonSet, message: &str) -> Finding {
    let (advice, command) = if message.contains("node label selector conflicts") {
        let namespace = &daemon_set.metadata.namespace;
        let get = Command::kubectl(&["get", "namespace", "-o", "yaml"]).name(namespace);
        ("make the nodeSelector of the template agree with the one of the namespace", get)
    } else if message.contains("conflict: runtimeClass.scheduling") {
        ("make the nodeSelector of the template agree with the one of its runtime class", edit(daemon_set))
    } else {
        ("correct the template", edit(daemon_set))
    };
    Finding::new(ReasonCode::PodSpecRejected, format!("the API server rejected the pod: {message}"), advice)
        .with_command(command)
}

#[cfg(test)]
mod tests {
    use super::{refusal, without_asides};

    #[test]
    fn a_refusal_is_told_without_the_pod_that_was_never_created() {
        for (message, words) in [
            ("Error creating: pods \"agent-x\" is forbidden: no room", "no room"),
            ("(combined from similar events): Error creating: pods is forbidden: no room", "no room"),
            ("services \"agent\" is forbidden: no room", "services \"agent\" is forbidden: no room"),
            ("timeout", "timeout"),
        ] {
            assert_eq!(refusal(message), words);
        }
    }

    #[test]
    fn violations_are_told_without_the_containers_that_have_them() {
        let violations = "hostPort (container \"a\" uses hostPort 80 (TCP)), seccompProfile (pod must set it)";
        assert_eq!(without_asides(violations), "hostPort, seccompProfile");
    }
}
