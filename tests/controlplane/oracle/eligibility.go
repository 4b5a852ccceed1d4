package main

import (
	"encoding/json"
	"strings"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/daemon/util"
)

type eligibilityCase struct {
	DaemonSet *apps.DaemonSet   `json:"daemonSet"`
	Nodes     []json.RawMessage `json:"nodes"`
}

type eligibilityAnswer struct {
	// A digit for each node: 2 should run, 1 should only continue to run, 0 neither.
	Decisions   string          `json:"decisions"`
	Tolerations []v1.Toleration `json:"tolerations"`
	// UnavailableCount and SurgeCount for each of sizes.
	Unavailable []int `json:"unavailable"`
	Surge       []int `json:"surge"`
}

var sizes = []int{0, 1, 2, 3, 5, 7, 10, 99, 100, 1001}

var logger = klog.Background()

func (task *eligibilityCase) solve(pool []*v1.Node) (*eligibilityAnswer, error) {
	var decisions strings.Builder
	for _, text := range task.Nodes {
		var node *v1.Node
		var index int
		if json.Unmarshal(text, &index) == nil {
			node = pool[index]
		} else if err := decode(text, &node); err != nil {
			return nil, err
		}
		switch shouldRun, shouldContinueRunning := daemon.NodeShouldRunDaemonPod(logger, node, task.DaemonSet); {
		case shouldRun:
			decisions.WriteByte('2')
		case shouldContinueRunning:
			decisions.WriteByte('1')
		default:
			decisions.WriteByte('0')
		}
	}
	result := &eligibilityAnswer{Decisions: decisions.String()}
	for _, size := range sizes {
		unavailable, err := util.UnavailableCount(task.DaemonSet, size)
		if err != nil {
			return nil, err
		}
		surge, err := util.SurgeCount(task.DaemonSet, size)
		if err != nil {
			return nil, err
		}
		result.Unavailable = append(result.Unavailable, unavailable)
		result.Surge = append(result.Surge, surge)
	}
	spec := task.DaemonSet.Spec.Template.Spec
	util.AddOrUpdateDaemonPodTolerations(&spec)
	result.Tolerations = spec.Tolerations
	return result, nil
}
