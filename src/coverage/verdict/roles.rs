//! The containers of a pod in the order in which they start, and how far they are.

use super::finding::{Step, TemplatePart};
use crate::model::event::Event;
use crate::model::pod::{Container, ContainerStatus, Pod};

/// What a container is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A regular container.
    Container,
    /// It must complete before the others start.
    Init,
    /// It starts before the others and runs as long as the pod.
    Sidecar,
}

impl Role {
    /// Returns the role as a report has it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Container => "container",
            Role::Init => "init",
            Role::Sidecar => "sidecar",
        }
    }

    /// Returns what a container of the role is called.
    pub fn noun(self) -> &'static str {
        match self {
            Role::Container => "container",
            Role::Init => "init container",
            Role::Sidecar => "sidecar",
        }
    }
}

/// Returns the containers in the order in which they start, each with its role and its status.
pub fn walk(pod: &Pod) -> impl Iterator<Item = (Role, &Container, Option<&ContainerStatus>)> {
    let find = |statuses: &'_ [ContainerStatus], name: &str| statuses.iter().position(|status| status.name == name);
    let init = pod.spec.init_containers.iter().map(move |container| {
        let role = if container.is_sidecar() { Role::Sidecar } else { Role::Init };
        let statuses = &pod.status.init_container_statuses;
        (role, container, find(statuses, &container.name).map(|at| &statuses[at]))
    });
    let main = pod.spec.containers.iter().map(move |container| {
        let statuses = &pod.status.container_statuses;
        (Role::Container, container, find(statuses, &container.name).map(|at| &statuses[at]))
    });
    init.chain(main)
}

/// Returns whether the pod still needs its sandbox, or none of its containers has started in it, or waits for anything that comes after the
/// sandbox and the volumes of the pod, such as its image.
pub fn none_created(pod: &Pod) -> bool {
    let waits_later = |status: &ContainerStatus| {
        let waiting = status.state.waiting.as_ref().filter(|waiting| !waiting.reason.is_empty());
        waiting.is_some() && !status.is_being_created()
    };
    // `GeneratePodReadyToStartContainersCondition`, pkg/kubelet/status/generate.go, release 1.37.2: whatever has ended did so before.
    let has_sandbox = pod.condition("PodReadyToStartContainers").map(|condition| condition.status == "True");
    let lacks_sandbox = !has_sandbox.unwrap_or_else(|| !lost_its_sandbox(pod));
    let is_beyond = |status: &ContainerStatus| match lacks_sandbox {
        true => status.state.running.is_some(),
        false => has_started(status),
    };
    walk(pod).all(|(_, _, status)| !status.is_some_and(|status| is_beyond(status) || waits_later(status)))
}

/// Returns whether containers of the pod ran before in a sandbox that was lost, as when its node was rebooted.
pub fn lost_its_sandbox(pod: &Pod) -> bool {
    walk(pod).any(|(.., status)| status.is_some_and(ContainerStatus::is_lost))
}

/// Returns whether every container of the pod has started, and every init container has completed.
pub fn all_started(pod: &Pod) -> bool {
    walk(pod).all(|(role, _, status)| match role {
        Role::Init => status.is_some_and(is_done),
        _ => status.is_some_and(|status| has_started(status) && !status.is_being_created()),
    })
}

/// Returns whether a container has started, now or before, unless it was lost since.
pub fn has_started(status: &ContainerStatus) -> bool {
    let ever = status.state.running.is_some()
        || status.state.terminated.is_some()
        || status.last_state.terminated.is_some()
        || status.restart_count > 0;
    ever && !status.is_lost()
}

/// Returns whether an init container has completed.
pub fn is_done(status: &ContainerStatus) -> bool {
    status.state.terminated.as_ref().is_some_and(|end| end.exit_code == 0)
}

/// Returns the part of the template that matters to a container of the pod which no other one has followed yet; `None` if any part may.
pub fn first_part(pod: &Pod, role: Role, container: &Container) -> Option<TemplatePart> {
    let is_first = match role {
        Role::Init => true,
        Role::Sidecar => !pod.status.container_statuses.iter().any(has_started),
        Role::Container => false,
    };
    is_first.then(|| TemplatePart::Container(container.name.clone(), Step::First))
}

/// Returns the part of the template that the kubelet has got to with a pod whose containers have not started, by what it has said last, as it
/// tells what it begins; `None` if that is not known. The status of the containers may be as old as what takes so long.
pub fn reached_part(pod: &Pod, events: &[&Event]) -> Option<TemplatePart> {
    let own = |event: &&Event| walk(pod).position(|(_, container, _)| event.container() == Some(&container.name));
    let said = events.iter().find_map(|event| Some((own(event)?, event.reason.as_str())));
    let (at, step) = match said {
        Some((at, "Pulled" | "Created")) => (at, Step::Start),
        Some((at, "Started")) => (at + 1, Step::Pull),
        Some((at, _)) => (at, Step::Pull),
        None => return Some(TemplatePart::Sandbox).filter(|_| !events.is_empty() && none_created(pod)),
    };
    walk(pod).nth(at).map(|(_, container, _)| TemplatePart::Container(container.name.clone(), step))
}

pub type Observed<'p> = (Role, &'p Container, &'p ContainerStatus);
