//! Why the API server did not create or delete a pod, by the message of the controller's `FailedCreate` or `FailedDelete` event.
//!
//! [`REFUSALS`] is the list of those that are known, with where upstream writes them: Kubernetes 1.37.2, and OpenShift. Whose
//! words a message is decides what helps: the template is to be corrected only if the message is about a field that it has.

use serde_json::Value;

use super::finding::{Finding, Origin, edit};
use super::limit_range;
use super::near_miss;
use super::pod_security;
use super::quota;
use super::webhook;
use crate::facts::exceeded_quota::EXCEEDED_QUOTA;
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::Snapshot;
use crate::report::fix::Command;
use crate::report::incident::Refuser;
use crate::report::reason::ReasonCode;

/// A pod that was refused.
#[derive(Clone, Copy)]
pub(super) struct Refused<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) daemon_set: &'a DaemonSet,
    /// The API server's words.
    pub(super) message: &'a str,
}

impl<'a> Refused<'a> {
    /// Returns the namespace of the pod.
    pub(super) fn namespace(self) -> &'a str {
        &self.daemon_set.metadata.namespace
    }

    /// Returns the origin of a refusal because of these fields, which says nothing unless the template has them all.
    pub(super) fn of_fields(self, fields: Option<Vec<&str>>) -> Origin {
        let template = self.daemon_set.template();
        let fields = fields.filter(|fields| fields.iter().all(|field| template.sets(field))).unwrap_or_default();
        Origin::Policy(fields.into_iter().map(str::to_owned).collect())
    }

    /// Returns the message behind some words.
    pub(super) fn after(self, words: &str) -> Option<&'a str> {
        Some(self.message.split_once(words)?.1)
    }
}

/// Who refuses a pod with which words.
struct Refusal {
    /// What the messages contain.
    says: &'static [&'static str],
    /// Reads the rest; `None` if the message only resembles it.
    read: fn(Refused<'_>) -> Option<Finding>,
}

const fn refusal_of(says: &'static [&'static str], read: fn(Refused<'_>) -> Option<Finding>) -> Refusal {
    Refusal { says, read }
}

