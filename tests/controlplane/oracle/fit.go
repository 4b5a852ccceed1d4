package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resource "k8s.io/api/resource/v1"
	storage "k8s.io/api/storage/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	testframework "k8s.io/kubernetes/pkg/scheduler/testing/framework"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// A new pod and a cluster: on which nodes the filters of the default profile let it run.
type fitCase struct {
	Pod           *v1.Pod                       `json:"pod"`
	Nodes         []*v1.Node                    `json:"nodes"`
	Pods          []*v1.Pod                     `json:"pods"`
	Namespaces    []*v1.Namespace               `json:"namespaces"`
	Claims        []*v1.PersistentVolumeClaim   `json:"claims"`
	Volumes       []*v1.PersistentVolume        `json:"volumes"`
	Classes       []*storage.StorageClass       `json:"classes"`
	CSINodes      []*storage.CSINode            `json:"csiNodes"`
	CSIDrivers    []*storage.CSIDriver          `json:"csiDrivers"`
	Capacities    []*storage.CSIStorageCapacity `json:"capacities"`
	Attachments   []*storage.VolumeAttachment   `json:"attachments"`
	DeviceClaims  []*resource.ResourceClaim     `json:"deviceClaims"`
	DeviceClasses []*resource.DeviceClass       `json:"deviceClasses"`
	Slices        []*resource.ResourceSlice     `json:"slices"`
}

type fitAnswer struct {
	// For each node the first filter that rejects the pod; empty if all let it pass.
	Nodes []rejection `json:"nodes"`
}

type rejection struct {
	Plugin string `json:"plugin"`
	// What the scheduler would write about the node, sorted.
	Reasons []string `json:"reasons"`
	// Whether no preemption would help.
	Unresolvable bool `json:"unresolvable"`
}

// filters are those of the default profile in their order, without the two that depend on neither pods nor volumes nor
// the room of nodes: NodeName and NodeUnschedulable.
var filters = []string{
	names.TaintToleration, names.NodeAffinity, names.NodePorts, names.NodeResourcesFit,
	names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone,
	names.PodTopologySpread, names.InterPodAffinity, names.DynamicResources, names.NodeDeclaredFeatures,
}

// created returns the pod as the API server stores it.
func created(pod *v1.Pod) (*v1.Pod, error) {
	var internal core.Pod
	legacyscheme.Scheme.Default(pod)
	if err := legacyscheme.Scheme.Convert(pod, &internal, nil); err != nil {
		return nil, err
	}
	status := internal.Status
	podregistry.Strategy.PrepareForCreate(genericapirequest.WithNamespace(context.Background(), pod.Namespace), &internal)
	internal.Status = status
	result := &v1.Pod{}
	return result, legacyscheme.Scheme.Convert(&internal, result, nil)
}

