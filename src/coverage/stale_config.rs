//! Which pods are older than the last change to a ConfigMap or Secret that they use.
//!
//! The kubelet reads environment variables and `subPath` mounts when a container starts, and refreshes whole volumes
//! later (<https://kubernetes.io/docs/concepts/configuration/configmap/>).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::gaps;
use crate::facts::Facts;
use crate::facts::index::Index;
use crate::facts::revisions::{self, name_of};
use crate::model::config_object::{ConfigObject, ConfigUse, Use, uses};
use crate::model::daemon_set::{DaemonSet, UpdateStrategy};
use crate::model::hold::Hold;
use crate::model::node::Node;
use crate::model::pod::{ContainerState, Pod};
use crate::model::snapshot::{Kind, Snapshot};
use crate::report::count;
use crate::report::fix::Fix;
use crate::report::rollout_status::{RolloutStatus, RolloutStatusReport};
use crate::report::stale_config::{ChangedObject, ConfigName, StaleConfig};

/// Adds to the status of DaemonSets that were requested by name which of their pods are older than objects they use.
pub fn add_stale_config(report: &mut RolloutStatusReport, snapshot: &Snapshot) {
    let index = Index::new(snapshot);
    let mut unknown = BTreeSet::new();
    for daemon_set in index.daemon_sets() {
        let DaemonSet { metadata, .. } = daemon_set;
        let is_it =
            |one: &&mut RolloutStatus| one.api_version == "apps/v1" && metadata.is_named(&one.namespace, &one.name);
        let Some(rollout) = report.daemon_sets.iter_mut().find(is_it) else { continue };
        let found = of_daemon_set(&index, daemon_set);
        unknown.extend(found.unknown.iter().map(|object| object.kind));
        rollout.stale_config = Some(found);
    }
    report.incomplete.extend(gaps::incomplete_for_config(snapshot, &unknown));
}

/// The pods that started before an object was changed.
struct Older<'a> {
    changed_at: Timestamp,
    by: BTreeSet<Use>,
    pods: BTreeMap<&'a str, &'a str>,
}

