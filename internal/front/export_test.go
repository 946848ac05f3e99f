package front

import "net/http"

// Queue lets tests fill a queue that no client reads.
type Queue struct{ *queue }

func NewQueue() Queue { return Queue{new(queue)} }

// Drain writes the queued messages, as a new stream would, and returns.
func (q Queue) Drain(w http.ResponseWriter) error {
	q.close()
	if err := openEvents(w); err != nil {
		return err
	}
	return q.pump(w, q.open(), nil)
}
