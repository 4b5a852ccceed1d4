//! Refusals by what is configured in the cluster: admission webhooks and admission policies.

use super::create_failure::Refused;
use super::finding::Finding;
use super::node_plugin::NodePlugin;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::startup_taint::{is_startup, removes};
use crate::report::fix::Command;
use crate::report::incident::Refuser;
use crate::report::reason::ReasonCode;
use crate::scheduling::daemon_pods::claim;

/// Returns the command that lists the webhooks of a cluster.
pub(super) fn list() -> Command {
    Command::kubectl(&["get", "mutatingwebhookconfigurations,validatingwebhookconfigurations"])
}

/// Returns the command that lists the webhooks that may change pods.
pub(super) fn mutating() -> Command {
    Command::kubectl(&["get", "mutatingwebhookconfigurations"])
}

/// What a call of a webhook failed with, and what to do then. A connection that fails says less than an answer.
const CALLS: [(&[&str], &str); 15] = [
    (&["no endpoints available for service"], "no pod behind it is ready: see why"),
    (
        &["service \"", "not found"],
        "its service does not exist: install it again, or delete the configuration that it has left behind",
    ),
    (
        &["has expired or is not yet valid"],
        "its certificate has expired, or is not valid yet: renew it, and find out why what renews it (such as cert-manager) has not",
    ),
    (&["certificate is valid for "], OTHER_NAME),
    (&["certificate is not valid for "], OTHER_NAME),
    (&["doesn't contain any "], OTHER_NAME),
    (
        &["Address is not allowed"],
        "the control plane calls only addresses of its own network, and the pod of the service has another one: give it hostNetwork, or \
         exempt these pods in the configuration",
    ),
    (&["x509:"], "its certificate is not the one that the configuration trusts: renew it, or correct caBundle"),
    (&["certificate"], "its certificate is not the one that the configuration trusts: renew it, or correct caBundle"),
    (
        &["could not find the requested resource"],
        "it does not serve the path of its configuration (status 404): correct that",
    ),
    (
        &["asked for the client to provide credentials"],
        "it demands credentials of the API server (status 401): configure those",
    ),
    (&["forbidden"], "it or a proxy before it forbids the call (status 403)"),
    (&["rejected our request for an unknown reason"], "it does not understand the request (status 400): read its log"),
    (
        &["an error on the server (", "has prevented the request"],
        "it has returned an error itself (status 5xx): read its log",
    ),
    (&["currently unable to handle the request"], "it is not available (status 503): see whether its pods are ready"),
];

const OTHER_NAME: &str = "its certificate is not made for the name or address that it is called by: issue one that has it, or correct the \
                          service in the configuration";

/// What is said of an answer that is wrong: `callAttrMutatingHook` of k8s.io/apiserver, pkg/admission/plugin/webhook/mutating/dispatcher.go,
/// and `VerifyAdmissionResponse`, …/request/admissionreview.go, release 1.37.2.
const WRONG: [&str; 6] = [
    "webhook response",
    "webhook returned ",
    "undecodable patch",
    "expected response.uid",
    "may not return response.patch",
    "unsupported patch type",
];

const WRONG_ANSWER: &str =
    "it is reached, and its answer is wrong: read its log, and update it or what it is configured with";

const TOO_LATE: &str = "it does not answer in time: see whether its pods are ready and reached from the API server, or raise timeoutSeconds";

