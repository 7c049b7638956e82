// Command manyrms runs the RMs of `licorne bench manyrms` in one process. Each RM has its own connection,
// nodes and application, over the streams of si.v1. The command prints a line when all RMs have joined. Each
// line of its input, a JSON object, makes some RMs send asks; the answer is a line with a JSON object, which
// has the wait of each ask. The command ends at the end of its input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"
)

// joining is the number of RMs that join at the same time.
const joining = 20

// phase is a line of the input: the first RMs send so many asks each, at a rate.
type phase struct {
	RMs  int     `json:"rms"`
	Asks int     `json:"asks"`
	Rate float64 `json:"rate"`
}

// waited is the answer: microseconds from each send to its allocation, and CPU seconds of this process.
type waited struct {
	Waits []int64 `json:"waits_us"`
	CPU   float64 `json:"cpu"`
}

func main() {
	target := flag.String("target", "", "host:port of the server")
	rms := flag.Int("rms", 1, "how many RMs")
	nodes := flag.Int("nodes", 1, "how many nodes each of them has")
	config := flag.String("config", "", "the configuration of each of them")
	flag.Parse()
	if err := serve(*target, *config, *rms, *nodes, os.Stdin, os.Stdout); err != nil {
		slog.Error("the RMs fail", "error", err)
		os.Exit(1)
	}
}

// serve lets all RMs join, then carries out the phases in the input until it ends.
func serve(target, config string, rms, nodes int, input io.Reader, output io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	all, err := join(ctx, target, config, rms, nodes)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(output, "ready"); err != nil {
		return err
	}
	lines, answers := json.NewDecoder(bufio.NewReader(input)), json.NewEncoder(output)
	for {
		var wanted phase
		if err := lines.Decode(&wanted); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("the input: %w", err)
		}
		found, err := together(all, wanted)
		if err != nil {
			return err
		}
		if err := answers.Encode(found); err != nil {
			return err
		}
	}
}

// join creates all RMs, `joining` at a time.
func join(ctx context.Context, target, config string, rms, nodes int) ([]*rm, error) {
	all := make([]*rm, rms)
	places := make(chan struct{}, joining)
	return all, each(rms, func(number int) error {
		places <- struct{}{}
		defer func() { <-places }()
		var err error
		all[number], err = newRM(ctx, target, fmt.Sprintf("rm-%03d", number), config, nodes)
		return err
	})
}

// together lets RMs send asks, with staggered starts.
func together(all []*rm, wanted phase) (waited, error) {
	before := used()
	apart := time.Duration(float64(time.Second) / wanted.Rate / float64(wanted.RMs))
	start := time.Now()
	waits := make([][]time.Duration, wanted.RMs)
	err := each(wanted.RMs, func(number int) error {
		var err error
		waits[number], err = all[number].ask(start.Add(apart*time.Duration(number)), wanted.Asks, wanted.Rate)
		return err
	})
	found := waited{CPU: used() - before, Waits: []int64{}}
	for _, some := range waits {
		for _, one := range some {
			found.Waits = append(found.Waits, one.Microseconds())
		}
	}
	return found, err
}

// each calls do concurrently for all numbers below count; it returns the first failure.
func each(count int, do func(number int) error) error {
	var group sync.WaitGroup
	var once sync.Once
	var failure error
	for number := range count {
		group.Add(1)
		go func() {
			defer group.Done()
			if err := do(number); err != nil {
				once.Do(func() { failure = err })
			}
		}()
	}
	group.Wait()
	return failure
}

// used returns the CPU seconds of this process.
func used() float64 {
	var all syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &all) != nil {
		return 0
	}
	return time.Duration(all.Utime.Nano() + all.Stime.Nano()).Seconds()
}
