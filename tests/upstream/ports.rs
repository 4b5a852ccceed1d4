//! pkg/scheduler/framework/plugins/nodeports/node_ports_test.go and
//! k8s.io/kube-scheduler/framework/types_test.go

use kubectl_ds::model::pod::{ContainerPort, Pod};
use kubectl_ds::scheduling::ports::{conflicts, host_ports};
use serde::Deserialize;

use super::rows;

/// TestNodePorts and TestFits
#[test]
fn ports_are_free_as_they_are_upstream() {
    #[derive(Deserialize)]
    struct Row {
        name: String,
        pod: Pod,
        #[serde(default)]
        pods: Option<Vec<Pod>>,
        want: bool,
    }
    for Row { name, pod, pods, want } in rows(include_str!("ports.json")) {
        let pods = pods.unwrap_or_default();
        let taken = host_ports(&pod.spec)
            .any(|wanted| pods.iter().flat_map(|pod| host_ports(&pod.spec)).any(|held| conflicts(wanted, held)));
        assert_eq!(!taken, want, "{name}");
    }
}

/// TestHostPortInfo_Check
#[test]
fn ports_conflict_as_they_do_upstream() {
    type Port = (&'static str, &'static str, i32);
    let table: &[(&str, &[Port], Port, bool)] = &[
        ("empty check should check 0.0.0.0 and TCP", &[("TCP", "127.0.0.1", 80)], ("", "", 81), false),
        ("empty check should check 0.0.0.0 and TCP (conflicted)", &[("TCP", "127.0.0.1", 80)], ("", "", 80), true),
        ("empty port check should pass", &[("TCP", "127.0.0.1", 80)], ("", "", 0), false),
        ("0.0.0.0 should check all registered IPs", &[("TCP", "127.0.0.1", 80)], ("TCP", "0.0.0.0", 80), true),
        (
            "0.0.0.0 with different protocol should be allowed",
            &[("UDP", "127.0.0.1", 80)],
            ("TCP", "0.0.0.0", 80),
            false,
        ),
        (
            "0.0.0.0 with different port should be allowed",
            &[("TCP", "127.0.0.1", 79), ("TCP", "127.0.0.1", 81), ("TCP", "127.0.0.1", 82)],
            ("TCP", "0.0.0.0", 80),
            false,
        ),
        ("normal ip should check all registered 0.0.0.0", &[("TCP", "0.0.0.0", 80)], ("TCP", "127.0.0.1", 80), true),
        (
            "normal ip with different port/protocol should be allowed (0.0.0.0)",
            &[("TCP", "0.0.0.0", 79), ("UDP", "0.0.0.0", 80), ("TCP", "0.0.0.0", 81), ("TCP", "0.0.0.0", 82)],
            ("TCP", "127.0.0.1", 80),
            false,
        ),
        (
            "normal ip with different port/protocol should be allowed",
            &[("TCP", "127.0.0.1", 79), ("UDP", "127.0.0.1", 80), ("TCP", "127.0.0.1", 81), ("TCP", "127.0.0.1", 82)],
            ("TCP", "127.0.0.1", 80),
            false,
        ),
    ];
    let port = |(protocol, host_ip, host_port): Port| ContainerPort {
        host_port,
        container_port: 80,
        protocol: protocol.to_owned(),
        host_ip: host_ip.to_owned(),
    };
    for (name, held, wanted, want) in table {
        assert_eq!(held.iter().any(|held| conflicts(&port(*wanted), &port(*held))), *want, "{name}");
    }
}
