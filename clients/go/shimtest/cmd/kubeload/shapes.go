package main

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	loadLabel  = "licorne.dev/load"
	groupLabel = "licorne.dev/group"
	taint      = "licorne.dev/bench"
)

var priorities = []string{"bench-low", "bench-middle", "bench-high"}

// shape is what pods look like, and who makes them.
type shape struct {
	// controlled pods are made by Deployments, others by the load itself.
	controlled bool
	// dress adds what tells the shape from plain pods.
	dress func(l *load, group int, spec *corev1.PodSpec)
}

// shapes by name. Nodes and priority classes as they need them are made by the bench.
var shapes = map[string]shape{
	"pods":          {},
	"deployments":   {controlled: true},
	"tolerations":   {controlled: true, dress: tolerate},
	"node-affinity": {controlled: true, dress: inZone},
	"pod-affinity":  {controlled: true, dress: together},
	"anti-affinity": {controlled: true, dress: apart},
	"priority":      {controlled: true, dress: prioritize},
}

func tolerate(_ *load, _ int, spec *corev1.PodSpec) {
	spec.Tolerations = []corev1.Toleration{{Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
}

func inZone(l *load, group int, spec *corev1.PodSpec) {
	zone := corev1.NodeSelectorRequirement{
		Key:      corev1.LabelTopologyZone,
		Operator: corev1.NodeSelectorOpIn,
		Values:   []string{fmt.Sprintf("zone-%d", group%l.zones)},
	}
	terms := []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}}
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

// together has the pods of a group in the zone of the first of them.
func together(l *load, group int, spec *corev1.PodSpec) {
	spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: l.ofGroup(group, corev1.LabelTopologyZone),
	}}
}

// apart has each pod of a group on a node of its own.
func apart(l *load, group int, spec *corev1.PodSpec) {
	spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: l.ofGroup(group, corev1.LabelHostname),
	}}
}

func prioritize(_ *load, group int, spec *corev1.PodSpec) {
	spec.PriorityClassName = priorities[group%len(priorities)]
}

func (l *load) ofGroup(group int, topology string) []corev1.PodAffinityTerm {
	selector := &metav1.LabelSelector{MatchLabels: l.selected(group)}
	return []corev1.PodAffinityTerm{{LabelSelector: selector, TopologyKey: topology}}
}

func (l *load) selected(group int) map[string]string {
	return map[string]string{loadLabel: l.name, groupLabel: strconv.Itoa(group)}
}

// template is a pod of a group; groups are spread over the applications.
func (l *load) template(group int) corev1.PodTemplateSpec {
	labels := l.selected(group)
	labels["applicationId"] = fmt.Sprintf("%s-%d", l.name, group%l.applications)
	labels["queue"] = "root.default"
	grace, automount := int64(0), false
	made := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			SchedulerName:                 l.scheduler,
			AutomountServiceAccountToken:  &automount,
			TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{
				Name:  "main",
				Image: "none",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU:    resource.MustParse("100m"),
					corev1.ResourceMemory: resource.MustParse("100Mi"),
				}},
			}},
		},
	}
	if dress := shapes[l.shape].dress; dress != nil {
		dress(l, group, &made.Spec)
	}
	return made
}

// pod is the pod of that number, which nobody controls.
func (l *load) pod(number int) *corev1.Pod {
	made := l.template(number % l.applications)
	made.Name = fmt.Sprintf("%s-%05d", l.name, number)
	return &corev1.Pod{ObjectMeta: made.ObjectMeta, Spec: made.Spec}
}

// deployment is that of a group: the last one has what is left.
func (l *load) deployment(group int) *appsv1.Deployment {
	replicas := int32(min(l.replicas, l.pods-group*l.replicas))
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%03d", l.name, group), Labels: l.selected(group)},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: l.selected(group)},
			Template: l.template(group),
		},
	}
}
