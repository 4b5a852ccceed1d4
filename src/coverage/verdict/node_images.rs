//! What becomes of an image on a node: its pull takes too long, or its tag stands for another image there than on other nodes.

use super::PROGRESS_DEADLINE;
use super::creation_errors::{other_nodes, runs_elsewhere, same_elsewhere};
use super::daemon_set_context::Subject;
use super::finding::{Finding, Origin, delete_pod};
use super::sentence::Sentence;
use crate::model::event::Event;
use crate::model::image::Image;
use crate::model::node::Node;
use crate::model::pod::{Container, ContainerStatus, Pod};
use crate::report::age::seconds_between;
use crate::report::reason::ReasonCode;

/// Finds that the kubelet has been pulling an image for too long, which it says only when it begins (`pullImage`,
/// pkg/kubelet/images/image_manager.go, release 1.37.2). It pulls one image at a time by default.
pub fn long_pull(subject: &Subject, pod: &Pod, message: &Sentence, events: &[&Event]) -> Option<Finding> {
    let is_of_image = |event: &&&Event| matches!(&*event.reason, "Pulling" | "Pulled" | "Failed" | "BackOff");
    let event = events.iter().find(is_of_image).filter(|event| event.reason == "Pulling")?;
    let took = seconds_between(event.last_seen()?, subject.now());
    let image = event.message.split('"').nth(1).filter(|_| took > PROGRESS_DEADLINE)?;
    let message = message.clone().words("; the kubelet has been pulling image ").value(image).words(" for ").age(took);
    let advice = "check the node: its connection to the registry, its disk, and other pulls (`crictl images` and the log of the container \
                  runtime there); by default, the kubelet pulls one image after the other (serializeImagePulls)";
    let finding = Finding::new(ReasonCode::ContainersStarting, message, advice);
    Some(if runs_elsewhere(subject, pod) { finding.with_origin(Origin::Node) } else { finding })
}

/// Adds to a finding about a failing container the digest that its tag resolves to on the node, if the same pod works with another one on
/// other nodes of the same platform, and neither works or fails with the other's.
pub fn of_digest(
    subject: &Subject,
    pod: &Pod,
    container: &Container,
    status: &ContainerStatus,
    finding: Finding,
) -> Finding {
    use ReasonCode::{CrashLooping, LivenessFailing, OOMKilled};
    let is_of_program = matches!(finding.code, CrashLooping | LivenessFailing | OOMKilled);
    let by_tag = || Image::new(&container.image).digest.is_none();
    let own = status.image_id.as_str();
    if own.is_empty() || !is_of_program || !by_tag() {
        return finding;
    }
    let platform = |pod: &Pod| subject.index.node(&pod.spec.node_name).map(|node: &Node| &node.status.node_info);
    let is_alike = |other: &&Pod| {
        let (one, other) = (platform(pod), platform(other));
        one.zip(other).is_some_and(|(one, other)| one.architecture == other.architecture)
    };
    let working = same_elsewhere(subject, pod).filter(is_alike).map(|other| other.image_id(&container.name));
    let Some(working) = working.collect::<Option<Vec<&str>>>() else { return finding };
    if status.last_state.terminated.as_ref().is_some_and(|end| end.message.contains("exec format error"))
        && working.iter().any(|id| digest(id) == digest(own))
    {
        let advice = "remove the containers of the pod and the image from the node (`crictl rm`, `crictl rmi`), and then delete the pod: the copy \
                      there is damaged, the same image works on other nodes of this architecture";
        return Finding { advice: advice.into(), ..finding.with_origin(Origin::Node).with_command(delete_pod(pod)) };
    }
    // Some runtimes tell the digest of the image's configuration if they have no other.
    if working.iter().any(|id| digest(id) == digest(own) || id.contains('@') != own.contains('@')) {
        return finding;
    }
    let fails = |other: &Pod| !other.is_ready() && other.restarts() > 0 && other.revision_hash() == pod.revision_hash();
    let has_another = |other: &Pod| other.image_id(&container.name).is_some_and(|id| digest(id) != digest(own));
    let fails_with_another = subject.pods().any(|other| fails(other) && has_another(other));
    let Some(other) = working.first().filter(|_| !fails_with_another) else { return finding };
    let differs = Sentence::from("; on this node, the tag of image ").value(&container.image).words(" is ");
    let differs = differs
        .value(digest(own))
        .words(format!(", and on {}, on which the container works, ", other_nodes(working.len())))
        .value(digest(other));
    let advice = "use the digest that works instead of the tag, which was moved between two pulls; or correct what the tag stands for, and \
                  delete the pod, after removing the image from the node if it is not pulled again (imagePullPolicy)";
    finding.and(differs).with_advice(advice)
}

