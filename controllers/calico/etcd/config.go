package etcd

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/projectcalico/calico/libcalico-go/lib/apiconfig"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/srv"
)

// The variables by which Calico's components find its datastore.
const (
	// DatastoreVariable names the kind of datastore: kubernetes or etcdv3.
	DatastoreVariable = "DATASTORE_TYPE"
	endpointsVariable = "ETCD_ENDPOINTS"
	discoveryVariable = "ETCD_DISCOVERY_SRV"
	usernameVariable  = "ETCD_USERNAME"
	caVariable        = "ETCD_CA_CERT_FILE"
	certVariable      = "ETCD_CERT_FILE"
	keyVariable       = "ETCD_KEY_FILE"
)

// ConfigFromEnvironment reads where Calico's etcd is, as calicoctl does. If Calico's objects are in the apiserver, it returns nil. If
// DATASTORE_TYPE says so, or no variable names an etcd, it reads no other variable.
func ConfigFromEnvironment() (*apiconfig.EtcdConfig, error) {
	named := slices.ContainsFunc(os.Environ(), func(v string) bool { return strings.Contains(v, "ETCD_") || strings.Contains(v, DatastoreVariable) })
	if !named || os.Getenv(DatastoreVariable) == string(apiconfig.Kubernetes) {
		return nil, nil
	}
	config, err := apiconfig.LoadClientConfigFromEnvironment()
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it reads
	}
	spec := config.Spec
	switch {
	case spec.DatastoreType == apiconfig.Kubernetes:
		return nil, nil
	case spec.DatastoreType != apiconfig.EtcdV3:
		return nil, fmt.Errorf("%s=%q is not a datastore: unset it, or set it to %q or %q", DatastoreVariable, spec.DatastoreType, apiconfig.Kubernetes, apiconfig.EtcdV3)
	case spec.EtcdEndpoints == "" && spec.EtcdDiscoverySrv == "":
		return nil, fmt.Errorf("%s=%q, but neither %s nor %s is set: set one as calico-node has it", DatastoreVariable, spec.DatastoreType, endpointsVariable, discoveryVariable)
	case spec.EtcdEndpoints != "" && spec.EtcdDiscoverySrv != "":
		return nil, fmt.Errorf("%s=%q and %s=%q are both set: unset one", endpointsVariable, spec.EtcdEndpoints, discoveryVariable, spec.EtcdDiscoverySrv)
	}
	return &spec.EtcdConfig, nil
}

// endpointsOf lists the addresses of etcd, asking DNS where a domain is configured.
func endpointsOf(config apiconfig.EtcdConfig) ([]string, error) {
	if config.EtcdDiscoverySrv == "" {
		return strings.Split(config.EtcdEndpoints, ","), nil
	}
	found, err := srv.GetClient("etcd-client", config.EtcdDiscoverySrv, "")
	if err != nil {
		return nil, fmt.Errorf("%s=%q names no etcd: %w", discoveryVariable, config.EtcdDiscoverySrv, err)
	}
	return found.Endpoints, nil
}

// checkFiles reports the file that is missing, is no certificate, or has expired. etcd's own error does not say which.
func (c *Client) checkFiles(now time.Time) error {
	for _, file := range []struct{ variable, path string }{
		{caVariable, c.config.EtcdCACertFile}, {certVariable, c.config.EtcdCertFile}, {keyVariable, c.config.EtcdKeyFile},
	} {
		if file.path == "" {
			continue
		}
		content, err := os.ReadFile(file.path)
		if err != nil {
			return fmt.Errorf("%s=%q cannot be read: mount the file, or correct the variable: %w", file.variable, file.path, errors.Unwrap(err))
		}
		if block, _ := pem.Decode(content); block == nil {
			return fmt.Errorf("%s=%q has no PEM block: give the file that calico-node has", file.variable, file.path)
		}
		if file.variable == keyVariable {
			continue
		}
		until, err := validUntil(content, file.variable == caVariable)
		if err != nil {
			return fmt.Errorf("%s=%q is no certificate: %w", file.variable, file.path, err)
		}
		if now.After(until) {
			return fmt.Errorf("%s=%q has expired at %s: renew the certificate", file.variable, file.path, until.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// validUntil returns when the first certificate of a file expires. If all, it returns the latest expiry of the file's certificates.
func validUntil(content []byte, all bool) (until time.Time, err error) {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return until, err //nolint:wrapcheck // it says what it reads
		}
		if certificate.NotAfter.After(until) {
			until = certificate.NotAfter
		}
		if !all {
			return until, nil
		}
	}
	if until.IsZero() {
		return until, errors.New("it has no PEM block of type CERTIFICATE")
	}
	return until, nil
}

// newCA reports whether the CA's file has changed since the client was made.
func (c *Client) newCA() bool {
	now, err := os.ReadFile(c.config.EtcdCACertFile)
	return c.ca != nil && err == nil && !bytes.Equal(now, c.ca)
}

// explain adds to an error of etcd's client which variable causes it, and the remedy.
func (c *Client) explain(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if expired := c.checkFiles(time.Now()); expired != nil {
		return expired
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.Join(err, c.probe())
	}
	at := fmt.Sprintf("%s=%q", endpointsVariable, c.config.EtcdEndpoints)
	if c.config.EtcdDiscoverySrv != "" {
		at = fmt.Sprintf("%s=%q", discoveryVariable, c.config.EtcdDiscoverySrv)
	}
	text := strings.ReplaceAll(err.Error(), "\n", ": ")
	return fmt.Errorf("etcd of %s: %s: %s", at, text, c.remedy(err, text))
}

// remedy says what to do about err. text is the message of err in one line.
func (c *Client) remedy(err error, text string) string {
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
	refused := []error{rpctypes.ErrAuthFailed, rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrPermissionNotGranted}
	switch {
	case has("certificate has expired or is not yet valid"):
		return "the certificate of etcd has expired: renew it"
	case has("failed to verify certificate", "certificate signed by unknown authority"):
		return fmt.Sprintf("%s=%q does not prove the certificate of etcd: give the CA that has signed it, and an address that it names", caVariable, c.config.EtcdCACertFile)
	case has("bad certificate", "certificate required", "expired certificate", "unknown certificate authority"):
		return fmt.Sprintf("etcd does not accept %s=%q: give a certificate that its CA has signed", certVariable, c.config.EtcdCertFile)
	case has("does not look like a TLS handshake"):
		return "etcd speaks no TLS there: write http:// instead of https://"
	case slices.ContainsFunc(refused, func(is error) bool { return errors.Is(err, is) }), has("authentication failed", "permission denied", "user name is empty"):
		return fmt.Sprintf("etcd does not let %s=%q read and write below /calico: correct the user or ETCD_PASSWORD, or grant that right", usernameVariable, c.config.EtcdUsername)
	}
	return "check the address, the network, and that etcd runs"
}

// probe returns why TLS connections to the endpoints fail, which the client of etcd does not report.
func (c *Client) probe() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var errs []error
	for _, endpoint := range c.endpoints {
		at, err := url.Parse(endpoint)
		if err != nil || at.Scheme != "https" {
			continue
		}
		connection, err := (&tls.Dialer{Config: c.tls}).DialContext(ctx, "tcp", at.Host)
		if err == nil {
			_ = connection.SetReadDeadline(time.Now().Add(time.Second))
			_, err = connection.Read(make([]byte, 1)) // with TLS 1.3 a certificate is refused only now
			_ = connection.Close()
		}
		if err != nil && !os.IsTimeout(err) && !errors.Is(err, io.EOF) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
