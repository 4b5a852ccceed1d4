//! Warnings before a DaemonSet is changed: what may revert the change, or make it ineffective.

use serde_json::{Value, json};

use crate::coverage::{Origin, SCHEDULED};
use crate::facts::Facts;
use crate::facts::controller::{Controller, check_scheduler, is_default_scheduler};
use crate::model::daemon_set::{DaemonSet, Flavor, UpdateStrategy};
use crate::model::hold::{Hold, ORIGINAL_STRATEGY_ANNOTATION};
use crate::model::int_or_percent::IntOrPercent;
use crate::model::metadata::LAST_APPLIED_ANNOTATION;
use crate::model::server_side_apply;
use crate::model::strategic_merge::{patched, three_way_patch};
use crate::model::template::Template;
use crate::report::age::format_age;
use crate::report::partition::GateFailure;
use crate::report::plan::{Warning, WarningCode};
use crate::report::reason::ReasonCode;
use crate::rollout::situation::Situation;

/// The annotations with which OpenKruise Rollouts marks a DaemonSet that it stages.
const KRUISE_ROLLOUTS: [&str; 2] =
    ["batchrelease.rollouts.kruise.io/control-info", "rollouts.kruise.io/daemonset-advanced-control"];

/// What a change writes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Written<'a> {
    /// This new template.
    Template(&'a Template),
    /// This new template, which differs only in the restart time.
    Restart(&'a Template),
    /// These fields, by their paths in the object.
    Fields(&'a [&'static [&'static str]]),
}

impl Written<'_> {
    fn noun(self) -> &'static str {
        match self {
            Written::Template(_) | Written::Restart(_) => "template",
            Written::Fields(_) => "values",
        }
    }

    /// Returns whether an entry of `managedFields` has any of the fields; for a template, those whose value changes.
    fn is_managed_by(self, daemon_set: &DaemonSet, entry: &Value) -> bool {
        let has = |path: &[&str]| {
            let mut names = path.iter().map(|name| format!("f:{name}"));
            names.try_fold(&entry["fieldsV1"], |fields, name| fields.get(name)).is_some()
        };
        match self {
            Written::Template(after) | Written::Restart(after) => {
                let after = json!({"spec": {"template": after.value()}});
                let managed = entry.pointer("/fieldsV1/f:spec/f:template");
                managed.is_some_and(|managed| {
                    let fields = json!({"f:spec": {"f:template": managed}});
                    server_side_apply::differs(&fields, &daemon_set.object, &after)
                })
            }
            Written::Fields(paths) => paths.iter().any(|path| has(path)),
        }
    }
}

/// Returns the tools that manage the DaemonSet and may revert the change.
pub(super) fn managers(daemon_set: &DaemonSet, written: Written<'_>) -> Vec<Warning> {
    let noun = written.noun();
    let label = |key: &str| daemon_set.metadata.labels.get(key).map(String::as_str).filter(|value| !value.is_empty());
    let annotation = |key: &str| daemon_set.annotations.get(key).map(String::as_str).filter(|value| !value.is_empty());
    let writes = |names: &[&str]| field_managers(daemon_set).any(|manager| names.contains(&manager));
    let mut warnings = Vec::new();
    let mut warn = |code, message: String| warnings.push(Warning::new(code, message));

    if let Some(writer) = daemon_set.writer() {
        let message = format!("{writer} controls this object and may revert the {noun}; change it there");
        warn(WarningCode::Owner, message);
    }
    // `app_group/kind:namespace/name`: the application's name ends at the first colon.
    let argo = annotation("argocd.argoproj.io/tracking-id")
        .and_then(|id| id.split(':').next())
        .or_else(|| label("argocd.argoproj.io/instance"))
        .map(|application| format!("Argo CD application {application:?}"));
    let flux = ["kustomize", "helm"].into_iter().find_map(|toolkit| {
        let name = label(&format!("{toolkit}.toolkit.fluxcd.io/name"))?;
        let namespace = label(&format!("{toolkit}.toolkit.fluxcd.io/namespace")).unwrap_or_default();
        let kind = if toolkit == "helm" { "HelmRelease" } else { "Kustomization" };
        Some(format!("Flux {kind} \"{namespace}/{name}\""))
    });
    let is_flux = flux.is_some();
    for (code, named, writers, tool) in [
        (WarningCode::ArgoCd, argo, ["argocd-controller", "argocd-application-controller"], "Argo CD"),
        (WarningCode::Flux, flux, ["kustomize-controller", "helm-controller"], "Flux"),
    ] {
        if named.is_some() || writes(&writers) {
            let tool = named.as_deref().unwrap_or(tool);
            warn(code, format!("{tool} manages this object and may revert the {noun}; change it in Git"));
        }
    }
    let release = annotation("meta.helm.sh/release-name");
    let is_helm = |entry: &&Value| matches!(entry["manager"].as_str(), Some("helm" | "Helm"));
    let mut by_helm = server_side_apply::managed_fields(&daemon_set.object).iter().filter(is_helm).peekable();
    // An upgrade does not touch annotations that are not in the chart.
    let is_restored = match written {
        Written::Restart(_) => by_helm.any(|entry| written.is_managed_by(daemon_set, entry)),
        Written::Template(_) | Written::Fields(_) => release.is_some() || by_helm.peek().is_some(),
    };
    if !is_flux && is_restored {
        let release = release.map_or_else(|| "Helm".to_owned(), |name| format!("Helm release {name:?}"));
        let message =
            format!("{release} created this object: the next `helm upgrade` restores the {noun} of its chart");
        warn(WarningCode::Helm, message);
    }
    for manager in appliers(daemon_set, written) {
        if !["argocd-controller", "kustomize-controller", "helm-controller", "helm", "Helm"].contains(&manager) {
            let fields = match written {
                Written::Template(_) | Written::Restart(_) => "fields of the template",
                Written::Fields(_) => "these fields",
            };
            let message = format!(
                "{manager:?} manages {fields} by server-side apply: its next apply puts its values back, or fails with \
                 a conflict"
            );
            warnings.push(Warning::new(WarningCode::ServerSideApply, message));
        }
    }
    warnings
}

/// Returns the server-side apply managers of the written fields.
fn appliers<'a>(daemon_set: &'a DaemonSet, written: Written<'_>) -> Vec<&'a str> {
    let applies = |entry: &&Value| {
        entry.get("operation").and_then(Value::as_str) == Some("Apply") && written.is_managed_by(daemon_set, entry)
    };
    server_side_apply::managed_fields(&daemon_set.object)
        .iter()
        .filter(applies)
        .filter_map(|entry| entry.get("manager")?.as_str())
        .collect()
}

/// Warns if the next `kubectl apply` of the last manifest would revert the template.
pub(super) fn last_applied(daemon_set: &DaemonSet, template: &Template) -> Option<Warning> {
    let manifest = last_applied_manifest(daemon_set)?;
    let mut after = daemon_set.object.clone();
    after["spec"]["template"] = template.value().clone();
    let patch = three_way_patch(&manifest, &manifest, &after).ok()?;
    let applied = Template::new(patched(&after, patch).ok()?.pointer("/spec/template")?.clone());
    let message = "the last applied manifest has a different template, which the next `kubectl apply` restores; change the \
                   manifest too";
    (!applied.same_meaning(template)).then(|| Warning::new(WarningCode::LastApplied, message))
}

/// Warns if the next `kubectl apply` of the last manifest would revert fields. It does not touch fields that are not in
/// the manifest.
pub(super) fn last_applied_fields(daemon_set: &DaemonSet, fields: &[(&[&str], Value)]) -> Option<Warning> {
    let manifest = last_applied_manifest(daemon_set)?;
    let applied = |path: &[&str]| path.iter().try_fold(&manifest, |value, name| value.get(*name)).cloned();
    let reverted: Vec<String> = fields
        .iter()
        .filter_map(|(path, value)| {
            let applied = applied(path).filter(|applied| !applied.is_null() && applied != value)?;
            let applied = applied.as_str().map_or_else(|| applied.to_string(), str::to_owned);
            Some(format!("{} {applied}", path.join(".")))
        })
        .collect();
    let message = format!(
        "the last applied manifest has {}, which the next `kubectl apply` restores; change the manifest too",
        reverted.join(", ")
    );
    (!reverted.is_empty()).then(|| Warning::new(WarningCode::LastApplied, message))
}

fn last_applied_manifest(daemon_set: &DaemonSet) -> Option<Value> {
    serde_json::from_str(daemon_set.annotations.get(LAST_APPLIED_ANNOTATION)?).ok()
}

/// Warns if nothing will act on a change: because of a deletion, because the controller or the scheduler seems to be down, because
/// pods wait for the scheduler although its lease has not expired yet, or because the API server refuses to delete pods.
pub(crate) fn down_warnings(before: &Situation<'_>) -> Vec<Warning> {
    let ago = |since| format!(" (it renewed its lease {} ago)", format_age(before.seconds_since(since)));
    let down = before.controller_silent_since().map(|since| {
        let message = format!(
            "{} seems to be down{}: until it runs, no pod is created or replaced",
            before.controller.program(),
            ago(since)
        );
        Warning { fix: Some(before.controller.check()), ..Warning::new(WarningCode::ControllerDown, message) }
    });
    let unscheduled = before.scheduler_silent_since().map(|since| scheduler_down(&ago(since)));
    let unscheduled = unscheduled.or_else(|| waits_for_scheduler(before).then(|| scheduler_down("")));
    let refused = before.coverage.concerns.iter().find(|concern| concern.code == ReasonCode::DeletionRefused);
    let refused = refused.map(|concern| Warning {
        fix: Some(concern.fix.clone()),
        ..Warning::new(WarningCode::DeletionRefused, concern.message.clone())
    });
    deleting(before).into_iter().chain(down).chain(unscheduled).chain(refused).collect()
}

/// Returns whether pods wait for the default scheduler, which has not renewed its lease since they do, as far as that is known.
pub(super) fn waits_for_scheduler(before: &Situation<'_>) -> bool {
    let renewed = before.scheduler_renewed_at();
    before.nodes.iter().any(|node| {
        node.code() == Some(ReasonCode::SchedulerSilent)
            // Something else says why.
            && !matches!(node.origin(), Some(Origin::Admission | Origin::Unknown))
            && node.updated.is_none_or(|pod| is_default_scheduler(&pod.spec.scheduler_name))
            && !before.is_recent(node.since, SCHEDULED)
            && renewed.zip(node.since).is_none_or(|(renewed, since)| renewed < since)
    })
}

fn scheduler_down(why: &str) -> Warning {
    let message = format!("kube-scheduler seems to be down{why}: until it runs, no new pod is placed");
    Warning { fix: Some(check_scheduler()), ..Warning::new(WarningCode::SchedulerDown, message) }
}

/// Returns why failing gates prove nothing about the revision, and a rollback would not progress either: the controller
/// is down, or no scheduler handles the new pods.
pub(crate) fn controller_down_warning(before: &Situation<'_>, failures: &[GateFailure]) -> Option<Warning> {
    let is_unseen = |failure: &GateFailure| failure.reason == Some(ReasonCode::SchedulerSilent);
    let is_unscheduled = is_default_scheduler(&before.daemon_set.spec.template.spec.scheduler_name)
        && !failures.is_empty()
        && failures.iter().all(is_unseen);
    down_warnings(before).into_iter().next().or_else(|| is_unscheduled.then(|| scheduler_down("")))
}

/// Warns if the DaemonSet or its namespace is being deleted.
fn deleting(facts: &Facts<'_>) -> Option<Warning> {
    let controller = Controller::of(facts.daemon_set).name();
    let message = match facts.terminating_namespace() {
        _ if facts.daemon_set.metadata.is_terminating() => {
            format!("it is being deleted: {controller} no longer reconciles it")
        }
        Some(namespace) => format!(
            "namespace {} is being deleted: no pod is created in it, and {controller} may not get to act on the change",
            namespace.metadata.name
        ),
        None => return None,
    };
    Some(Warning::new(WarningCode::Deleting, message))
}

/// Returns what prevents a new template from reaching all pods.
pub(super) fn obstacles(daemon_set: &DaemonSet, restarts_only: bool) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |code, message: String| warnings.push(Warning::new(code, message));
    let strategy = &daemon_set.spec.update_strategy;
    if Hold::in_force(daemon_set).is_some() {
        let message = "the rollout is paused or partitioned: pods keep their template until `partition` replaces them or \
                       `resume` restores the update strategy";
        warn(WarningCode::OnDelete, message.to_owned());
    } else if *strategy == UpdateStrategy::OnDelete {
        let message = "the update strategy is OnDelete: pods keep their template until they are deleted";
        warn(WarningCode::OnDelete, message.to_owned());
    } else if let (UpdateStrategy::RollingUpdate(rolling), Flavor::Advanced) = (strategy, daemon_set.flavor()) {
        if rolling.paused {
            let message = "the rolling update is paused (spec.updateStrategy.rollingUpdate.paused): pods keep \
                           their template until it is resumed; new pods get the new one";
            warn(WarningCode::Paused, message.to_owned());
        }
        if let Some(partition) = rolling.partition.filter(|partition| partition.value() != 0) {
            let kept = match partition {
                IntOrPercent::Int(1) => "1 pod".to_owned(),
                IntOrPercent::Int(number) => format!("{number} pods"),
                IntOrPercent::Percent(percent) => format!("{percent}% of the pods"),
            };
            warn(WarningCode::Partition, format!("the partition keeps {kept} on the present template"));
        }
        if rolling.selector.is_some() {
            let message = "the update strategy has a selector (spec.updateStrategy.rollingUpdate.selector): pods on nodes that it does not \
                           match keep their template";
            warn(WarningCode::Partition, message.to_owned());
        }
        if restarts_only && rolling.rolling_update_type == "InPlaceIfPossible" {
            let message = "the update type is InPlaceIfPossible: pods that were created under it are updated in place, \
                           which adds the annotation to them and restarts no container";
            warn(WarningCode::InPlace, message.to_owned());
        }
    }
    warnings.extend(no_history(daemon_set));
    warnings
}

