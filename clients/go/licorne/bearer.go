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
	// local is whether the server is on this machine: the token needs no TLS then.
	local bool
}

// GetRequestMetadata returns the token for one call.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := b.token()
	if err != nil {
		return nil, status.Error(codes.Unavailable, "no token: "+err.Error())
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity tells gRPC to send no token to other machines in the clear.
func (b bearer) RequireTransportSecurity() bool { return !b.local }

// isLocal says whether an address is of this machine.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
