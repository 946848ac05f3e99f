package upstream

import "context"

// Call is like Send but waits for the outcome.
func (l *Lease) Call(ctx context.Context, turn *Turn, req *Request) (answer Answer, err error) {
	done := make(chan struct{})
	l.Send(ctx, turn, req, func(a Answer, e error) {
		answer, err = a, e
		close(done)
	})
	<-done
	return answer, err
}
