// Command oracle asks Kubernetes' own functions what they decide: it reads cases as JSON lines and
// writes an answer for each, in the same order. The differential test holds the Rust rules against
// these answers. Feature gates are at their defaults.
//
// A line is one of
//
//	{"nodes": [...]}                                 nodes that later lines name by their index
//	{"eligibility": {"daemonSet": …, "nodes": […]}}  nodes are indices or whole nodes
//	{"room":        {"pod": …, "node": …, "pods": […]}}
//	{"manage":      {"daemonSet": …, "node": …, "pods": […], "hash": …, "inBackoff": …, "now": …}}
//	{"rollout":     {"daemonSet": …, "nodes": […], "pods": […], "hash": …, "inBackoff": […], "now": …}}
//	{"preemption":  {"pod": …, "node": …, "pods": […], "budgets": […]}}
//	{"fit":         {"pod": …, "nodes": […], "pods": […], "namespaces": […], "claims": […], …}}
//	{"template":    {"podTemplate": …}}
//	{"schema":      {}}                              the types that a DaemonSet is made of
//	{"validation":  {"daemonSet": …}}                of any type
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sync"

	v1 "k8s.io/api/core/v1"
)

type line struct {
	Nodes       []*v1.Node       `json:"nodes,omitempty"`
	Eligibility *eligibilityCase `json:"eligibility,omitempty"`
	Room        *roomCase        `json:"room,omitempty"`
	Manage      *manageCase      `json:"manage,omitempty"`
	Rollout     *rolloutCase     `json:"rollout,omitempty"`
	Preemption  *preemptionCase  `json:"preemption,omitempty"`
	Fit         *fitCase         `json:"fit,omitempty"`
	Template    *templateCase    `json:"template,omitempty"`
	Schema      *struct{}        `json:"schema,omitempty"`
	Validation  *validationCase  `json:"validation,omitempty"`
}

type answer struct {
	Eligibility *eligibilityAnswer `json:"eligibility,omitempty"`
	Room        *roomAnswer        `json:"room,omitempty"`
	Manage      *manageAnswer      `json:"manage,omitempty"`
	Rollout     *rolloutAnswer     `json:"rollout,omitempty"`
	Preemption  *preemptionAnswer  `json:"preemption,omitempty"`
	Fit         *fitAnswer         `json:"fit,omitempty"`
	Template    json.RawMessage    `json:"template,omitempty"`
	Schema      schema             `json:"schema,omitempty"`
	Validation  *validationAnswer  `json:"validation,omitempty"`
	Error       string             `json:"error,omitempty"`
}

func main() {
	var pool []*v1.Node
	var cases [][]byte
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		text, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(text)) > 0 {
			if bytes.HasPrefix(text, []byte(`{"nodes"`)) {
				var nodes line
				if err := decode(text, &nodes); err != nil {
					fmt.Fprintln(os.Stderr, "the nodes cannot be read:", err)
					os.Exit(1)
				}
				pool = nodes.Nodes
			} else {
				cases = append(cases, text)
			}
		}
		if err != nil {
			break
		}
	}

	answers := make([][]byte, len(cases))
	next := make(chan int)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			manager := newManager()
			for index := range next {
				text, err := json.Marshal(solve(cases[index], pool, manager))
				if err != nil {
					panic(err)
				}
				answers[index] = text
			}
		})
	}
	for index := range cases {
		next <- index
	}
	close(next)
	workers.Wait()

	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, text := range answers {
		out.Write(text)
		out.WriteByte('\n')
	}
}

// decode refuses fields that Kubernetes does not know, so that a misspelt field is no silent pass.
func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

func solve(text []byte, pool []*v1.Node, manager *manager) (result answer) {
	defer func() {
		if cause := recover(); cause != nil {
			result = answer{Error: fmt.Sprint("panic: ", cause)}
		}
	}()
	var task line
	if err := decode(text, &task); err != nil {
		return answer{Error: err.Error()}
	}
	var err error
	switch {
	case task.Eligibility != nil:
		result.Eligibility, err = task.Eligibility.solve(pool)
	case task.Room != nil:
		result.Room, err = task.Room.solve()
	case task.Manage != nil:
		result.Manage, err = task.Manage.solve(manager)
	case task.Rollout != nil:
		result.Rollout, err = task.Rollout.solve(manager)
	case task.Preemption != nil:
		result.Preemption, err = task.Preemption.solve()
	case task.Fit != nil:
		result.Fit, err = task.Fit.solve()
	case task.Template != nil:
		result.Template, err = task.Template.solve()
	case task.Schema != nil:
		result.Schema = daemonSetSchema()
	case task.Validation != nil:
		result.Validation = task.Validation.solve()
	default:
		err = fmt.Errorf("a case of no known kind")
	}
	if err != nil {
		result.Error = err.Error()
	}
	return result
}