/// Finds a webhook that cannot be called.
pub(super) fn unavailable(refused: Refused<'_>) -> Option<Finding> {
    let (_, rest) = refused.message.split_once("failed calling webhook ")?;
    let (webhook, why) = rest.split_once(['"']).and_then(|(_, rest)| rest.split_once('"')).unwrap_or((rest, ""));
    let why = why.trim_start_matches([':', ';', ' ']);
    let why = why.strip_prefix("failed to call webhook: ").unwrap_or(why);
    let message = format!("failed calling admission webhook {webhook}: {why}");
    let service = service(why);
    let finding = if let Some((namespace, service)) =
        service.filter(|(namespace, _)| needs_these_pods(refused) || lacks_network(refused, namespace))
    {
        let message = format!(
            "{message}; the pods of service {namespace}/{service} do not start without this DaemonSet, so that each waits for the other"
        );
        let own = refused.namespace();
        let advice = format!(
            "the webhook cannot be restored first: exempt namespace {own} in its namespaceSelector, set its failurePolicy to \
             Ignore, or delete its configuration for the time being; nothing else is known to keep the pods away"
        );
        Finding::new(ReasonCode::WebhookUnavailable, message, advice).with_command(list())
    } else {
        // The URL names a timeout, too.
        let failure =
            why.strip_prefix("Post \"").and_then(|rest| rest.split_once("\": ")).map_or(why, |(_, failure)| failure);
        let has = |words: &&str| failure.contains(*words);
        let advice = match CALLS.iter().find(|(says, _)| says.iter().all(&has)) {
            Some((_, advice)) => advice,
            None if WRONG.iter().any(&has) => WRONG_ANSWER,
            None if ["deadline exceeded", "timeout"].iter().any(&has) => TOO_LATE,
            None => "restore the service behind the webhook, or correct its configuration",
        };
        let finding = Finding::new(ReasonCode::WebhookUnavailable, message, advice);
        match service.filter(|_| why.contains("no endpoints available") || why.contains("unable to handle")) {
            Some((namespace, service)) => {
                let slices = Command::kubectl(&["get", "endpointslices", "-o", "yaml"]).namespace(namespace);
                finding.with_command(slices.flag("-l", format!("kubernetes.io/service-name={service}")))
            }
            None => finding.with_command(list()),
        }
    };
    Some(finding.refused_by(Refuser::UnavailableWebhook(webhook.to_owned())))
}

/// Finds a webhook whose patch cannot be applied, or makes something that is no pod: the API server does not say which webhook it is, but
/// counts such answers.
///
/// The messages are those of gopkg.in/evanphx/json-patch.v4, patch.go, and of decoding the patched pod (`callAttrMutatingHook`). The
/// controller sends pods that can be decoded.
pub(super) fn wrong_patch(refused: Refused<'_>) -> Option<Finding> {
    let (_, why) = refused.message.rsplit_once("Internal error occurred: ")?;
    let message = format!("a mutating webhook sends a patch that cannot be applied to the pod: {why}");
    let advice = "fix that webhook, or exempt these pods in its configuration: this does not pass, and neither the template nor the API \
                  server is at fault; the API server's metric apiserver_admission_webhook_rejection_count (error_type \
                  apiserver_internal_error) tells which webhook it is";
    Some(Finding::new(ReasonCode::WebhookUnavailable, message, advice).with_command(list()))
}

/// Finds webhooks that together take longer than OpenShift gives an admission plugin: `pluginHandlerWithTimeout` of
/// github.com/openshift/kubernetes, openshift-kube-apiserver/admission/admissiontimeout/timeoutadmission.go.
pub(super) fn too_slow(refused: Refused<'_>) -> Option<Finding> {
    let (before, time) = refused.message.split_once("\" failed to complete ")?;
    let kind = match before.rsplit_once('"')?.1 {
        "MutatingAdmissionWebhook" => "mutating",
        "ValidatingAdmissionWebhook" => "validating",
        // The others are of the API server itself.
        _ => return None,
    };
    let (_, time) = time.rsplit_once(" in ")?;
    let message = format!("the {kind} webhooks that the pod is sent to do not all answer within {time}");
    let advice = format!(
        "find the {kind} webhook that is slow, and fix it or what it waits for; until then, lower its timeoutSeconds with failurePolicy \
         Ignore, or exempt these pods in its configuration: the API server's metric \
         apiserver_admission_webhook_admission_duration_seconds tells how long each takes"
    );
    Some(Finding::new(ReasonCode::WebhookUnavailable, message, advice).with_command(list()))
}

/// Returns the namespace and the name of the service that was called: its host is `NAME.NAMESPACE.svc`.
fn service(why: &str) -> Option<(&str, &str)> {
    let host = why.split_once("https://")?.1.split([':', '/', '?', '"']).next()?;
    let (service, rest) = host.split_once('.')?;
    let (namespace, rest) = rest.split_once('.')?;
    (rest == "svc" || rest.starts_with("svc.")).then_some((namespace, service))
}

