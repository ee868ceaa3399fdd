package controlplane

import "syscall"

// childAttributes returns attributes by which a terminal's Ctrl-C does not reach the child, and the child is killed when this process ends.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
