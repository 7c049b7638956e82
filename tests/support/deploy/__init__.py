"""What `deploy/` has: manifests, the composition, alert rules and dashboards."""
