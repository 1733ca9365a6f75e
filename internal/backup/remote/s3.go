package remote

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"path"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"edge.internal/gateway/internal/kit/outbound"
)

type bucket struct {
	client    *minio.Client
	transport *http.Transport
	name      string
	prefix    string // ends with a slash unless empty
}

func connectS3(door *outbound.Door, s S3, k keys, l outbound.Limits) (target, error) {
	if s.CACertificate != "" {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(s.CACertificate))
		door = door.Trusting(roots)
	}
	b := &bucket{transport: door.Transport(l), name: s.Bucket}
	if folder := path.Clean(s.PathPrefix); s.PathPrefix != "" {
		b.prefix = folder + "/"
	}
	var err error
	b.client, err = minio.New(s.Endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(s.AccessKey, k.secretKey, ""), Secure: s.HTTPS, Transport: b.transport, Region: s.Region,
		MaxRetries: 1, // the room retries itself
	})
	if err != nil {
		return nil, failed(true, "its settings are not usable")
	}
	return b, nil
}

func (b *bucket) put(ctx context.Context, name string, from *io.SectionReader) error {
	// Parts are read from the file while they are sent, so no part is held in memory.
	_, err := b.client.PutObject(ctx, b.name, b.prefix+name, from, from.Size(), minio.PutObjectOptions{ContentType: "application/octet-stream", NumThreads: 2})
	return err
}

func (b *bucket) list(ctx context.Context, prefix string) ([]entry, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var list []entry
	for object := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + prefix}) {
		if object.Err != nil {
			return nil, object.Err
		}
		if len(list) == maxEntries {
			return nil, failed(true, "there are more than %d archives", maxEntries)
		}
		if len(object.Key) > len(b.prefix) && object.Key[:len(b.prefix)] == b.prefix {
			list = append(list, entry{object.Key[len(b.prefix):], object.Size, object.LastModified})
		}
	}
	return list, ctx.Err()
}

func (b *bucket) get(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	body, info, _, err := minio.Core{Client: b.client}.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
	return body, info.Size, err
}

func (b *bucket) remove(ctx context.Context, name string) error {
	return b.client.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{})
}

func (b *bucket) close() { b.transport.CloseIdleConnections() }

// explainS3 uses only the code of an answer, because its text is not trusted.
func explainS3(err error) *failure {
	answer, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok {
		return nil
	}
	switch answer.Code {
	case "InvalidAccessKeyId", "XAdminUserNotFound":
		return failed(true, "the service does not know the access key")
	case "SignatureDoesNotMatch":
		return failed(true, "the secret key is wrong")
	case "AccessDenied":
		return failed(true, "the service does not allow this with this access key: it must be able to list, read, write and delete")
	case "NoSuchBucket":
		return failed(true, "the bucket does not exist")
	case "NoSuchKey":
		return failed(true, "the archive does not exist")
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "InvalidRegion", "IllegalLocationConstraintException":
		return failed(true, "the bucket is in another region")
	case "RequestTimeTooSkewed":
		return failed(true, "its clock and that of this gateway differ too much")
	case "QuotaExceeded", "XMinioStorageFull":
		return failed(false, "there is no space left")
	}
	lasting := answer.StatusCode >= 300 && answer.StatusCode < 500 && answer.StatusCode != http.StatusRequestTimeout && answer.StatusCode != http.StatusTooManyRequests
	if answer.StatusCode == 0 {
		return failed(false, "it does not answer like an S3 service")
	}
	return failed(lasting, "the service answers with status %d", answer.StatusCode)
}