/// Everything that is known to refuse pods. What is configured in a cluster comes first: its messages may quote any others.
const REFUSALS: [Refusal; 32] = [
    // k8s.io/apiserver: pkg/util/webhook/error.go, pkg/admission/plugin/webhook/errors/statuserror.go and …/mutating/dispatcher.go.
    refusal_of(&["failed calling webhook "], webhook::unavailable),
    refusal_of(&["admission webhook \""], webhook::denied),
    refusal_of(
        &[
            " operation does not apply: ",
            " operation failed to decode ",
            " for path: '",
            "esting value ",
            "invalid index",
            "nonexistent key",
            "Unexpected kind: ",
            "invalid character ",
            "cannot unmarshal ",
            "json parse error",
            "quantities must match",
            "'Kind' is missing",
        ],
        webhook::wrong_patch,
    ),
    refusal_of(&[" failed to complete mutation in ", " failed to complete validation in "], webhook::too_slow),
    // k8s.io/apiserver: pkg/admission/plugin/policy/validating/dispatcher.go and …/policy/generic/policy_dispatcher.go.
    refusal_of(&["olicy '", "olicy \""], webhook::denied_by_policy),
    // plugin/pkg/admission/imagepolicy/admission.go.
    refusal_of(&["image policy webhook backend denied"], webhook::denied_by_image_policy),
    // github.com/openshift/apiserver-library-go: pkg/securitycontextconstraints/sccadmission/admission.go.
    refusal_of(&["against any security context constraint"], pod_security::constraint_denied),
    // plugin/pkg/admission/security/podsecuritypolicy/admission.go, up to release 1.24.
    refusal_of(
        &["against any pod security policy", "PodSecurityPolicy: unable to admit pod"],
        pod_security::policy_denied,
    ),
    // k8s.io/apiserver: pkg/admission/plugin/namespace/lifecycle/admission.go.
    refusal_of(&["because it is being terminated"], namespace_terminating),
    refusal_of(&["namespaces \"", "namespace \""], namespace_missing),
    // k8s.io/apiserver: pkg/admission/plugin/resourcequota/controller.go.
    refusal_of(
        &[EXCEEDED_QUOTA, "failed quota: ", "status unknown for quota: ", "insufficient quota to "],
        quota::exceeded,
    ),
    // k8s.io/pod-security-admission: admission/admission.go.
    refusal_of(&["violates PodSecurity "], pod_security::level_denied),
    // plugin/pkg/admission/serviceaccount/admission.go.
    refusal_of(&["error looking up service account "], service_account_missing),
    refusal_of(&["does not reference that "], service_account_without_secret),
    refusal_of(&["no API token found for service account"], |refused| {
        control_plane(refused, "wait: kube-controller-manager creates the token of a new service account", None)
    }),
    // plugin/pkg/admission/priority/admission.go.
    refusal_of(&["no PriorityClass with name "], priority_class_missing),
    refusal_of(&["the integer value of priority ("], |refused| {
        let advice = "remove priority from the template: priorityClassName alone decides it";
        Some(rejected(refused, advice).with_command(edit(refused.daemon_set)))
    }),
    refusal_of(&["the string value of PreemptionPolicy ("], |refused| {
        let advice = "remove preemptionPolicy from the template, or use a priority class that has the same: the class alone decides it";
        Some(rejected(refused, advice).with_command(edit(refused.daemon_set)))
    }),
    // plugin/pkg/admission/runtimeclass/admission.go.
    refusal_of(&["RuntimeClass \""], runtime_class_missing),
    refusal_of(&["pod rejected: Pod's Overhead ", "pod rejected: Pod Overhead "], |refused| {
        let advice = "remove overhead from the template: its runtime class alone decides it";
        Some(rejected(refused, advice).with_command(edit(refused.daemon_set)))
    }),
    refusal_of(&["conflict: runtimeClass.scheduling"], |refused| {
        let advice = "make the nodeSelector of the template agree with the one of its runtime class";
        Some(rejected(refused, advice).with_command(edit(refused.daemon_set)))
    }),
    // plugin/pkg/admission/limitranger/admission.go.
    refusal_of(&["there was an error enforcing limit ranges"], |refused| {
        control_plane(
            refused,
            "wait: the API server could not read the LimitRanges; if it persists, check its log",
            None,
        )
    }),
    refusal_of(&[" usage per ", " max limit to request ratio per "], limit_range::violated),
    // pkg/apis/core/validation/validation.go, ValidateContainerResourceRequirements.
    refusal_of(&[" limit of "], limit_range::defaulted_limit),
    // plugin/pkg/admission/podnodeselector/admission.go and …/podtolerationrestriction/admission.go.
    refusal_of(&["node label selector conflict", "node label selector labels conflict"], |refused| {
        let advice = "make the nodeSelector of the template agree with what the annotations of the namespace allow, or \
                      change those";
        Some(rejected(refused, advice).with_command(get_namespace(refused)))
    }),
    refusal_of(&["pod tolerations (possibly merged"], |refused| {
        let advice = "the annotation scheduler.alpha.kubernetes.io/tolerationsWhitelist of the namespace allows other \
                      tolerations only: add those of the template to it, or remove them from the template";
        Some(rejected(refused, advice).with_command(get_namespace(refused)))
    }),
    // pkg/registry/rbac and plugin/pkg/admission/gc/gc_admission.go: what the controller may do, not what the pod may.
    refusal_of(
        &[
            "cannot create resource \"pods\"",
            "cannot delete resource \"pods\"",
            "cannot set blockOwnerDeletion",
            "cannot set an ownerRef",
        ],
        |refused| {
            let role = "system:controller:daemon-set-controller";
            let command = Command::kubectl(&["describe", "clusterrole,clusterrolebinding"]).name(role);
            let advice = "the controller lacks a permission: restore its cluster role and binding; if one of them is missing, a restart of \
                          the API server recreates it";
            control_plane(refused, advice, Some(command))
        },
    ),
    // go.etcd.io/etcd/api/v3: v3rpc/rpctypes/error.go.
    refusal_of(&["database space exceeded"], |refused| {
        let advice = "etcd has used up its space, so that nothing can be created or changed in the cluster: compact and defragment etcd, \
                      then disarm its alarm (etcdctl alarm disarm); --quota-backend-bytes is the limit";
        control_plane(refused, advice, None)
    }),
    refusal_of(&["request is too large", "Request entity too large", "message larger than max"], |refused| {
        let advice = "the pod is too large to be stored (1.5 MiB in etcd by default): move what is long in the template, such as \
                      arguments and annotations, into ConfigMaps, or find the webhook that adds to the pod";
        Some(rejected(refused, advice).with_command(edit(refused.daemon_set)))
    }),
    // k8s.io/apimachinery: pkg/api/errors/errors.go, NewConflict, NewAlreadyExists and NewGenerateNameConflict.
    refusal_of(&["Operation cannot be fulfilled on", "already exists", "please try again"], |refused| {
        control_plane(refused, "wait: the controller tries again, and this passes by itself", None)
    }),
    // …/mutating/dispatcher.go: the time of all webhooks counts.
    refusal_of(&["did not complete within requested timeout"], |refused| {
        let advice = "wait: the controller tries again; if it persists, find out whether an admission webhook is slow, and check \
                      kube-apiserver, etcd and the load on them";
        control_plane(refused, advice, None)
    }),
    // The rest of k8s.io/apimachinery: pkg/api/errors/errors.go, etcd's errors, and those of Go's network.
    refusal_of(
        &[
            "etcdserver: ",
            "Too many requests",
            "too many requests",
            "Timeout: ",
            "timed out",
            "deadline exceeded",
            "in the time allotted",
            "rate limiter",
            "Internal error occurred",
            "an error on the server",
            "currently unable to handle",
            "not yet ready to handle request",
            "connection refused",
            "connection reset",
            "connection lost",
            "no route to host",
            "EOF",
            "Unauthorized",
            "timeout",
        ],
        |refused| {
            // A field may have such a name or value.
            if problem(refused.message) != refused.message {
                return None;
            }
            let advice =
                "wait: the controller tries again; if it persists, check kube-apiserver, etcd and the load on them";
            control_plane(refused, advice, None)
        },
    ),
];

/// Finds why a pod of the DaemonSet could not be created or deleted, from the message of a `FailedCreate` or `FailedDelete` event.
pub fn classify(snapshot: &Snapshot, daemon_set: &DaemonSet, message: &str) -> Finding {
    let refused = Refused { snapshot, daemon_set, message: refusal(message) };
    let says = |kind: &&Refusal| kind.says.iter().any(|words| refused.message.contains(words));
    let known = REFUSALS.iter().filter(says).find_map(|kind| (kind.read)(refused));
    known.unwrap_or_else(|| invalid(refused))
}

