// Command parts is etcd, kube-apiserver, kube-controller-manager, kube-scheduler and
// kubectl in one binary: the first argument names the part, the rest is handed to it.
// A sixth part, webhook, is an admission webhook that refuses everything.
//
// One binary links the shared packages once, which makes the build several times shorter than
// five separate ones.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	admission "k8s.io/api/admission/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: parts etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubectl|webhook [flags]")
		os.Exit(2)
	}
	// Each part reads os.Args itself, so the name of the part becomes the program's name.
	os.Args = os.Args[1:]
	var command *cobra.Command
	switch os.Args[0] {
	case "etcd":
		etcdmain.Main(os.Args)
		return
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = controllermanager.NewControllerManagerCommand()
	case "kube-scheduler":
		command = scheduler.NewSchedulerCommand()
	case "kubectl":
		command = kubectl.NewDefaultKubectlCommand()
	case "webhook":
		if err := refuse(os.Args[1], os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		fmt.Fprintf(os.Stderr, "unknown part %q\n", os.Args[0])
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}

// refuse listens at an address, with a certificate and its key, and answers every admission
// review with no.
func refuse(address, certificate, key string) error {
	handler := http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		var review admission.AdmissionReview
		if err := json.NewDecoder(request.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(answer, "this is no admission review", http.StatusBadRequest)
			return
		}
		review.Response = &admission.AdmissionResponse{
			UID:    review.Request.UID,
			Result: &meta.Status{Message: "the image is not signed"},
		}
		review.Request = nil
		answer.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(answer).Encode(review)
	})
	return http.ListenAndServeTLS(address, certificate, key, handler)
}
