package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	documents "k8s.io/apimachinery/pkg/util/yaml"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// kinds has the type of each kind that our manifests may use.
var kinds = map[string]func() any{
	"v1/ConfigMap":                                    func() any { return new(core.ConfigMap) },
	"v1/Namespace":                                    func() any { return new(core.Namespace) },
	"v1/PersistentVolumeClaim":                        func() any { return new(core.PersistentVolumeClaim) },
	"v1/Pod":                                          func() any { return new(core.Pod) },
	"v1/Service":                                      func() any { return new(core.Service) },
	"v1/ServiceAccount":                               func() any { return new(core.ServiceAccount) },
	"cert-manager.io/v1/Certificate":                  func() any { return new(certmanager.Certificate) },
	"cert-manager.io/v1/Issuer":                       func() any { return new(certmanager.Issuer) },
	"gateway.networking.k8s.io/v1/HTTPRoute":          func() any { return new(gateway.HTTPRoute) },
	"apps/v1/StatefulSet":                             func() any { return new(apps.StatefulSet) },
	"networking.k8s.io/v1/Ingress":                    func() any { return new(networking.Ingress) },
	"networking.k8s.io/v1/NetworkPolicy":              func() any { return new(networking.NetworkPolicy) },
	"policy/v1/PodDisruptionBudget":                   func() any { return new(policy.PodDisruptionBudget) },
	"rbac.authorization.k8s.io/v1/ClusterRole":        func() any { return new(rbac.ClusterRole) },
	"rbac.authorization.k8s.io/v1/ClusterRoleBinding": func() any { return new(rbac.ClusterRoleBinding) },
	"rbac.authorization.k8s.io/v1/Role":               func() any { return new(rbac.Role) },
	"rbac.authorization.k8s.io/v1/RoleBinding":        func() any { return new(rbac.RoleBinding) },
	"monitoring.coreos.com/v1/ServiceMonitor":         func() any { return new(monitoring.ServiceMonitor) },
	"monitoring.coreos.com/v1/PrometheusRule":         func() any { return new(monitoring.PrometheusRule) },
}

// header has the fields that identify every object.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
}

// kubernetes decodes each object of each file into its type, and refuses unknown fields, which the API server
// would silently drop.
func kubernetes(paths []string) error {
	var problems []error
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		number, err := manifest(content)
		if err == nil && number == 0 {
			err = errors.New("there is no object in it")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", path, err))
			continue
		}
		fmt.Printf("%s: %d objects\n", path, number)
	}
	return errors.Join(problems...)
}

// manifest checks all objects of a file, and returns their number.
func manifest(content []byte) (int, error) {
	reader := documents.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	var problems []error
	seen := map[string]bool{}
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return len(seen), errors.Join(problems...)
		}
		if err != nil {
			return len(seen), err
		}
		name, err := object(document)
		if err == nil && seen[name] {
			err = errors.New("it is there twice")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
		if name != "" {
			seen[name] = true
		}
	}
}

// object checks one object, and returns its kind and name; an empty text for an empty document.
func object(document []byte) (string, error) {
	var its *header
	if err := yaml.Unmarshal(document, &its); err != nil || its == nil {
		return "", err
	}
	kind := its.APIVersion + "/" + its.Kind
	name := kind + " " + its.Metadata.Name
	typed, known := kinds[kind]
	if !known {
		return name, errors.New("no such kind is known here")
	}
	content, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return name, err
	}
	problems, err := json.UnmarshalStrict(content, typed())
	problems = append(problems, err)
	for _, text := range validation.IsDNS1123Subdomain(its.Metadata.Name) {
		problems = append(problems, errors.New(text))
	}
	for label, value := range its.Metadata.Labels {
		for _, text := range append(validation.IsQualifiedName(label), validation.IsValidLabelValue(value)...) {
			problems = append(problems, fmt.Errorf("label %s: %s", label, text))
		}
	}
	return name, errors.Join(problems...)
}
