package calico

import (
	"errors"
	"io"

	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
)

// RedirectLogs sends what libcalico-go logs, from warnings up, to log at
// verbosity 1. Its logger belongs to the whole process: call it once, early.
func RedirectLogs(log logr.Logger) {
	logrus.SetOutput(io.Discard)
	logrus.SetLevel(logrus.WarnLevel)
	logrus.AddHook(logHook{log: log})
}

// logHook passes messages on. Fields may be whole objects and are left out, save
// for the error.
type logHook struct{ log logr.Logger }

// Levels implements logrus.Hook.
func (logHook) Levels() []logrus.Level {
	return []logrus.Level{logrus.WarnLevel, logrus.ErrorLevel, logrus.FatalLevel, logrus.PanicLevel}
}

// Fire implements logrus.Hook.
func (h logHook) Fire(e *logrus.Entry) error {
	err, ok := e.Data[logrus.ErrorKey].(error)
	if !ok {
		err = errors.New("")
	}
	h.log.V(1).Info(e.Message, "level", e.Level.String(), "error", err.Error())
	return nil
}
