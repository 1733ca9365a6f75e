package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// Explain describes for the operator why a connection failed or was closed. It is empty for errors that are not about the
// connection, and contains nothing that the other side has sent.
func Explain(err error) string {
	if refused, ok := errors.AsType[*Refused](err); ok {
		return refused.Error()
	}
	if text := explainTLS(err); text != "" {
		return text
	}
	if unknown, ok := errors.AsType[*net.DNSError](err); ok {
		if unknown.IsNotFound {
			return "its name does not exist in DNS"
		}
		return "its name cannot be resolved: DNS does not answer"
	}
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, errTooLong):
		return "its answer is too long"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "it refuses the connection: nothing listens there, or a firewall is in between"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no route to it"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isNet && timeout.Timeout():
		return "it did not answer in time"
	case errors.Is(err, context.Canceled):
		return "it was cancelled"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it closed the connection"
	}
	return ""
}

func explainTLS(err error) string {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "its certificate has expired, or is not valid yet"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its certificate is from an authority that this gateway does not trust"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "its certificate is for another name"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "its certificate is not valid"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "it does not speak TLS"
	}
	return ""
}
