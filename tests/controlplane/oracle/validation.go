package main

import (
	"context"
	"encoding/json"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
)

type validationCase struct {
	DaemonSet json.RawMessage `json:"daemonSet"`
}

// What the API server answers to the creation of a DaemonSet under fieldValidation=Strict.
type validationAnswer struct {
	// Why it cannot be decoded.
	Decoding string `json:"decoding,omitempty"`
	// The reasons and paths of what validation refuses, in its order.
	Causes [][2]string `json:"causes,omitempty"`
	// Messages of the same.
	Messages []string `json:"messages,omitempty"`
}

var strictCodecs = serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict)

func init() {
	// As --allow-privileged of the API server, without which no network plugin runs.
	capabilities.Setup(true, 0)
}

func (task *validationCase) solve() *validationAnswer {
	decoder := strictCodecs.UniversalDecoder(apps.SchemeGroupVersion)
	kind := appsv1.SchemeGroupVersion.WithKind("DaemonSet")
	object, _, err := decoder.Decode(task.DaemonSet, &kind, &apps.DaemonSet{})
	if err != nil {
		if runtime.IsStrictDecodingError(err) {
			return &validationAnswer{Decoding: "strict: " + err.Error()}
		}
		return &validationAnswer{Decoding: err.Error()}
	}
	daemonSet := object.(*apps.DaemonSet)
	ctx := request.WithNamespace(context.Background(), daemonSet.Namespace)
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{
		IsResourceRequest: true, APIGroup: "apps", APIVersion: "v1", Resource: "daemonsets", Verb: "create",
		Namespace: daemonSet.Namespace,
	})
	rest.FillObjectMetaSystemFields(daemonSet)
	// The server writes its own.
	daemonSet.ManagedFields = nil
	result := &validationAnswer{}
	var status apierrors.APIStatus
	if err := rest.BeforeCreate(daemonset.Strategy, ctx, daemonSet); errors.As(err, &status) {
		if details := status.Status().Details; details != nil {
			for _, cause := range details.Causes {
				result.Causes = append(result.Causes, [2]string{string(cause.Type), cause.Field})
				result.Messages = append(result.Messages, cause.Message)
			}
		}
		if len(result.Causes) == 0 {
			result.Decoding = err.Error()
		}
	} else if err != nil {
		result.Decoding = err.Error()
	}
	return result
}
