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

// answerTime is how long the server may take for a new configuration.
const answerTime = 10 * time.Second

// configuration brings new configurations to the server, one after the other. The newest one is kept
// until the server has answered: the client registers with it, but a session that is resumed says
// nothing of queues.
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

// update returns the server's refusal. It returns nil, too, if the server cannot be reached now.
func (c *configuration) update(request *si.UpdateConfigurationRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unset = request
	return c.send()
}

// repeat sends a configuration that has not been answered yet.
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

// send returns the server's refusal. It is called with the lock held. What the server has answered is
// not unset any more.
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
