package licorne_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
)

// windows has the compared windows.
var windows = []struct {
	name   string
	length time.Duration
}{{"joined", 2 * time.Millisecond}, {"unjoined", 0}}

// BenchmarkFlood measures 8,000 asks by one goroutine, one in each call. Run it with -benchtime 1x, several
// times: only consecutive runs can be compared.
func BenchmarkFlood(b *testing.B) {
	benchWindows(b, 8000, func(asker *asker, count int) {
		for n := range count {
			asker.ask(n)
			runtime.Gosched()
		}
	})
}

// BenchmarkLoneAsk measures sequential asks, each sent after the previous one was placed and released.
func BenchmarkLoneAsk(b *testing.B) {
	benchWindows(b, 1000, func(asker *asker, count int) {
		for n := range count {
			asker.ask(n)
			asker.await(n + 1)
			asker.release(n)
		}
	})
}

func benchWindows(b *testing.B, count int, load func(*asker, int)) {
	address, pid, _ := startServer(b, "127.0.0.1:0", "--log-level", "error")
	for _, window := range windows {
		b.Run(window.name, func(b *testing.B) {
			for range b.N {
				benchLoad(b, address, pid, window.length, count, load)
			}
		})
	}
}

// benchLoad measures a load from its first ask until all are placed.
func benchLoad(b *testing.B, address string, pid int, window time.Duration, count int, load func(*asker, int)) {
	asker := newAsker(b, address, window)
	before, cpu, began := asker.client.Stats().Sent, cpuOf(b, pid), time.Now()
	load(asker, count)
	asker.await(count)
	took := time.Since(began).Seconds()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(count)/took, "asks/s")
	b.ReportMetric(float64(asker.client.Stats().Sent-before)/float64(count), "messages/ask")
	b.ReportMetric((cpuOf(b, pid)-cpu)*1e6/float64(count), "server-µs/ask")
	slices.Sort(asker.waits)
	b.ReportMetric(float64(asker.waits[count/2].Microseconds())/1000, "p50-ms")
	if err := asker.client.Close(b.Context(), true); err != nil {
		b.Fatal(err)
	}
}

// cpuOf returns the CPU seconds of a process.
func cpuOf(b *testing.B, pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	// After the name, which may contain blanks, user and system time are fields 12 and 13, in ticks.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

// asker is an RM with one large node and one application.
type asker struct {
	client *licorne.Client
	mu     sync.Mutex
	placed *sync.Cond
	// asked has the time of each pending ask by key, and waits the durations of placed asks.
	asked map[string]time.Time
	waits []time.Duration
}

func newAsker(b *testing.B, address string, window time.Duration) *asker {
	a := &asker{asked: map[string]time.Time{}}
	a.placed = sync.NewCond(&a.mu)
	client, err := licorne.New(licorne.Config{
		Target: address, RMID: "rm1", Queues: queues, JoinWindow: &window,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, licorne.Handlers{Allocations: a.hear})
	if err != nil {
		b.Fatal(err)
	}
	a.client = client
	large := node("n1", si.NodeInfo_CREATE)
	large.SchedulableResource = amounts(1_000_000_000)
	if err := client.UpdateNodes(&si.NodeRequest{Nodes: []*si.NodeInfo{large}}); err != nil {
		b.Fatal(err)
	}
	if err := client.UpdateApplications(&si.ApplicationRequest{New: []*si.AddApplicationRequest{application("a1")}}); err != nil {
		b.Fatal(err)
	}
	go func() { _ = client.Run(context.Background()) }()
	if err := client.Ready(b.Context()); err != nil {
		b.Fatal(err)
	}
	return a
}

func (a *asker) hear(response *si.AllocationResponse) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, item := range response.GetNew() {
		a.waits = append(a.waits, now.Sub(a.asked[item.GetAllocationKey()]))
	}
	a.placed.Broadcast()
}

// ask sends the ask with this number.
func (a *asker) ask(number int) {
	key := fmt.Sprintf("k%d", number)
	a.mu.Lock()
	a.asked[key] = time.Now()
	a.mu.Unlock()
	_ = a.client.UpdateAllocations(&si.AllocationRequest{Allocations: []*si.Allocation{ask(key)}})
}

// release releases the ask with this number.
func (a *asker) release(number int) {
	_ = a.client.UpdateAllocations(&si.AllocationRequest{Releases: &si.AllocationReleasesRequest{
		AllocationsToRelease: []*si.AllocationRelease{{
			ApplicationID: "a1", AllocationKey: fmt.Sprintf("k%d", number), TerminationType: si.TerminationType_STOPPED_BY_RM,
		}},
	}})
}

// await waits until so many asks were placed.
func (a *asker) await(count int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.waits) < count {
		a.placed.Wait()
	}
}