/// Returns the digest of an image's ID.
fn digest(id: &str) -> &str {
    id.rsplit('@').next().unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::coverage::test_support::{World, at, world};

    #[test]
    fn an_image_that_works_on_other_nodes_of_the_same_architecture_is_damaged_on_this_one() {
        let crash = json!({"restartCount": 9, "imageID": "agent@sha256:a", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 255, "message": "exec /agent: exec format error", "finishedAt": at("11:59:00")}}});
        for (architecture, id, is_damaged) in
            [("amd64", "agent@sha256:a", true), ("arm64", "agent@sha256:a", false), ("amd64", "agent@sha256:b", false)]
        {
            let of = |architecture: &str| json!({"status": {"nodeInfo": {"architecture": architecture}}});
            let status = json!([{"name": "agent", "ready": true, "imageID": id, "state": {"running": {}}}]);
            let world = world().node("n", of("amd64")).unready_pod("agent-n", "n", crash.clone(), json!({}));
            let world = world.node("o", of(architecture));
            let world = world.pod("agent-o", "o", json!({"status": {"containerStatuses": status}}));
            let fix = &world.coverage().nodes[0].reasons[0].fix;
            assert_eq!(fix.advice.contains("crictl rmi"), is_damaged, "{architecture} {id}: {}", fix.advice);
        }
    }

    #[test]
    fn a_tag_that_stands_for_another_image_where_the_pod_works_is_told() {
        let with_node = |world: World, name: &str, architecture: &str| {
            world.node(name, json!({"status": {"nodeInfo": {"architecture": architecture}}}))
        };
        let crashes = |world: World, node: &str, id: &str| {
            let status = json!({"restartCount": 9, "imageID": id, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 1, "message": "no flag -x", "finishedAt": at("11:59:00")}}});
            with_node(world, node, "amd64").unready_pod(&format!("agent-{node}"), node, status, json!({}))
        };
        let works = |world: World, node: &str, id: &str, architecture: &str| {
            let status = json!([{"name": "agent", "ready": true, "imageID": id, "state": {"running": {}}}]);
            with_node(world, node, architecture).pod(
                &format!("agent-{node}"),
                node,
                json!({"status": {"containerStatuses": status}}),
            )
        };
        let told = |world: World| world.coverage().nodes[0].reasons[0].message.contains("sha256:b");
        let [a, b, c] = ["agent@sha256:a", "agent@sha256:b", "sha256:c"];
        assert!(told(works(crashes(world(), "n", a), "o", b, "amd64")));
        // The same image works, the other one fails, too, or it is of another platform or form, or not known.
        assert!(!told(works(works(crashes(world(), "n", a), "o", b, "amd64"), "p", a, "amd64")));
        assert!(!told(crashes(works(crashes(world(), "n", a), "o", b, "amd64"), "p", b)));
        assert!(!told(works(crashes(world(), "n", a), "o", b, "arm64")));
        assert!(!told(works(crashes(world(), "n", c), "o", b, "amd64")));
        assert!(!told(works(works(crashes(world(), "n", a), "o", b, "amd64"), "p", "", "amd64")));
    }
}