/// Warns if revisions are deleted as soon as no pod is left on them.
pub(super) fn no_history(daemon_set: &DaemonSet) -> Option<Warning> {
    let message = format!(
        "revisionHistoryLimit is 0: {} deletes the current revision once no pod is left on it, and it cannot be \
         rolled back to",
        Controller::of(daemon_set).name()
    );
    (daemon_set.spec.revision_history_limit == Some(0)).then(|| Warning::new(WarningCode::NoHistory, message))
}

/// Warns about a hold whose original update strategy is lost, so that a different one is restored.
pub(super) fn lost_original(daemon_set: &DaemonSet) -> Option<Warning> {
    let hold = Hold::in_force(daemon_set)?;
    let restored = hold.original_strategy();
    let message = match hold.replaced {
        Some(replaced) => format!(
            "the update strategy was changed during the hold: {restored} is restored, instead of {replaced} from before it"
        ),
        None if hold.is_original_lost => format!(
            "the annotation {ORIGINAL_STRATEGY_ANNOTATION} is missing, or not an update strategy that the API server accepts, so {restored} \
             is restored instead; check it afterwards"
        ),
        None => return None,
    };
    Some(Warning::new(WarningCode::OriginalStrategyLost, message))
}

/// Warns that the template is not the one that the last stage of a hold was about: whoever continues it rolls out another one.
pub(super) fn another_template(before: &Situation<'_>) -> Option<Warning> {
    Hold::in_force(before.daemon_set).filter(|hold| hold.is_of_another_template(before.daemon_set))?;
    let present =
        before.current.known().map_or_else(String::new, |current| format!(" to revision {}", current.revision));
    let message = format!("the template was changed{present} after the last stage began, which rolled out another one");
    Some(Warning::new(WarningCode::AnotherTemplate, message))
}