func (task *fitCase) solve() (*fitAnswer, error) {
	known := map[string]bool{}
	for _, node := range task.Nodes {
		if node.Name == "" || known[node.Name] {
			return nil, fmt.Errorf("a node has a name of its own")
		}
		known[node.Name] = true
	}
	for _, other := range append([]*v1.Pod{task.Pod}, task.Pods...) {
		if other.Name == "" || other.UID == "" || other.Namespace == "" {
			return nil, fmt.Errorf("a pod has a name, a uid and a namespace")
		}
		if other.Spec.NodeName != "" && !known[other.Spec.NodeName] {
			return nil, fmt.Errorf("pods are bound to nodes that exist")
		}
	}
	pod, err := created(task.Pod)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	informers := informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)
	for _, namespace := range task.Namespaces {
		if err := informers.Core().V1().Namespaces().Informer().GetIndexer().Add(namespace); err != nil {
			return nil, err
		}
	}
	bound := []*v1.Pod{}
	pods := informers.Core().V1().Pods().Informer().GetIndexer()
	for _, other := range append([]*v1.Pod{pod}, task.Pods...) {
		if err := pods.Add(other); err != nil {
			return nil, err
		}
		// The scheduler's informer leaves out pods that have ended.
		if other.Spec.NodeName != "" && other.Status.Phase != v1.PodSucceeded && other.Status.Phase != v1.PodFailed {
			bound = append(bound, other)
		}
	}
	snapshot := internalcache.NewSnapshot(bound, task.Nodes)
	queue := internalqueue.NewSchedulingQueue((&queuesort.PrioritySort{}).Less, informers)
	registered := []testframework.RegisterPluginFunc{
		testframework.RegisterQueueSortPlugin(queuesort.Name, queuesort.New),
		testframework.RegisterBindPlugin(defaultbinder.Name, defaultbinder.New),
	}
	registry := plugins.NewInTreeRegistry()
	for _, name := range filters {
		registered = append(registered, testframework.RegisterPluginAsExtensions(name, registry[name], "PreFilter", "Filter"))
	}
	slicesOfNodes, err := tracker.StartTracker(ctx, tracker.Options{SliceInformer: informers.Resource().V1().ResourceSlices()})
	if err != nil {
		return nil, err
	}
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), nil, "ResourceClaim", "", nil)
	devices := dynamicresources.NewDRAManager(ctx, claims, slicesOfNodes, informers)
	for _, claim := range task.DeviceClaims {
		// The informer of the cache need not run either.
		assumecache.AddTestObject(claims, claim)
	}
	resourcesOfDevices := devices.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache)
	for _, class := range task.DeviceClasses {
		resourcesOfDevices.OnAdd(class, true)
	}
	scheduler, err := testframework.NewFramework(ctx, registered, "default-scheduler",
		frameworkruntime.WithPodNominator(queue),
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithMutableSnapshotLister(snapshot),
		frameworkruntime.WithInformerFactory(informers),
		frameworkruntime.WithSharedDRAManager(devices),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(informers.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithClientSet(fake.NewSimpleClientset()),
		frameworkruntime.WithParallelism(1),
	)
	if err != nil {
		return nil, err
	}
	// The filters read the caches of the informers, which need not run for that.
	for _, class := range task.Classes {
		legacyscheme.Scheme.Default(class)
	}
	core, ofStorage := informers.Core().V1(), informers.Storage().V1()
	if err := errors.Join(
		fill(core.PersistentVolumeClaims().Informer().GetIndexer(), task.Claims),
		fill(core.PersistentVolumes().Informer().GetIndexer(), task.Volumes),
		fill(ofStorage.StorageClasses().Informer().GetIndexer(), task.Classes),
		fill(ofStorage.CSINodes().Informer().GetIndexer(), task.CSINodes),
		fill(ofStorage.CSIDrivers().Informer().GetIndexer(), task.CSIDrivers),
		fill(ofStorage.CSIStorageCapacities().Informer().GetIndexer(), task.Capacities),
		fill(ofStorage.VolumeAttachments().Informer().GetIndexer(), task.Attachments),
		fill(informers.Resource().V1().DeviceClasses().Informer().GetIndexer(), task.DeviceClasses),
		fill(informers.Resource().V1().ResourceSlices().Informer().GetIndexer(), task.Slices),
	); err != nil {
		return nil, err
	}
	for _, other := range task.Pods {
		if other.Spec.NodeName == "" && other.Status.NominatedNodeName != "" &&
			other.Status.Phase != v1.PodSucceeded && other.Status.Phase != v1.PodFailed {
			queue.Add(ctx, other)
		}
	}
	state := framework.NewCycleState()
	answer := &fitAnswer{Nodes: []rejection{}}
	_, status, _ := scheduler.RunPreFilterPlugins(ctx, state, pod)
	if status.Code() == fwk.Error {
		return nil, fmt.Errorf("prefilter: %s", status.Message())
	}
	if status.Message() == "pod affinity terms conflict" {
		return nil, fmt.Errorf("the API server refuses a node affinity without a node")
	}
	if strings.HasPrefix(status.Message(), "parsing pod: ") {
		return nil, fmt.Errorf("the API server refuses a selector that cannot be parsed")
	}
	for _, node := range task.Nodes {
		info, err := snapshot.NodeInfos().Get(node.Name)
		if err != nil {
			return nil, err
		}
		found := status
		// The filters are asked of each node, also of those that PreFilter has left out.
		if status.IsSuccess() {
			found = scheduler.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
		}
		// What cannot be allocated is no error of the case.
		if found.Code() == fwk.Error && found.Plugin() != names.DynamicResources {
			return nil, fmt.Errorf("filter: %s", found.Message())
		}
		if found.IsSuccess() {
			answer.Nodes = append(answer.Nodes, rejection{Reasons: []string{}})
			continue
		}
		reasons := append([]string{}, found.Reasons()...)
		slices.Sort(reasons)
		answer.Nodes = append(answer.Nodes, rejection{found.Plugin(), reasons, found.Code() == fwk.UnschedulableAndUnresolvable})
	}
	return answer, nil
}
