package main

import (
	"log"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/rrpool/rrpool/controllers/calico"
)

// setUpLogging makes one log of what four libraries write: controller-runtime
// and client-go in full, Calico's warnings and all of the SDK when debugging.
func setUpLogging(o *zap.Options) logr.Logger {
	logger := zap.New(zap.UseFlagOptions(o))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	calico.RedirectLogs(logger.WithName("libcalico"))
	log.SetFlags(0)
	log.SetOutput(debugWriter{logger.WithName("sdk").V(1)})
	return logger
}

// debugWriter logs each line it is given.
type debugWriter struct{ logger logr.Logger }

// Write implements io.Writer.
func (w debugWriter) Write(line []byte) (int, error) {
	w.logger.Info(strings.TrimSpace(string(line)))
	return len(line), nil
}
