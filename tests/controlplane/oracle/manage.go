package main

import (
	"context"
	"time"
	_ "unsafe"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/daemon/util"
	testingclock "k8s.io/utils/clock/testing"
)

type manageCase struct {
	DaemonSet *apps.DaemonSet `json:"daemonSet"`
	Node      *v1.Node        `json:"node"`
	// Pods of any owner and node; those that are claimed and meant for the node are looked at.
	Pods      []*v1.Pod   `json:"pods"`
	Hash      string      `json:"hash"`
	InBackoff bool        `json:"inBackoff"`
	Now       metav1.Time `json:"now"`
}

type manageAnswer struct {
	// A word for each pod: Owned, Released, Adopted or Foreign.
	Claims    []string `json:"claims"`
	Available []bool   `json:"available"`
	Updated   []bool   `json:"updated"`
	Create    bool     `json:"create"`
	// The names of the pods that are deleted, in the controller's order.
	Delete []string `json:"delete"`
}

// A manager is a real DaemonSet controller without a cluster, whose clock and backoff are set by each case.
type manager struct {
	clock      *testingclock.FakeClock
	backoff    *flowcontrol.Backoff
	client     *fake.Clientset
	nodes      cache.Indexer
	pods       cache.Indexer
	daemonSet  *apps.DaemonSet
	controller *daemon.DaemonSetsController
}

func newManager() *manager {
	clock := testingclock.NewFakeClock(time.Now())
	backoff := flowcontrol.NewFakeBackOff(time.Second, 15*time.Minute, clock)
	client := fake.NewClientset()
	informers := informers.NewSharedInformerFactory(client, 0)
	controller, err := daemon.NewDaemonSetsController(context.Background(),
		informers.Apps().V1().DaemonSets(), informers.Apps().V1().ControllerRevisions(),
		informers.Core().V1().Pods(), informers.Core().V1().Nodes(), client, backoff)
	if err != nil {
		panic(err)
	}
	manager := &manager{
		clock: clock, backoff: backoff, client: client, controller: controller,
		nodes: informers.Core().V1().Nodes().Informer().GetIndexer(),
		pods:  informers.Core().V1().Pods().Informer().GetIndexer(),
	}
	manager.answerWrites()
	return manager
}

//go:linkname podsShouldBeOnNode k8s.io/kubernetes/pkg/controller/daemon.(*DaemonSetsController).podsShouldBeOnNode
func podsShouldBeOnNode(controller *daemon.DaemonSetsController, logger klog.Logger, node *v1.Node,
	nodeToDaemonPods map[string][]*v1.Pod, daemonSet *apps.DaemonSet, hash string, tolerations []v1.Toleration,
	affinity nodeaffinity.RequiredNodeAffinity,
) (nodesNeedingDaemonPods, podsToDelete []string)

//go:linkname daemonPodTolerations k8s.io/kubernetes/pkg/controller/daemon.daemonPodTolerations
func daemonPodTolerations(daemonSet *apps.DaemonSet) []v1.Toleration

//go:linkname failedPodsBackoffKey k8s.io/kubernetes/pkg/controller/daemon.failedPodsBackoffKey
func failedPodsBackoffKey(daemonSet *apps.DaemonSet, nodeName string) string

func (task *manageCase) solve(manager *manager) (*manageAnswer, error) {
	manager.clock.SetTime(task.Now.Time)
	key := failedPodsBackoffKey(task.DaemonSet, task.Node.Name)
	manager.backoff.DeleteEntry(key)
	if task.InBackoff {
		manager.backoff.Next(key, task.Now.Time)
	}
	generation, _ := util.GetTemplateGeneration(task.DaemonSet)
	result := &manageAnswer{Claims: []string{}, Available: []bool{}, Updated: []bool{}, Delete: []string{}}
	nodeToDaemonPods := map[string][]*v1.Pod{}
	for _, pod := range task.Pods {
		claim, err := claim(task.DaemonSet, pod)
		if err != nil {
			return nil, err
		}
		result.Claims = append(result.Claims, claim)
		available := podutil.IsPodAvailable(pod, task.DaemonSet.Spec.MinReadySeconds, task.Now)
		result.Available = append(result.Available, available)
		result.Updated = append(result.Updated, util.IsPodUpdated(pod, task.Hash, generation))
		// What getNodesToDaemonPods does with the pods that it has claimed.
		if claim != "Owned" && claim != "Adopted" || podutil.IsPodTerminal(pod) && pod.DeletionTimestamp != nil {
			continue
		}
		if name, err := util.GetTargetNodeName(pod); err == nil {
			nodeToDaemonPods[name] = append(nodeToDaemonPods[name], pod)
		}
	}
	template := &task.DaemonSet.Spec.Template.Spec
	create, remove := podsShouldBeOnNode(manager.controller, logger, task.Node, nodeToDaemonPods, task.DaemonSet, task.Hash,
		daemonPodTolerations(task.DaemonSet), nodeaffinity.NewRequiredNodeAffinity(template.NodeSelector, template.Affinity))
	result.Create = len(create) > 0
	result.Delete = append(result.Delete, remove...)
	return result, nil
}

func claim(daemonSet *apps.DaemonSet, pod *v1.Pod) (string, error) {
	selector, err := metav1.LabelSelectorAsSelector(daemonSet.Spec.Selector)
	if err != nil {
		return "", err
	}
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &v1.Pod{}, 0, cache.Indexers{})
	if err := controller.AddPodControllerIndexer(informer); err != nil {
		return "", err
	}
	if err := informer.GetIndexer().Add(pod); err != nil {
		return "", err
	}
	own, err := controller.FilterPodsByOwner(informer.GetIndexer(), &daemonSet.ObjectMeta, "DaemonSet", true)
	if err != nil {
		return "", err
	}
	if len(own) == 0 {
		return "Foreign", nil
	}
	var control controller.FakePodControl
	kind := apps.SchemeGroupVersion.WithKind("DaemonSet")
	canAdopt := func(context.Context) error { return nil }
	refs := controller.NewPodControllerRefManager(&control, daemonSet, selector, kind, canAdopt)
	claimed, err := refs.ClaimPods(context.Background(), own)
	switch patched := len(control.Patches) > 0; {
	case err != nil:
		return "", err
	case len(claimed) > 0 && patched:
		return "Adopted", nil
	case len(claimed) > 0:
		return "Owned", nil
	case patched:
		return "Released", nil
	}
	return "Foreign", nil
}