/// Returns whether no node takes other pods before it has one of this DaemonSet, as far as that shows: none is ready, and this is the
/// network plugin, or all have a taint that this DaemonSet removes.
fn needs_these_pods(refused: Refused<'_>) -> bool {
    let nodes = &refused.snapshot.nodes;
    let waits_for_it = |node: &Node| {
        let mut taints = node.spec.taints.iter().filter(|taint| taint.effect != "PreferNoSchedule");
        taints.any(|taint| is_startup(&taint.key) && removes(refused.daemon_set, &taint.key))
            || (!node.is_ready() && NodePlugin::of(refused.daemon_set) == Some(NodePlugin::Network))
    };
    !refused.snapshot.nodes_limited && !nodes.is_empty() && nodes.iter().all(waits_for_it)
}

/// Returns whether this is the network plugin, and the pods of a namespace are all on nodes without a pod of it, and not ready: a node
/// whose plugin has left its configuration there counts as ready, and no taint tells.
fn lacks_network(refused: Refused<'_>, namespace: &str) -> bool {
    let Refused { snapshot, daemon_set, .. } = refused;
    let is_own = |pod: &Pod| claim(daemon_set, pod).is_claimed();
    let has_network =
        |node: &str| snapshot.pods.iter().any(|pod| pod.spec.node_name == node && is_own(pod) && pod.is_ready());
    let is_behind = |pod: &&Pod| pod.metadata.namespace == namespace && !pod.spec.host_network && !pod.is_terminal();
    // Of the pods of other controllers, the condition is only there if it is not met.
    let waits = |pod: &Pod| {
        let node = &pod.spec.node_name;
        !node.is_empty() && pod.condition("Ready").is_some_and(|ready| ready.status != "True") && !has_network(node)
    };
    let mut behind = snapshot.pods.iter().filter(|pod| !is_own(pod)).filter(is_behind).peekable();
    NodePlugin::of(daemon_set) == Some(NodePlugin::Network) && behind.peek().is_some() && behind.all(waits)
}

/// What a webhook says if it has failed itself.
const FAILURES: [&str; 8] = [
    "Internal error",
    "InternalError",
    "internal server error",
    "deadline exceeded",
    "connection refused",
    "timed out",
    "i/o timeout",
    "ServiceUnavailable",
];

/// Finds a webhook that denies the pod, or has answered so that the API server does.
pub(super) fn denied(refused: Refused<'_>) -> Option<Finding> {
    let (_, rest) = refused.message.split_once("admission webhook \"")?;
    let (webhook, why) = rest.split_once('"')?;
    let Some(why) = why.strip_prefix(" denied the request") else {
        let message = format!("admission webhook {webhook}{why}");
        let advice = "the webhook fails, not the template: update it, or correct its configuration";
        let finding = Finding::new(ReasonCode::WebhookUnavailable, message, advice).with_command(list());
        return Some(finding.refused_by(Refuser::UnavailableWebhook(webhook.to_owned())));
    };
    let why = why.trim_start_matches([':', ' ']);
    let message = format!("admission webhook {webhook} denied the pod: {why}");
    let has_failed = FAILURES.iter().any(|failure| why.contains(failure));
    let rule = rule_of(why);
    let advice = match rule {
        _ if has_failed => "the webhook has failed itself, by its own words: read its log".to_owned(),
        Some((kind, name, _)) => {
            let others = why.matches("\n[").count();
            let others =
                if others == 0 { String::new() } else { format!(" and {others} more, which the message names,") };
            let verb = if others.is_empty() { "demands" } else { "demand" };
            format!("change the template to what {kind} {name}{others} {verb}, or exempt it there")
        }
        // Nobody but Google configures it.
        None if ["GKE Warden", "Autopilot", "autogke-"].iter().any(|words| why.contains(words)) => {
            "change the template to what GKE Autopilot allows: its rules have no exceptions for workloads of one's own"
                .to_owned()
        }
        None => "change the template to what the webhook demands, or exempt it in the webhook's rules".to_owned(),
    };
    let get = rule.filter(|_| !has_failed).map(|(_, name, resource)| {
        let get = Command::kubectl(&["get", resource, "-A", "-o", "yaml"]);
        get.flag("--field-selector", format!("metadata.name={name}"))
    });
    let finding = Finding::new(ReasonCode::WebhookDenied, message, advice).with_command(get);
    Some(finding.refused_by(Refuser::Webhook(webhook.to_owned())))
}

