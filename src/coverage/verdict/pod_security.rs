//! Refusals for what a pod may do on its node: pod security admission, OpenShift's security context constraints, and PodSecurityPolicy.

use super::admission::service_account;
use super::create_failure::{Refused, whose_words};
use super::finding::{Finding, edit};
use crate::report::fix::Command;
use crate::report::incident::Refuser;
use crate::report::reason::ReasonCode;

/// Finds pod security admission: `admission/admission.go` of k8s.io/pod-security-admission.
pub(super) fn level_denied(refused: Refused<'_>) -> Option<Finding> {
    let rest = refused.after("violates PodSecurity ")?;
    let (level, violations) = rest.split_once(": ").unwrap_or((rest, ""));
    let level = level.trim_matches('"');
    let namespace = refused.namespace();
    let message = format!("namespace {namespace} enforces pod security level {level}: {}", without_asides(violations));
    let finding = |advice: String| {
        let finding = Finding::new(ReasonCode::PodSecurityDenied, message.as_str(), advice);
        let origin = refused.of_fields(violating(violations));
        finding.with_origin(origin).refused_by(Refuser::PodSecurity(level.to_owned()))
    };
    let needs_node = ["hostPath", "host namespaces", "hostPort"].iter().any(|access| violations.contains(access));
    let needed = match needs_node {
        true => Some("privileged"),
        false => violations.contains("restricted volume types").then_some("baseline"),
    };
    let names_host = violations.contains("probe or lifecycle host");
    Some(if let Some(needed) = needed {
        let advice = format!(
            "this needs pod security level {needed}, and no securityContext setting can avoid that: ask the owner of namespace \
             {namespace} to label it pod-security.kubernetes.io/enforce={needed}, or move the DaemonSet to a namespace \
             with that label; to list those"
        );
        let get =
            Command::kubectl(&["get", "namespaces"]).flag("-l", format!("pod-security.kubernetes.io/enforce={needed}"));
        finding(advice).with_command(get)
    } else {
        let advice = match names_host {
            true => "remove host from the probes and lifecycle hooks of the template, which go to the pod without it"
                .to_owned(),
            false => format!("set the securityContext in the template as level {level} requires"),
        };
        finding(advice).with_command(edit(refused.daemon_set))
    })
}

