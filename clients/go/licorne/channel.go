package licorne

import (
	"crypto/tls"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

const (
	registrationFailed = "registration of RM failed"
	// window is what the transport buffers: little, so that a client that stops reading stops the
	// server.
	window = 1024 * 1024
)

// dial makes a channel whose calls bear the token, if there is one. It connects when it is used.
func dial(address string, config *tls.Config, token func() (string, error)) (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if config != nil {
		transport = credentials.NewTLS(config)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		// A server that vanishes without closing the connection is noticed within 45 seconds.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 15 * time.Second}),
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

// fatal is the error that ends the client, or nil if another try may help.
func fatal(err error) error {
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
