//! `coverage`.

use super::{NOW, SHOP, end, failure, kubectl_ds, on_shop, run, run_with_input};

#[test]
fn causes_are_grouped_and_what_is_fine_is_one_line() {
    assert_eq!(
        on_shop(&["coverage"]),
        "\
1 of 3 DaemonSets has trouble

shop/agent: 2 of 5 eligible nodes have an available pod

REASON                      NODES    WHICH
QuotaExceeded                   1    node-e
    exceeded quota few-pods: requested pods=1, used pods=6, limited pods=6 (30s
    ago)
    → raise the quota, or free some of it:
      kubectl describe resourcequota -n shop few-pods
HostPortConflict                1    node-c
    port 9100/TCP is in use by legacy/old-exporter
    → change the host port of one of them
CrashLooping                    1    node-d
    container agent crashes: exit code 3 after 1s; restarts: 7
    → read the log: kubectl logs -n shop -c agent --previous agent-d

1 node is not eligible:
UntoleratedNoSchedule           1    node-f
    taint dedicated=batch:NoSchedule is not tolerated

status says 5 desired: agrees

shop/fine: all 2 eligible nodes have an available pod (4 not eligible)
shop/nowhere: no node is eligible (6 NodeSelectorLabelMissing)
"
    );
}

#[test]
fn a_daemon_set_that_is_asked_for_alone_says_how_nodes_become_eligible() {
    assert_eq!(
        on_shop(&["coverage", "ds/nowhere"]),
        "\
shop/nowhere: no node is eligible (6 NodeSelectorLabelMissing)

6 nodes are not eligible:
NodeSelectorLabelMissing        6    node-a, node-b, node-c, node-d +2 more
    label disk is missing; nodeSelector requires disk=ssd
    → if the node should run these pods, set label disk=ssd on it

status says 0 desired: agrees
"
    );
}

#[test]
fn a_node_is_explained_in_full() {
    assert_eq!(
        on_shop(&["coverage", "agent", "--node", "node-c"]),
        "\
node-c should run shop/agent; its pod agent-c is not scheduled: port 9100/TCP is
in use by legacy/old-exporter

ELIGIBLE     yes
  ok  nodeName          none
  ok  nodeSelector      kubernetes.io/os=linux matches
  ok  node affinity     none
  ok  taint             none
SCHEDULING   does not fit
  no  host ports        port 9100/TCP is in use by legacy/old-exporter ← this
  ok  pods              1 of 110
SCHEDULER SAYS   node(s) didn't have free ports for the requested pod ports
                 (agrees), 60m ago
POD   agent-c: Pending, created 60m ago
  container agent: not started, not ready
  condition PodScheduled=False (Unschedulable) for 60m: 0/6 nodes are
    available: 1 node(s) didn't have free ports for the requested pod ports, 5
    node(s) didn't satisfy plugin(s) [NodeAffinity]. no new claims to
    deallocate, preemption: 0/6 nodes are available: 1 No preemption victims
    found for incoming pod, 5 Preemption is not helpful for scheduling.

WHY AND WHAT TO DO
  HostPortConflict: port 9100/TCP is in use by legacy/old-exporter
  → change the host port of one of them
"
    );
}

#[test]
fn a_node_that_is_gone_is_explained_by_the_pods_it_left() {
    let mut shop: serde_json::Value = serde_saphyr::from_str(&std::fs::read_to_string(SHOP).unwrap()).unwrap();
    let items = shop["items"].as_array_mut().unwrap();
    items.retain(|item| item["metadata"]["name"] != "node-a");
    let dump = shop.to_string();
    for node in ["node-a", "node/node-a"] {
        let arguments = ["coverage", "agent", "--node", node, "--from", "-", "--now", NOW];
        let ended = run_with_input(&arguments, dump.as_bytes());
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
        let answer = "node node-a does not exist any more; 1 pod left on it\n";
        assert!(ended.out.starts_with(answer) && ended.out.contains("OrphanedTarget"), "{}", ended.out);
    }
    let ended = run_with_input(&["coverage", "agent", "--node", "node-z", "--from", "-"], dump.as_bytes());
    assert_eq!(ended.code, Some(1), "{}", ended.err);
}

#[test]
fn what_should_run_on_a_node_is_one_table() {
    assert_eq!(
        on_shop(&["coverage", "--node", "node-d"]),
        "\
node-d should run pods of 2 DaemonSets; 1 of them is available

DAEMONSET    STATE       REASON         WHAT
shop/agent   NotReady    CrashLooping   container agent crashes: exit code 3 af…
shop/fine    Available   -
+ 1 more that are not eligible there (-o wide shows them)

`kubectl ds coverage NAME --node node-d` explains one of them in full
"
    );
    let wide = on_shop(&["coverage", "--node", "node-d", "-o", "wide"]);
    assert!(wide.contains("shop/nowhere   no     NotEligible"), "{wide}");
}

