//! Host ports.

use crate::model::pod::{ContainerPort, PodSpec};

/// Returns the host ports of a pod: those of sidecars, then those of containers.
///
/// Ported from `GetHostPorts`, pkg/scheduler/util/utils.go, release 1.37.2.
pub fn host_ports(spec: &PodSpec) -> impl Iterator<Item = &ContainerPort> {
    spec.sidecars().chain(&spec.containers).flat_map(|container| &container.ports).filter(|port| port.host_port > 0)
}

/// Returns whether two host ports conflict: same number and protocol, and addresses
/// that overlap.
///
/// Only an empty address and `0.0.0.0` mean every address; `::` does not.
/// Ported from `HostPortInfo.CheckConflict`, k8s.io/kube-scheduler/framework/types.go, release 1.37.2.
pub fn conflicts(wanted: &ContainerPort, held: &ContainerPort) -> bool {
    let (wanted_ip, held_ip) = (address(wanted), address(held));
    wanted.host_port > 0
        && wanted.host_port == held.host_port
        && protocol(wanted) == protocol(held)
        && (wanted_ip == held_ip || wanted_ip == EVERY_ADDRESS || held_ip == EVERY_ADDRESS)
}

/// Returns whether a pod takes a host port, or an address of it, that another one does not.
pub fn needs_more_ports(new: &PodSpec, old: &PodSpec) -> bool {
    host_ports(new).any(|port| !host_ports(old).any(|held| includes(held, port)))
}

/// Returns whether a host port takes all that another one takes: what conflicts with the other one conflicts with it.
fn includes(one: &ContainerPort, other: &ContainerPort) -> bool {
    conflicts(one, other) && (address(one) == address(other) || address(one) == EVERY_ADDRESS)
}

const EVERY_ADDRESS: &str = "0.0.0.0";

fn address(port: &ContainerPort) -> &str {
    if port.host_ip.is_empty() { EVERY_ADDRESS } else { &port.host_ip }
}

fn protocol(port: &ContainerPort) -> &str {
    if port.protocol.is_empty() { "TCP" } else { &port.protocol }
}

#[cfg(test)]
mod tests {
    use super::{conflicts, includes};
    use crate::model::pod::ContainerPort;

    #[test]
    fn ports_that_are_not_the_nodes_never_conflict() {
        let port = |host_port| ContainerPort { host_port, ..ContainerPort::default() };
        assert!(conflicts(&port(80), &port(80)));
        assert!(!conflicts(&port(0), &port(0)));
    }

    #[test]
    fn a_port_on_every_address_includes_that_on_one() {
        let port = |host_ip: &str| ContainerPort { host_port: 80, host_ip: host_ip.to_owned(), ..Default::default() };
        for (one, other, is_included) in
            [("", "10.0.0.1", true), ("10.0.0.1", "", false), ("", "0.0.0.0", true), ("10.0.0.1", "10.0.0.2", false)]
        {
            assert_eq!(includes(&port(one), &port(other)), is_included, "{one} {other}");
        }
    }
}
