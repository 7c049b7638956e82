// Command licorne-k8shim is the published Kubernetes shim with Licorne as its scheduler core. It replaces the
// scheduler's binary in a cluster: configuration, environment variables and permissions are those of the
// shim.
//
// LICORNE_TARGET is host:port of the server, or of several members, separated by commas; it is
// 127.0.0.1:7070 if it is not set. LICORNE_CA, LICORNE_CERT and LICORNE_KEY are files for TLS: the authority
// that verifies the server's certificate, and the shim's own certificate and key, which are read for every
// connection. LICORNE_CA may be set without the others. If none is set, the connection is without TLS.
// LICORNE_JOIN_WINDOW is how long items wait for others under load, 2ms if it is not set; with 0 no item
// waits. LICORNE_EVENTS=all posts every Kubernetes event of the shim at once; otherwise the events of a pod
// until it is bound are joined into one, and posted after binds.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/apache/yunikorn-k8shim/pkg/client"
	"github.com/apache/yunikorn-k8shim/pkg/common/constants"
	"github.com/apache/yunikorn-k8shim/pkg/conf"
	"github.com/apache/yunikorn-k8shim/pkg/plugin/predicates"

	"licorne.dev/clients/go/schedulerapi"
	"licorne.dev/clients/go/shimtest/apicalls"
	"licorne.dev/clients/go/shimtest/judging"
	"licorne.dev/clients/go/shimtest/objects"
	"licorne.dev/clients/go/shimtest/recording"
	"licorne.dev/clients/go/shimtest/running"
	"licorne.dev/clients/go/shimtest/transport"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "licorne-k8shim:", err)
		os.Exit(1)
	}
}

// run returns after a signal, or with an error when the session with the server has ended permanently.
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
	clients, err := running.Reach()
	if err != nil {
		return err
	}
	cluster := objects.Of(clients.Informers.Core().V1().Nodes().Lister())
	judge := &judging.Judge{}
	ended := make(chan error, 1)
	scheduler, err := schedulerapi.New(schedulerapi.Options{
		Target:     target(),
		TLS:        security,
		Cluster:    cluster,
		Judge:      judge.Nodes,
		JoinWindow: window,
		Ended:      func(err error) { ended <- err },
	})
	if err != nil {
		return err
	}
	defer scheduler.Stop()
	provider, pods := clients.Provider(scheduler)
	ctx, end := context.WithCancel(context.Background())
	defer end()
	shim := running.New(provider, configMaps)
	if err := record(ctx, clients, pods, shim, security); err != nil {
		return err
	}
	cluster.Watch(shim.Context())
	if err := judge.Watch(shim.Context(), provider.GetAPIs()); err != nil {
		return err
	}
	if err := shim.Start(); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	select {
	case <-stop:
		shim.Stop()
		return nil
	case err := <-ended:
		return err
	}
}

// record posts the shim's events, as configured in the environment.
func record(
	ctx context.Context, clients *running.Clients, pods *apicalls.Client, shim *running.Shim, security *tls.Config,
) error {
	switch wanted := os.Getenv("LICORNE_EVENTS"); wanted {
	case "", "joined":
		partition := fmt.Sprintf("[%s]%s", conf.GetSchedulerConf().ClusterID, constants.DefaultPartition)
		return clients.Record(ctx, pods, recording.NewExplainer(target(), security, partition), shim)
	case "all":
		return clients.RecordAll(ctx)
	default:
		return fmt.Errorf("LICORNE_EVENTS is %q: it must be joined or all", wanted)
	}
}

func target() string {
	if named := os.Getenv("LICORNE_TARGET"); named != "" {
		return named
	}
	return "127.0.0.1:7070"
}
