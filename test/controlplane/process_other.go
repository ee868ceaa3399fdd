//go:build unix && !linux

package controlplane

import "syscall"

// childAttributes keep a terminal's Ctrl-C away from the child, so that we stop it in order.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
