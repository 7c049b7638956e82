// Command licorne-k8shim is the published Kubernetes shim with Licorne as its scheduler core. It takes
// the place of the scheduler's binary in a cluster: the configuration, the flags in the environment and
// the permissions are those of the shim.
//
// LICORNE_TARGET is host:port of the server, or of several members, separated by commas; it is
// 127.0.0.1:7070 if it is not set. LICORNE_CA, LICORNE_CERT and LICORNE_KEY are files of TLS: the authority that the server's certificate is checked by, and the
// shim's own certificate and key, which are read for every connection. LICORNE_CA may be set alone.
// Without any of them the connection is plain text. LICORNE_JOIN_WINDOW is how long items wait for others
// under load, 2ms if it is not set; 0 sends everything at once.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/informers"
	corev1 "k8s.io/client-go/listers/core/v1"

	"github.com/apache/yunikorn-k8shim/pkg/client"
	"github.com/apache/yunikorn-k8shim/pkg/conf"
	"github.com/apache/yunikorn-k8shim/pkg/plugin/predicates"
	"github.com/apache/yunikorn-k8shim/pkg/shim"

	"licorne.dev/clients/go/schedulerapi"
	"licorne.dev/clients/go/shimtest/objects"
	"licorne.dev/clients/go/shimtest/transport"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "licorne-k8shim:", err)
		os.Exit(1)
	}
}

// run ends with a signal, or with an error when the session with the server has ended for good.
func run() error {
	predicates.EnableOptionalKubernetesFeatureGates()
	configMaps, err := client.LoadBootstrapConfigMaps()
	if err != nil {
		return fmt.Errorf("the config maps cannot be read: %w", err)
	}
	if err := conf.UpdateConfigMaps(configMaps, true); err != nil {
		return fmt.Errorf("the config maps cannot be used: %w", err)
	}
	security, err := transport.TLS()
	if err != nil {
		return err
	}
	window, err := transport.JoinWindow()
	if err != nil {
		return err
	}
	nodes, stopNodes := listNodes()
	defer stopNodes()
	cluster := objects.Of(nodes)
	ended := make(chan error, 1)
	scheduler, err := schedulerapi.New(schedulerapi.Options{
		Target:     target(),
		TLS:        security,
		Cluster:    cluster,
		JoinWindow: window,
		Ended:      func(err error) { ended <- err },
	})
	if err != nil {
		return err
	}
	defer scheduler.Stop()
	ss := shim.NewShimScheduler(scheduler, conf.GetSchedulerConf(), configMaps)
	cluster.Watch(ss.GetContext())
	if err := ss.Run(); err != nil {
		return fmt.Errorf("the shim cannot start: %w", err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	select {
	case <-stop:
		ss.Stop()
		return nil
	case err := <-ended:
		return err
	}
}

// listNodes waits for the nodes of the cluster, and keeps up with them until it is stopped.
func listNodes() (corev1.NodeLister, func()) {
	kube := client.NewKubeClient(conf.GetSchedulerConf().KubeConfig)
	factory := informers.NewSharedInformerFactory(kube.GetClientSet(), 0)
	nodes := factory.Core().V1().Nodes().Lister()
	stop := make(chan struct{})
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	return nodes, func() { close(stop) }
}

func target() string {
	if named := os.Getenv("LICORNE_TARGET"); named != "" {
		return named
	}
	return "127.0.0.1:7070"
}
