// Command conformance is the Go peer of the conformance scenarios: it carries out commands from standard
// input, one JSON object per line, and writes the events of its client to standard output. At the end of its
// input it sends a goodbye and ends.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"licorne.dev/clients/go/licorne"
)

// parting is the time limit for the goodbye.
const parting = 15 * time.Second

func main() {
	if err := serve(os.Stdin, &output{to: os.Stdout}); err != nil {
		slog.Error("the peer fails", "error", err)
		os.Exit(1)
	}
}

// output writes JSON objects, one per line, without buffering.
type output struct {
	mu sync.Mutex
	to io.Writer
}

type line map[string]any

func (o *output) write(l line) {
	encoded, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	o.mu.Lock()
	_, err = o.to.Write(append(encoded, '\n'))
	o.mu.Unlock()
	if err != nil {
		slog.Error("nobody reads the peer", "error", err)
		os.Exit(1)
	}
}

// serve carries out the commands of an input until it ends.
func serve(input io.Reader, out *output) error {
	lines := bufio.NewReader(input)
	var first connect
	if err := next(lines, &first); err != nil {
		return fmt.Errorf("the first line: %w", err)
	}
	p, err := newPeer(first, out)
	if err != nil {
		out.write(line{"event": "final", "error": nameOf(err), "text": err.Error()})
		return refuseAll(lines, out, err)
	}
	go p.run()
	for number := 1; ; number++ {
		var c command
		if err := next(lines, &c); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("line %d: %w", number+1, err)
		}
		out.write(answer(number, p.carryOut(c)))
	}
	p.mute(false)
	ctx, cancel := context.WithTimeout(context.Background(), parting)
	defer cancel()
	if err := p.client.Close(ctx, false); err != nil && !errors.Is(err, licorne.ErrNotTold) {
		return err
	}
	<-p.ended
	return nil
}

// refuseAll answers every command with the error that prevented the start of the client.
func refuseAll(lines *bufio.Reader, out *output, reason error) error {
	for number := 1; ; number++ {
		var c command
		if err := next(lines, &c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		out.write(answer(number, reason))
	}
}

// next reads one object. It returns io.EOF after the last object.
func next(lines *bufio.Reader, into any) error {
	text, err := lines.ReadBytes('\n')
	if len(text) == 0 {
		return err
	}
	return json.Unmarshal(text, into)
}

func answer(number int, err error) line {
	if err == nil {
		return line{"done": number}
	}
	return line{"done": number, "error": nameOf(err), "text": err.Error()}
}

// unknownError is the error for a command that the peer does not know.
type unknownError string

func (e unknownError) Error() string { return "unknown command " + string(e) }

// nameOf returns the name of an error in scenarios.
func nameOf(err error) string {
	var (
		unknown      unknownError
		invalid      *licorne.InvalidError
		config       *licorne.ConfigError
		registration *licorne.RegistrationError
		fenced       *licorne.FencedError
		unauthorized *licorne.UnauthorizedError
		protocol     *licorne.ProtocolError
		lost         *licorne.LostError
	)
	switch {
	case errors.As(err, &unknown):
		return "Unknown"
	case errors.As(err, &invalid):
		return "Rejected"
	case errors.As(err, &config):
		return "ConfigInvalid"
	case errors.As(err, &registration):
		return "RegistrationInvalid"
	case errors.As(err, &fenced):
		return "Fenced"
	case errors.As(err, &unauthorized):
		return "Unauthorized"
	case errors.As(err, &protocol):
		return "ProtocolError"
	case errors.As(err, &lost):
		return "ConnectionLost"
	case errors.Is(err, licorne.ErrClosed):
		return "Closed"
	default:
		return fmt.Sprintf("%T", err)
	}
}
