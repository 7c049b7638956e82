package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func plain() load {
	return load{
		name: "load", scheduler: "some", shape: "pods", pods: 10,
		applications: 2, replicas: 4, zones: 3, patience: time.Minute,
	}
}

// cluster is one that takes creations, and tells the watch of each pod that it is there, and then of those that
// are bound.
func cluster(bound func(name string) bool) *fake.Clientset {
	client := fake.NewClientset()
	changes := watch.NewFakeWithChanSize(1000, false)
	client.PrependWatchReactor("pods", clienttesting.DefaultWatchReactor(changes, nil))
	tell := func(pod *corev1.Pod) {
		changes.Add(pod.DeepCopy())
		if bound(pod.Name) {
			pod.Spec.NodeName = "node"
			changes.Modify(pod.DeepCopy())
			changes.Modify(pod)
		}
	}
	client.PrependReactor("create", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		made := action.(clienttesting.CreateAction).GetObject()
		if pod, is := made.(*corev1.Pod); is {
			tell(pod.DeepCopy())
		}
		return true, made, nil
	})
	return client
}

// All pods are created once and followed until each is bound.
func TestPodsAreCreatedAndFollowed(t *testing.T) {
	wanted := plain()
	found, err := wanted.place(context.Background(), cluster(func(string) bool { return true }))
	if err != nil {
		t.Fatal(err)
	}
	if found.Pods != 10 || found.Created != 10 || found.NotBound != 0 {
		t.Errorf("unexpected figures: %+v", found)
	}
	if found.BoundSeconds <= 0 || found.P50 < 0 || found.Max < found.P99 {
		t.Errorf("unexpected times: %+v", found)
	}
}

// Without any pod that is bound the load ends when its patience does, and says how many are not.
func TestPodsThatAreNotBoundAreCounted(t *testing.T) {
	wanted := plain()
	wanted.patience = 50 * time.Millisecond
	found, err := wanted.place(context.Background(), cluster(func(name string) bool { return !strings.HasSuffix(name, "7") }))
	if err != nil {
		t.Fatal(err)
	}
	if found.Created != 10 || found.NotBound != 1 {
		t.Errorf("unexpected figures: %+v", found)
	}
}

// A watch that ends goes on with the version that it has seen, and afresh if the API server has forgotten that one.
func TestAWatchThatEndsGoesOn(t *testing.T) {
	wanted := plain()
	wanted.pods = 2
	pod := func(name, version, node string) *corev1.Pod {
		made := wanted.pod(0)
		made.Name, made.ResourceVersion, made.Spec.NodeName = name, version, node
		return made
	}
	var versions []string
	client := fake.NewClientset()
	client.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, watch.Interface, error) {
		versions = append(versions, action.(clienttesting.WatchActionImpl).ListOptions.ResourceVersion)
		changes := watch.NewFakeWithChanSize(10, false)
		switch len(versions) {
		case 1:
			changes.Add(pod("one", "5", "node"))
			changes.Stop()
		case 2:
			changes.Error(&metav1.Status{Code: http.StatusGone})
		default:
			changes.Add(pod("one", "9", "node"))
			changes.Add(pod("two", "9", "node"))
		}
		return true, changes, nil
	})
	found, err := wanted.place(context.Background(), client)
	if err != nil {
		t.Fatal(err)
	}
	if found.NotBound != 0 || !slices.Equal(versions, []string{"", "5", ""}) {
		t.Errorf("%d not bound, watched from %q", found.NotBound, versions)
	}
}

// A creation that is refused ends the load with the reason.
func TestARefusedCreationEndsTheLoad(t *testing.T) {
	wanted := plain()
	client := cluster(func(string) bool { return true })
	client.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, fmt.Errorf("no room")
	})
	if _, err := wanted.place(context.Background(), client); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("unexpected error: %v", err)
	}
}

// No pod comes before its time.
func TestAPaceIsKept(t *testing.T) {
	wanted := plain()
	wanted.rate = 100
	found, err := wanted.place(context.Background(), cluster(func(string) bool { return true }))
	if err != nil {
		t.Fatal(err)
	}
	if found.CreatedSeconds < 0.09 {
		t.Errorf("ten pods at 100 a second took %g s", found.CreatedSeconds)
	}
}

