//go:build unix && !linux

package controlplane

import "syscall"

// childAttributes returns attributes by which a terminal's Ctrl-C does not reach the child: Stop ends it in order.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
