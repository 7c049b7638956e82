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

// shape is a kind of pods: how they are created, and their spec.
type shape struct {
	// controlled is true if Deployments create the pods, false if the load itself does.
	controlled bool
	// dress adds the properties that distinguish the shape from plain pods; nil for none.
	dress func(l *load, group int, spec *corev1.PodSpec)
}

// shapes has the shapes by name. The benchmark creates the nodes and priority classes that they need.
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

// together places the pods of a group in the zone of the group's first pod.
func together(l *load, group int, spec *corev1.PodSpec) {
	spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: l.ofGroup(group, corev1.LabelTopologyZone),
	}}
}

// apart places each pod of a group on a different node.
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

// template returns the template of the pods of a group; groups are spread over the applications.
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

// pod returns the pod with this number, without a controller.
func (l *load) pod(number int) *corev1.Pod {
	made := l.template(number % l.applications)
	made.Name = fmt.Sprintf("%s-%05d", l.name, number)
	return &corev1.Pod{ObjectMeta: made.ObjectMeta, Spec: made.Spec}
}

// deployment returns the Deployment of a group; the last group has the remaining pods.
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
