package main

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	_ "unsafe"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	testframework "k8s.io/kubernetes/pkg/scheduler/testing/framework"
)

// A pod that is meant for one node, and what is on that node: pods that are bound to it, and others that the scheduler has
// nominated for it.
type preemptionCase struct {
	Pod     *v1.Pod                       `json:"pod"`
	Node    *v1.Node                      `json:"node"`
	Pods    []*v1.Pod                     `json:"pods"`
	Budgets []*policy.PodDisruptionBudget `json:"budgets"`
}

type preemptionAnswer struct {
	// What becomes of the pod: Fits, Preempts, NotHelpful, NoneLower, Never or Waits.
	Outcome string `json:"outcome"`
	// The names of the pods that are preempted, by name, and how many of them violate a budget, for several orders of the
	// pods and budgets, on which equally important victims depend.
	Attempts []attempt `json:"attempts"`
	// The priority above which the pod would get room, if it stays Pending and may preempt; absent if none would do.
	Above *int32 `json:"above"`
}

type attempt struct {
	Victims    []string `json:"victims"`
	Violations int64    `json:"violations"`
}

//go:linkname evaluate k8s.io/kubernetes/pkg/scheduler/framework/preemption.(*Evaluator).evaluate
func evaluate(evaluator *preemption.Evaluator, ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	statuses fwk.NodeToStatusReader) (preemption.Candidate, *fwk.PostFilterResult, *fwk.Status)

func init() {
	metrics.Register()
}

func (task *preemptionCase) solve() (*preemptionAnswer, error) {
	names := map[string]bool{}
	for _, pod := range append([]*v1.Pod{task.Pod}, task.Pods...) {
		if pod.Name == "" || pod.UID == "" || names[pod.Name] {
			return nil, fmt.Errorf("a pod has a name and a uid of its own")
		}
		names[pod.Name] = true
	}
	if task.Node == nil || task.Node.Name == "" {
		return nil, fmt.Errorf("a node has a name")
	}
	outcome, first, err := task.attempt(task.Pod)
	if err != nil {
		return nil, err
	}
	result := &preemptionAnswer{Outcome: outcome, Attempts: []attempt{}}
	if outcome == "Preempts" {
		result.Attempts = append(result.Attempts, first)
		for turn := range 3 {
			if turn > 0 && len(task.Pods) > 1 {
				task.Pods = append(task.Pods[1:], task.Pods[0])
			}
			slices.Reverse(task.Pods)
			slices.Reverse(task.Budgets)
			again, other, err := task.attempt(task.Pod)
			if err != nil || again != outcome {
				return nil, fmt.Errorf("another order makes it %s: %v", again, err)
			}
			result.Attempts = append(result.Attempts, other)
		}
	}
	if outcome == "Fits" || outcome == "Preempts" || outcome == "Waits" {
		return result, nil
	}
	own := corev1helpers.PodPriority(task.Pod)
	priorities := []int32{own}
	if outcome == "Never" {
		// Its own priority may do if it may preempt.
		priorities = append(priorities, own-1)
	}
	for _, pod := range task.Pods {
		if priority := corev1helpers.PodPriority(pod); priority > own {
			priorities = append(priorities, priority)
		}
	}
	slices.Sort(priorities)
	for _, below := range slices.Compact(priorities) {
		pod := task.Pod.DeepCopy()
		priority := below + 1
		pod.Spec.Priority, pod.Spec.PreemptionPolicy, pod.Status.NominatedNodeName = &priority, nil, ""
		outcome, _, err := task.attempt(pod)
		if err != nil {
			return nil, err
		}
		if outcome == "Fits" || outcome == "Preempts" {
			result.Above = &below
			break
		}
	}
	return result, nil
}