/// Returns the rule of a policy engine that a denial names: its kind, its name, and its resource.
///
/// Gatekeeper writes `[CONSTRAINT] why` (pkg/webhook/policy.go), and Kyverno `blocked due to the following policies`, then `POLICY:`
/// (pkg/webhooks/utils/block.go).
fn rule_of(why: &str) -> Option<(&'static str, &str, &'static str)> {
    if let Some((constraint, _)) = why.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        return Some(("Gatekeeper's constraint", constraint, "constraints"));
    }
    let (_, policies) = why.split_once("due to the following policies")?;
    let policy = policies.split(|c: char| c.is_whitespace() || c == ':').find(|word| !word.is_empty())?;
    Some(("Kyverno's policy", policy, "clusterpolicies,policies"))
}

/// Finds an admission policy that denies the pod, or cannot be evaluated: `PolicyError.Error` of k8s.io/apiserver,
/// pkg/admission/plugin/policy/generic/policy_dispatcher.go, names mutating ones, and `Dispatch` of …/validating/dispatcher.go the
/// others, release 1.37.2.
pub(super) fn denied_by_policy(refused: Refused<'_>) -> Option<Finding> {
    let (type_of_policy, rest) = refused.message.split_once("olicy ")?;
    let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let (policy, rest) = rest[1..].split_once(quote)?;
    let (binding, why) = rest.split_once("denied request")?;
    let why = why.trim_start_matches([':', ' ']);
    let is_validating = type_of_policy.ends_with("ValidatingAdmissionP");
    let (policies, bindings) = match is_validating {
        true => ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        false => ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
    };
    let binding = binding.split_once('\'').and_then(|(_, rest)| rest.split_once('\'')).map(|(name, _)| name);
    let cannot_be_evaluated =
        ["resulted in error", "failed to configure", "compilation"].iter().any(|words| why.contains(words));
    let (advice, kind, name) = match binding {
        Some(binding) if why.contains("no params found") => {
            let advice = format!(
                "create the object that paramRef of binding {binding} selects, or correct paramRef: none exists, whatever the template \
                 is like"
            );
            (advice, bindings, binding)
        }
        Some(binding) if why.contains("failed to configure binding") => {
            let advice =
                format!("the policy cannot be evaluated, whatever the template is like: correct its binding {binding}");
            (advice, bindings, binding)
        }
        _ if cannot_be_evaluated => {
            let advice =
                "the policy cannot be evaluated, whatever the template is like: correct the policy or its binding";
            (advice.to_owned(), policies, policy)
        }
        _ if is_validating => {
            let advice = "change the template to what the policy demands, or exempt it in the policy";
            (advice.to_owned(), policies, policy)
        }
        // It refuses nothing by its rules.
        _ => {
            let advice =
                "correct the policy: what it changes in the pod fails; or exempt these pods in its matchConditions";
            (advice.to_owned(), policies, policy)
        }
    };
    let message = format!("admission policy {policy} denied the pod: {why}");
    let get = Command::kubectl(&["get", kind, "-o", "yaml"]).name(name);
    let finding = Finding::new(ReasonCode::WebhookDenied, message, advice).with_command(get);
    Some(finding.refused_by(Refuser::Policy(policy.to_owned())))
}

/// Finds that the webhook for images denies one; it is configured in a file of the API server.
pub(super) fn denied_by_image_policy(refused: Refused<'_>) -> Option<Finding> {
    let (_, why) = refused.message.split_once("denied one or more images")?;
    let message =
        format!("the image policy webhook of the API server denied an image: {}", why.trim_start_matches([':', ' ']));
    let advice = "use an image that the policy allows, or ask who runs the API server to allow this one";
    Some(
        Finding::new(ReasonCode::WebhookDenied, message, advice)
            .refused_by(Refuser::Webhook("ImagePolicyWebhook".to_owned())),
    )
}
