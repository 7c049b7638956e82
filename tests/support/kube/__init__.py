"""A real control plane of Kubernetes that a test drives."""
