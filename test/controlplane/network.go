package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
)

// freePort finds a TCP port that is free on loopback now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // a TCP listener has a TCP address
	return port, listener.Close()
}

// get succeeds when the URL answers 200.
func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("asking %q: %w", url, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking %q: %w", url, err)
	}
	if err := response.Body.Close(); err != nil {
		return fmt.Errorf("asking %q: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(url + " answers " + response.Status)
	}
	return nil
}
