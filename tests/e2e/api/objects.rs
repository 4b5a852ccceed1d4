//! One object of each kind that the client reads, with as many fields set as it decodes.

/// What the other objects need to be there.
pub const NAMESPACES: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: v1
kind: Namespace
metadata: {name: other}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: team}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: other}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: sandbox}
handler: sandbox
overhead: {podFixed: {memory: 120Mi, cpu: 250m}}
scheduling: {nodeSelector: {sandbox: "yes"}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: v1
kind: LimitRange
metadata: {name: defaults, namespace: other}
spec:
  limits:
  - {type: Container, default: {cpu: 100m}, defaultRequest: {cpu: 50m}}
"#;

/// Nodes, a DaemonSet with pods, another's pod, events, and the rights of a user.
pub const OBJECTS: &str = r#"
apiVersion: v1
kind: Node
metadata:
  name: n1
  labels: {zone: a, empty: ""}
  annotations: {note: kept by nobody}
spec:
  unschedulable: true
  taints:
  - {key: node.kubernetes.io/unreachable, effect: NoExecute, timeAdded: "2026-11-01T10:00:00Z"}
  - {key: dedicated, value: infra, effect: NoSchedule}
status:
  allocatable: {cpu: 3920m, memory: 7Gi, pods: "110", example.com/device: "2"}
  capacity: {cpu: "4", memory: 8Gi, pods: "110"}
  conditions:
  - type: Ready
    status: "False"
    reason: KubeletNotReady
    message: container runtime is down
    lastHeartbeatTime: "2026-11-01T10:00:00Z"
    lastTransitionTime: "2026-11-01T09:00:00Z"
  nodeInfo:
    kubeletVersion: v1.37.2
    architecture: amd64
    bootID: ""
    containerRuntimeVersion: containerd://2
    kernelVersion: "6"
    kubeProxyVersion: v1.37.2
    machineID: ""
    operatingSystem: linux
    osImage: linux
    systemUUID: ""
---
apiVersion: v1
kind: Node
metadata: {name: n2}
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: agent
  namespace: team
  labels: {app: agent}
spec:
  minReadySeconds: 5
  selector: {matchLabels: {app: agent}, matchExpressions: [{key: tier, operator: NotIn, values: [test]}]}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers: [{name: agent, image: agent, resources: {limits: {cpu: 100m}}}]
---
apiVersion: apps/v1
kind: ControllerRevision
metadata:
  name: agent-aaa
  namespace: team
  labels: {app: agent, controller-revision-hash: aaa}
revision: 3
data: {spec: {template: {}}}
---
apiVersion: apps/v1
kind: ControllerRevision
metadata: {name: else-bbb, namespace: team, labels: {app: else}}
revision: 1
data: {}
---
apiVersion: v1
kind: Pod
metadata:
  name: agent-run1
  namespace: team
  generateName: agent-
  labels: {app: agent, controller-revision-hash: aaa}
  finalizers: [example.com/hold]
spec:
  nodeName: n1
  automountServiceAccountToken: false
  hostNetwork: true
  terminationGracePeriodSeconds: 7
  nodeSelector: {zone: a}
  priorityClassName: high
  runtimeClassName: sandbox
  readinessGates: [{conditionType: example.com/ready}]
  tolerations:
  - {key: dedicated, operator: Exists}
  - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 60}
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchFields: [{key: metadata.name, operator: In, values: [n1]}]
          matchExpressions: [{key: zone, operator: In, values: [a, b]}]
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 3, preference: {matchExpressions: [{key: x, operator: Exists}]}}
  initContainers:
  - {name: sidecar, image: side, restartPolicy: Always, resources: {requests: {memory: 10Mi}}}
  containers:
  - name: agent
    image: registry.example/agent:1
    env: [{name: SECRET, value: kept by nobody}]
    ports: [{containerPort: 9100, hostPort: 9100, hostIP: 127.0.0.9, protocol: UDP}]
    resources: {limits: {cpu: "1.5", memory: 1Gi}, requests: {cpu: 100m}}
---
apiVersion: v1
kind: Pod
metadata: {name: agent-wait, namespace: team, labels: {app: agent}}
spec:
  automountServiceAccountToken: false
  schedulingGates: [{name: example.com/later}]
  containers: [{name: agent, image: agent}]
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: other, labels: {app: web}}
spec:
  nodeName: n1
  automountServiceAccountToken: false
  containers: [{name: web, image: web}]
---
apiVersion: v1
kind: Event
metadata: {name: e1, namespace: team}
involvedObject: {kind: DaemonSet, namespace: team, name: agent, uid: u, fieldPath: spec}
reason: FailedCreate
message: 'Error creating: quota'
source: {component: daemonset-controller}
firstTimestamp: "2026-11-01T10:00:00Z"
lastTimestamp: "2026-11-01T11:00:00Z"
count: 12
type: Warning
---
apiVersion: v1
kind: Event
metadata: {name: e2, namespace: team}
involvedObject: {kind: Pod, namespace: team, name: agent-run1}
reason: FailedScheduling
message: 0/2 nodes are available
reportingComponent: default-scheduler
reportingInstance: default-scheduler-0
action: Scheduling
eventTime: "2026-11-01T10:00:00.123456Z"
series: {count: 7, lastObservedTime: "2026-11-01T12:00:00.500000Z"}
type: Warning
---
apiVersion: v1
kind: Event
metadata: {name: e3, namespace: team}
involvedObject: {kind: Pod, namespace: team, name: agent-run1}
reason: Pulled
message: image is there
type: Normal
---
apiVersion: v1
kind: Event
metadata: {name: e4, namespace: team}
involvedObject: {kind: Pod, namespace: team, name: somebody-else}
reason: BackOff
type: Warning
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: team}
rules:
- {apiGroups: [apps], resources: [daemonsets], verbs: [get, list]}
- {apiGroups: [""], resources: [pods], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: alice, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]
"#;

/// Returns the status of a pod, as a patch.
pub fn status(pod: &str) -> String {
    let status = match pod {
        "agent-run1" => serde_json::json!({
            "phase": "Running",
            "startTime": "2026-11-01T10:00:01Z",
            "message": "a sentence",
            "reason": "AWord",
            "conditions": [
                {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status",
                 "lastTransitionTime": "2026-11-01T10:00:02Z"},
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": null},
            ],
            "containerStatuses": [{
                "name": "agent", "image": "i", "imageID": "x", "ready": false, "restartCount": 4, "started": false,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
                "lastState": {"terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "m",
                    "startedAt": "2026-11-01T10:00:00Z", "finishedAt": "2026-11-01T10:00:30Z"}},
                "allocatedResources": {"cpu": "100m", "memory": "1Gi"},
                "resources": {"requests": {"cpu": "90m"}},
            }],
            "initContainerStatuses": [{
                "name": "sidecar", "image": "i", "imageID": "x", "ready": true, "restartCount": 0, "started": true,
                "state": {"running": {"startedAt": "2026-11-01T10:00:00Z"}},
            }],
        }),
        _ => serde_json::json!({"phase": "Pending", "nominatedNodeName": "n1"}),
    };
    serde_json::json!({ "status": status }).to_string()
}
