// Package apicalls calls the API server for the shim: binds before all else, with as few calls as it takes.
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

// Client is the shim's client of the API server. What it does not do itself is left to the published one.
type Client struct {
	client.KubeClient
	set      kubernetes.Interface
	load     *Load
	slots    slots
	statuses *statuses
}

var _ client.KubeClient = (*Client)(nil)

// Config is that of the API server, as the shim finds it, for so many requests a second and at a time. Objects
// come in the binary form, which takes a third of the time of JSON.
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

// New makes a client that calls by a clientset, and leaves the rest to another client.
func New(set kubernetes.Interface, rest client.KubeClient) *Client {
	c := &Client{KubeClient: rest, set: set, load: &Load{}, slots: slots{taken: make(chan struct{}, bindsAtOnce)}}
	c.statuses = newStatuses(c.patchStatus, c.load)
	return c
}

// Load is that of binds and changes of status.
func (c *Client) Load() *Load { return c.load }

// GetClientSet is the clientset that all calls are made by.
func (c *Client) GetClientSet() kubernetes.Interface { return c.set }

// Get reads a pod. Unlike the published client it survives that there is none.
func (c *Client) Get(namespace, name string) (*v1.Pod, error) {
	ctx, done := context.WithTimeout(context.Background(), callTime)
	defer done()
	return c.set.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
}