fn of_daemon_set<'a>(index: &'a Index<'a>, daemon_set: &'a DaemonSet) -> StaleConfig {
    let facts = Facts::new(index, daemon_set);
    let namespace = &daemon_set.metadata.namespace;
    let of_live = uses(&facts.revisions.live);
    let found = of_live
        .iter()
        .map(|used| ((used.kind, &*used.name), index.snapshot.config_object(used.kind, namespace, &used.name)));
    let objects: BTreeMap<(Kind, &str), Option<&ConfigObject>> = found.collect();
    let mut of_revisions: BTreeMap<i64, BTreeSet<ConfigUse>> = BTreeMap::new();
    let (mut older, mut unknown): (BTreeMap<ConfigName, Older<'_>>, BTreeSet<ConfigName>) = Default::default();
    let (mut looked_at, mut stale_pods, mut unknown_pods, mut failing, mut is_waiting) = (0, 0, 0, None, false);
    for pod in facts.pods().filter(|pod| !pod.metadata.is_terminating() && !pod.spec.node_name.is_empty()) {
        looked_at += 1;
        let used = match facts.revisions.of_pod(pod) {
            Some(revision) if !revision.is_current => {
                let template = revision.template.as_ref().ok();
                template.map(|template| &*of_revisions.entry(revision.number()).or_insert_with(|| uses(template)))
            }
            Some(_) => Some(&of_live),
            None => (facts.current.known().is_none() && facts.is_updated(pod) == Some(true)).then_some(&of_live),
        };
        let Some(used) = used else {
            unknown_pods += usize::from(!of_live.is_empty());
            continue;
        };
        let is_on_ready_node = || index.node(&pod.spec.node_name).is_none_or(Node::is_ready);
        let mut is_stale = false;
        // Objects that only an older template uses are no longer used once its pods are gone.
        for used in used {
            let Some(found) = objects.get(&(used.kind, &*used.name)) else { continue };
            let Some(started) = started_at(pod, &used.container) else { continue };
            let object = ConfigName { kind: used.kind.api_names().1, name: used.name.clone() };
            let Some(found) = found else {
                // A missing object was not changed.
                if !index.knows(used.kind, namespace) {
                    unknown.insert(object);
                }
                continue;
            };
            let created = found.metadata.creation_timestamp.get().filter(|created| *created > started);
            match found.changed_at.or(created) {
                Some(changed_at) if changed_at > started => {
                    let older = older.entry(object).or_insert_with(|| Older {
                        changed_at,
                        by: BTreeSet::new(),
                        pods: BTreeMap::new(),
                    });
                    let is_kept = found.immutable && created.is_some() && used.by.is_refreshed();
                    let by = if is_kept { Use::ImmutableVolume } else { used.by };
                    let waits = is_to_start_again(pod, used);
                    is_waiting |= waits && is_on_ready_node();
                    is_stale |= waits || !by.is_refreshed();
                    older.by.insert(by);
                    older.pods.insert(&pod.metadata.name, &pod.spec.node_name);
                }
                Some(_) => {}
                None => drop(unknown.insert(object)),
            }
        }
        stale_pods += usize::from(is_stale);
        failing = failing.or_else(|| {
            (!is_stale && !pod.is_ready() && is_on_ready_node() && revisions::fails(pod, index.now())).then_some(pod)
        });
    }
    let is_refreshed = |by: &BTreeSet<Use>| by.iter().all(|by| by.is_refreshed());
    let is_known = facts.pods_known && !has_unread_pods(&facts, &of_live) && unknown.is_empty() && unknown_pods == 0;
    let missing: Vec<ConfigName> = if looked_at == 0 { Vec::new() } else { missing(&facts, &of_live) };
    let has_news = !(older.is_empty() && missing.is_empty());
    let fix = has_news.then(|| restart(&facts, missing.first(), stale_pods > 0, failing, is_waiting));
    let mut changed: Vec<ChangedObject> = older
        .into_iter()
        .map(|(object, Older { changed_at, by, pods })| ChangedObject {
            object,
            changed_at,
            refreshed: is_refreshed(&by),
            by: by.into_iter().collect(),
            pods: pods.len(),
            nodes: pods.into_values().map(str::to_owned).collect(),
        })
        .collect();
    changed.sort_by_key(|object| object.refreshed);
    StaleConfig {
        pods: facts.pods_known.then_some(looked_at),
        stale_pods: (is_known || stale_pods > 0).then_some(stale_pods),
        unknown_pods,
        changed,
        missing,
        unknown: unknown.into_iter().collect(),
        fix,
    }
}

/// Returns whether no pod of a DaemonSet that uses an object was read, although its status counts some: omitting them
/// would make everything look fine.
fn has_unread_pods(facts: &Facts<'_>, of_live: &BTreeSet<ConfigUse>) -> bool {
    let counted = facts.daemon_set.status.current_number_scheduled;
    !of_live.is_empty() && counted > 0 && facts.pods().next().is_none()
}

/// Returns the objects that the template requires but that do not exist: running pods have seen them.
fn missing(facts: &Facts<'_>, of_live: &BTreeSet<ConfigUse>) -> Vec<ConfigName> {
    let is_missing = |used: &&ConfigUse| {
        let exists = find(facts, used).is_some();
        !used.optional && !exists && facts.knows(used.kind)
    };
    let names = of_live
        .iter()
        .filter(is_missing)
        .map(|used| ConfigName { kind: used.kind.api_names().1, name: used.name.clone() });
    names.collect::<BTreeSet<ConfigName>>().into_iter().collect()
}

/// Returns the command that restarts the pods, or why there is no safe one. `failing` has started since the change; others may wait to be
/// started again.
fn restart(
    facts: &Facts<'_>,
    missing: Option<&ConfigName>,
    is_stale: bool,
    failing: Option<&Pod>,
    is_waiting: bool,
) -> Fix {
    let daemon_set = facts.daemon_set;
    if let Some(ConfigName { kind, name }) = missing {
        return format!("do not restart the pods: {kind} {name} does not exist, so new pods would not start").into();
    }
    // That command knows which of them would not come back.
    if is_waiting && failing.is_none() {
        let advice = "if the change corrects what has failed, the kubelet starts the pods again within 5 minutes; to see which can be \
                      replaced now";
        return Fix::new(advice, name_of(daemon_set).command("retry").switch("--dry-run"));
    }
    if Hold::in_force(daemon_set).is_some() {
        return "the rollout is held back: complete or undo it, then restart the pods".into();
    }
    if !matches!(daemon_set.spec.update_strategy, UpdateStrategy::RollingUpdate(_)) {
        return "the update strategy replaces no pods: delete a pod to replace it".into();
    }
    if facts.current.known().is_none() || !facts.pods_known {
        return "whether a rollout is in progress is not known: restart the pods when none is".into();
    }
    // The change may be the cause.
    if let Some(pod) = failing {
        let name = &pod.metadata.name;
        return format!("do not restart the pods before it is known why {name} fails, which has seen the change")
            .into();
    }
    // A pod whose node is deleted is not replaced.
    let exists = |pod: &Pod| !facts.nodes_known || facts.index.node(&pod.spec.node_name).is_some();
    let is_old = |pod: &&Pod| !pod.metadata.is_terminating() && facts.is_updated(pod) == Some(false) && exists(pod);
    let old = facts.pods().filter(is_old).count();
    if old > 0 {
        let old = count(old, "pod");
        return format!(
            "a rollout is in progress, with {old} of older revisions: complete or undo it, then restart the pods"
        )
        .into();
    }
    if facts.still_refuses_pods() {
        return "do not restart the pods: the API server refuses new pods".into();
    }
    let advice = match is_stale {
        true => "to restart the pods, following the update strategy",
        false => "if the process does not read changed files again, restart the pods",
    };
    Fix::new(advice, name_of(daemon_set).command("restart"))
}

/// Returns the objects that the template uses, with when each was changed last, as far as that is known.
pub fn last_changes(facts: &Facts<'_>) -> Vec<(ConfigUse, Timestamp)> {
    let of_live = uses(&facts.revisions.live).into_iter();
    let changed = of_live.filter_map(|used| {
        let found = find(facts, &used)?;
        let at = found.changed_at.or(found.metadata.creation_timestamp.get())?;
        Some((used, at))
    });
    changed.collect()
}

/// Returns an object that pods use, if it was read.
pub fn find<'a>(facts: &Facts<'a>, used: &ConfigUse) -> Option<&'a ConfigObject> {
    facts.index.snapshot.config_object(used.kind, &facts.daemon_set.metadata.namespace, &used.name)
}

