package licorne

import (
	"context"
	"net"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// bearer adds the token to every call.
type bearer struct {
	token func() (string, error)
	// local is true if the server is on this machine, so that the token needs no TLS.
	local bool
}

// GetRequestMetadata returns the metadata with the token for one call.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := b.token()
	if err != nil {
		return nil, status.Error(codes.Unavailable, "no token: "+err.Error())
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity returns true if gRPC must not send the token without TLS.
func (b bearer) RequireTransportSecurity() bool { return !b.local }

// isLocal returns whether an address is on this machine.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