// attempt schedules a pod as the scheduler does, up to the deletion of the victims.
func (task *preemptionCase) attempt(pod *v1.Pod) (string, attempt, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	informers := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	bound := []*v1.Pod{}
	pods := informers.Core().V1().Pods().Informer().GetIndexer()
	for _, other := range append([]*v1.Pod{pod}, task.Pods...) {
		if err := pods.Add(other); err != nil {
			return "", attempt{}, err
		}
		// The scheduler's informer leaves out pods that have ended.
		if other.Spec.NodeName != "" && other.Status.Phase != v1.PodSucceeded && other.Status.Phase != v1.PodFailed {
			bound = append(bound, other)
		}
	}
	budgets := informers.Policy().V1().PodDisruptionBudgets().Informer().GetIndexer()
	for _, budget := range task.Budgets {
		if err := budgets.Add(budget); err != nil {
			return "", attempt{}, err
		}
	}
	snapshot := internalcache.NewSnapshot(bound, []*v1.Node{task.Node})
	queue := internalqueue.NewSchedulingQueue((&queuesort.PrioritySort{}).Less, informers)
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	withPorts := func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		return nodeports.New(ctx, args, handle, features)
	}
	withResources := func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		return noderesources.NewFit(ctx, args, handle, features)
	}
	scheduler, err := testframework.NewFramework(ctx, []testframework.RegisterPluginFunc{
		testframework.RegisterQueueSortPlugin(queuesort.Name, queuesort.New),
		testframework.RegisterBindPlugin(defaultbinder.Name, defaultbinder.New),
		testframework.RegisterPluginAsExtensions(nodeports.Name, withPorts, "PreFilter", "Filter"),
		testframework.RegisterPluginAsExtensions(noderesources.Name, withResources, "PreFilter", "Filter"),
	}, "default-scheduler",
		frameworkruntime.WithPodNominator(queue),
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithMutableSnapshotLister(snapshot),
		frameworkruntime.WithInformerFactory(informers),
	)
	if err != nil {
		return "", attempt{}, err
	}
	for _, other := range task.Pods {
		if other.Spec.NodeName == "" && other.Status.NominatedNodeName != "" &&
			other.Status.Phase != v1.PodSucceeded && other.Status.Phase != v1.PodFailed {
			queue.Add(ctx, other)
		}
	}
	state := framework.NewCycleState()
	if _, status, _ := scheduler.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() && !status.IsSkip() {
		return "", attempt{}, fmt.Errorf("prefilter: %s", status.Message())
	}
	node, err := snapshot.NodeInfos().Get(task.Node.Name)
	if err != nil {
		return "", attempt{}, err
	}
	status := scheduler.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
	if status.IsSuccess() {
		return "Fits", attempt{}, nil
	}
	plugin, err := defaultpreemption.New(ctx, &config.DefaultPreemptionArgs{
		MinCandidateNodesPercentage: 10, MinCandidateNodesAbsolute: 100,
	}, scheduler, features)
	if err != nil {
		return "", attempt{}, err
	}
	statuses := framework.NewDefaultNodeToStatus()
	statuses.Set(task.Node.Name, status)
	candidate, _, status := evaluate(plugin.Evaluator, ctx, state, pod, statuses)
	message := status.Message()
	switch {
	case status.IsSuccess():
		victims := []string{}
		for _, victim := range candidate.Victims().Pods {
			victims = append(victims, victim.Name)
		}
		sort.Strings(victims)
		return "Preempts", attempt{victims, candidate.Victims().NumPDBViolations}, nil
	case strings.Contains(message, "preemptionPolicy=Never"):
		return "Never", attempt{}, nil
	case strings.Contains(message, "terminating pod on the nominated node"):
		return "Waits", attempt{}, nil
	case strings.Contains(message, "No preemption victims found"):
		return "NoneLower", attempt{}, nil
	case status.Code() == fwk.Unschedulable:
		return "NotHelpful", attempt{}, nil
	}
	return "", attempt{}, fmt.Errorf("%v: %s", status.Code(), message)
}