/// Returns the fields with which a pod violates a level; `None` if it lacks some instead.
///
/// k8s.io/pod-security-admission: policy/check_*.go, release 0.37.2.
fn violating(violations: &str) -> Option<Vec<&str>> {
    let types = violations.rsplit_once("restricted volume type").map_or("", |(_, rest)| rest);
    let types = types.split(')').next().unwrap_or_default().split('"').skip(1).step_by(2);
    let mut fields: Vec<&str> = types.collect();
    for reason in without_asides(violations).split(", ") {
        match reason {
            "hostPath volumes" => fields.push("hostPath"),
            "hostPort" => fields.push("hostPort"),
            "privileged" => fields.push("privileged"),
            "non-default capabilities" => fields.push("add"),
            "restricted volume types" => {}
            "host namespaces" => {
                let is_named = |field: &&str| violations.contains(&format!("{field}=true"));
                fields.extend(["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(is_named));
            }
            _ => return None,
        }
    }
    Some(fields)
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

/// OpenShift's constraints that forbid little, and what they allow by the words with which the others forbid it; the strictest first.
///
/// github.com/openshift/cluster-kube-apiserver-operator: bindata/bootkube/scc-manifests.
const CONSTRAINTS: [(&str, &[&str]); 5] = [
    ("anyuid", &["must be in the ranges", "runAsUser", "runAsNonRoot", "fsGroup"]),
    ("hostnetwork-v2", &["Host network", "Host ports"]),
    ("hostnetwork", &["Host network", "Host ports"]),
    ("hostaccess", &["Host network", "Host ports", "Host PID", "Host IPC", "hostPath"]),
    ("privileged", &[""]),
];

/// Finds that none of OpenShift's security context constraints that the service account may use allows the pod.
pub(super) fn constraint_denied(refused: Refused<'_>) -> Option<Finding> {
    let Refused { daemon_set, message, .. } = refused;
    let (_, attempts) = message.split_once("security context constraint")?;
    let attempts = attempts.trim_start_matches([':', ' ', '[']).trim_end_matches(']');
    // Before OpenShift 4.6, there were only blanks between them.
    let attempts = attempts.replace(" provider ", ", provider ").replace(" spec.", ", spec.").replace(",,", ",");
    let (mut unusable, mut forbidden, mut fields) = (Vec::new(), Vec::new(), Some(Vec::new()));
    for attempt in attempts.split(", ") {
        match attempt.strip_prefix("provider \"").and_then(|rest| rest.split_once('"')) {
            Some((name, rest)) if rest.contains("not usable by") => unusable.push(name),
            _ => {
                fields = fields.zip(rejected_field(attempt)).map(|(mut fields, field)| {
                    fields.push(field);
                    fields
                });
                // `Invalid value: "SYS_ADMIN": capability may not be added`: the value is a part of it.
                let why = attempt.rsplit_once(": ").filter(|(_, why)| why.contains(' '));
                forbidden.extend(why.map(|(before, why)| match before.rsplit_once("Invalid value: \"") {
                    Some((_, value)) if why.starts_with("capability") => {
                        format!("{why}: {}", value.trim_end_matches('"'))
                    }
                    _ => why.to_owned(),
                }));
            }
        }
    }
    forbidden.sort();
    forbidden.dedup();
    let account = service_account(daemon_set);
    let namespace = refused.namespace();
    let message = match forbidden.as_slice() {
        [] => format!("serviceaccount {account} may use no security context constraint that allows the pod"),
        why => format!(
            "no security context constraint that serviceaccount {account} may use allows the pod: {}",
            why.join("; ")
        ),
    };
    let allows = |(name, words): &&(&str, &[&str])| {
        (unusable.is_empty() || unusable.contains(name))
            && !(unusable.is_empty() && forbidden.is_empty())
            && forbidden.iter().all(|why| words.iter().any(|words| why.contains(words)))
    };
    let advice = "the template may be right; an administrator has to grant the account a constraint that allows this";
    let finding = Finding::new(ReasonCode::SecurityConstraintDenied, message, advice);
    let finding = finding.with_origin(refused.of_fields(fields));
    Some(match CONSTRAINTS.iter().find(allows) {
        Some((name, _)) => {
            let grant = Command::oc(&["adm", "policy", "add-scc-to-user"]).namespace(namespace).flag("-z", account);
            finding.with_command(grant.name(*name))
        }
        None => finding.with_command(Command::kubectl(&["get", "securitycontextconstraints"])),
    })
}

/// Returns the field that a constraint rejects: `spec.volumes[0]: Invalid value: "hostPath": …` quotes the type of the volume.
fn rejected_field(attempt: &str) -> Option<&str> {
    let (path, value) = attempt.split_once(": Invalid value: ")?;
    let field = path.rsplit('.').next()?;
    if field.starts_with("volumes[") { value.split('"').nth(1) } else { field.split('[').next() }
}

/// Finds that no PodSecurityPolicy that the service account may use allows the pod.
pub(super) fn policy_denied(refused: Refused<'_>) -> Option<Finding> {
    let account = service_account(refused.daemon_set);
    let advice = format!(
        "the template may be right; grant serviceaccount {account} a role that may use a PodSecurityPolicy that allows this"
    );
    let finding = Finding::new(ReasonCode::SecurityConstraintDenied, whose_words(refused), advice);
    Some(finding.with_command(Command::kubectl(&["get", "podsecuritypolicies"])))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::without_asides;
    use crate::coverage::test_support::world;

    #[test]
    fn no_constraint_is_granted_that_nothing_shows_to_be_enough() {
        let says = "pods \"a\" is forbidden: unable to validate against any security context constraint: []";
        let fix = world().node("n", json!({})).refusal(says).only_node().reasons.remove(0).fix;
        assert_eq!(fix.command.unwrap().to_string(), "kubectl get securitycontextconstraints");
    }

    #[test]
    fn violations_are_told_without_the_containers_that_have_them() {
        let violations = "hostPort (container \"a\" uses hostPort 80 (TCP)), seccompProfile (pod must set it)";
        assert_eq!(without_asides(violations), "hostPort, seccompProfile");
    }
}
