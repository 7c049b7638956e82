package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

const (
	namespace = corev1.NamespaceDefault
	// atOnce is the maximum number of concurrent creations.
	atOnce = 64
)

// load has the values of the flags.
type load struct {
	name, scheduler, shape              string
	pods, applications, replicas, zones int
	rate                                float64
	patience                            time.Duration
}

func (l *load) check() error {
	if _, known := shapes[l.shape]; !known {
		return fmt.Errorf("-shape %q is unknown", l.shape)
	}
	for name, value := range map[string]int{
		"-pods": l.pods, "-applications": l.applications, "-replicas": l.replicas, "-zones": l.zones,
	} {
		if value < 1 {
			return fmt.Errorf("%s %d is less than 1", name, value)
		}
	}
	if l.rate < 0 {
		return fmt.Errorf("-rate %g is negative", l.rate)
	}
	return nil
}

// place creates all pods, and watches them until all are bound, or until none was bound for the time of its patience.
func (l *load) place(ctx context.Context, client kubernetes.Interface) (figures, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	changes, err := l.watch(ctx, client, "")
	if err != nil {
		return figures{}, err
	}
	seen := newLedger(time.Now())
	go func() {
		if err := l.create(ctx, client, seen); err != nil {
			cancel(err)
		}
	}()
	if err := l.follow(ctx, client, changes, seen); err != nil {
		return figures{}, err
	}
	return seen.figures(l.pods), nil
}

// create creates all pods, or all Deployments, at the requested pace.
func (l *load) create(ctx context.Context, client kubernetes.Interface, seen *ledger) error {
	number, size, one := l.pods, 1, l.createPod
	if shapes[l.shape].controlled {
		number, size, one = (l.pods+l.replicas-1)/l.replicas, l.replicas, l.createDeployment
	}
	failed := make(chan error, atOnce)
	wanted := make(chan int)
	var workers sync.WaitGroup
	for range min(atOnce, number) {
		workers.Go(func() {
			for each := range wanted {
				if err := one(ctx, client, seen, each); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	err := l.pace(number, size, seen.start, wanted, failed)
	close(wanted)
	workers.Wait()
	select {
	case other := <-failed:
		return errors.Join(err, other)
	default:
		return err
	}
}

// pace sends the number of each object to create, which has so many pods, when its time has come.
func (l *load) pace(number, size int, start time.Time, wanted chan<- int, failed <-chan error) error {
	for each := range number {
		if l.rate > 0 {
			time.Sleep(time.Until(start.Add(time.Duration(float64(each*size) / l.rate * float64(time.Second)))))
		}
		select {
		case wanted <- each:
		case err := <-failed:
			return err
		}
	}
	return nil
}

func (l *load) createPod(ctx context.Context, client kubernetes.Interface, seen *ledger, number int) error {
	made, err := client.CoreV1().Pods(namespace).Create(ctx, l.pod(number), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("pod %d: %w", number, err)
	}
	seen.created(made.Name, time.Now())
	return nil
}

func (l *load) createDeployment(ctx context.Context, client kubernetes.Interface, _ *ledger, group int) error {
	if _, err := client.AppsV1().Deployments(namespace).Create(ctx, l.deployment(group), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("deployment %d: %w", group, err)
	}
	return nil
}

// watch watches this load's pods from a version on; with an empty version, from all existing pods on.
func (l *load) watch(ctx context.Context, client kubernetes.Interface, version string) (watch.Interface, error) {
	wanted := metav1.ListOptions{LabelSelector: loadLabel + "=" + l.name, ResourceVersion: version}
	changes, err := client.CoreV1().Pods(namespace).Watch(ctx, wanted)
	if err != nil {
		return nil, fmt.Errorf("pods cannot be watched: %w", errors.Join(context.Cause(ctx), err))
	}
	return changes, nil
}

// follow reads changes until all pods are bound, or until its patience has passed. If the API server ends the watch,
// as for slow readers, it continues there with a new watch.
func (l *load) follow(ctx context.Context, client kubernetes.Interface, changes watch.Interface, seen *ledger) error {
	defer func() { changes.Stop() }()
	patience := time.NewTimer(l.patience)
	defer patience.Stop()
	version := ""
	for seen.boundPods() < l.pods {
		select {
		case change, open := <-changes.ResultChan():
			if pod, is := change.Object.(*corev1.Pod); is {
				version = pod.ResourceVersion
				if seen.changed(pod, time.Now()) {
					patience.Reset(l.patience)
				}
				continue
			}
			if change.Type == watch.Error {
				version = "" // which is too old
			} else if open {
				continue
			}
			again, err := l.watch(ctx, client, version)
			if err != nil {
				return err
			}
			changes.Stop()
			changes = again
		case <-patience.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
