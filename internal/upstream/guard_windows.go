package upstream

import (
	"cmp"
	"log/slog"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Guard does nothing on Windows: job objects end the processes.
type Guard struct{}

// NewGuard returns a Guard.
func NewGuard(*slog.Logger) *Guard { return &Guard{} }

// Close does nothing.
func (*Guard) Close() {}

func (*Guard) start()     {}
func (*Guard) add(int)    {}
func (*Guard) remove(int) {}

// group is a job object. The system ends its processes when its last handle is closed, which
// includes the end of the proxy.
type group struct {
	leader *os.Process
	job    windows.Handle // 0 if there is none, so that only the leader is killed
}

// groupAttr shields a process from the console's Ctrl-C.
func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// newGroup assigns a process to a new job. Children started before that are outside the job.
func newGroup(leader *os.Process) *group {
	g := &group{leader: leader}
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return g
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err == nil {
		handleErr := leader.WithHandle(func(handle uintptr) {
			err = windows.AssignProcessToJobObject(job, windows.Handle(handle))
		})
		err = cmp.Or(handleErr, err)
	}
	if err != nil {
		_ = windows.CloseHandle(job)
		return g
	}
	g.job = job
	return g
}

// terminate works only for processes that share the proxy's console.
func (g *group) terminate() {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(g.leader.Pid))
}

func (g *group) kill() {
	if g.job != 0 {
		_ = windows.TerminateJobObject(g.job, 1)
	}
	_ = g.leader.Kill()
}

func (g *group) close() {
	if g.job != 0 {
		_ = windows.CloseHandle(g.job)
	}
}
