package main

import (
	"context"
	"errors"
	"slices"
	_ "unsafe"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/daemon"
)

type rolloutCase struct {
	DaemonSet *apps.DaemonSet `json:"daemonSet"`
	Nodes     []*v1.Node      `json:"nodes"`
	Pods      []*v1.Pod       `json:"pods"`
	Hash      string          `json:"hash"`
	// The names of the nodes on which a failed pod was deleted so recently that the next one waits.
	InBackoff []string    `json:"inBackoff"`
	Now       metav1.Time `json:"now"`
}

// What one sync does, in two halves: the second one runs only if the first one has nothing to do.
type rolloutAnswer struct {
	Manage actions `json:"manage"`
	Update actions `json:"update"`
}

// Sorted: the order in which the controller visits nodes is that of a Go map.
type actions struct {
	// Nodes that get a pod.
	Create []string `json:"create"`
	// Names of pods.
	Delete []string `json:"delete"`
	Error  string   `json:"error"`
}

//go:linkname manage k8s.io/kubernetes/pkg/controller/daemon.(*DaemonSetsController).manage
func manage(controller *daemon.DaemonSetsController, ctx context.Context, daemonSet *apps.DaemonSet,
	nodes []*v1.Node, hash string) error

//go:linkname rollingUpdate k8s.io/kubernetes/pkg/controller/daemon.(*DaemonSetsController).rollingUpdate
func rollingUpdate(controller *daemon.DaemonSetsController, ctx context.Context, daemonSet *apps.DaemonSet,
	nodes []*v1.Node, hash string) error

func (task *rolloutCase) solve(manager *manager) (*rolloutAnswer, error) {
	manager.clock.SetTime(task.Now.Time)
	for _, node := range task.Nodes {
		key := failedPodsBackoffKey(task.DaemonSet, node.Name)
		manager.backoff.DeleteEntry(key)
		if slices.Contains(task.InBackoff, node.Name) {
			manager.backoff.Next(key, task.Now.Time)
		}
	}
	if task.DaemonSet.Spec.Selector == nil || len(task.DaemonSet.Spec.Selector.MatchLabels) == 0 {
		return nil, errors.New("the API server demands a selector")
	}
	for _, pod := range task.Pods {
		if pod.Name == "" || pod.Labels == nil {
			return nil, errors.New("a pod of a DaemonSet has a name and labels")
		}
	}
	manager.daemonSet = task.DaemonSet
	if err := fill(manager.nodes, task.Nodes); err != nil {
		return nil, err
	}
	if err := fill(manager.pods, task.Pods); err != nil {
		return nil, err
	}
	answer := &rolloutAnswer{
		Manage: manager.act(func() error {
			return manage(manager.controller, context.Background(), task.DaemonSet, task.Nodes, task.Hash)
		}),
		Update: actions{Create: []string{}, Delete: []string{}},
	}
	if answer.Manage.Error != "" {
		return nil, errors.New(answer.Manage.Error)
	}
	strategy := task.DaemonSet.Spec.UpdateStrategy
	switch {
	case strategy.Type == apps.RollingUpdateDaemonSetStrategyType && strategy.RollingUpdate != nil && strategy.RollingUpdate.MaxUnavailable != nil:
		answer.Update = manager.act(func() error {
			return rollingUpdate(manager.controller, context.Background(), task.DaemonSet, task.Nodes, task.Hash)
		})
	case strategy.Type == apps.OnDeleteDaemonSetStrategyType:
	default:
		return nil, errors.New("the API server fills in the update strategy")
	}
	return answer, nil
}

func fill[T any](indexer cache.Indexer, objects []T) error {
	all := make([]any, 0, len(objects))
	for _, object := range objects {
		all = append(all, object)
	}
	return indexer.Replace(all, "")
}

// act returns what a half of a sync asks the API server to do.
func (manager *manager) act(sync func() error) actions {
	manager.client.ClearActions()
	result := actions{Create: []string{}, Delete: []string{}}
	if err := sync(); err != nil {
		result.Error = err.Error()
	}
	for _, action := range manager.client.Actions() {
		switch {
		case action.Matches("create", "pods"):
			pod := action.(testing.CreateAction).GetObject().(*v1.Pod)
			required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			result.Create = append(result.Create, required.NodeSelectorTerms[0].MatchFields[0].Values[0])
		case action.Matches("delete", "pods"):
			result.Delete = append(result.Delete, action.(testing.DeleteAction).GetName())
		}
	}
	slices.Sort(result.Create)
	slices.Sort(result.Delete)
	return result
}

// answerWrites lets every write succeed without keeping anything: a case is one sync.
func (manager *manager) answerWrites() {
	manager.client.PrependReactor("*", "*", func(action testing.Action) (bool, runtime.Object, error) {
		switch {
		case action.Matches("create", "pods"):
			return true, action.(testing.CreateAction).GetObject(), nil
		case action.Matches("get", "daemonsets"):
			return true, manager.daemonSet, nil
		}
		return true, &v1.Pod{}, nil
	})
}