/// Returns when a container of a pod last started, or ended if it waits to be started again; when the pod was created if its status does not
/// say, or has an earlier time because the kubelet's clock is behind. A container that has not started yet will use the current data.
pub fn started_at(pod: &Pod, container: &str) -> Option<Timestamp> {
    let status = pod.container_statuses().find(|status| status.name == container);
    match status.map(|status| &status.state) {
        Some(ContainerState { running: Some(running), .. }) => running.started_at.get(),
        Some(ContainerState { terminated: Some(terminated), .. }) => terminated.started_at.get(),
        Some(ContainerState { waiting: Some(_), .. }) => {
            let last = status?.last_state.terminated.as_ref()?;
            last.started_at.get().max(last.finished_at.get())
        }
        _ => None,
    }
    .max(pod.metadata.creation_timestamp.get())
}

/// Returns whether a container of a pod has crashed, and what it uses was changed since: whether it still fails, its next start will tell.
pub fn has_not_run_since_change(facts: &Facts<'_>, pod: &Pod) -> bool {
    last_changes(facts)
        .iter()
        .any(|(used, at)| is_to_start_again(pod, used) && started_at(pod, &used.container) < Some(*at))
}

fn is_to_start_again(pod: &Pod, used: &ConfigUse) -> bool {
    let mut own = pod.container_statuses().filter(|status| status.name == used.container);
    own.any(|status| status.state.waiting.is_some() && status.last_state.terminated.is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::of_daemon_set;
    use crate::coverage::gaps::incomplete_for_config;
    use crate::coverage::test_support::{World, at, merge, world};
    use crate::facts::index::Index;
    use crate::model::config_object::Use;
    use crate::model::hold::ORIGINAL_STRATEGY_ANNOTATION;
    use crate::model::snapshot::{Gap, GapCause, Kind};
    use crate::report::stale_config::StaleConfig;

    /// A DaemonSet whose container uses `level` in a variable and `files` in a volume, with a pod that started at 11:31.
    fn using() -> World {
        world()
            .template(json!({
                "volumes": [{"name": "files", "configMap": {"name": "files"}}],
                "containers": [{"name": "agent", "image": "agent:2", "volumeMounts": [{"name": "files", "mountPath": "/a"}],
                    "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "level", "key": "a"}}}]}],
            }))
            .node("a", json!({}))
            .pod("agent-a", "a", json!({}))
    }

    /// Adds a ConfigMap or Secret that was created at 11:00, and changed at a time if that is recorded.
    fn with(mut world: World, kind: Kind, name: &str, changed: Option<&str>) -> World {
        let mut metadata = json!({"name": name, "namespace": "default", "creationTimestamp": at("11:00:00")});
        if let Some(time) = changed {
            metadata["managedFields"] = json!([{"time": at(time), "fieldsV1": {"f:data": {}}}]);
        }
        let object = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        let snapshot = &mut world.snapshot;
        if kind == Kind::Secrets { &mut snapshot.secrets } else { &mut snapshot.config_maps }.push(object);
        world
    }

    fn told(world: World) -> StaleConfig {
        let snapshot = world.finish();
        of_daemon_set(&Index::new(&snapshot), &snapshot.daemon_sets[0])
    }

    /// Returns for each changed object its name, how it is used and how many pods are older.
    fn said(report: &StaleConfig) -> Vec<(&str, &[Use], bool, usize)> {
        report.changed.iter().map(|it| (&*it.object.name, &*it.by, it.refreshed, it.pods)).collect()
    }

    #[test]
    fn a_variable_is_as_old_as_its_container_and_a_volume_is_refreshed() {
        let changed = |level: &str, files: &str| {
            with(with(using(), Kind::Secrets, "level", Some(level)), Kind::ConfigMaps, "files", Some(files))
        };
        let fresh = told(changed("11:30:59", "11:31:00"));
        assert_eq!((said(&fresh), fresh.stale_pods, fresh.fix.is_none()), (vec![], Some(0), true));
        let stale = told(changed("11:31:01", "11:40:00"));
        assert_eq!(said(&stale), [("level", &[Use::Env][..], false, 1), ("files", &[Use::Volume][..], true, 1)]);
        assert_eq!((stale.pods, stale.stale_pods), (Some(1), Some(1)));
        let command = stale.fix.unwrap().command.unwrap().quoted(false);
        assert_eq!(command, "kubectl ds restart -n default agent");
        let refreshed = told(changed("11:00:00", "11:40:00"));
        assert_eq!((said(&refreshed).len(), refreshed.stale_pods), (1, Some(0)));
        assert!(refreshed.fix.unwrap().advice.starts_with("if the process"));
    }

    /// Whether it would come back if it was deleted, another command knows.
    #[test]
    fn no_pod_that_waits_to_be_started_again_is_deleted() {
        let last = json!({"terminated": {"exitCode": 1, "startedAt": at("11:39:00"), "finishedAt": at("11:39:00")}});
        let waits = json!({"name": "agent", "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": last});
        let patch =
            json!({"status": {"containerStatuses": [waits], "conditions": [{"type": "Ready", "status": "False"}]}});
        let world = using().node("b", json!({})).pod("agent-b", "b", patch);
        let world = with(with(world, Kind::ConfigMaps, "files", None), Kind::Secrets, "level", Some("11:40:00"));
        let fix = told(world).fix.unwrap();
        assert_eq!(fix.command.unwrap().quoted(false), "kubectl ds retry -n default --dry-run agent", "{}", fix.advice);
    }

    #[test]
    fn a_container_that_was_started_again_has_seen_what_was_changed_before() {
        let status = |state: Value| json!({"status": {"containerStatuses": [{"name": "agent", "restartCount": 1, "state": state}]}});
        let stale = |patch: Value| {
            let world = using().node("b", json!({})).pod("agent-b", "b", patch);
            told(with(world, Kind::Secrets, "level", Some("11:40:00"))).changed[0].nodes.clone()
        };
        assert_eq!(stale(status(json!({"running": {"startedAt": at("11:41:00")}}))), ["a"]);
        assert_eq!(stale(status(json!({"running": {"startedAt": at("11:39:00")}}))), ["a", "b"]);
        assert_eq!(stale(status(json!({"waiting": {"reason": "CrashLoopBackOff"}}))), ["a"]);
        let crashed = |at: String| {
            let last = json!({"terminated": {"exitCode": 1, "startedAt": at, "finishedAt": at}});
            let state = json!({"waiting": {"reason": "CrashLoopBackOff"}});
            json!({"status": {"containerStatuses": [{"name": "agent", "restartCount": 2, "state": state, "lastState": last}]}})
        };
        assert_eq!(stale(crashed(at("11:41:00"))), ["a"]);
        assert_eq!(stale(crashed(at("11:39:00"))), ["a", "b"]);
        assert_eq!(stale(json!({"metadata": {"deletionTimestamp": at("11:59:00")}})), ["a"]);
        // The clock of the kubelet is behind: the pod was created after the change.
        let mut late = status(json!({"running": {"startedAt": at("11:39:00")}}));
        late["metadata"] = json!({"creationTimestamp": at("11:41:00")});
        assert_eq!(stale(late), ["a"]);
        // Its status does not say.
        assert_eq!(stale(json!({"status": {"containerStatuses": null}})), ["a", "b"]);
    }

    #[test]
    fn what_could_not_be_read_or_does_not_exist_is_named() {
        let report = told(using());
        assert_eq!((said(&report), report.stale_pods), (vec![], Some(0)));
        // A server may omit the pods; a Pending one exists.
        let counted = || using().daemon_set(json!({"status": {"currentNumberScheduled": 1}}));
        let mut without_pods = counted();
        without_pods.snapshot.pods.clear();
        assert_eq!(told(without_pods).stale_pods, None);
        let mut pending = counted();
        pending.snapshot.pods.clear();
        assert_eq!(told(pending.pending_pod("agent-a", "a", "", json!({}))).stale_pods, Some(0));
        let missing: Vec<&str> = report.missing.iter().map(|object| &*object.name).collect();
        assert_eq!(missing, ["files", "level"]);
        assert!(report.fix.unwrap().advice.starts_with("do not restart the pods: ConfigMap files does not exist"));
        // Few users may read Secrets: this is not mentioned if nothing is known to have changed.
        let forbidden = || GapCause::Forbidden("get it".to_owned());
        let broken = || GapCause::Unreadable { object: "it".to_owned(), problem: "p".to_owned() };
        for (kind, name, cause, is_told) in [
            (Kind::Secrets, "level", forbidden(), false),
            (Kind::Secrets, "level", broken(), true),
            (Kind::Secrets, "level", GapCause::NotInDump, false),
            (Kind::ConfigMaps, "files", forbidden(), true),
            (Kind::ConfigMaps, "files", GapCause::NotInDump, false),
        ] {
            let mut world = using();
            world.snapshot.gaps.push(Gap { kind, namespace: Some("default".to_owned()), cause });
            let snapshot = world.finish();
            let report = of_daemon_set(&Index::new(&snapshot), &snapshot.daemon_sets[0]);
            let names: Vec<&str> = report.unknown.iter().map(|object| &*object.name).collect();
            assert_eq!((names, report.stale_pods), (vec![name], None));
            let unknown = report.unknown.iter().map(|object| object.kind).collect();
            let left_open = incomplete_for_config(&snapshot, &unknown);
            assert_eq!(left_open.len(), usize::from(is_told), "{left_open:?}");
            assert!(left_open.iter().all(|gap| !gap.affects_counts));
        }
        // Without managed fields it may have been changed after its creation, unless it was created after the pod started.
        assert_eq!(told(with(using(), Kind::Secrets, "level", None)).stale_pods, None);
    }

    #[test]
    fn a_pod_is_held_against_its_own_template() {
        let old = json!({"metadata": {"labels": {"controller-revision-hash": "old"}}});
        let world = using().revision_of_image("old", 1, "agent:1").node("b", json!({})).pod("agent-b", "b", old);
        let mut world = with(world, Kind::Secrets, "level", Some("11:40:00"));
        let revision = world.snapshot.controller_revisions.last_mut().unwrap();
        let mut object = revision.object.clone();
        object["data"]["spec"]["template"]["spec"]["containers"][0]["env"].take();
        *revision = crate::model::controller_revision::ControllerRevision::from_object(object).unwrap();
        assert_eq!(told(world).changed[0].nodes, ["a"]);
    }

    #[test]
    fn an_init_container_that_has_ended_never_reads_refreshed_files() {
        let init = |more: Value| {
            let mut init =
                json!({"name": "install", "image": "agent:2", "volumeMounts": [{"name": "files", "mountPath": "/a"}]});
            merge(&mut init, more);
            let state =
                json!({"terminated": {"exitCode": 0, "startedAt": at("11:30:30"), "finishedAt": at("11:30:31")}});
            let world = world()
                .template(
                    json!({"volumes": [{"name": "files", "configMap": {"name": "files"}}], "initContainers": [init]}),
                )
                .node("a", json!({}))
                .pod(
                    "agent-a",
                    "a",
                    json!({"status": {"initContainerStatuses": [{"name": "install", "state": state}]}}),
                );
            told(with(world, Kind::ConfigMaps, "files", Some("11:40:00")))
        };
        let report = init(json!({}));
        assert_eq!((said(&report), report.stale_pods), (vec![("files", &[Use::InitVolume][..], false, 1)], Some(1)));
        let sidecar = init(json!({"restartPolicy": "Always"}));
        assert_eq!((said(&sidecar), sidecar.stale_pods), (vec![("files", &[Use::Volume][..], true, 1)], Some(0)));
    }

    #[test]
    fn a_pod_is_stale_by_what_its_own_containers_use() {
        let env = json!([{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "files", "key": "a"}}}]);
        let world = world()
            .template(json!({
                "volumes": [{"name": "files", "configMap": {"name": "files"}}],
                "containers": [{"name": "agent", "image": "agent:2", "env": env},
                    {"name": "sidecar", "image": "agent:2", "volumeMounts": [{"name": "files", "mountPath": "/a"}]}],
            }))
            .node("a", json!({}))
            .node("b", json!({}));
        let started = |agent: &str| {
            let status = |name: &str, time: &str| json!({"name": name, "state": {"running": {"startedAt": at(time)}}});
            json!({"status": {"containerStatuses": [status("agent", agent), status("sidecar", "11:31:00")]}})
        };
        let world = world.pod("agent-a", "a", started("11:41:00")).pod("agent-b", "b", started("11:31:00"));
        let report = told(with(world, Kind::ConfigMaps, "files", Some("11:40:00")));
        let both = &[Use::Env, Use::Volume][..];
        assert_eq!((said(&report), report.stale_pods), (vec![("files", both, false, 2)], Some(1)));
    }

    #[test]
    fn a_restart_is_suggested_only_if_it_replaces_the_pods_and_nothing_else() {
        let old =
            || json!({"metadata": {"labels": {"controller-revision-hash": "old", "pod-template-generation": "1"}}});
        let files = |world: World| with(world, Kind::ConfigMaps, "files", Some("11:00:00"));
        let fix = |world: World| told(with(world, Kind::Secrets, "level", Some("11:40:00"))).fix.unwrap();
        assert!(fix(files(using())).command.is_some());
        let on_delete = || using().daemon_set(json!({"spec": {"updateStrategy": {"type": "OnDelete"}}}));
        let hold = json!({"metadata": {"annotations": {ORIGINAL_STRATEGY_ANNOTATION: "{\"type\":\"RollingUpdate\"}"}}});
        let mut without_revisions = files(using());
        without_revisions.snapshot.controller_revisions.clear();
        let refused =
            "pods \"agent-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2";
        for (world, why) in [
            (using(), "ConfigMap files does not exist"),
            (files(on_delete()), "replaces no pods"),
            (files(on_delete().daemon_set(hold)), "held back"),
            (
                files(using().revision_of_image("old", 1, "agent:1").node("b", json!({})).pod("agent-b", "b", old())),
                "1 pod of older revisions",
            ),
            (without_revisions, "is not known"),
            (files(using().refusal(refused)), "refuses new pods"),
        ] {
            let fix = fix(world);
            assert!(fix.advice.contains(why) && fix.command.is_none(), "{why}: {fix:?}");
        }
        // A pod that has started since fails, perhaps because of the change.
        let status = |reason: &str| json!({"restartCount": 1, "state": {"waiting": {"reason": reason}}});
        let with_new = |reason: &str| {
            let world = files(using()).node("b", json!({}));
            fix(world.unready_pod("agent-b", "b", status(reason), json!({"status": {"containerStatuses": [{"name": "agent", "restartCount": 0, "state": {"waiting": {"reason": reason}}}]}})))
        };
        for reason in ["CrashLoopBackOff", "CreateContainerConfigError"] {
            let fix = with_new(reason);
            assert!(fix.advice.contains("why agent-b fails") && fix.command.is_none(), "{fix:?}");
        }
        assert!(with_new("ContainerCreating").command.is_some());
        // It runs, and its readiness probe fails.
        let with_unready = |started: &str, node_is_ready: &str| {
            let ready = json!([{"type": "Ready", "status": node_is_ready, "lastTransitionTime": at("11:00:00")}]);
            let world = files(using()).node("b", json!({"status": {"conditions": ready}}));
            let status = json!({"restartCount": 0, "state": {"running": {"startedAt": at(started)}}});
            fix(world.unready_pod("agent-b", "b", status, json!({})))
        };
        let unready = with_unready("11:50:00", "True");
        assert!(unready.advice.contains("why agent-b fails") && unready.command.is_none(), "{unready:?}");
        assert!(with_unready("11:59:30", "True").command.is_some());
        assert!(with_unready("11:50:00", "False").command.is_some());
        // Optional objects may be missing.
        let optional = json!({"volumes": [{"name": "files", "configMap": {"name": "files", "optional": true}}]});
        assert!(fix(using().template(optional)).command.is_some());
    }

    #[test]
    fn a_pod_whose_template_is_not_known_leaves_open_whether_it_is_stale() {
        let old =
            || json!({"metadata": {"labels": {"controller-revision-hash": "old", "pod-template-generation": "1"}}});
        let world = || with(using(), Kind::Secrets, "level", Some("11:00:00"));
        let known = |world: World| told(world).stale_pods;
        let without_revisions = |mut world: World| {
            world.snapshot.controller_revisions.clear();
            let cause = GapCause::Forbidden("list controllerrevisions".to_owned());
            world.snapshot.gaps.push(Gap { kind: Kind::ControllerRevisions, namespace: None, cause });
            world
        };
        let with_old = || world().node("b", json!({})).pod("agent-b", "b", old());
        // The template generation shows that a pod has the live template.
        assert_eq!(known(without_revisions(world())), Some(0));
        assert_eq!(known(without_revisions(with_old())), None);
        assert_eq!(known(with_old()), None);
        assert_eq!(known(with_old().revision("old", 1)), None);
        assert_eq!(told(with_old().revision("old", 1)).unknown_pods, 1);
        assert_eq!(known(with_old().revision_of_image("old", 1, "agent:1")), Some(0));
        // Nothing can be stale if the live template uses nothing.
        let uses_nothing = crate::coverage::test_support::world().node("b", json!({})).pod("agent-b", "b", old());
        assert_eq!(known(without_revisions(uses_nothing)), Some(0));
    }

    #[test]
    fn without_pods_no_number_of_stale_ones_is_known() {
        let told = |cause: GapCause| {
            let mut world = with(using(), Kind::Secrets, "level", Some("11:00:00"));
            world.snapshot.gaps.push(Gap { kind: Kind::Pods, namespace: None, cause });
            let StaleConfig { pods, stale_pods, .. } = told(world);
            (pods, stale_pods)
        };
        assert_eq!(told(GapCause::Forbidden("list pods".to_owned())), (None, None));
        // All pods of the DaemonSet were read.
        assert_eq!(told(GapCause::ForbiddenElsewhere("list pods".to_owned())), (Some(1), Some(0)));
        let foreign = GapCause::Unreadable { object: "Pod other/x".to_owned(), problem: "y".to_owned() };
        assert_eq!(told(foreign), (Some(1), Some(0)));
    }

    #[test]
    fn an_object_that_was_created_after_a_pod_had_started_is_a_change() {
        let mut world = with(using(), Kind::Secrets, "level", None);
        world.snapshot.secrets[0].metadata.creation_timestamp = serde_json::from_value(json!(at("11:40:00"))).unwrap();
        assert_eq!(told(world).stale_pods, Some(1));
    }

    #[test]
    fn files_of_an_immutable_object_that_was_created_again_are_not_refreshed() {
        let told = |created: &str| {
            let fields = json!({"f:data": {}, "f:immutable": {}});
            let metadata = json!({"name": "files", "namespace": "default", "creationTimestamp": at(created),
                "managedFields": [{"time": at("11:40:00"), "fieldsV1": fields}]});
            let mut world = with(using(), Kind::Secrets, "level", Some("11:00:00"));
            world.snapshot.config_maps.push(serde_json::from_value(json!({"metadata": metadata})).unwrap());
            told(world)
        };
        let report = told("11:40:00");
        assert_eq!(
            (said(&report), report.stale_pods),
            (vec![("files", &[Use::ImmutableVolume][..], false, 1)], Some(1))
        );
        // It was made immutable with the change, which the kubelet has read.
        let report = told("11:00:00");
        assert_eq!((said(&report), report.stale_pods), (vec![("files", &[Use::Volume][..], true, 1)], Some(0)));
    }
}
