// Package apicalls calls the API server for the shim: binds before all other calls, and as few calls as possible.
package apicalls

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/apache/yunikorn-k8shim/pkg/client"
)

// Client is the shim's client of the API server: the published client, of which it replaces some methods.
type Client struct {
	client.KubeClient
	set      kubernetes.Interface
	load     *Load
	slots    slots
	statuses *statuses
}

var _ client.KubeClient = (*Client)(nil)

// Config returns the configuration for the API server, found like in the shim, with limits of requests. Objects are
// encoded in Protobuf, which takes a third of the time of JSON.
func Config(kubeconfig string, qps float32, burst int) (*rest.Config, error) {
	config, err := client.CreateRestConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("the API server is not known: %w", err)
	}
	config.QPS, config.Burst = qps, burst
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config, nil
}

// New creates a client that uses a clientset, and another client for all other methods.
func New(set kubernetes.Interface, rest client.KubeClient) *Client {
	c := &Client{KubeClient: rest, set: set, load: &Load{}, slots: slots{taken: make(chan struct{}, bindsAtOnce)}}
	c.statuses = newStatuses(c.patchStatus, c.load)
	return c
}

// Load returns the load of binds and status changes.
func (c *Client) Load() *Load { return c.load }

// GetClientSet returns the clientset of all calls.
func (c *Client) GetClientSet() kubernetes.Interface { return c.set }

// Get reads a pod. Unlike the published client, it does not panic if the pod does not exist.
func (c *Client) Get(namespace, name string) (*v1.Pod, error) {
	ctx, done := context.WithTimeout(context.Background(), callTime)
	defer done()
	return c.set.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
}