#[test]
fn nodes_have_a_row_each() {
    let nodes = on_shop(&["coverage", "agent", "--nodes"]);
    assert_eq!(
        nodes,
        "\
shop/agent: 2 of 5 eligible nodes have an available pod
NODE     STATE         POD       REASON                  WHAT
node-a   Available     agent-a   -
node-b   Available     agent-b   -
node-c   Pending       agent-c   HostPortConflict        port 9100/TCP is in us…
node-d   NotReady      agent-d   CrashLooping            container agent crashe…
node-e   Missing       -         QuotaExceeded           exceeded quota few-pod…
node-f   NotEligible   -         UntoleratedNoSchedule   taint dedicated=batch:…
"
    );
    let wide = on_shop(&["coverage", "agent", "-o", "wide"]);
    assert!(wide.contains("port 9100/TCP is in use by legacy/old-exporter"), "{wide}");
}

#[test]
fn nothing_is_cut_in_a_pipe() {
    let mut command = kubectl_ds(&["coverage", "agent", "--nodes", "--from", SHOP, "--now", NOW]);
    command.env_remove("COLUMNS");
    assert!(end(command).out.contains("exceeded quota few-pods: requested pods=1, used pods=6, limited pods=6"));
}

#[test]
fn counts_are_told_apart_by_a_label() {
    let by = on_shop(&["coverage", "agent", "--by", "topology.kubernetes.io/zone"]);
    let table = "\
by topology.kubernetes.io/zone:
VALUE             ELIGIBLE   AVAILABLE   NOT-ELIGIBLE   TROUBLE
one                      3           2              0   1 HostPortConflict
two                      2           0              0   1 QuotaExceeded, 1 Cras…
(no such label)          0           0              1
";
    assert!(by.contains(table), "{by}");
}

#[test]
fn nodes_are_chosen_by_their_labels() {
    let out = on_shop(&["coverage", "agent", "--node-selector", "topology.kubernetes.io/zone=one"]);
    assert!(out.starts_with("shop/agent: 2 of 3 eligible nodes have an available pod\n"), "{out}");
    // The status counts every node, so that there is nothing to compare it with.
    assert!(!out.contains("status says"), "{out}");
}

#[test]
fn the_exit_code_answers_where_that_is_asked() {
    let code = |arguments: &[&str]| run(&[&["coverage", "--from", SHOP], arguments].concat()).code;
    assert_eq!(code(&[]), Some(0));
    assert_eq!(code(&["--exit-code"]), Some(3));
    assert_eq!(code(&["fine", "--exit-code"]), Some(0));
    assert_eq!(code(&["agent", "--node", "node-a", "--exit-code"]), Some(0));
    assert_eq!(code(&["agent", "--node", "node-c", "--exit-code"]), Some(3));
}

#[test]
fn a_gate_does_not_pass_when_nothing_was_checked() {
    let gate = |arguments: &[&str]| failure(&[&["coverage", "--exit-code", "--from", SHOP], arguments].concat());
    let unmatched = "error: no nodes match the selector \"pool=typo\"\nhint: `kubectl get nodes --show-labels` lists the \
                     labels\n";
    assert_eq!(gate(&["fine", "--node-selector", "pool=typo"]), (Some(1), unmatched.to_owned()));
    let none = "No DaemonSets found in typo namespace.\nerror: no DaemonSets found in typo namespace\n";
    assert_eq!(gate(&["-n", "typo"]), (Some(1), none.to_owned()));
    assert_eq!(gate(&["-l", "app=typo"]).0, Some(1));
    let what_if = ["-f", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/commands/what-if.yaml")];
    assert_eq!(gate(&[&what_if[..], &["--node-selector", "pool=typo"]].concat()), (Some(1), unmatched.to_owned()));
}

#[test]
fn a_gate_does_not_pass_on_a_partial_answer() {
    let shop: serde_json::Value = serde_saphyr::from_str(&std::fs::read_to_string(SHOP).unwrap()).unwrap();
    let gate = |without: &str, name: &str| {
        let mut dump = shop.clone();
        dump["items"].as_array_mut().unwrap().retain(|item| item["kind"] != without);
        let arguments = ["coverage", name, "--exit-code", "--from", "-", "--now", NOW];
        run_with_input(&arguments, dump.to_string().as_bytes())
    };
    for without in ["Pod", "Node"] {
        let ended = gate(without, "fine");
        assert_eq!(ended.code, Some(5), "{}", ended.err);
        assert!(ended.out.starts_with("shop/fine: status reports 2 desired, 2 current, 2 ready, "));
        let resource = without.to_lowercase();
        let message =
            format!("error: the answer is partial: --exit-code cannot pass\nhint: the dump has no {resource}s: ");
        assert!(ended.err.starts_with(&message), "{}", ended.err);
    }
    assert_eq!(gate("Event", "fine").code, Some(0), "whether a pod is available needs no events");
    assert_eq!(gate("Event", "agent").code, Some(3));
}

#[test]
fn a_selection_of_nodes_that_could_not_be_read_is_an_error() {
    let dump = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: a, namespace: b}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b}]}}