/// Returns the tool that decides about the update strategy instead of the user.
pub(super) fn holder(daemon_set: &DaemonSet) -> Option<String> {
    if let Some(annotation) = KRUISE_ROLLOUTS.into_iter().find(|key| daemon_set.annotations.contains_key(*key)) {
        return Some(format!("OpenKruise Rollouts (annotation {annotation})"));
    }
    daemon_set.reverted_by().map(|writer| format!("{writer}, which controls it"))
}

/// Warns about every manager that may restore the suspended strategy, or the partition of an Advanced DaemonSet, and about the
/// consequences. What a command suspends only until it ends, no manifest has to say.
pub(super) fn who_puts_back(daemon_set: &DaemonSet, partition: Option<IntOrPercent>, ends: bool) -> Vec<Warning> {
    const TYPE: &[&str] = &["spec", "updateStrategy", "type"];
    const PAUSED: &[&str] = &["spec", "updateStrategy", "rollingUpdate", "paused"];
    const PARTITION: &[&str] = &["spec", "updateStrategy", "rollingUpdate", "partition"];
    let written: (&[&str], Value) = match (daemon_set.flavor(), partition) {
        (Flavor::Apps, _) => (TYPE, "OnDelete".into()),
        (Flavor::Advanced, None) => (PAUSED, true.into()),
        (Flavor::Advanced, Some(partition)) => (PARTITION, json!(partition)),
    };
    let mut warnings = managers(daemon_set, Written::Fields(&[written.0]));
    warnings.extend(last_applied_fields(daemon_set, std::slice::from_ref(&written)));
    let Some(first) = warnings.first().map(|warning| warning.code) else { return warnings };
    let (when, instead, or) = match ends {
        true => (" before this command ends", String::new(), "; let"),
        false => {
            let value = written.1.as_str().map_or_else(|| written.1.to_string(), str::to_owned);
            let field = written.0.join(".");
            let left_out = "to leave it out would restore the default";
            ("", format!("; while it is suspended, set {field} to {value} in the manifest ({left_out})"), ", or let")
        }
    };
    let mut message =
        format!("if the update strategy is put back{when}, the controller updates all nodes at its own pace{instead}");
    if first == WarningCode::ArgoCd {
        message.push_str(or);
        message.push_str(
            " Argo CD ignore it: ignoreDifferences with managedFieldsManagers: [kubectl-ds], and the sync option \
             RespectIgnoreDifferences=true",
        );
    }
    warnings.push(Warning::new(WarningCode::StrategyPutBack, message));
    warnings
}

