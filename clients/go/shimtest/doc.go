// Package shimtest tests the published Kubernetes shim on Licorne and on its in-process core, which proves that
// the expected behaviour is the shim's own. The tests simulate Kubernetes; the shim, its predicates and both
// cores are real. Benchmarks also use an RM without the shim, over gRPC, with both cores.
package shimtest