/// Returns the API server's message, without the prefixes of the event recorder and the controller.
pub fn refusal(message: &str) -> &str {
    let message = message.strip_prefix("(combined from similar events): ").unwrap_or(message);
    let message = ["Error creating: ", "Error deleting: "]
        .into_iter()
        .find_map(|prefix| message.strip_prefix(prefix))
        .unwrap_or(message);
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

fn service_account_missing(refused: Refused<'_>) -> Option<Finding> {
    let rest = refused.after("error looking up service account ")?;
    let (account, problem) = rest.split_once(": ").unwrap_or((rest, ""));
    let (namespace, name) = account.split_once('/')?;
    if !problem.is_empty() && !problem.contains("not found") {
        return control_plane(refused, "wait; if it persists, check kube-apiserver", None);
    }
    let finding = Finding::new(
        ReasonCode::ServiceAccountMissing,
        format!("serviceaccount {name} not found in namespace {namespace}"),
        match name {
            "default" => "wait: kube-controller-manager creates it in a new namespace; if it does not, create it",
            _ => "create it with its role bindings, or correct serviceAccountName",
        },
    );
    let finding = match name {
        "default" => finding,
        _ => finding.with_origin(Origin::object("ServiceAccount", name)),
    };
    Some(finding.with_command(Command::kubectl(&["create", "serviceaccount"]).namespace(namespace).name(name)))
}

/// Finds a secret that the service account does not list, although its annotation `kubernetes.io/enforce-mountable-secrets` demands it.
fn service_account_without_secret(refused: Refused<'_>) -> Option<Finding> {
    let (_, rest) = refused.message.split_once("because service account ")?;
    let account = rest.split(' ').next()?;
    let advice = format!(
        "serviceaccount {account} lets its pods use only the secrets that it lists (annotation \
         kubernetes.io/enforce-mountable-secrets): add the secret to it, or remove the annotation"
    );
    let get = Command::kubectl(&["get", "serviceaccount", "-o", "yaml"]).namespace(refused.namespace()).name(account);
    Some(rejected(refused, &advice).with_command(get))
}

fn priority_class_missing(refused: Refused<'_>) -> Option<Finding> {
    let class = refused.after("no PriorityClass with name ")?.split_whitespace().next()?;
    let known = refused.snapshot.priority_classes.iter().map(|class| class.metadata.name.as_str());
    Some(class_missing(refused, ReasonCode::PriorityClassMissing, ("PriorityClass", "priorityClassName"), class, known))
}

fn runtime_class_missing(refused: Refused<'_>) -> Option<Finding> {
    let (class, rest) = refused.after("RuntimeClass \"")?.split_once('"')?;
    if !rest.starts_with(" not found") {
        return None;
    }
    let known = refused.snapshot.runtime_classes.iter().map(|class| class.metadata.name.as_str());
    Some(class_missing(refused, ReasonCode::RuntimeClassMissing, ("RuntimeClass", "runtimeClassName"), class, known))
}

/// Finds a class of a kind that does not exist, in the field of the template that names it, and the one that was likely meant.
fn class_missing<'a>(
    refused: Refused<'_>,
    code: ReasonCode,
    (kind, field): (&'static str, &str),
    class: &str,
    known: impl Iterator<Item = &'a str>,
) -> Finding {
    let message = format!("{} {class} not found", kind.to_lowercase());
    let advice = match near_miss::near_name(class, known) {
        Some(near) => format!("correct {field}: likely {near}"),
        None => format!("create the class, or correct {field}"),
    };
    let finding = Finding::new(code, message, advice).with_origin(Origin::object(kind, class));
    finding.with_command(edit(refused.daemon_set))
}

/// Finds a namespace that is being deleted.
fn namespace_terminating(refused: Refused<'_>) -> Option<Finding> {
    let namespace = refused.namespace();
    let message = format!("namespace {namespace} is being deleted, so no pod is created in it");
    let advice = "the template is right; find what blocks the deletion: the conditions of the namespace name it";
    let finding = Finding::new(ReasonCode::NamespaceTerminating, message, advice);
    Some(finding.with_command(get_namespace(refused)).refused_by(Refuser::Namespace(namespace.to_owned())))
}

/// Finds a namespace that does not exist.
fn namespace_missing(refused: Refused<'_>) -> Option<Finding> {
    let (_, rest) = refused.message.split_once('"')?;
    let (namespace, rest) = rest.split_once('"')?;
    if !rest.starts_with(" not found") {
        return None;
    }
    let message = format!("namespace {namespace} does not exist, so no pod is created in it");
    let finding = Finding::new(ReasonCode::NamespaceTerminating, message, "wait until the DaemonSet is deleted, too");
    Some(finding.with_command(get_namespace(refused)))
}

fn get_namespace(refused: Refused<'_>) -> Command {
    Command::kubectl(&["get", "namespace", "-o", "yaml"]).name(refused.namespace())
}

/// Finds that the control plane itself fails, whatever the pod is like.
fn control_plane(refused: Refused<'_>, advice: &str, command: Option<Command>) -> Option<Finding> {
    let message = format!("the API server could not create the pod: {}", refused.message);
    Some(Finding::new(ReasonCode::ApiServerFailing, message, advice).with_command(command))
}

pub(super) fn whose_words(refused: Refused<'_>) -> String {
    format!("the API server rejected the pod: {}", refused.message)
}

/// Finds that the API server rejected the pod for a reason without a code of its own.
pub(super) fn rejected(refused: Refused<'_>, advice: &str) -> Finding {
    Finding::new(ReasonCode::PodSpecRejected, whose_words(refused), advice)
}

/// Finds that the pod is invalid: the template is at fault if it has the field that the message names, or lacks the one that is
/// required. Otherwise admission has set it. Nothing is known about other messages.
fn invalid(refused: Refused<'_>) -> Finding {
    let fields = || match problem(refused.message) {
        problem if problem == refused.message => None,
        problem => problem.trim_start_matches('[').split_once(": "),
    };
    let Some((path, error)) = fields() else {
        let advice = "an admission plugin of the API server that is not known here refuses the pod; the template may be right: ask the \
                      administrator of the cluster which plugin demands this";
        return rejected(refused, advice);
    };
    if is_in_template(refused.daemon_set, path, error) {
        let field = (!error.starts_with("Required value")).then(|| path.rsplit('.').next()).flatten();
        let finding = rejected(refused, &format!("correct {path} in the template"));
        let origin = refused.of_fields(field.map(|field| vec![field.split('[').next().unwrap_or(field)]));
        return finding.with_origin(origin).with_command(edit(refused.daemon_set));
    }
    let advice =
        format!("{path} is not like this in the template: an admission webhook or a LimitRange has set it; find which");
    rejected(refused, &advice).with_command(webhook::list())
}

/// Returns whether the template has what an error of validation is about: the field with this value, or for a required field that is
/// missing, what should have it.
fn is_in_template(daemon_set: &DaemonSet, path: &str, error: &str) -> bool {
    let Some(template) = daemon_set.object.pointer("/spec/template") else { return false };
    let mut keys: Vec<&str> = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        // `annotations[example.com/key]` has dots in its key.
        let (key, after) = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']').unwrap_or((inner, "")),
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        keys.push(key);
        rest = after.strip_prefix('.').unwrap_or(after);
    }
    let found = |keys: &[&str]| {
        keys.iter().try_fold(template, |value, key| match value {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            value => value.get(key),
        })
    };
    if error.starts_with("Required value") {
        return found(&keys).is_none_or(is_empty) && found(&keys[..keys.len().saturating_sub(1)]).is_some();
    }
    let Some(value) = found(&keys) else { return false };
    // `ErrorBody`, k8s.io/apimachinery/pkg/util/validation/field/errors.go, release 1.37.2, writes the value as JSON or Go does.
    let quoted = error.split_once(": ").map_or("", |(_, rest)| rest);
    let Some(Ok(quoted)) = serde_json::Deserializer::from_str(quoted).into_iter::<Value>().next() else { return true };
    let is_quoted = |value: &Value| *value == quoted;
    match value {
        _ if quoted.is_object() || quoted.is_array() => true,
        Value::Array(items) => items.iter().any(is_quoted),
        Value::Object(fields) => fields.iter().any(|(key, value)| quoted == key.as_str() || is_quoted(value)),
        scalar => is_quoted(scalar),
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_str() == Some("")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::{classify, refusal};
    use crate::coverage::test_support::{World, world};
    use crate::report::reason::{Reason, ReasonCode};

    fn found(world: World, message: &str) -> Reason {
        let snapshot = world.finish();
        classify(&snapshot, &snapshot.daemon_sets[0], message).reason()
    }

    fn with_limit_range(limits: Value, container: Value) -> World {
        let mut world = world().template(json!({"containers": [container]}));
        let range = json!({"metadata": {"name": "small", "namespace": "default"}, "spec": {"limits": [limits]}});
        world.snapshot.limit_ranges.push(from_value(range).unwrap());
        world
    }

    #[test]
    fn each_refusal_has_its_code_its_advice_and_its_command() {
        use ReasonCode as R;
        let not_usable = "Forbidden: not usable by user or serviceaccount";
        let constraint = |why: &str, unusable: &[&str]| {
            let unusable: Vec<String> =
                unusable.iter().map(|name| format!("provider \"{name}\": {not_usable}")).collect();
            format!(
                "pods \"agent-\" is forbidden: unable to validate against any security context constraint: [{why}, {}]",
                unusable.join(", ")
            )
        };
        let port =
            "provider restricted-v2: .containers[0].hostPort: Invalid value: 80: Host ports are not allowed to be used";
        let path = "spec.volumes[0]: Invalid value: \"hostPath\": hostPath volumes are not allowed to be used";
        let lists = "kubectl get 'mutatingwebhookconfigurations,validatingwebhookconfigurations'";
        let quota = "kubectl describe resourcequota -n default q";
        let patch = "exempt these pods in its configuration";
        let unavailable = |why: &str| {
            format!(
                "Internal error occurred: failed calling webhook \"w.io\": failed to call webhook: Post \"https://hook.ops.svc:443/x?timeout=10s\": {why}"
            )
        };
        let rows: Vec<(String, R, &str, &str)> = vec![
            (constraint(port, &["anyuid", "hostnetwork-v2", "privileged"]), R::SecurityConstraintDenied, "grant the account", "oc adm policy add-scc-to-user -n default -z default hostnetwork-v2"),
            (constraint(path, &["hostnetwork", "hostaccess", "privileged"]), R::SecurityConstraintDenied, "template may be right", "oc adm policy add-scc-to-user -n default -z default hostaccess"),
            (constraint(path, &["custom"]), R::SecurityConstraintDenied, "grant the account", "kubectl get securitycontextconstraints"),
            ("unable to validate against any pod security policy: []".into(), R::SecurityConstraintDenied, "PodSecurityPolicy", "kubectl get podsecuritypolicies"),
            ("namespaces \"default\" not found".into(), R::NamespaceTerminating, "wait", "kubectl get namespace -o yaml default"),
            ("pods \"a\" is forbidden: exceeded quota: q, requested: requests.cpu=3, used: requests.cpu=0, limited: requests.cpu=2".into(), R::QuotaExceeded, "one pod takes requests.cpu=3", quota),
            ("pods \"a\" is forbidden: exceeded quota: q, requested: limits.memory=1Gi, used: limits.memory=2Gi, limited: limits.memory=2Gi".into(), R::QuotaExceeded, "sets no memory limits, so a LimitRange", quota),
            ("pods \"a\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2".into(), R::QuotaExceeded, "raise the quota, or free some of it", quota),
            ("pods \"a\" is forbidden: exceeded quota: q, requested: cpu=100m, used: cpu=2, limited: cpu=2".into(), R::QuotaExceeded, "free some of it", quota),
            ("insufficient quota to match these scopes: [{PriorityClass In [system-node-critical]}]".into(), R::QuotaExceeded, "scopeSelector", "kubectl describe resourcequota -n default"),
            ("pods \"a\" is forbidden: insufficient quota to consume: requests.storage".into(), R::QuotaExceeded, "create a ResourceQuota in namespace default", "kubectl describe resourcequota -n default"),
            ("pods \"a\" is forbidden: error looking up service account default/default: serviceaccount \"default\" not found".into(), R::ServiceAccountMissing, "wait", "kubectl create serviceaccount -n default default"),
            ("pods \"a\" is forbidden: error looking up service account default/agent: etcdserver: request timed out".into(), R::ApiServerFailing, "wait", ""),
            ("pods \"a\" is forbidden: volume with secret.secretName=\"tls\" is not allowed because service account agent does not reference that secret".into(), R::PodSpecRejected, "enforce-mountable-secrets", "kubectl get serviceaccount -o yaml -n default agent"),
            ("pods \"a\" is forbidden: pod node label selector conflicts with its namespace node label selector".into(), R::PodSpecRejected, "annotations of the namespace", "kubectl get namespace -o yaml default"),
            ("pods \"a\" is forbidden: pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist".into(), R::PodSpecRejected, "tolerationsWhitelist", "kubectl get namespace -o yaml default"),
            ("pods is forbidden: User \"system:serviceaccount:kube-system:daemon-set-controller\" cannot create resource \"pods\" in API group \"\" in the namespace \"default\"".into(), R::ApiServerFailing, "lacks a permission", "kubectl describe 'clusterrole,clusterrolebinding' system:controller:daemon-set-controller"),
            ("pods \"a\" is forbidden: the integer value of priority (0) must not be provided in pod spec; priority admission controller computed 1000 from the given PriorityClass name".into(), R::PodSpecRejected, "remove priority from the template", "kubectl edit ds -n default agent"),
            ("pods \"a\" is forbidden: the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller computed PreemptLowerPriority from the given PriorityClass name".into(), R::PodSpecRejected, "remove preemptionPolicy from the template", "kubectl edit ds -n default agent"),
            ("pods \"a\" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".into(), R::PodSpecRejected, "remove overhead from the template", "kubectl edit ds -n default agent"),
            ("pods \"a\" is forbidden: unable to CREATE pods at this time because there was an error enforcing limit ranges".into(), R::ApiServerFailing, "LimitRanges", ""),
            ("admission webhook \"policycontrollerv2.common-webhooks.networking.gke.io\" denied the request: hostNetwork is disallowed in Autopilot".into(), R::WebhookDenied, "no exceptions", ""),
            ("etcdserver: mvcc: database space exceeded".into(), R::ApiServerFailing, "etcdctl alarm disarm", ""),
            ("etcdserver: request is too large".into(), R::PodSpecRejected, "too large", "kubectl edit ds -n default agent"),
            ("Request entity too large: limit is 3145728".into(), R::PodSpecRejected, "too large", "kubectl edit ds -n default agent"),
            ("etcdserver: leader changed".into(), R::ApiServerFailing, "wait: the controller tries again; if it persists", ""),
            ("Operation cannot be fulfilled on resourcequotas \"q\": the object has been modified; please apply your changes to the latest version and try again".into(), R::ApiServerFailing, "passes by itself", ""),
            ("pods \"agent-x\" already exists".into(), R::ApiServerFailing, "passes by itself", ""),
            ("Too many requests: the server is overloaded".into(), R::ApiServerFailing, "the load on them", ""),
            ("Timeout: request did not complete within requested timeout - context deadline exceeded".into(), R::ApiServerFailing, "wait", ""),
            ("Internal error occurred: resource quota evaluation timed out".into(), R::ApiServerFailing, "wait", ""),
            ("Post \"https://10.0.0.1:443/api/v1/namespaces/default/pods\": dial tcp 10.0.0.1:443: connect: connection refused".into(), R::ApiServerFailing, "wait", ""),
            (unavailable("no endpoints available for service \"hook\""), R::WebhookUnavailable, "no pod behind it is ready", "kubectl get endpointslices -o yaml -n ops -l 'kubernetes.io/service-name=hook'"),
            (unavailable("service \"hook\" not found"), R::WebhookUnavailable, "left behind", lists),
            (unavailable("x509: certificate has expired or is not yet valid"), R::WebhookUnavailable, "has expired", lists),
            (unavailable("x509: certificate signed by unknown authority"), R::WebhookUnavailable, "caBundle", lists),
            (unavailable("context deadline exceeded"), R::WebhookUnavailable, "in time", lists),
            (unavailable("EOF"), R::WebhookUnavailable, "restore the service", lists),
            ("Internal error occurred: failed calling webhook \"w.io\": failed to call webhook: Post \"https://w.ops.svc:443/\": x509: certificate is valid for w, not w.ops.svc".into(), R::WebhookUnavailable, "not made for the name", lists),
            ("Internal error occurred: failed calling webhook \"w.io\": failed to call webhook: Post \"https://w.ops.svc:443/\": tls: failed to verify certificate: x509: certificate is not valid for any names, but wanted to match w.ops.svc".into(), R::WebhookUnavailable, "not made for the name", lists),
            ("Internal error occurred: failed calling webhook \"w.io\": failed to call webhook: Post \"https://w.ops.svc:443/\": Address is not allowed".into(), R::WebhookUnavailable, "addresses of its own network", lists),
            ("Internal error occurred: failed calling webhook \"w.io\": failed to call webhook: the server could not find the requested resource".into(), R::WebhookUnavailable, "status 404", lists),
            ("Internal error occurred: failed calling webhook \"w.io\": failed to call webhook: an error on the server (\"\") has prevented the request from succeeding".into(), R::WebhookUnavailable, "status 5xx", lists),
            ("Internal error occurred: failed calling webhook \"w.io\": received invalid webhook response: expected response.uid".into(), R::WebhookUnavailable, "its answer is wrong", lists),
            ("Internal error occurred: failed calling webhook \"w.io\": webhook returned response.patchType but not response.patch".into(), R::WebhookUnavailable, "its answer is wrong", lists),
            ("Internal error occurred: failed calling webhook \"w.io\": expected response.uid=\"1\", got \"\"".into(), R::WebhookUnavailable, "its answer is wrong", lists),
            ("Internal error occurred: failed calling webhook \"w.io\": received undecodable patch in webhook response: json: cannot unmarshal object into Go value of type jsonpatch.Patch".into(), R::WebhookUnavailable, "its answer is wrong", lists),
            ("Internal error occurred: Internal error occurred: jsonpatch add operation does not apply: doc is missing path: \"/spec/volumes/0\"".into(), R::WebhookUnavailable, patch, lists),
            ("Internal error occurred: replace operation does not apply: doc is missing key: /metadata/annotations/a: missing value".into(), R::WebhookUnavailable, patch, lists),
            ("Internal error occurred: error in remove for path: '/spec/tolerations/7': Unable to access invalid index: 7: invalid index referenced".into(), R::WebhookUnavailable, patch, lists),
            ("Internal error occurred: testing value /spec/hostNetwork failed: test failed".into(), R::WebhookUnavailable, patch, lists),
            ("Internal error occurred: Unexpected kind: unknown".into(), R::WebhookUnavailable, patch, lists),
            ("Internal error occurred: invalid character '}' after top-level value".into(), R::WebhookUnavailable, patch, lists),
            ("Internal error occurred: json: cannot unmarshal string into Go struct field Container.spec.containers.ports of type int32".into(), R::WebhookUnavailable, patch, lists),
            ("Internal error occurred: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".into(), R::WebhookUnavailable, patch, lists),
            ("Internal error occurred: admission plugin \"MutatingAdmissionWebhook\" failed to complete mutation in 13s".into(), R::WebhookUnavailable, "find the mutating webhook that is slow", lists),
            ("Internal error occurred: admission plugin \"ValidatingAdmissionWebhook\" failed to complete validation in 13s".into(), R::WebhookUnavailable, "find the validating webhook that is slow", lists),
            ("Internal error occurred: admission plugin \"LimitRanger\" failed to complete mutation in 13s".into(), R::ApiServerFailing, "etcd", ""),
            ("Timeout: request did not complete within requested timeout".into(), R::ApiServerFailing, "an admission webhook is slow", ""),
            ("admission webhook \"w.io\" does not support dry run".into(), R::WebhookUnavailable, "not the template", lists),
            ("admission webhook \"w.io\" denied the request: exceeded quota: of licenses".into(), R::WebhookDenied, "what the webhook demands", ""),
            ("admission webhook \"w.io\" denied the request: Internal error occurred: lookup failed".into(), R::WebhookDenied, "has failed itself", ""),
            ("admission webhook \"w.io\" denied the request without explanation".into(), R::WebhookDenied, "exempt it", ""),
            ("admission webhook \"validation.gatekeeper.sh\" denied the request: [no-latest] image has tag latest".into(), R::WebhookDenied, "Gatekeeper's constraint no-latest", "kubectl get constraints -A -o yaml --field-selector 'metadata.name=no-latest'"),
            ("admission webhook \"validate.kyverno.svc-fail\" denied the request: \n\nresource Pod/default/a was blocked due to the following policies \n\nrequire-labels:\n  check: 'validation error'".into(), R::WebhookDenied, "Kyverno's policy require-labels", "kubectl get 'clusterpolicies,policies' -A -o yaml --field-selector 'metadata.name=require-labels'"),
            ("pods \"a\" is forbidden: policy \"team\" denied request: failed to configure policy: no such kind".into(), R::WebhookDenied, "cannot be evaluated", "kubectl get mutatingadmissionpolicies -o yaml team"),
            ("pods \"a\" is forbidden: policy 'team' with binding 'all' denied request: JSON Patch: add operation does not apply: doc is missing path: \"/spec/x/-\"".into(), R::WebhookDenied, "what it changes in the pod fails", "kubectl get mutatingadmissionpolicies -o yaml team"),
            ("pods \"a\" is forbidden: policy 'team' with binding 'all' denied request: error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays".into(), R::WebhookDenied, "what it changes in the pod fails", "kubectl get mutatingadmissionpolicies -o yaml team"),
            ("pods \"a\" is forbidden: ValidatingAdmissionPolicy 'team' with binding 'all' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction".into(), R::WebhookDenied, "paramRef of binding all", "kubectl get validatingadmissionpolicybindings -o yaml all"),
            ("pods \"a\" is forbidden: policy 'team' with binding 'all' denied request: failed to configure binding: one of name or selector must be provided".into(), R::WebhookDenied, "correct its binding all", "kubectl get mutatingadmissionpolicybindings -o yaml all"),
            ("pods \"a\" is forbidden: ValidatingAdmissionPolicy 'team' with binding 'all' denied request: expression 'x' resulted in error: no such key: x".into(), R::WebhookDenied, "cannot be evaluated", "kubectl get validatingadmissionpolicies -o yaml team"),
            ("pods \"a\" is forbidden: ValidatingAdmissionPolicy 'team' with binding 'all' denied request: no team".into(), R::WebhookDenied, "change the template", "kubectl get validatingadmissionpolicies -o yaml team"),
            ("pods \"a\" is forbidden: image policy webhook backend denied one or more images: unsigned".into(), R::WebhookDenied, "use an image", ""),
            ("pods \"a\" is forbidden: this cluster is closed on Fridays".into(), R::PodSpecRejected, "template may be right", ""),
        ];
        let mut wrong = Vec::new();
        for (message, code, advice, command) in rows {
            let reason = found(world(), &message);
            let actual = reason.fix.command.as_ref().map(ToString::to_string).unwrap_or_default();
            if reason.code != code || !reason.fix.advice.contains(advice) || actual != command {
                wrong.push(format!("{message}: {} | {} | {actual}", reason.code, reason.fix.advice));
            }
            if reason.fix.advice.contains("correct the template") {
                wrong.push(format!("{message}: blames the template"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn a_limit_that_is_not_in_the_template_is_the_limit_ranges() {
        let requests =
            |limits: Value| json!({"name": "agent", "resources": {"requests": {"cpu": "700m"}, "limits": limits}});
        let message = "Error creating: Pod \"agent-x\" is invalid: spec.containers[0].resources.requests: Invalid value: \"700m\": must be \
                       less than or equal to cpu limit of 500m";
        let range =
            |default: &str, max: &str| json!({"type": "Container", "default": {"cpu": default}, "max": {"cpu": max}});
        let named = "kubectl describe limitrange -n default small";
        for (limits, container, code, advice, command) in [
            (
                range("500m", "1"),
                requests(json!({})),
                ReasonCode::LimitRangeViolation,
                "set a cpu limit of at least 700m for container agent in the template, or raise the default",
                named,
            ),
            (
                range("0.5", "500m"),
                requests(json!({})),
                ReasonCode::LimitRangeViolation,
                "allows less cpu than the container requests",
                named,
            ),
            (
                range("400m", "1"),
                requests(json!({})),
                ReasonCode::LimitRangeViolation,
                "or change what sets it",
                "kubectl describe limitrange -n default",
            ),
            (
                range("500m", "1"),
                requests(json!({"cpu": "500m"})),
                ReasonCode::PodSpecRejected,
                "correct the cpu of container agent",
                "kubectl edit ds -n default agent",
            ),
            (
                range("500m", "1"),
                requests(json!({"cpu": "2"})),
                ReasonCode::PodSpecRejected,
                "a mutating webhook has changed them",
                "kubectl get 'mutatingwebhookconfigurations,validatingwebhookconfigurations'",
            ),
        ] {
            let reason = found(with_limit_range(limits, container), message);
            assert_eq!(
                (reason.code, reason.fix.command.unwrap().to_string()),
                (code, command.to_owned()),
                "{}",
                reason.message
            );
            assert!(reason.fix.advice.contains(advice), "{}", reason.fix.advice);
            assert_eq!(reason.message.contains("limitrange default/small"), command == named, "{}", reason.message);
        }
    }

    #[test]
    fn a_limit_range_that_is_violated_is_named_with_what_it_demands() {
        let has = |limits: Value| json!({"name": "agent", "resources": {"limits": limits}});
        let item = |bound: &str, value: &str| json!({"type": "Container", bound: {"memory": value}, "default": {"memory": "128Mi"}});
        for (limits, container, message, advice) in [
            (
                item("max", "64Mi"),
                has(json!({"memory": "256Mi"})),
                "maximum memory usage per Container is 64Mi, but limit is 256Mi",
                "lower the memory of the container to 64Mi",
            ),
            (
                item("max", "64Mi"),
                has(json!({})),
                "maximum memory usage per Container is 64Mi, but limit is 128Mi",
                "not in the template: limitrange small sets it by default",
            ),
            (
                item("max", "64Mi"),
                has(json!({})),
                "maximum memory usage per Container is 64Mi.  No limit is specified",
                "set a memory limit of at most 64Mi",
            ),
            (
                item("min", "64Mi"),
                has(json!({})),
                "minimum memory usage per Container is 64Mi, but request is 1Mi",
                "request at least 64Mi of memory",
            ),
            (
                item("min", "64Mi"),
                has(json!({})),
                "minimum memory usage per Container is 64Mi.  No request is specified",
                "request at least 64Mi",
            ),
            (
                item("maxLimitRequestRatio", "2"),
                has(json!({})),
                "memory max limit to request ratio per Container is 2, but provided ratio is 4.000000",
                "at most 2 times the request",
            ),
            (
                json!({"type": "Pod", "max": {"memory": "1Gi"}}),
                has(json!({})),
                "[maximum memory usage per Pod is 1Gi, but limit is 2Gi, maximum cpu usage per Pod is 1, but limit is 2]",
                "set one of at most 1Gi",
            ),
        ] {
            let reason =
                found(with_limit_range(limits, container), &format!("pods \"agent-x\" is forbidden: {message}"));
            assert_eq!(reason.code, ReasonCode::LimitRangeViolation);
            assert!(reason.message.starts_with("limitrange default/small denied the pod"), "{}", reason.message);
            assert!(reason.fix.advice.contains(advice), "{}", reason.fix.advice);
            assert_eq!(reason.fix.command.unwrap().to_string(), "kubectl describe limitrange -n default small");
        }
    }

    #[test]
    fn the_template_is_to_be_corrected_only_for_a_field_that_it_has() {
        let template = || {
            world().template(json!({"hostNetwork": true, "hostname": "", "nodeSelector": {"example.com/pool": "a b"},
                "containers": [{"name": "agent", "image": "agent:2", "ports": [{"containerPort": 80, "hostPort": 81}]}]}))
        };
        for (error, is_of_template) in [
            ("spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort`", true),
            ("spec.containers[0].ports[0].hostPort: Invalid value: 9000: must match `containerPort`", false),
            ("spec.containers[1].image: Required value", false),
            ("spec.containers[0].ports[0].name: Required value", true),
            ("spec.nodeSelector[example.com/pool]: Invalid value: \"a b\": a valid label", true),
            ("spec.nodeSelector[example.com/zone]: Invalid value: \"a b\": a valid label", false),
            ("spec.containers[0].image: Invalid value: \"registry/agent:2 \": must not have whitespace", false),
            ("spec.priority: Forbidden: may not be set", false),
            ("metadata.labels: Invalid value: \"agent\": a valid label", true),
            ("metadata.labels: Invalid value: \"app\": a valid label", true),
            ("metadata.labels: Invalid value: \"x\": a valid label", false),
            ("spec.containers[0].image: Unsupported value: \"agent:23\": supported values: \"agent:2\"", false),
            ("spec.hostname: Invalid value: \"Node_A\": a lowercase RFC 1123 label", false),
            ("[spec.hostNetwork: Invalid value: true: no, spec.hostPID: Invalid value: true: no]", true),
        ] {
            let reason = found(template(), &format!("Pod \"agent-x\" is invalid: {error}"));
            assert_eq!(reason.code, ReasonCode::PodSpecRejected);
            assert_eq!(reason.fix.advice.starts_with("correct "), is_of_template, "{error}: {}", reason.fix.advice);
        }
    }

    #[test]
    fn a_webhook_whose_pods_need_the_very_agent_cannot_be_restored_first() {
        let message = "Internal error occurred: failed calling webhook \"w.io\": failed to call webhook: Post \
                       \"https://hook.vpn.svc:443/m?timeout=10s\": no endpoints available for service \"hook\"";
        let down = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        let tainted = |key: &str| json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}});
        let cni = json!({"volumes": [{"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}}]});
        let cilium = json!({"containers": [{"name": "cilium-agent"}]});
        for (template, nodes, is_circle) in [
            (cni.clone(), vec![down.clone(), down.clone()], true),
            (cilium.clone(), vec![tainted("node.cilium.io/agent-not-ready"), down.clone()], false),
            (cilium.clone(), vec![tainted("node.cilium.io/agent-not-ready"); 2], true),
            // Elsewhere the pods behind it may run.
            (cni.clone(), vec![down.clone(), json!({})], false),
            (cilium, vec![tainted("dedicated")], false),
            (json!({}), vec![down.clone()], false),
            (cni, vec![], false),
        ] {
            let world = nodes.iter().enumerate().fold(world().template(template.clone()), |world, (number, node)| {
                world.node(&format!("n{number}"), node.clone())
            });
            let reason = found(world, message);
            assert_eq!(reason.code, ReasonCode::WebhookUnavailable);
            assert_eq!(
                reason.fix.advice.contains("failurePolicy to Ignore"),
                is_circle,
                "{template}: {}",
                reason.fix.advice
            );
            assert_eq!(reason.message.contains("vpn/hook"), is_circle, "{}", reason.message);
        }
    }

    /// A node whose network plugin has left its configuration there is ready, and has no taint.
    #[test]
    fn a_webhook_whose_pods_get_no_network_without_the_agent_cannot_be_restored_first() {
        let message = "Internal error occurred: failed calling webhook \"w.io\": failed to call webhook: Post \
                       \"https://hook.vpn.svc:443/m?timeout=10s\": no endpoints available for service \"hook\"";
        let cni = json!({"volumes": [{"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}}]});
        let unready = json!({"metadata": {"namespace": "vpn"}, "status": {"phase": "Pending", "containerStatuses": null,
            "conditions": [{"type": "Ready", "status": "False"}]}});
        let mut on_host = unready.clone();
        on_host["spec"] = json!({"hostNetwork": true});
        let ready = json!({"metadata": {"namespace": "vpn"}});
        for (template, pods, has_agent, is_circle) in [
            (&cni, vec![&unready], false, true),
            (&cni, vec![&unready, &on_host], false, true),
            (&json!({}), vec![&unready], false, false),
            (&cni, vec![&unready, &ready], false, false),
            (&cni, vec![&unready], true, false),
            (&cni, vec![], false, false),
        ] {
            let world = world().template(template.clone()).node("n", json!({})).node("m", json!({}));
            let world = if has_agent { world.pod("agent-n", "n", json!({})) } else { world };
            let pods = pods.into_iter().enumerate();
            let world = pods.fold(world, |world, (at, pod)| world.other_pod(&format!("hook-{at}"), "n", pod.clone()));
            let world = world.refusal(message);
            let coverage = world.coverage();
            let node = coverage.nodes.iter().find(|node| node.name == "m").unwrap();
            let advice = &node.reasons[0].fix.advice;
            assert_eq!(advice.contains("failurePolicy to Ignore"), is_circle, "{template} {has_agent}: {advice}");
        }
    }

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
}
