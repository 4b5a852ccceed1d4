package main

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/controller/daemon/util"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
)

type roomCase struct {
	Pod  *v1.Pod   `json:"pod"`
	Node *v1.Node  `json:"node"`
	Pods []*v1.Pod `json:"pods"`
}

type roomAnswer struct {
	Insufficient []insufficient `json:"insufficient"`
	PortsFit     bool           `json:"portsFit"`
	// What the pod asks for, and what each of the node's pods takes up.
	Requests amounts   `json:"requests"`
	Pods     []amounts `json:"pods"`
	// The node that each pod is on or meant for.
	Targets []*string `json:"targets"`
}

type insufficient struct {
	Resource    v1.ResourceName `json:"resource"`
	Requested   int64           `json:"requested"`
	Used        int64           `json:"used"`
	Allocatable int64           `json:"allocatable"`
}

// Amounts that are not 0: cpu in thousandths, everything else in units.
type amounts map[v1.ResourceName]int64

// canonical writes quantities as the API server does. Others, such as 1.5Gi for 1536Mi, are kept by
// reference, and PodRequests then adds a pod's overhead to its spec again with each call.
func (task *roomCase) canonical() (*roomCase, error) {
	text, err := json.Marshal(task)
	if err != nil {
		return nil, err
	}
	var canonical roomCase
	return &canonical, json.Unmarshal(text, &canonical)
}

func (task *roomCase) solve() (*roomAnswer, error) {
	task, err := task.canonical()
	if err != nil {
		return nil, err
	}
	// The API server sets a pod's defaults when it reads it, and those of the whole pod before it stores it.
	legacyscheme.Scheme.Default(task.Pod)
	var internal core.Pod
	if err := legacyscheme.Scheme.Convert(task.Pod, &internal, nil); err != nil {
		return nil, err
	}
	podutil.DefaultPodLevelResources(&internal)
	task.Pod = &v1.Pod{}
	if err := legacyscheme.Scheme.Convert(&internal, task.Pod, nil); err != nil {
		return nil, err
	}
	result := &roomAnswer{Insufficient: []insufficient{}, Pods: []amounts{}, Targets: []*string{}}
	info := framework.NewNodeInfo()
	for _, pod := range task.Pods {
		// The scheduler's informer leaves out pods that have ended, and its cache those without a node.
		bound := pod.Spec.NodeName != ""
		if bound && pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed {
			info.AddPod(pod)
		}
		if bound {
			podInfo, _ := framework.NewPodInfo(pod)
			calculated := podInfo.CalculateResource().Resource
			result.Pods = append(result.Pods, amountsOf(calculated.(*framework.Resource)))
		} else {
			result.Pods = append(result.Pods, unboundAmounts(pod))
		}
		var target *string
		if name, err := util.GetTargetNodeName(pod); err == nil {
			target = &name
		}
		result.Targets = append(result.Targets, target)
	}
	info.SetNode(task.Node)
	options := noderesources.ResourceRequestsOptions{EnablePodLevelResources: true, EnableDRAExtendedResource: true}
	for _, found := range noderesources.Fits(task.Pod, info, nil, options) {
		result.Insufficient = append(result.Insufficient, insufficient{
			found.ResourceName, found.Requested, found.Used, found.Capacity,
		})
	}
	result.PortsFit = nodeports.Fits(task.Pod, info)
	result.Requests = unboundAmounts(task.Pod)
	return result, nil
}

func unboundAmounts(pod *v1.Pod) amounts {
	var requests framework.Resource
	requests.SetMaxResource(resource.PodRequests(pod, resource.PodResourcesOptions{}))
	return amountsOf(&requests)
}

func amountsOf(from *framework.Resource) amounts {
	result := amounts{}
	set := func(name v1.ResourceName, amount int64) {
		if amount != 0 {
			result[name] = amount
		}
	}
	set(v1.ResourceCPU, from.MilliCPU)
	set(v1.ResourceMemory, from.Memory)
	set(v1.ResourceEphemeralStorage, from.EphemeralStorage)
	for name, amount := range from.ScalarResources {
		set(name, amount)
	}
	return result
}
