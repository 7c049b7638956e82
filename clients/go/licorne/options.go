package licorne

import (
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licornev1"
)

const (
	usualDeadline = 2 * time.Second
	minDeadline   = 10 * time.Millisecond
	maxDeadline   = time.Minute
)

// complete returns the configuration with its defaults; the error names an invalid field.
func (c Config) complete() (Config, error) {
	if err := c.check(); err != nil {
		return c, err
	}
	if c.Instance == 0 {
		c.Instance = uint64(time.Now().UnixNano())
	}
	var err error
	if c.Retry, err = c.Retry.complete(); err != nil {
		return c, err
	}
	if c.Limits, err = c.Limits.complete(); err != nil {
		return c, err
	}
	window := maxJoinWindow
	if c.JoinWindow != nil {
		window = *c.JoinWindow
	}
	if window < 0 || window > maxJoinWindow {
		return c, invalid("JoinWindow", window.String(), "it must be between 0s and 2ms")
	}
	c.JoinWindow = &window
	if c.Predicates != nil {
		predicates := *c.Predicates
		if err := predicates.complete(); err != nil {
			return c, err
		}
		c.Predicates = &predicates
	}
	return c, nil
}

func (c Config) check() error {
	if c.RMID == "" {
		return invalid("RMID", `""`, "the resource manager must have an id")
	}
	for _, target := range c.targets() {
		_, port, err := net.SplitHostPort(target)
		if number, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || number == 0 {
			return invalid("Target", shown(target), "it must be host:port")
		}
		if !c.mayDial(target) {
			return invalid("Target", shown(target), "a token is sent there over TLS only")
		}
	}
	texts := [][2]string{
		{"RMID", c.RMID}, {"Version", c.Version}, {"PolicyGroup", c.PolicyGroup}, {"Queues", c.Queues},
	}
	for _, text := range texts {
		if err := checkText(text[0], text[1]); err != nil {
			return err
		}
	}
	if err := checkTexts("ExtraConfig", c.ExtraConfig); err != nil {
		return err
	}
	return checkTexts("BuildInfo", c.BuildInfo)
}

func checkTexts(field string, texts map[string]string) error {
	for name, value := range texts {
		if err := checkText("a name in "+field, name); err != nil {
			return err
		}
		if err := checkText(field+"["+shown(name)+"]", value); err != nil {
			return err
		}
	}
	return nil
}

// mayDial returns whether an address may be dialed: without TLS, a token may not be sent to another machine.
func (c Config) mayDial(address string) bool {
	return c.Token == nil || c.TLS != nil || isLocal(address)
}

// targets returns the addresses to try in turn.
func (c Config) targets() []string {
	targets := strings.Split(c.Target, ",")
	for i := range targets {
		targets[i] = strings.TrimSpace(targets[i])
	}
	return targets
}

func (r Retry) complete() (Retry, error) {
	times := []struct {
		field string
		value *time.Duration
		usual time.Duration
	}{
		{"Retry.Initial", &r.Initial, 100 * time.Millisecond},
		{"Retry.Maximum", &r.Maximum, 2 * time.Second},
		{"Retry.Exhausted", &r.Exhausted, 30 * time.Second},
		{"Retry.Stable", &r.Stable, 2 * time.Second},
		{"Retry.GiveUpAfter", &r.GiveUpAfter, 0},
	}
	for _, t := range times {
		if *t.value < 0 {
			return r, invalid(t.field, t.value.String(), "it must not be negative")
		}
		if *t.value == 0 {
			*t.value = t.usual
		}
	}
	for _, t := range times[:3] {
		// The ceiling is doubled, and must not overflow.
		if *t.value > math.MaxInt64/4 {
			return r, invalid(t.field, t.value.String(), "it must be below 70 years")
		}
	}
	r.Maximum = max(r.Maximum, r.Initial)
	return r, nil
}

func (l Limits) complete() (Limits, error) {
	limits := []struct {
		field string
		value *int
		usual int
	}{
		{"Limits.OutgoingBytes", &l.OutgoingBytes, 64 << 20},
		{"Limits.ResendBytes", &l.ResendBytes, 64 << 20},
		{"Limits.IncomingItems", &l.IncomingItems, 50_000},
	}
	for _, limit := range limits {
		if *limit.value < 0 {
			return l, invalid(limit.field, strconv.Itoa(*limit.value), "it must not be negative")
		}
		if *limit.value == 0 {
			*limit.value = limit.usual
		}
	}
	return l, nil
}

func (p *PredicateOptions) complete() error {
	if p.Deadline == 0 {
		p.Deadline = usualDeadline
	}
	if p.Deadline < minDeadline || p.Deadline > maxDeadline || p.Deadline%time.Millisecond != 0 {
		return invalid("Predicates.Deadline", p.Deadline.String(), "it must be whole milliseconds between 10ms and 1m0s")
	}
	if _, known := licornev1.ClassBy_name[int32(p.ClassBy)]; !known {
		return invalid("Predicates.ClassBy", p.ClassBy.String(), "it must be ByAsk, ByTag or ByAllTags")
	}
	return nil
}

// registration returns the registration of the RM in a hello.
func (c Config) registration() *si.RegisterResourceManagerRequest {
	return &si.RegisterResourceManagerRequest{
		RmID:        c.RMID,
		Version:     c.Version,
		PolicyGroup: c.PolicyGroup,
		BuildInfo:   c.BuildInfo,
		Config:      c.Queues,
		ExtraConfig: c.ExtraConfig,
	}
}

// wanted returns the questions and notifications that the hello requests.
func (c Config) wanted(handlers Handlers) *licornev1.Callbacks {
	wanted := &licornev1.Callbacks{
		ContainerStates:   handlers.ContainerStates != nil,
		PreemptionNotices: handlers.PreemptionNotices != nil,
		Events:            handlers.Events != nil,
		StateDump:         handlers.StateDump != nil,
	}
	if c.Predicates != nil {
		wanted.Predicates = &licornev1.Predicates{
			DeadlineMilliseconds: uint32(c.Predicates.Deadline / time.Millisecond),
			ClassBy:              c.Predicates.ClassBy,
			JudgesVictims:        handlers.JudgeVictims != nil,
		}
		if c.Predicates.FailOpen {
			wanted.Predicates.FailMode = licornev1.FailMode_FAIL_OPEN
		}
	}
	return wanted
}
