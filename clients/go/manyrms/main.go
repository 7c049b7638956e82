// Command manyrms is the RMs of `licorne bench manyrms`, all in one process: each has a connection, nodes
// and an application of its own, over the streams of si.v1. It prints a line when all have joined. Then
// each line of its input, a JSON object, has some of them ask for a while; the answer is a JSON object on
// a line, with how long each ask has waited. It ends with its input.
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

// joining is how many RMs join at a time.
const joining = 20

// phase is what a line of the input asks for: this many RMs, from the first on, send this many asks each.
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

// serve has all RMs join, and then ask as the input says until it ends.
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

// join makes all RMs, a few at a time.
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

// together has RMs ask, which begin one after the other.
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

// each does something for all numbers below count at a time; it returns the first failure.
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

// used is how many seconds of a processor this process has used.
func used() float64 {
	var all syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &all) != nil {
		return 0
	}
	return time.Duration(all.Utime.Nano() + all.Stime.Nano()).Seconds()
}
