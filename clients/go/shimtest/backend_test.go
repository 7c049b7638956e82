package shimtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/apache/yunikorn-core/pkg/entrypoint"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/api"

	"licorne.dev/clients/go/licorne"
	"licorne.dev/clients/go/schedulerapi"
	"licorne.dev/clients/go/shimtest/judging"
)

// backend is a core that the shim runs on.
type backend interface {
	// scheduler is what a shim that starts now is made with.
	scheduler() api.SchedulerAPI
	// node tells what the core has booked on a node, and whether it knows the node.
	node(id string) (booked, bool)
}

// booked is what a core has booked on a node, in thousandths of cores.
type booked struct {
	allocated, occupied, capacity int64
}

// backends are the cores, by name. Each is stopped with the test that started it.
var backends = []struct {
	name  string
	start func(testing.TB) backend
}{
	{"in-process", func(t testing.TB) backend { return startInProcess(t) }},
	{"licorne", func(t testing.TB) backend { return startLicorne(t) }},
}

// onBoth runs a test on each core.
func onBoth(t *testing.T, test func(*testing.T, backend)) {
	t.Helper()
	for _, one := range backends {
		t.Run(one.name, func(t *testing.T) { test(t, one.start(t)) })
	}
}

// inProcess is the core that the shim was written for. It starts anew with every shim, as it does in
// one process with it.
type inProcess struct {
	t        testing.TB
	services *entrypoint.ServiceContext
}

func startInProcess(t testing.TB) *inProcess { return &inProcess{t: t} }

func (p *inProcess) scheduler() api.SchedulerAPI {
	p.services = entrypoint.StartAllServicesWithParams(false, false)
	p.t.Cleanup(p.services.StopAll)
	return p.services.RMProxy
}

func (p *inProcess) node(id string) (booked, bool) {
	partition := p.services.Scheduler.GetClusterContext().GetPartition("[mycluster]default")
	if partition == nil {
		return booked{}, false
	}
	node := partition.GetNode(id)
	if node == nil {
		return booked{}, false
	}
	return booked{
		allocated: int64(node.GetAllocatedResource().Resources["vcore"]),
		occupied:  int64(node.GetOccupiedResource().Resources["vcore"]),
		capacity:  int64(node.GetCapacity().Resources["vcore"]),
	}, true
}

// server is a Licorne server in a process of its own.
type server struct {
	t          testing.TB
	process    *exec.Cmd
	grpc, http string
	running    api.SchedulerAPI
}

var listening = regexp.MustCompile(`listening grpc=(\S+) http=(\S+)`)

// shared serves all tests, one after the other: what an RM has is dropped when it registers anew.
var shared *server

// startLicorne starts the server for the first test, and lends it to the next ones. It starts another one
// after a test has killed it.
func startLicorne(t testing.TB) *server {
	if shared == nil || shared.process.ProcessState != nil {
		shared = &server{t: t}
		shared.run("127.0.0.1:0", "127.0.0.1:0")
	}
	s := shared
	s.t = t
	t.Cleanup(func() {
		if s.running != nil {
			s.running.Stop()
			s.running = nil
		}
	})
	return s
}

// run starts the server and reads where it listens. While a server is away, its port may be the local one of
// a connection, such as one of a client that tries to reach it: then it is started again.
func (s *server) run(grpc, http string) {
	s.t.Helper()
	for try := 0; try < 20; try++ {
		if s.listens(grpc, http) {
			return
		}
		_ = s.process.Wait()
	}
	s.t.Fatal("the server does not listen")
}

// listens starts the server, and is false if it ends without listening.
func (s *server) listens(grpc, http string) bool {
	s.t.Helper()
	s.process = exec.Command(os.Getenv("LICORNE_BIN"), "serve", "--listen", grpc, "--http", http, "--log-level", "warning")
	s.process.Stderr = os.Stderr
	out, err := s.process.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if found := listening.FindStringSubmatch(lines.Text()); found != nil {
			s.grpc, s.http = found[1], found[2]
			go func() {
				for lines.Scan() {
				}
			}()
			return true
		}
	}
	return false
}

func (s *server) pid() int { return s.process.Process.Pid }

func (s *server) target() string { return s.grpc }

// kill ends the server as a crash would.
func (s *server) kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// restart brings the server back at its address, knowing nothing.
func (s *server) restart() {
	s.t.Helper()
	s.kill()
	s.run(s.grpc, s.http)
}

func (s *server) scheduler() api.SchedulerAPI {
	s.t.Helper()
	if s.running == nil {
		s.running = s.with(func(*schedulerapi.Options) {})
	}
	return s.running
}

// judges are those of schedulers, for the shims that are made with them.
var judges sync.Map

// with is a scheduler of its own, with other options.
func (s *server) with(change func(*schedulerapi.Options)) api.SchedulerAPI {
	s.t.Helper()
	options := schedulerapi.Options{
		Target:          s.grpc,
		RecheckInterval: 200 * time.Millisecond,
		Retry:           licorne.Retry{Maximum: 200 * time.Millisecond},
		Logger:          slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: logLevel()})),
	}
	judge := &judging.Judge{}
	options.Judge = judge.Nodes
	change(&options)
	made, err := schedulerapi.New(options)
	if err != nil {
		s.t.Fatal(err)
	}
	judges.Store(made, judge)
	s.t.Cleanup(made.Stop)
	return made
}

func logLevel() slog.Level {
	if testing.Verbose() {
		return slog.LevelInfo
	}
	return slog.LevelError
}

func (s *server) node(id string) (booked, bool) {
	s.t.Helper()
	var nodes []struct {
		NodeID                        string
		Allocated, Occupied, Capacity map[string]int64
	}
	s.get("/ws/v1/partition/default/nodes", &nodes)
	for _, node := range nodes {
		if node.NodeID == id {
			return booked{node.Allocated["vcore"], node.Occupied["vcore"], node.Capacity["vcore"]}, true
		}
	}
	return booked{}, false
}

// get reads a page of the server's REST API; nothing if it has no such page.
func (s *server) get(path string, into any) {
	s.t.Helper()
	response, err := http.Get("http://" + s.http + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotFound {
		return
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		s.t.Fatal(fmt.Errorf("%s: %w", path, err))
	}
}
