package licorne_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
)

const queues = `
partitions:
  - name: default
    queues: [{name: root, submitacl: '*', queues: [{name: q}]}]
`

var listening = regexp.MustCompile(`listening grpc=(\S+)`)

// realServer starts `licorne serve` on an address, with further flags. It returns the server's address, and a
// function that kills the server.
func realServer(t *testing.T, address string, flags ...string) (string, func()) {
	t.Helper()
	address, _, kill := startServer(t, address, flags...)
	return address, kill
}

// startServer is realServer that also returns the id of the process.
func startServer(t testing.TB, address string, flags ...string) (string, int, func()) {
	t.Helper()
	if os.Getenv("LICORNE_BIN") == "" {
		t.Fatal("LICORNE_BIN must name the program licorne, as `make test-go` does: this test starts it")
	}
	arguments := append([]string{"serve", "--listen", address, "--http", "127.0.0.1:0"}, flags...)
	program := exec.Command(os.Getenv("LICORNE_BIN"), arguments...)
	program.Stderr = os.Stderr
	output, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	})
	t.Cleanup(kill)
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if found := listening.FindStringSubmatch(lines.Text()); found != nil {
			return found[1], program.Process.Pid, kill
		}
	}
	t.Fatal("the server does not say where it listens")
	return "", 0, nil
}

// ledger counts the events of each ask.
type ledger struct {
	mu        sync.Mutex
	allocated map[string]int
	odd       []string
	replays   int
}

func (l *ledger) apply(_ *licorne.Config, handlers *licorne.Handlers) {
	handlers.Allocations = func(response *si.AllocationResponse) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, item := range response.GetNew() {
			l.allocated[item.GetAllocationKey()]++
		}
		for _, item := range response.GetReleased() {
			l.odd = append(l.odd, "released "+item.GetAllocationKey())
		}
		for _, item := range response.GetRejectedAllocations() {
			l.odd = append(l.odd, "rejected "+item.GetAllocationKey()+": "+item.GetReason())
		}
	}
	handlers.Session = func(change licorne.SessionChange) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if change.State == licorne.SessionReplayed {
			l.replays++
		}
	}
}

func (l *ledger) count() (allocated, replays int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.allocated), l.replays
}

// check fails if an allocation was reported twice, or if there was any other event.
func (l *ledger) check(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, times := range l.allocated {
		if times != 1 {
			t.Errorf("the allocation of %s was told %d times", key, times)
		}
	}
	if len(l.odd) > 0 {
		t.Errorf("the handlers were told also: %v", l.odd)
	}
}

// askFromMany asks for 1,000 allocations from ten goroutines.
func askFromMany(r *rm) {
	r.t.Helper()
	var calls sync.WaitGroup
	for worker := range 10 {
		calls.Add(1)
		go func() {
			defer calls.Done()
			for i := range 100 {
				r.asks(ask(fmt.Sprintf("k%d-%d", worker, i)))
			}
		}()
	}
	calls.Wait()
}

// A killed and restarted server receives all state, repeats no event, and continues to schedule.
func TestRealServer(t *testing.T) {
	address, kill := realServer(t, "127.0.0.1:0")
	books := &ledger{allocated: make(map[string]int)}
	r := newRM(t, address, books.apply, func(config *licorne.Config, _ *licorne.Handlers) { config.Queues = queues })
	large := node("n1", si.NodeInfo_CREATE)
	large.SchedulableResource = amounts(1_000_000)
	r.nodes(large)
	r.submit(application("a1"))
	r.start()
	r.ready()
	askFromMany(r)
	await(t, "1,000 asks are allocated", func() bool { allocated, _ := books.count(); return allocated == 1000 })
	kill()
	_, _ = realServer(t, address)
	await(t, "the server has everything again", func() bool { _, replays := books.count(); return replays == 2 })
	for i := range 100 {
		r.asks(ask(fmt.Sprintf("late%d", i)))
	}
	await(t, "100 more asks are allocated", func() bool { allocated, _ := books.count(); return allocated == 1100 })
	books.check(t)
	if stats := r.client.Stats(); stats.Allocations != 1100 || stats.Asks != 0 {
		t.Errorf("stats: %+v", stats)
	}
}

// A token identifies the RM, in the stream and in other calls. A wrong token ends the client.
func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("the-token-of-this-rm\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address, _ := realServer(t, "127.0.0.1:0", "--rm-token", "rm1="+file)
	bear := func(token string) func(*licorne.Config, *licorne.Handlers) {
		return func(config *licorne.Config, _ *licorne.Handlers) {
			config.Token = func() (string, error) { return token, nil }
		}
	}
	r := newRM(t, address, bear("the-token-of-this-rm"))
	r.start()
	r.ready()
	if err := r.client.UpdateConfiguration(t.Context(), queues, nil); err != nil {
		t.Error(err)
	}
	stranger := newRM(t, address, bear("a-token-that-nobody-knows"))
	stranger.start()
	if err := stranger.client.Ready(t.Context()); !isA[*licorne.UnauthorizedError](err) {
		t.Errorf("a wrong token: %v", err)
	}
}

// The tags of the largest pod make an ask of 4.9 MiB, which the server accepts in each replay.
func TestLargestPod(t *testing.T) {
	address, kill := realServer(t, "127.0.0.1:0")
	books := &ledger{allocated: make(map[string]int)}
	r := newRM(t, address, books.apply, func(config *licorne.Config, _ *licorne.Handlers) { config.Queues = queues })
	large := ask("k1")
	large.AllocationTags = make(map[string]string)
	for i := range 174_762 {
		large.AllocationTags[fmt.Sprintf("kubernetes.io/label/%05x", i)] = ""
	}
	r.submit(application("a1"))
	r.asks(large)
	r.start()
	r.ready()
	kill()
	_, _ = realServer(t, address)
	await(t, "the server has everything again", func() bool { _, replays := books.count(); return replays == 2 })
	r.nodes(node("n1", si.NodeInfo_CREATE))
	await(t, "the ask is allocated", func() bool { allocated, _ := books.count(); return allocated == 1 })
	books.check(t)
}
