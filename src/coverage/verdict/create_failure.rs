//! Why the API server refused a pod: the controller's `FailedCreate` events, told apart by their words.
//!
//! The words are those of the API server's admission plugins, release 1.36.3; each rule names where
//! they are written.

use super::finding::Finding;
use super::near_miss;
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::Snapshot;
use crate::report::reason::ReasonCode;

/// Says why a pod of the DaemonSet could not be made, from the message of a `FailedCreate` event.
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

/// Returns the API server's own words, without what the event recorder and the controller put before.
pub fn refusal(message: &str) -> &str {
    let message = message.strip_prefix("(combined from similar events): ").unwrap_or(message);
    let message = message.strip_prefix("Error creating: ").unwrap_or(message);
    // `pods "agent-" is forbidden: `: the name says nothing, since the pod was never made.
    match message.split_once(" is forbidden: ") {
        Some((object, words)) if object == "pods" || object.starts_with("pods \"") => words,
        _ => message,
    }
}

/// Finds a quota in the way: `plugin/resourcequota/controller.go` of k8s.io/apiserver.
fn quota_exceeded(daemon_set: &DaemonSet, message: &str) -> Option<Finding> {
    let namespace = &daemon_set.metadata.namespace;
    let finding = |sentence: String, quota: &str| {
        let fix = format!("raise it or free some: kubectl edit resourcequota {quota} -n {namespace}");
        Some(Finding::new(ReasonCode::QuotaExceeded, sentence, fix))
    };
    if let Some((_, rest)) = message.split_once("exceeded quota: ") {
        let mut parts = rest.splitn(2, ", requested: ");
        let quota = parts.next().unwrap_or_default();
        let numbers = parts.next().and_then(|numbers| {
            let (requested, rest) = numbers.split_once(", used: ")?;
            let (used, limited) = rest.split_once(", limited: ")?;
            Some(format!(": asks for {requested}, used {used}, limited to {limited}"))
        });
        return finding(format!("quota {quota} is used up{}", numbers.unwrap_or_default()), quota);
    }
    if let Some((_, rest)) = message.split_once("failed quota: ") {
        let (quota, demand) = rest.split_once(": ")?;
        let sentence = format!("quota {quota} demands of every pod: {demand}");
        let fix = format!("set those in the template; see kubectl describe resourcequota {quota} -n {namespace}");
        return Some(Finding::new(ReasonCode::QuotaExceeded, sentence, fix));
    }
    if let Some((_, rest)) = message.split_once("status unknown for quota: ") {
        let quota = rest.split(", ").next().unwrap_or(rest);
        let sentence = format!("the usage of quota {quota} is not known yet, and until then nothing is let in");
        let fix = format!("wait, or check kube-controller-manager: kubectl get resourcequota {quota} -n {namespace}");
        return Some(Finding::new(ReasonCode::QuotaExceeded, sentence, fix));
    }
    let (_, rest) = message.split_once("insufficient quota to ")?;
    let sentence = format!("no quota of the namespace allows to {rest}");
    let fix = format!("make a quota that covers it: kubectl get resourcequota -n {namespace}");
    Some(Finding::new(ReasonCode::QuotaExceeded, sentence, fix))
}

/// Finds pod security admission in the way: `admission/admission.go` of k8s.io/pod-security-admission.
fn pod_security_denied(daemon_set: &DaemonSet, message: &str) -> Option<Finding> {
    let (_, rest) = message.split_once("violates PodSecurity ")?;
    let (level, violations) = rest.split_once(": ").unwrap_or((rest, ""));
    let level = level.trim_matches('"');
    let namespace = &daemon_set.metadata.namespace;
    Some(Finding::new(
        ReasonCode::PodSecurityDenied,
        format!("namespace {namespace} enforces pod security {level}: {}", without_asides(violations)),
        format!(
            "set the securityContext, or: kubectl label namespace {namespace} \
             pod-security.kubernetes.io/enforce=privileged --overwrite"
        ),
    ))
}

/// Leaves out what stands in parentheses: where in the pod each violation is.
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

/// Finds a webhook that cannot be reached: `pkg/util/webhook/error.go` of k8s.io/apiserver.
fn webhook_unavailable(message: &str) -> Option<Finding> {
    let (_, rest) = message.split_once("failed calling webhook ")?;
    let (webhook, why) = rest.split_once(['"']).and_then(|(_, rest)| rest.split_once('"')).unwrap_or((rest, ""));
    let why = why.trim_start_matches([':', ';', ' ']);
    let why = why.strip_prefix("failed to call webhook: ").unwrap_or(why);
    Some(Finding::new(
        ReasonCode::WebhookUnavailable,
        format!("admission webhook {webhook} cannot be called: {why}"),
        "bring its service back, or delete its configuration: \
         kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations",
    ))
}

