"""A real control plane of Kubernetes in the hand of a test."""
