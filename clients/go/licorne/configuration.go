package licorne

import (
	"context"
	"errors"
	"maps"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"licorne.dev/clients/go/licornev1"
)

// UpdateConfiguration replaces the queue configuration, also in the next registration. It returns a
// *ConfigError if the server refuses the queues, and a *RegistrationError if it refuses the extra
// configuration; then the next registration is unchanged.
//
// Without an answer it returns the error of ctx if that has ended, and otherwise a *LostError. Then the old
// or the new configuration may be in force, and the next registration has the new one. If the server refuses
// that registration, the client registers with the last accepted configuration, and passes a SessionChange
// with SessionRefused to the handlers.
func (c *Client) UpdateConfiguration(ctx context.Context, queues string, extra map[string]string) error {
	if err := checkText("queues", queues); err != nil {
		return err
	}
	if err := checkTexts("extra", extra); err != nil {
		return err
	}
	extra = maps.Clone(extra)
	s := c.state
	s.mu.Lock()
	failure, address := s.failure, s.address
	s.mu.Unlock()
	if failure != nil {
		return failure
	}
	if address == "" {
		address = c.config.targets()[0]
	}
	err := c.configure(ctx, address, queues, extra)
	var unauthorized *UnauthorizedError
	s.mu.Lock()
	defer s.mu.Unlock()
	registration := &s.session.registration
	switch {
	case err == nil:
		registration.change(queues, extra)
	case refusesRegistration(err):
		registration.refuse(queues, extra)
	case !errors.As(err, &unauthorized):
		registration.propose(queues, extra)
	}
	return err
}

// refusesRegistration returns whether an error is a refused registration.
func refusesRegistration(err error) bool {
	var config *ConfigError
	var registration *RegistrationError
	return errors.As(err, &config) || errors.As(err, &registration)
}

func (c *Client) configure(ctx context.Context, address, queues string, extra map[string]string) error {
	conn, err := dial(address, c.config.TLS, c.config.Token)
	if err != nil {
		return &LostError{err.Error()}
	}
	defer func() { _ = conn.Close() }()
	_, err = licornev1.NewAdminClient(conn).UpdateConfiguration(ctx, &licornev1.UpdateConfigurationRequest{
		RmId:        c.config.RMID,
		PolicyGroup: c.config.PolicyGroup,
		Config:      queues,
		ExtraConfig: extra,
	})
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	answer, _ := status.FromError(err)
	if answer.Code() == codes.InvalidArgument {
		return registrationError(answer)
	}
	var unauthorized *UnauthorizedError
	if errors.As(refused(err), &unauthorized) {
		return unauthorized
	}
	return &LostError{textOf(answer)}
}
