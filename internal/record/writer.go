package record

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/state"
)

const bufferSize = 64 << 10 // bytes of lines that are written at once

// writer writes the log files and the status of one process.
type writer struct {
	log  *Log
	mac  hash.Hash // keyed
	lock processLock

	lines   bytes.Buffer  // encoded, and not written yet
	encoder *json.Encoder // writes to lines

	f      *os.File
	next   int   // number of the next file
	size   int64 // of f
	warned bool  // of an error, which is said once
}

func newWriter(l *Log) *writer {
	w := &writer{log: l, mac: hmac.New(sha256.New, l.o.Key), lock: processLock{dir: l.o.Dir, process: l.o.Begin.Process}}
	w.encoder = json.NewEncoder(&w.lines)
	w.encoder.SetEscapeHTML(false)
	return w
}

func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
}

// add appends the line of an event to the lines.
func (w *writer) add(e *Event) {
	w.hash(e)
	e.At = e.At.UTC().Truncate(time.Microsecond)
	before := w.lines.Len()
	if err := w.encoder.Encode(e); err != nil || w.lines.Len()-before > maxLine {
		w.lines.Truncate(before)
		w.log.lost.Add(1)
	}
	if w.lines.Len() > bufferSize {
		w.write()
	}
}

// hash sets the hashes, and the arguments if they are recorded in full, from the event's raw
// fields. Missing arguments count as {}. Ambiguous or long arguments are hashed as they are.
func (w *writer) hash(e *Event) {
	if e.ResultSum != 0 {
		e.ResultHash = w.keyed(binary.BigEndian.AppendUint64(nil, e.ResultSum))
	}
	if e.Kind != Call && e.Kind != Prefetch {
		return
	}
	raw := e.RawArguments
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	if len(raw) <= maxArguments {
		if canonical, ok := jsonrpc.AppendCanonical(nil, raw); ok {
			if raw = canonical; w.log.full.Load() {
				e.Arguments = w.log.o.Scrub(canonical)
			}
		}
	}
	e.ArgsHash = w.keyed(raw)
}

// keyed returns the first 64 bits of HMAC-SHA256 in hexadecimal: enough that the calls of one
// user do not collide. Without the key, guessed arguments cannot be tested against a hash.
func (w *writer) keyed(b []byte) string {
	w.mac.Reset()
	w.mac.Write(b)
	return hex.EncodeToString(w.mac.Sum(nil)[:8])
}

// write writes the lines, or counts them as lost.
func (w *writer) write() {
	if w.lines.Len() == 0 {
		return
	}
	defer w.lines.Reset()
	err := w.openFor(w.lines.Len())
	if err == nil {
		_, err = w.f.Write(w.lines.Bytes())
	}
	if err == nil {
		w.size += int64(w.lines.Len())
		return
	}
	w.log.lost.Add(int64(bytes.Count(w.lines.Bytes(), []byte("\n"))))
	if w.f != nil {
		_ = w.f.Truncate(w.size) // remove what was written in part
		w.closeFile()
	}
	if !w.warned {
		w.warned = true
		w.log.o.Log.Warn("record: not written", "dir", w.log.o.Dir, "err", err)
	}
}

// openFor makes sure that a file is open to which n bytes can be written. It begins the next one
// if the open one would become too large, or was removed with its folder.
func (w *writer) openFor(n int) error {
	if w.f != nil && w.size+int64(n) <= w.log.o.RotateBytes && exists(w.f.Name()) {
		return nil
	}
	w.closeFile()
	if err := w.lock.acquire(); err != nil {
		return err
	}
	f, err := w.log.o.create(filepath.Join(w.log.o.Dir, fmt.Sprintf("%s.%06d.jsonl", w.log.o.Begin.Process, w.next)))
	if err != nil {
		return err
	}
	begin := w.log.o.Begin
	begin.At = begin.At.UTC().Truncate(time.Microsecond)
	first, err := json.Marshal(begin)
	if err == nil {
		_, err = f.Write(append(first, '\n'))
	}
	if err != nil {
		_ = f.Close() // the error of the write is returned
		_ = os.Remove(f.Name())
		return err
	}
	w.f, w.size = f, int64(len(first))+1
	w.next++
	w.removeOld()
	return nil
}

func (w *writer) removeOld() { removeOld(w.log.o.Dir, w.log.o.KeepBytes, w.log.o.KeepAge) }

// closeFile closes the file, if one is open.
func (w *writer) closeFile() {
	if w.f != nil {
		_ = w.f.Close() // errors of writes were handled before
		w.f = nil
	}
}

// end writes the last line if there is a file, and removes status and lock.
func (w *writer) end(last *Event) {
	if w.next > 0 && !w.log.off.Load() {
		w.add(last)
		w.write()
	}
	w.closeFile()
	_ = os.Remove(filepath.Join(w.log.o.Dir, w.log.o.Begin.Process+statusSuffix)) // a status that stays is ignored, as its process holds no lock
	w.lock.release()
}

// writeStatus writes the status file.
func (w *writer) writeStatus() {
	if w.log.o.Status == nil {
		return
	}
	if w.next == 0 { // otherwise each new file removes old ones
		defer w.removeOld()
	}
	s := w.log.o.Status()
	w.log.FillStatus(&s)
	text, err := json.Marshal(&s)
	if err == nil {
		err = w.lock.acquire()
	}
	if err == nil {
		var dir state.Dir
		if dir, err = state.Open(w.log.o.Dir); err == nil {
			err = dir.Write(s.Process+statusSuffix, text)
		}
	}
	if err != nil { // writing lines fails for the same reason, and warns
		w.log.o.Log.Debug("record: status not written", "dir", w.log.o.Dir, "err", err)
	}
}