/// Finds a webhook or admission policy that refuses the pod:
/// `pkg/admission/plugin/webhook/errors/statuserror.go` and
/// `pkg/admission/plugin/policy/validating/plugin.go` of k8s.io/apiserver.
fn webhook_denied(message: &str) -> Option<Finding> {
    if let Some((_, rest)) = message.split_once("admission webhook \"") {
        let (webhook, why) = rest.split_once("\" denied the request")?;
        let why = why.trim_start_matches([':', ' ']);
        return Some(Finding::new(
            ReasonCode::WebhookDenied,
            format!("admission webhook {webhook} refused the pod: {why}"),
            "change the template as it asks, or the webhook's rule",
        ));
    }
    let (_, rest) = message.split_once("olicy '")?;
    let (policy, rest) = rest.split_once('\'')?;
    let (_, why) = rest.split_once("denied request")?;
    let why = why.trim_start_matches([':', ' ']);
    Some(Finding::new(
        ReasonCode::WebhookDenied,
        format!("admission policy {policy} refused the pod: {why}"),
        "change the template as it asks, or the policy: \
         kubectl get validatingadmissionpolicies,mutatingadmissionpolicies",
    ))
}

/// Finds a missing service account: `plugin/pkg/admission/serviceaccount/admission.go`.
fn service_account_missing(message: &str) -> Option<Finding> {
    let (_, rest) = message.split_once("error looking up service account ")?;
    let (account, _) = rest.split_once(": ").unwrap_or((rest, ""));
    let (namespace, name) = account.split_once('/')?;
    Some(Finding::new(
        ReasonCode::ServiceAccountMissing,
        format!("service account {name} does not exist in namespace {namespace}"),
        format!("kubectl create serviceaccount {name} -n {namespace}"),
    ))
}

/// Finds a missing priority class: `plugin/pkg/admission/priority/admission.go`.
fn priority_class_missing(snapshot: &Snapshot, daemon_set: &DaemonSet, message: &str) -> Option<Finding> {
    let (_, rest) = message.split_once("no PriorityClass with name ")?;
    let class = rest.split_whitespace().next()?;
    let known = snapshot.priority_classes.iter().map(|class| class.metadata.name.as_str());
    let near = near_miss::near_name(class, known);
    Some(Finding::new(
        ReasonCode::PriorityClassMissing,
        format!("priority class {class} does not exist"),
        class_fix(daemon_set, "priority class", "priorityClassName", near),
    ))
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
    Some(Finding::new(
        ReasonCode::RuntimeClassMissing,
        format!("runtime class {class} does not exist"),
        class_fix(daemon_set, "runtime class", "runtimeClassName", near),
    ))
}

/// Says what to do about a class that does not exist: take the one that was likely meant, or make it.
fn class_fix(daemon_set: &DaemonSet, kind: &str, field: &str, near: Option<&str>) -> String {
    let (namespace, name) = (&daemon_set.metadata.namespace, &daemon_set.metadata.name);
    match near {
        Some(near) => format!(
            "likely {near} is meant: kubectl patch ds {name} -n {namespace} --type=merge \
             -p '{{\"spec\":{{\"template\":{{\"spec\":{{\"{field}\":\"{near}\"}}}}}}}}'"
        ),
        None => format!("create the {kind}, or correct {field}: kubectl edit ds {name} -n {namespace}"),
    }
}

/// Finds a LimitRange in the way: `plugin/pkg/admission/limitranger/admission.go`.
fn limit_range_violation(daemon_set: &DaemonSet, message: &str) -> Option<Finding> {
    let usage = ["maximum ", "minimum "].iter().any(|bound| message.contains(bound)) && message.contains(" usage per ");
    if !usage && !message.contains(" max limit to request ratio per ") {
        return None;
    }
    let namespace = &daemon_set.metadata.namespace;
    let words = message.trim_start_matches('[').trim_end_matches(']');
    Some(Finding::new(
        ReasonCode::LimitRangeViolation,
        format!("a LimitRange of namespace {namespace} refuses the pod: {words}"),
        format!("change the template's resources, or the limits: kubectl describe limitrange -n {namespace}"),
    ))
}

/// Finds that the API server refuses the pod for a reason without a code of its own.
fn pod_spec_rejected(daemon_set: &DaemonSet, message: &str) -> Finding {
    let (namespace, name) = (&daemon_set.metadata.namespace, &daemon_set.metadata.name);
    let fix = if message.contains("node label selector conflicts") {
        format!("the template's nodeSelector contradicts the namespace's: kubectl get namespace {namespace} -o yaml")
    } else if message.contains("conflict: runtimeClass.scheduling") {
        format!("the template's nodeSelector contradicts its runtime class's: kubectl edit ds {name} -n {namespace}")
    } else {
        format!("correct the template: kubectl edit ds {name} -n {namespace}")
    };
    Finding::new(ReasonCode::PodSpecRejected, format!("the API server refused the pod: {message}"), fix)
}