// The Deployments of every controlled shape have all pods together.
func TestDeploymentsHaveAllPods(t *testing.T) {
	for name := range shapes {
		wanted := plain()
		wanted.shape = name
		var pods int32
		for group := range 3 {
			made := wanted.deployment(group)
			pods += *made.Spec.Replicas
			if made.Spec.Template.Labels["applicationId"] != fmt.Sprintf("load-%d", group%2) {
				t.Errorf("%s: unexpected labels %v", name, made.Spec.Template.Labels)
			}
		}
		if pods != 10 {
			t.Errorf("%s: %d pods instead of 10", name, pods)
		}
	}
}

// Each shape but the plain ones differs from these in what it is named for.
func TestShapes(t *testing.T) {
	asked := map[string]func(corev1.PodSpec) bool{
		"pods":          func(spec corev1.PodSpec) bool { return spec.Affinity == nil && spec.Tolerations == nil },
		"deployments":   func(spec corev1.PodSpec) bool { return spec.Affinity == nil && spec.Tolerations == nil },
		"tolerations":   func(spec corev1.PodSpec) bool { return spec.Tolerations[0].Key == taint },
		"node-affinity": func(spec corev1.PodSpec) bool { return spec.Affinity.NodeAffinity != nil },
		"pod-affinity":  func(spec corev1.PodSpec) bool { return spec.Affinity.PodAffinity != nil },
		"anti-affinity": func(spec corev1.PodSpec) bool { return spec.Affinity.PodAntiAffinity != nil },
		"priority":      func(spec corev1.PodSpec) bool { return spec.PriorityClassName == "bench-middle" },
	}
	for name := range shapes {
		wanted := plain()
		wanted.shape = name
		if !asked[name](wanted.template(1).Spec) {
			t.Errorf("%s: unexpected %+v", name, wanted.template(1).Spec)
		}
	}
}

// Percentiles are waits that happened: the least one that so many percent do not exceed.
func TestPercentiles(t *testing.T) {
	var waits []time.Duration
	for number := range 200 {
		waits = append(waits, time.Duration(number+1)*time.Millisecond)
	}
	for percent, wanted := range map[int]float64{50: 100, 99: 198, 100: 200} {
		if found := percentile(waits, percent); found != wanted {
			t.Errorf("%d %%: %g instead of %g", percent, found, wanted)
		}
	}
	if found := percentile(nil, 99); found != 0 {
		t.Errorf("of nothing: %g", found)
	}
}

// Requests are counted as the API server does, watches apart.
func TestCallsAreCounted(t *testing.T) {
	counted := &calls{}
	trip := counted.over(answers{})
	for _, one := range []string{"POST /api/v1/namespaces/default/pods", "POST /api/v1/namespaces/default/pods", "GET /api/v1/namespaces/default/pods?watch=true"} {
		verb, path, _ := strings.Cut(one, " ")
		request, err := http.NewRequestWithContext(context.Background(), verb, "http://server"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := trip.RoundTrip(request); err != nil {
			t.Fatal(err)
		}
	}
	if found := counted.all(); found["POST pods"] != 2 || found["WATCH pods"] != 1 || len(found) != 2 {
		t.Errorf("unexpected calls: %v", found)
	}
}

type answers struct{}

func (answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// Nonsense is refused with the name and the value of the flag.
func TestNonsenseIsRefused(t *testing.T) {
	for text, spoil := range map[string]func(*load){
		`-shape "round" is unknown`: func(l *load) { l.shape = "round" },
		"-pods 0 is less than 1":    func(l *load) { l.pods = 0 },
		"-zones -1 is less than 1":  func(l *load) { l.zones = -1 },
		"-rate -2 is negative":      func(l *load) { l.rate = -2 },
	} {
		wanted := plain()
		spoil(&wanted)
		if err := wanted.check(); err == nil || err.Error() != text {
			t.Errorf("%v instead of %q", err, text)
		}
	}
	fine := plain()
	if err := fine.check(); err != nil {
		t.Error(err)
	}
}
