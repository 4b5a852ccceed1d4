//! How far the pod of a Job is that pulls images.

use crate::coverage::is_image_pull_failure;
use crate::model::pod::{ContainerStatus, Pod};
use crate::plan::prepull::CONTAINER;
use crate::report::reason::ReasonCode;

/// How far a pod is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pull {
    /// It has not pulled all images.
    Pulling,
    /// The node has all images.
    Pulled,
    /// It cannot pull them; why.
    Failed(Option<ReasonCode>, String),
}

/// Returns how far a pod is. What becomes of its containers after the pull does not matter: they cannot start.
pub(crate) fn pull(pod: &Pod) -> Pull {
    let mut is_pulled = true;
    for container in pod.spec.containers.iter().filter(|container| container.name.starts_with(CONTAINER)) {
        let status = pod.status.container_statuses.iter().find(|status| status.name == container.name);
        if let Some(waiting) = status.and_then(|status| status.state.waiting.as_ref())
            && is_image_pull_failure(&waiting.reason)
        {
            let cause = if waiting.message.is_empty() { String::new() } else { format!(": {}", waiting.message) };
            let message = format!("cannot pull {} ({}){cause}", container.image, waiting.reason);
            return Pull::Failed(Some(ReasonCode::ImagePullFailed), message);
        }
        is_pulled &= status.is_some_and(is_past_the_pull);
    }
    let status = &pod.status;
    match is_pulled {
        true => Pull::Pulled,
        false if pod.is_terminal() => {
            let cause = [&status.reason, &status.message].into_iter().filter(|text| !text.is_empty());
            let cause: Vec<&str> = cause.map(String::as_str).collect();
            Pull::Failed(None, format!("the pod that pulls the images has failed: {}", cause.join(": ")))
        }
        false if pod.metadata.is_terminating() => Pull::Failed(None, DELETED.to_owned()),
        false => Pull::Pulling,
    }
}

/// What is said of a pod that was deleted by somebody else.
pub(crate) const DELETED: &str = "the pod that pulls the images was deleted";

fn is_past_the_pull(status: &ContainerStatus) -> bool {
    let state = &status.state;
    // The kubelet reports this of containers that it knows nothing about.
    let ended = state.terminated.as_ref().is_some_and(|ended| ended.reason != "ContainerStatusUnknown");
    let waits = state.waiting.as_ref().is_some_and(|waiting| {
        matches!(
            waiting.reason.as_str(),
            "CreateContainerConfigError"
                | "CreateContainerError"
                | "RunContainerError"
                | "StartError"
                | "CrashLoopBackOff"
                | "PreCreateHookError"
                | "PreStartHookError"
                | "PostStartHookError"
        )
    });
    ended || waits || state.running.is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{DELETED, Pull, pull};
    use crate::report::reason::ReasonCode;

    /// Returns how far a pod with two images is whose containers have these states; a sidecar of a webhook does not matter.
    fn of(states: [Value; 2], status: &Value) -> Pull {
        let statuses = [json!({"name": "mesh-proxy", "state": {"waiting": {"reason": "ErrImagePull"}}})].into_iter();
        let own = states.into_iter().enumerate().filter(|(_, state)| !state.is_null());
        let own = own.map(|(number, state)| json!({"name": format!("image-{number}"), "state": state}));
        let mut pod = json!({
            "metadata": {"name": "p", "namespace": "n"},
            "spec": {"containers": [{"name": "image-0", "image": "agent:2"}, {"name": "image-1", "image": "helper:1"},
                {"name": "mesh-proxy", "image": "mesh:1"}]},
            "status": status,
        });
        pod["status"]["containerStatuses"] = statuses.chain(own).collect();
        if status["deleted"] == true {
            pod["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z".into();
        }
        pull(&serde_json::from_value(pod).unwrap())
    }

    fn waiting(reason: &str) -> Value {
        json!({"waiting": {"reason": reason, "message": format!("message of {reason}")}})
    }

    #[test]
    fn a_container_that_cannot_start_has_its_image() {
        let start_error = || json!({"terminated": {"exitCode": 128, "reason": "StartError"}});
        let failed = json!({"phase": "Failed"});
        for state in [
            start_error(),
            json!({"running": {}}),
            waiting("CreateContainerConfigError"),
            waiting("CreateContainerError"),
            waiting("RunContainerError"),
        ] {
            assert_eq!(of([state, start_error()], &failed), Pull::Pulled);
        }
    }

    #[test]
    fn all_images_are_waited_for() {
        let pending = json!({"phase": "Pending"});
        for state in [Value::Null, json!({}), waiting("ContainerCreating"), waiting("PodInitializing"), waiting("")] {
            for states in [[json!({"running": {}}), state.clone()], [state.clone(), json!({"running": {}})]] {
                assert_eq!(of(states, &pending), Pull::Pulling, "{state}");
            }
        }
    }

    #[test]
    fn an_image_that_cannot_be_pulled_is_named() {
        for reason in ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"] {
            let message = format!("cannot pull helper:1 ({reason}): message of {reason}");
            let found = of([json!({"running": {}}), waiting(reason)], &json!({"phase": "Pending"}));
            assert_eq!(found, Pull::Failed(Some(ReasonCode::ImagePullFailed), message));
        }
    }

    #[test]
    fn a_pod_that_ends_before_the_pull_has_failed() {
        let unknown = || json!({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}});
        let status =
            json!({"phase": "Failed", "reason": "OutOfpods", "message": "Node didn't have enough resource: pods"});
        let message = "the pod that pulls the images has failed: OutOfpods: Node didn't have enough resource: pods";
        for states in [[Value::Null, Value::Null], [unknown(), unknown()]] {
            assert_eq!(of(states, &status), Pull::Failed(None, message.to_owned()));
        }
        let found = of([Value::Null, Value::Null], &json!({"phase": "Pending", "deleted": true}));
        assert_eq!(found, Pull::Failed(None, DELETED.to_owned()));
    }
}