";
    let ended = run_with_input(&["coverage", "--from", "-", "--node-selector", "a=b"], dump.as_bytes());
    assert_eq!(
        (ended.code, ended.err.as_str()),
        (Some(1), "error: the nodes could not be read, so --node-selector cannot be applied\n")
    );
}

#[test]
fn data_has_every_node_and_a_reason_for_each_that_is_not_available() {
    let json: serde_json::Value = serde_json::from_str(&on_shop(&["coverage", "-o", "json"])).unwrap();
    assert_eq!((&json["apiVersion"], &json["kind"]), (&"kubectl-ds/v1".into(), &"CoverageReport".into()));
    for daemon_set in json["daemonSets"].as_array().unwrap() {
        let nodes = daemon_set["nodes"].as_array().unwrap();
        assert_eq!(nodes.len(), 6);
        for node in nodes {
            let reasons = node["reasons"].as_array().unwrap();
            assert_eq!(node["state"] == "Available", reasons.is_empty(), "{node}");
        }
    }
    let yaml: serde_json::Value = serde_saphyr::from_str(&on_shop(&["coverage", "-o", "yaml"])).unwrap();
    assert_eq!(yaml, json);
}

#[test]
fn a_manifest_is_held_against_the_cluster() {
    let manifest = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: shop}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      nodeSelector: {topology.kubernetes.io/zone: one}
      containers: [{name: agent, image: 'example.com/agent:3', ports: [{containerPort: 9100, hostPort: 9100}]}]
";
    let what_if = |flags: &[&str]| {
        run_with_input(&[&["coverage", "-f", "-", "--from", SHOP, "--now", NOW], flags].concat(), manifest.as_bytes())
    };
    let ended = what_if(&[]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert_eq!(
        ended.out,
        "\
shop/agent would run on 3 of 6 nodes, now 5

KEEPS             3   node-a, node-b, node-c
GAINS             0
LOSES             2
NodeSelectorValueMismatch       2    node-d, node-e
    label topology.kubernetes.io/zone is two; nodeSelector requires one
    → if the node should run these pods, change the template: label
      topology.kubernetes.io/zone is set by the kubelet or the cloud provider
DOES NOT FIT      1
HostPortConflict                1    node-c
    port 9100/TCP is in use by legacy/old-exporter
    → change the host port of one of them

partial answer: the dump has no limitranges: requests that a LimitRange would
add are not counted
"
    );
    assert_eq!(what_if(&["--exit-code"]).code, Some(3));
    let json: serde_json::Value = serde_json::from_str(&what_if(&["-o", "json"]).out).unwrap();
    assert_eq!(json["doesNotFit"][0]["nodes"], serde_json::json!(["node-c"]));
}

#[test]
fn screens_without_unicode_get_ascii() {
    for arguments in [["coverage"].as_slice(), &["coverage", "agent", "--node", "node-c"], &["coverage", "--nodes"]] {
        let ascii = on_shop(&[arguments, &["--ascii"]].concat());
        assert!(ascii.is_ascii(), "{ascii}");
        let mut command = kubectl_ds(&[arguments, &["--from", SHOP, "--now", NOW]].concat());
        command.env("LANG", "C");
        assert_eq!(end(command).out, ascii);
    }
}

#[test]
fn colour_only_adds_to_the_words() {
    let plain = on_shop(&["coverage"]);
    let coloured = on_shop(&["coverage", "--color", "always"]);
    assert!(!plain.contains('\u{1b}') && coloured.contains('\u{1b}'));
    assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain);
    let mut command = kubectl_ds(&["coverage", "--from", SHOP, "--now", NOW]);
    command.env("NO_COLOR", "1").env("CLICOLOR_FORCE", "1");
    assert_eq!(end(command).out, plain);
}
