package schedulerapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
)

// answerTime is the time limit for the server's answer to a new configuration.
const answerTime = 10 * time.Second

// configuration sends new configurations to the server, one at a time. The newest one is retained until the
// server has answered. The client registers with it, but a resumed session does not send queues.
type configuration struct {
	running context.Context
	session session
	log     *slog.Logger

	mu    sync.Mutex
	unset *si.UpdateConfigurationRequest // not answered yet
}

func newConfiguration(running context.Context, session session, log *slog.Logger) *configuration {
	return &configuration{running: running, session: session, log: log}
}

// update sends a configuration, and returns the server's refusal. It also returns nil if the server cannot be
// reached now.
func (c *configuration) update(request *si.UpdateConfigurationRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unset = request
	return c.send()
}

// repeat sends the last configuration again if the server has not answered it.
func (c *configuration) repeat() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unset == nil {
		return
	}
	if err := c.send(); err != nil {
		c.log.Error("the configuration was not taken", "error", err)
	}
}

// send sends the configuration, and returns the server's refusal. It is called with the lock held. After an
// answer of the server, the configuration is no longer in unset.
func (c *configuration) send() error {
	ctx, cancel := context.WithTimeout(c.running, answerTime)
	defer cancel()
	err := c.session.UpdateConfiguration(ctx, c.unset.GetConfig(), c.unset.GetExtraConfig())
	var lost *licorne.LostError
	if errors.As(err, &lost) || errors.Is(err, context.DeadlineExceeded) {
		c.log.Warn("the server cannot be reached; it gets the configuration later", "error", err)
		return nil
	}
	c.unset = nil
	if err != nil {
		return fmt.Errorf("update of configuration failed: %w", err)
	}
	return nil
}
