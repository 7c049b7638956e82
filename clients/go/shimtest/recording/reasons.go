package recording

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"licorne.dev/clients/go/licornev1"
)

// explainTime is the timeout of a call that explains an ask.
const explainTime = 2 * time.Second

// Explainer gets the reasons why asks wait from Licorne.
type Explainer struct {
	targets   []string
	security  *tls.Config
	partition string

	mu      sync.Mutex
	current int
	link    *grpc.ClientConn
}

// NewExplainer returns an Explainer for a server, or for the first answering member of several, separated by commas. It
// connects with its first call. security is nil for no TLS.
func NewExplainer(targets string, security *tls.Config, partition string) *Explainer {
	return &Explainer{targets: strings.Split(targets, ","), security: security, partition: partition}
}

// Why returns the first check that blocks an ask. The error is from the server, or means that none was reached.
func (e *Explainer) Why(ctx context.Context, application, key string) (Reason, error) {
	within, done := context.WithTimeout(ctx, explainTime)
	defer done()
	request := &licornev1.ExplainRequest{Partition: e.partition, ApplicationId: application, AllocationKey: key}
	e.mu.Lock()
	defer e.mu.Unlock()
	var failure error
	for range e.targets {
		if err := e.connect(); err != nil {
			return Reason{}, err
		}
		answer, err := licornev1.NewStateClient(e.link).Explain(within, request)
		if err == nil {
			return reasonOf(answer), nil
		}
		failure = fmt.Errorf("%s does not explain: %w", e.targets[e.current], err)
		if status.Code(err) != codes.Unavailable && status.Code(err) != codes.DeadlineExceeded {
			break
		}
		e.next()
	}
	return Reason{}, failure
}

// connect connects to the current member. The lock is held, as for next.
func (e *Explainer) connect() (err error) {
	if e.link != nil {
		return nil
	}
	security := insecure.NewCredentials()
	if e.security != nil {
		security = credentials.NewTLS(e.security)
	}
	e.link, err = grpc.NewClient(strings.TrimSpace(e.targets[e.current]), grpc.WithTransportCredentials(security))
	return err
}

func (e *Explainer) next() {
	_ = e.link.Close()
	e.link, e.current = nil, (e.current+1)%len(e.targets)
}

func reasonOf(answer *licornev1.ExplainResponse) Reason {
	switch answer.GetVerdict() {
	case "pending", "waiting":
	default:
		return Reason{}
	}
	code := strings.ToUpper(answer.GetVerdict())
	for _, check := range answer.GetChecks() {
		if !check.GetPassed() {
			code = check.GetCode()
			break
		}
	}
	return Reason{Code: code, Text: code + ": " + answer.GetSummary()}
}
