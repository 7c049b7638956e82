package licorne

import (
	"crypto/tls"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

const (
	registrationFailed = "registration of RM failed"
	// connectTime is the time limit for connecting.
	connectTime = 5 * time.Second
	// window is the flow-control window in bytes. It is small, so that a client that stops reading soon blocks
	// the server.
	window = 1024 * 1024
)

// dial creates a channel whose calls have the token, if any. It connects with its first call. The client
// itself waits between attempts, each with a new channel, so the channel's back-off exceeds its lifetime.
func dial(address string, config *tls.Config, token func() (string, error)) (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if config != nil {
		transport = credentials.NewTLS(config)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		// A server that disappears without closing the connection is detected within 45 seconds.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 15 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           grpcbackoff.Config{BaseDelay: connectTime, Multiplier: 1, MaxDelay: connectTime},
			MinConnectTimeout: connectTime,
		}),
		grpc.WithInitialWindowSize(window),
		grpc.WithInitialConnWindowSize(window),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
	}
	if token != nil {
		options = append(options, grpc.WithPerRPCCredentials(bearer{token, isLocal(address)}))
	}
	return grpc.NewClient(address, options...)
}

// refused returns the server's refusal as an error, or nil if the same request may be accepted later.
func refused(err error) error {
	answer, isStatus := status.FromError(err)
	if !isStatus {
		return nil
	}
	text := textOf(answer)
	switch answer.Code() {
	case codes.Unauthenticated, codes.PermissionDenied:
		return &UnauthorizedError{text}
	case codes.Aborted:
		return &FencedError{text}
	case codes.FailedPrecondition:
		if hasReason(answer, "INSTANCE_FENCED") {
			return &FencedError{text}
		}
		if hasReason(answer, "RM_NOT_REGISTERED") {
			// The client registers again if the server does not know the RM.
			return nil
		}
		return &ProtocolError{text}
	case codes.InvalidArgument:
		if strings.HasPrefix(text, registrationFailed) {
			return registrationError(answer)
		}
		return &ProtocolError{text}
	case codes.Unimplemented:
		return &ProtocolError{text}
	default:
		return nil
	}
}

// registrationError returns the error for a refused registration or update: a *ConfigError or a
// *RegistrationError.
func registrationError(answer *status.Status) error {
	text := textOf(answer)
	if !hasReason(answer, "CONFIG_INVALID") && !hasField(answer, "config") {
		return &RegistrationError{text}
	}
	// The text is a prefix with a colon and one problem per line. Without a prefix it is a single problem.
	_, problems, found := strings.Cut(text, ": ")
	if !found || problems == "" {
		problems = text
	}
	return &ConfigError{Text: text, Problems: strings.Split(strings.TrimSuffix(problems, "\n"), "\n")}
}

// textOf returns the server's text, or the name of the status code if there is no text.
func textOf(answer *status.Status) string {
	if answer.Message() == "" {
		return answer.Code().String()
	}
	return answer.Message()
}

// wantedWait returns the wait that the server requests; 0 without a request.
func wantedWait(answer *status.Status) time.Duration {
	for _, detail := range answer.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return max(0, info.GetRetryDelay().AsDuration())
		}
	}
	return 0
}

func hasReason(answer *status.Status, reason string) bool {
	for _, detail := range answer.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetReason() == reason {
			return true
		}
	}
	return false
}

func hasField(answer *status.Status, field string) bool {
	for _, detail := range answer.Details() {
		request, ok := detail.(*errdetails.BadRequest)
		if !ok {
			continue
		}
		for _, violation := range request.GetFieldViolations() {
			if violation.GetField() == field {
				return true
			}
		}
	}
	return false
}
