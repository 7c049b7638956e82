// Package shimtest runs the published Kubernetes shim on Licorne, and on the core that it was written
// for, so that the behaviour a test expects is proven to be the shim's own. Kubernetes is played by
// the tests; the shim, its predicates and both cores are real. Over gRPC an RM without the shim asks both
// cores, to measure them.
package shimtest
