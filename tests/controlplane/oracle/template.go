package main

import (
	"encoding/json"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
)

type templateCase struct {
	PodTemplate json.RawMessage `json:"podTemplate"`
}

// What the API server keeps of a pod template in a DaemonSet: with its defaults, through the internal version
// and back, as for a create followed by a get.
func (task *templateCase) solve() (json.RawMessage, error) {
	if err := decode(task.PodTemplate, &v1.PodTemplateSpec{}); err != nil {
		return nil, err
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "apps/v1",
		"kind":       "DaemonSet",
		"spec":       map[string]any{"template": task.PodTemplate},
	})
	if err != nil {
		return nil, err
	}
	object, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), text)
	if err != nil {
		return nil, err
	}
	written, err := runtime.Encode(legacyscheme.Codecs.LegacyCodec(appsv1.SchemeGroupVersion), object)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Spec struct {
			Template json.RawMessage `json:"template"`
		} `json:"spec"`
	}
	err = json.Unmarshal(written, &answer)
	return answer.Spec.Template, err
}

// A schema says for each type what its fields are in the Go types, by their JSON names: a type's name, or a word for what is no
// struct: text, bool, int32, int64, time, json, intOrString, quantity, or texts and quantities (maps); with * for a pointer to
// one and [] for a list.
type schema map[string]map[string]string

func daemonSetSchema() schema {
	result := schema{}
	result.add(reflect.TypeFor[appsv1.DaemonSet]())
	return result
}

func (types schema) add(of reflect.Type) string {
	if _, known := types[of.Name()]; !known {
		types[of.Name()] = map[string]string{}
		types.addFields(of, types[of.Name()])
	}
	return of.Name()
}

func (types schema) addFields(of reflect.Type, into map[string]string) {
	for index := range of.NumField() {
		field := of.Field(index)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && (field.Anonymous || strings.Contains(options, "inline")) {
			types.addFields(field.Type, into)
		} else if name != "-" {
			into[name] = types.word(field.Type)
		}
	}
}

func (types schema) word(of reflect.Type) string {
	switch of {
	case reflect.TypeFor[resource.Quantity]():
		return "quantity"
	case reflect.TypeFor[v1.ResourceList]():
		return "quantities"
	case reflect.TypeFor[intstr.IntOrString]():
		return "intOrString"
	case reflect.TypeFor[metav1.Time]():
		return "time"
	case reflect.TypeFor[metav1.FieldsV1]():
		return "json"
	}
	switch of.Kind() {
	case reflect.Struct:
		return types.add(of)
	case reflect.Pointer:
		return "*" + types.word(of.Elem())
	case reflect.Slice:
		return "[]" + types.word(of.Elem())
	case reflect.Map:
		if of.Elem().Kind() != reflect.String {
			return "unknown map " + of.String()
		}
		return "texts"
	case reflect.String:
		return "text"
	default:
		return of.Kind().String()
	}
}
