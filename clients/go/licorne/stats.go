package licorne

// Stats are counters of a client since New, and what waits now.
type Stats struct {
	// Streams counts the tries to open a stream.
	Streams uint64
	// Resumed counts the sessions that went on where a stream broke.
	Resumed uint64
	// Replayed counts the replays that the server found complete, the first one included.
	Replayed uint64
	// Sent counts the messages written to the stream.
	Sent uint64
	// SentItems counts the nodes, applications, asks, removals and answers to notices in them.
	SentItems uint64
	// Received counts the messages read from the stream.
	Received uint64
	// Checks counts the predicate checks and preemption checks that came up.
	Checks uint64
	// Unanswered counts those that were not answered, because their deadline had passed.
	Unanswered uint64
	// OutgoingItems and OutgoingBytes say how much waits to be sent.
	OutgoingItems, OutgoingBytes int
	// IncomingItems says how many items wait for the handlers.
	IncomingItems int
	// Nodes, Applications, Asks and Allocations say what a replay would tell the server.
	Nodes, Applications, Asks, Allocations int
}