/// Returns the field managers of the object.
fn field_managers(daemon_set: &DaemonSet) -> impl Iterator<Item = &str> {
    server_side_apply::managed_fields(&daemon_set.object).iter().filter_map(|entry| entry.get("manager")?.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Written, controller_down_warning, holder, last_applied, managers, obstacles};
    use crate::coverage::test_support::{at, world};
    use crate::facts::index::Index;
    use crate::model::daemon_set::DaemonSet;
    use crate::model::int_or_percent::IntOrPercent;
    use crate::model::snapshot::Snapshot;
    use crate::model::template::Template;
    use crate::plan::SpecFields;
    use crate::report::partition::{Gate, GateFailure};
    use crate::report::plan::{Warning, WarningCode};
    use crate::report::reason::ReasonCode;
    use crate::rollout::partition::plan::{Amount, StageRequest, plan};
    use crate::rollout::partition::template::NewTemplate;
    use crate::rollout::pause::pause;
    use crate::rollout::restart::restart;
    use crate::rollout::retry::retry;
    use crate::rollout::set::{SetRequest, set};
    use crate::rollout::situation::Situation;
    use crate::rollout::undo::undo;

    fn daemon_set(object: Value) -> DaemonSet {
        DaemonSet::from_object(object).unwrap()
    }

    fn codes<'a>(warnings: impl IntoIterator<Item = &'a Warning>) -> Vec<WarningCode> {
        warnings.into_iter().map(|warning| warning.code).collect()
    }

    #[test]
    fn each_tool_is_told_by_its_marks_or_by_the_fields_that_it_writes() {
        use WarningCode::{ArgoCd, Flux, Helm};
        let annotation = |key: &str, value: &str| json!({"annotations": {key: value}});
        let label = |key: &str, value: &str| json!({"labels": {key: value}});
        let writes = |manager: &str| json!({"managedFields": [{"manager": manager, "operation": "Update"}]});
        let helm_release = "helm.toolkit.fluxcd.io/name";
        let template = Template::new(json!({}));
        let written = Written::Template(&template);
        for (metadata, expected) in [
            (annotation("argocd.argoproj.io/tracking-id", "web:apps/DaemonSet:default/agent"), &[ArgoCd][..]),
            (annotation("argocd.argoproj.io/tracking-id", ""), &[]),
            (label("argocd.argoproj.io/instance", "web"), &[ArgoCd]),
            (writes("argocd-controller"), &[ArgoCd]),
            (label("kustomize.toolkit.fluxcd.io/name", "web"), &[Flux]),
            (writes("kustomize-controller"), &[Flux]),
            (annotation("meta.helm.sh/release-name", "web"), &[Helm]),
            (annotation("meta.helm.sh/release-name", ""), &[]),
            // Other tools also use the labels of charts.
            (label("app.kubernetes.io/managed-by", "Helm"), &[]),
            (writes("helm"), &[Helm]),
            // The release is managed by Flux.
            (json!({"labels": {helm_release: "web"}, "annotations": {"meta.helm.sh/release-name": "web"}}), &[Flux]),
            (writes("kubectl-edit"), &[]),
        ] {
            let warnings = managers(&daemon_set(json!({"metadata": metadata})), written);
            assert_eq!(codes(&warnings), expected, "{metadata}");
        }
        let of_flux =
            |key: &str| managers(&daemon_set(json!({"metadata": label(key, "web")})), written).remove(0).message;
        assert!(of_flux(helm_release).contains("HelmRelease"));
        assert!(of_flux("kustomize.toolkit.fluxcd.io/name").contains("Kustomization"));
    }

    #[test]
    fn whoever_reconciles_the_strategy_decides_about_it() {
        let by = |metadata: Value| holder(&daemon_set(json!({"metadata": metadata})));
        let rancher = |kind: &str| {
            json!({"annotations": {"objectset.rio.cattle.io/owner-gvk": format!("k3s.cattle.io/v1, Kind={kind}"),
                "objectset.rio.cattle.io/owner-namespace": "kube-system", "objectset.rio.cattle.io/owner-name": "lb"}})
        };
        assert_eq!(by(rancher("HelmChart")).as_deref(), Some("HelmChart kube-system/lb, which controls it"));
        assert_eq!(by(rancher("Addon")), None);
        let owner = json!({"ownerReferences": [{"kind": "Agent", "name": "a", "uid": "u", "controller": true}]});
        assert_eq!(by(owner).as_deref(), Some("Agent a, which controls it"));
        assert!(by(json!({"labels": {"addonmanager.kubernetes.io/mode": "Reconcile"}})).is_some());
        assert_eq!(by(json!({"labels": {"addonmanager.kubernetes.io/mode": "EnsureExists"}})), None);
    }

    #[test]
    fn helm_does_not_undo_a_restart_unless_its_chart_has_the_annotation() {
        let template = |at: &str| json!({"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": at}}, "spec": {"containers": []}});
        let codes_of = |owned: Value, written: Written<'_>| {
            let fields = json!({"f:spec": {"f:template": {"f:metadata": {"f:annotations": owned}}}});
            let entry = json!({"manager": "helm", "operation": "Update", "fieldsV1": fields});
            let metadata = json!({"annotations": {"meta.helm.sh/release-name": "web"}, "managedFields": [entry]});
            codes(&managers(
                &daemon_set(json!({"metadata": metadata, "spec": {"template": template("then")}})),
                written,
            ))
        };
        let after = Template::new(template("now"));
        let owned = || json!({"f:kubectl.kubernetes.io/restartedAt": {}});
        let other = || json!({"f:example.com/checksum": {}});
        assert_eq!(codes_of(other(), Written::Restart(&after)), []);
        assert_eq!(codes_of(owned(), Written::Restart(&after)), [WarningCode::Helm]);
        assert_eq!(codes_of(other(), Written::Template(&after)), [WarningCode::Helm]);
    }

    #[test]
    fn the_last_applied_manifest_puts_back_what_it_has_and_leaves_alone_what_others_added() {
        let template = |image: &str, annotations: Value, nodes: Value| {
            let containers = json!([{"name": "agent", "image": image, "imagePullPolicy": "Never"}]);
            json!({"metadata": {"annotations": annotations}, "spec": {"nodeSelector": nodes, "containers": containers}})
        };
        let manifest = json!({"spec": {"template": {"spec": {"containers": [{"name": "agent", "image": "agent:2"}]}}}});
        let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": manifest.to_string()});
        let live = json!({"metadata": {"annotations": annotations},
            "spec": {"template": template("agent:3", json!({}), json!({}))}});
        for (image, annotations, nodes, expected) in [
            ("agent:1", json!({}), json!({}), &[WarningCode::LastApplied][..]),
            ("agent:2", json!({}), json!({}), &[]),
            // The next `kubectl apply` changes neither a restart nor fields that are not in the manifest.
            ("agent:2", json!({"kubectl.kubernetes.io/restartedAt": "now"}), json!({"disk": "ssd"}), &[]),
        ] {
            let target = Template::new(template(image, annotations, nodes));
            assert_eq!(codes(&last_applied(&daemon_set(live.clone()), &target)), expected, "{target:?}");
        }
    }

    #[test]
    fn who_applies_on_the_server_puts_back_only_its_own_fields() {
        let template = |image: &str, annotations: Value| {
            Template::new(json!({"metadata": {"annotations": annotations},
                "spec": {"containers": [{"name": "agent", "image": image}]}}))
        };
        let fields = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
            "k:{\"name\":\"agent\"}": {".": {}, "f:name": {}, "f:image": {}}}}}}});
        let live = json!({
            "metadata": {"managedFields": [{"manager": "kubectl", "operation": "Apply", "fieldsV1": fields}]},
            "spec": {"template": template("agent:1", json!({})).value()},
        });
        for (after, expected) in [
            (template("agent:1", json!({"kubectl.kubernetes.io/restartedAt": "now"})), &[][..]),
            (template("agent:2", json!({})), &[WarningCode::ServerSideApply]),
        ] {
            let warnings = managers(&daemon_set(live.clone()), Written::Template(&after));
            assert_eq!(codes(&warnings), expected, "{after:?}");
            // A manager that applies only labels does not own the template.
            let mut labels = live.clone();
            labels["metadata"]["managedFields"][0]["fieldsV1"] = json!({"f:metadata": {"f:labels": {"f:team": {}}}});
            assert_eq!(codes(&managers(&daemon_set(labels), Written::Template(&after))), [], "{after:?}");
        }
    }

    #[test]
    fn what_keeps_a_template_from_pods_is_told() {
        use WarningCode::{InPlace, NoHistory, OnDelete, Partition, Paused};
        let (apps, advanced) = ("apps/v1", "apps.kruise.io/v1beta1");
        let rolling = |fields: Value| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": fields}});
        let in_place = || rolling(json!({"rollingUpdateType": "InPlaceIfPossible"}));
        for (version, spec, restarts_only, expected) in [
            (apps, json!({}), true, &[][..]),
            (apps, json!({"updateStrategy": {"type": "OnDelete"}}), false, &[OnDelete]),
            (apps, json!({"revisionHistoryLimit": 0}), false, &[NoHistory]),
            (apps, json!({"revisionHistoryLimit": 1}), false, &[]),
            (advanced, rolling(json!({})), true, &[]),
            (advanced, rolling(json!({"paused": true})), false, &[Paused]),
            (advanced, rolling(json!({"partition": 2})), false, &[Partition]),
            (advanced, rolling(json!({"partition": "30%"})), false, &[Partition]),
            (advanced, rolling(json!({"partition": 0})), false, &[]),
            (advanced, rolling(json!({"partition": "0%"})), false, &[]),
            // If only the annotation changes, no container restarts.
            (advanced, in_place(), true, &[InPlace]),
            (advanced, in_place(), false, &[]),
        ] {
            let daemon_set = daemon_set(json!({"apiVersion": version, "spec": spec}));
            assert_eq!(codes(&obstacles(&daemon_set, restarts_only)), expected, "{version} {spec}");
        }
    }

    /// A rollout of pods with this scheduler, while the given program has not renewed its lease for ten minutes.
    fn without(down: &str, scheduler: &str) -> Snapshot {
        let old =
            json!({"metadata": {"labels": {"controller-revision-hash": "hash1", "pod-template-generation": "1"}}});
        let world = world().template(json!({"schedulerName": scheduler})).revision_of_image("hash1", 1, "agent:1");
        let world = world.node("m", json!({})).node("n", json!({})).pod("agent-m", "m", old);
        let mut snapshot = world.pod("agent-n", "n", json!({})).finish();
        for program in ["kube-controller-manager", "kube-scheduler"] {
            let renewed = at(if program == down { "11:50:00" } else { "11:59:58" });
            let lease = json!({"metadata": {"name": program, "namespace": "kube-system"},
                "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": renewed}});
            snapshot.leases.push(serde_json::from_value(lease).unwrap());
        }
        snapshot
    }

    #[test]
    fn every_change_warns_of_a_part_of_the_control_plane_that_is_down() {
        use WarningCode::{ControllerDown, SchedulerDown};
        let of_control_plane = |warnings: &[Warning]| {
            let mut codes = codes(warnings);
            codes.retain(|code| matches!(code, ControllerDown | SchedulerDown));
            codes
        };
        for (down, scheduler, expected) in [
            ("", "", &[][..]),
            ("kube-controller-manager", "", &[ControllerDown]),
            ("kube-scheduler", "", &[SchedulerDown]),
            ("kube-scheduler", "default-scheduler", &[SchedulerDown]),
            // Its lease has a different name.
            ("kube-scheduler", "other", &[]),
        ] {
            let snapshot = without(down, scheduler);
            let index = Index::new(&snapshot);
            let before = Situation::new(&index, &snapshot.daemon_sets[0]);
            let stage = StageRequest::new(Amount::Keep(IntOrPercent::Int(0)), NewTemplate::Live, String::new());
            // It deletes the pods itself, and nothing would create or place new ones.
            let refused = plan(&before, &stage, None).is_err();
            assert_eq!(refused, !expected.is_empty(), "{down} {scheduler}");
            let stage = StageRequest { force: true, ..stage };
            let fields = SpecFields { max_unavailable: Some(IntOrPercent::Int(2)), ..SpecFields::default() };
            let request = SetRequest { fields, force: false, delete_surge_pods: false };
            for (change, warnings) in [
                ("restart", restart(&before, false).unwrap().report.warnings),
                ("undo", undo(&before, None).unwrap().report.warnings),
                ("pause", pause(&before, false).unwrap().report.warnings),
                ("retry", retry(&before).report.warnings),
                ("partition", plan(&before, &stage, None).unwrap().report.warnings),
                ("set", set(&before, &request).unwrap().report.warnings),
            ] {
                assert_eq!(of_control_plane(&warnings), expected, "{change}: {down} {scheduler}");
            }
        }
    }

    /// If the control plane is down, no revision is to blame.
    #[test]
    fn gates_that_fail_because_nobody_acted_say_nothing_about_the_revision() {
        let failure = |reason| GateFailure {
            gate: Gate::ProgressDeadline,
            node: Some("n".to_owned()),
            pod: None,
            reason,
            message: "no progress".to_owned(),
        };
        let told = |down: &str, scheduler: &str, reasons: &[Option<ReasonCode>]| {
            let snapshot = without(down, scheduler);
            let failures: Vec<GateFailure> = reasons.iter().copied().map(failure).collect();
            let index = Index::new(&snapshot);
            controller_down_warning(&Situation::new(&index, &snapshot.daemon_sets[0]), &failures)
                .map(|warning| warning.message)
        };
        let (silent, crash) = (Some(ReasonCode::SchedulerSilent), Some(ReasonCode::CrashLooping));
        assert!(told("kube-controller-manager", "", &[None]).unwrap().contains("kube-controller-manager"));
        // New pods of the other revision would not be scheduled, either.
        assert!(told("kube-scheduler", "", &[crash]).unwrap().contains("kube-scheduler"));
        for (scheduler, reasons, is_told) in [
            ("", &[silent][..], true),
            ("default-scheduler", &[silent, silent], true),
            // It may be new in the revision.
            ("other", &[silent], false),
            ("", &[silent, crash], false),
            ("", &[crash], false),
            ("", &[None], false),
            ("", &[], false),
        ] {
            let said = told("", scheduler, reasons);
            assert_eq!(said.is_some_and(|said| said.contains("kube-scheduler")), is_told, "{scheduler} {reasons:?}");
        }
    }
}
