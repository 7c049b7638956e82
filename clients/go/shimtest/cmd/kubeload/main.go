// Command kubeload is the load of `licorne bench kube`: it creates pods in the namespace "default" of a Kubernetes
// cluster, watches until they are bound, and prints its figures as a JSON object on one line. It deletes nothing. If
// the API server refuses a creation, the command ends with an error.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	var wanted load
	kubeconfig := flag.String("kubeconfig", "", "a kubeconfig `file`")
	flag.StringVar(&wanted.name, "name", "load", "of this load: a label of its pods, and the beginning of their names")
	flag.StringVar(&wanted.scheduler, "scheduler", "default-scheduler", "the `name` that pods give as their schedulerName")
	flag.StringVar(&wanted.shape, "shape", "pods", "one of "+strings.Join(slices.Sorted(maps.Keys(shapes)), ", "))
	flag.IntVar(&wanted.pods, "pods", 1000, "so many pods")
	flag.Float64Var(&wanted.rate, "rate", 0, "so many pods a second; 0 is as fast as the API server takes them")
	flag.IntVar(&wanted.applications, "applications", 5, "so many applications")
	flag.IntVar(&wanted.replicas, "replicas", 50, "pods of a Deployment, at most")
	flag.IntVar(&wanted.zones, "zones", 3, "nodes are labelled with zone-0, zone-1 and so on: so many")
	flag.DurationVar(&wanted.patience, "patience", time.Minute, "end when no pod was bound for that long")
	flag.Parse()
	if err := run(*kubeconfig, wanted); err != nil {
		fmt.Fprintln(os.Stderr, "kubeload:", err)
		os.Exit(1)
	}
}

func run(kubeconfig string, wanted load) error {
	if err := wanted.check(); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("the kubeconfig cannot be used: %w", err)
	}
	// Protobuf is cheapest for both sides, and the API server has already encoded it for other watchers.
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf
	config.QPS = -1
	counted := &calls{}
	config.Wrap(counted.over)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("there is no client: %w", err)
	}
	found, err := wanted.place(context.Background(), client)
	if err != nil {
		return err
	}
	found.Calls = counted.all()
	found.CPU = cpuSeconds()
	return json.NewEncoder(os.Stdout).Encode(found)
}
