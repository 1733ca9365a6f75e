package certificate

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/secret"
)

// Pair is a certificate that can be served, with its key.
type Pair struct {
	ID uuid.UUID
	// Names lists the names in the certificate, which may not be all that were ordered yet.
	Names []string
	// PEM is the chain followed by the key.
	PEM []byte
	// Trusted is false for a self-signed certificate.
	Trusted     bool
	Fingerprint string
	NotAfter    time.Time
}

// opened caches decrypted pairs: decrypting thousands of keys would take longer than everything else.
type opened struct {
	mu    sync.Mutex
	pairs map[uuid.UUID]kept
}

// kept is a pair with its chain, which identifies it: a certificate always has the same key.
type kept struct {
	chain string
	pair  Pair
}

// Pairs lists every certificate that can be served, without those whose key cannot be decrypted. The pairs share their contents with the
// cache: callers must not modify them.
func (r *Room) Pairs(ctx context.Context, q db.Querier) ([]Pair, error) {
	rows, err := r.certificates.All(ctx, q)
	if err != nil {
		return nil, err
	}
	return r.openAll(rows), nil
}

// Rivals is Pairs for the certificates that have one of these names, or one of these ids.
func (r *Room) Rivals(ctx context.Context, q db.Querier, names []string, ids []uuid.UUID) ([]Pair, error) {
	rows, err := r.certificates.Where(ctx, q, "names && $1 OR id = ANY ($2)", names, ids)
	if err != nil {
		return nil, err
	}
	pairs, _ := r.openRows(rows, nil)
	return pairs, nil
}

// openAll opens all certificates, and caches them.
func (r *Room) openAll(rows []Certificate) []Pair {
	r.opened.mu.Lock()
	known := r.opened.pairs
	r.opened.mu.Unlock()
	pairs, fresh := r.openRows(rows, known)
	r.opened.mu.Lock()
	r.opened.pairs = fresh
	r.opened.mu.Unlock()
	return pairs
}

// openRows opens certificates, unless they are known.
func (r *Room) openRows(rows []Certificate, known map[uuid.UUID]kept) ([]Pair, map[uuid.UUID]kept) {
	opened := make(map[uuid.UUID]kept, len(rows))
	pairs := make([]Pair, 0, len(rows))
	for i := range rows {
		row := &rows[i]
		k := known[row.ID]
		if k.chain != row.CertificatePEM || k.chain == "" {
			var err error
			if k.pair, err = r.open(row); err != nil {
				if !errors.Is(err, secret.ErrOtherKey) {
					r.Log.Warn("a certificate cannot be served", "certificate", row.Label(), "err", err)
				}
				continue
			}
			k.chain = row.CertificatePEM
		}
		k.pair.Trusted = row.trusted()
		opened[row.ID] = k
		pairs = append(pairs, k.pair)
	}
	return pairs, opened
}

// Changed returns a certificate before and after a change, each nil if it does not exist. ok is false if the change is not about a
// certificate that can be served.
func (r *Room) Changed(row apply.Row) (was, now *Pair, ok bool) {
	before, there := row.Was.(*Certificate)
	after, stays := row.Now.(*Certificate)
	if !there && !stays {
		return nil, nil, false
	}
	for _, side := range []struct {
		row  *Certificate
		pair **Pair
	}{{before, &was}, {after, &now}} {
		if side.row == nil {
			continue
		}
		p, err := r.open(side.row)
		if err != nil {
			return nil, nil, false
		}
		p.Trusted = side.row.trusted()
		*side.pair = &p
	}
	return was, now, true
}

func (r *Room) open(row *Certificate) (Pair, error) {
	key, err := row.PrivateKeyPEM.Open(r.Secrets, table, keyColumn, row.ID.String())
	if err != nil {
		return Pair{}, err
	}
	certs, err := parseChain(row.CertificatePEM)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		ID: row.ID, Names: texts(certs.names()), PEM: []byte(row.CertificatePEM + key),
		Fingerprint: row.FingerprintSHA256, NotAfter: certs.leaf().NotAfter,
	}, nil
}

// Own returns the certificate of the gateway's own name, as of the last pass; nil until one is issued.
func (r *Room) Own() *tls.Certificate { return r.own.Load() }

// findOwn chooses the certificate to serve for the gateway's own name.
func (r *Room) findOwn(pairs []Pair) {
	name, now := r.deps.FQDN(), r.Clock.Now()
	var best *Pair
	for i := range pairs {
		p := &pairs[i]
		if name == "" || !p.Trusted || !now.Before(p.NotAfter) || !slices.ContainsFunc(p.Names, func(n string) bool { return covers(n, name) }) {
			continue
		}
		if best == nil || p.NotAfter.After(best.NotAfter) {
			best = p
		}
	}
	if best == nil {
		r.own.Store(nil)
		return
	}
	if served := r.own.Load(); served != nil && fingerprint(served.Leaf) == best.Fingerprint {
		return
	}
	cert, err := tls.X509KeyPair(best.PEM, best.PEM)
	if err != nil {
		r.Log.Warn("the gateway's own certificate cannot be used", "err", err)
		return
	}
	r.own.Store(&cert)
}
