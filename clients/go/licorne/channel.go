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
	// connectTime is how long a connection may take to come about.
	connectTime = 5 * time.Second
	// window is what the transport buffers: little, so that a client that stops reading stops the
	// server.
	window = 1024 * 1024
)

// dial makes a channel whose calls bear the token, if there is one. It connects when it is used. It lives for one try and connects once, as the client
// waits between tries by itself. So the channel's own wait is longer than it lives.
func dial(address string, config *tls.Config, token func() (string, error)) (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if config != nil {
		transport = credentials.NewTLS(config)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		// A server that vanishes without closing the connection is noticed within 45 seconds.
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

// refused is what the server has refused, or nil if a later try of the same may be taken.
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
			// An RM that the server has forgotten registers again.
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

// registrationError is the error for a refused registration or change of it: of the queue
// configuration or of the rest.
func registrationError(answer *status.Status) error {
	text := textOf(answer)
	if !hasReason(answer, "CONFIG_INVALID") && !hasField(answer, "config") {
		return &RegistrationError{text}
	}
	// The text has a prefix and then one problem a line. Without a prefix it is one problem.
	_, problems, found := strings.Cut(text, ": ")
	if !found || problems == "" {
		problems = text
	}
	return &ConfigError{Text: text, Problems: strings.Split(strings.TrimSuffix(problems, "\n"), "\n")}
}

// textOf is the server's text, or the name of the code if there is none.
func textOf(answer *status.Status) string {
	if answer.Message() == "" {
		return answer.Code().String()
	}
	return answer.Message()
}

// wantedWait is after how long the server wants the next try; 0 if it does not say.
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
