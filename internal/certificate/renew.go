package certificate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-acme/lego/v5/acme/api"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/rescue"
)

const (
	// lookEvery is how often the worker checks for work.
	lookEvery = time.Minute
	atOnce    = 2
	// A pass reads all certificates and domains. It begins some time after a change, so that changes which come together share it and
	// their answers do not wait for it, and not before restTimes as long as the last pass took, so that it leaves most of the machine to
	// changes that keep coming.
	gatherFor = 100 * time.Millisecond
	restTimes = 4
	restMost  = 10 * time.Second
	// askAgain is how often the authority is asked for its renewal time, unless it sets the interval itself.
	askAgain = 6 * time.Hour
)

// running tracks the orders in progress.
type running struct {
	mu   sync.Mutex
	rows map[uuid.UUID]bool // whether it was requested again since it began
	all  sync.WaitGroup
}

// start runs f for a row, unless it is already running for it or the limit is reached. It calls then when there is room again; again
// reports whether the row was requested in the meantime, because f may have begun before the reason for it.
func (n *running) start(id uuid.UUID, f func(), then func(again bool)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, runs := n.rows[id]; runs {
		n.rows[id] = true
		return
	}
	if len(n.rows) >= atOnce {
		return
	}
	if n.rows == nil {
		n.rows = map[uuid.UUID]bool{}
	}
	n.rows[id] = false
	n.all.Go(func() {
		f()
		n.mu.Lock()
		again := n.rows[id]
		delete(n.rows, id)
		n.mu.Unlock()
		then(again)
	})
}

// Run orders and renews certificates until the context ends.
func (r *Room) Run(ctx context.Context) {
	ctx = actor.With(ctx, worker)
	var others sync.WaitGroup
	defer others.Wait()
	defer r.running.all.Wait()
	others.Go(r.rescued(ctx, r.followProxy))
	asked := map[uuid.UUID]time.Time{}
	asking := make(chan struct{}, 1)
	for {
		began, again, start := r.Clock.Now(), lookEvery, time.Now()
		err := r.round(ctx)
		rest := min(max(gatherFor, restTimes*time.Since(start)), restMost)
		if err != nil && db.Away(err) {
			again = time.Second
		} else if err != nil && ctx.Err() == nil {
			r.Log.Warn("managing the certificates", "err", err)
		}
		r.reportRun(ctx, err)
		select {
		case <-ctx.Done():
			return
		case <-r.signal:
			select {
			case <-ctx.Done():
				return
			case <-time.After(rest):
			}
			select {
			case <-r.signal: // for a change that the next pass sees, too
			default:
			}
		case <-r.ask:
			select {
			case asking <- struct{}{}:
				others.Go(func() {
					defer func() { <-asking }()
					if err := r.safely(func() error { return r.askWhen(ctx, asked) }); err != nil && ctx.Err() == nil {
						r.Log.Warn("asking the certificate authority when to renew", "err", err)
					}
				})
			default: // a request is already in progress
			}
		case <-r.Clock.At(began.Add(again)):
		}
	}
}

// rescued runs work again after a panic.
func (r *Room) rescued(ctx context.Context, work func(context.Context)) func() {
	return func() { rescue.Loop(ctx, r.Clock, r.Log, "certificates", work) }
}

// followProxy wakes a worker that waits for the proxy to apply a change: once a domain is live, its validation can succeed.
func (r *Room) followProxy(ctx context.Context) {
	_ = r.Engine.Follow(ctx, func(s apply.Status) error { // it ends with the context
		if s.Name == apply.ReverseProxy && s.State != apply.Pending && r.waiting.Swap(false) {
			r.Wake()
		}
		return nil
	})
}

// pass does everything that is due. Its orders continue after it returns.
func (r *Room) pass(ctx context.Context) error {
	rows, err := r.certificates.All(ctx, r.DB)
	if err != nil {
		return err
	}
	pairs := r.openAll(rows)
	r.findOwn(pairs)
	var mine bool
	if err := r.DB.QueryRow(ctx, "SELECT ha_writable()").Scan(&mine); err != nil || !mine {
		return err // in a cluster the primary orders for all nodes
	}
	changed, err := r.follow(ctx, rows)
	failures := []error{err, r.saveStatus(ctx, rows, pairs), r.signDue(ctx, rows, pairs)}
	if changed {
		if rows, err = r.certificates.All(ctx, r.DB); err != nil {
			return err
		}
	}
	r.orderDue(ctx, rows)
	return errors.Join(append(failures, r.reportFailures(ctx, rows))...)
}

// round is a pass that survives a panic.
func (r *Room) round(ctx context.Context) (err error) {
	defer rescue.Into(&err, r.Log, "certificates")
	return r.pass(ctx)
}

// reportRun raises an alarm after a failed pass, and clears it after a successful one.
func (r *Room) reportRun(ctx context.Context, failure error) {
	if ctx.Err() != nil || failure != nil && db.Away(failure) {
		return
	}
	var err error
	if failure == nil {
		err = r.Alarms.Clear(ctx, runFailed, "")
	} else {
		err = r.Alarms.Raise(ctx, alarm.Alarm{Kind: runFailed, Subject: "Certificates", Message: "The check for certificates to renew was cancelled. See the log of gateway-api."})
	}
	if err != nil && !db.Away(err) {
		r.Log.Warn("the alert about certificates", "err", err)
	}
}

// reportFailures raises an alarm for each certificate whose last order failed.
func (r *Room) reportFailures(ctx context.Context, rows []Certificate) error {
	var found []alarm.Alarm
	for i := range rows {
		c := &rows[i]
		if c.Source != sourceACME || c.Attempts == 0 || c.LastError == "" {
			continue
		}
		message := c.LastError
		if c.issued() && c.ExpiresAt != nil {
			message += fmt.Sprintf("\nThe present certificate is shown until it ends on %s.", c.ExpiresAt.UTC().Format("2 January 2006"))
		}
		found = append(found, alarm.Alarm{Kind: renewFailed, Key: c.ID.String(), Subject: "Certificate of " + c.Label(), Message: message})
	}
	return r.Alarms.Settle(ctx, renewFailed, found)
}

// saveStatus stores the status of certificates that changed by the clock or by another master key. What is served does not depend on it.
// A row that was stored since it was read is left alone: it is newer.
func (r *Room) saveStatus(ctx context.Context, rows []Certificate, pairs []Pair) error {
	usable := ids(pairs)
	now := r.Clock.Now()
	return r.DB.Write(ctx, func(tx *db.Tx) error {
		for i := range rows {
			row := &rows[i]
			lost := row.Source == sourceUploaded && row.Status == statusError
			switch {
			case row.Source == sourceUploaded && !lost && !usable[row.ID]:
				tx.Queue("UPDATE certificate_certificates SET status = 'error', error_kind = 'other', last_error = $3 WHERE id = $1 AND updated_at = $2", row.ID, row.UpdatedAt,
					"The key cannot be opened with this gateway's master key. Upload the certificate and its key again.")
			case lost && usable[row.ID]:
				tx.Queue("UPDATE certificate_certificates SET status = $3, error_kind = '', last_error = '' WHERE id = $1 AND updated_at = $2", row.ID, row.UpdatedAt, stands(*row.ExpiresAt, now))
			case row.issued() && row.ExpiresAt != nil && stands(*row.ExpiresAt, now) != row.Status:
				tx.Queue("UPDATE certificate_certificates SET status = $3 WHERE id = $1 AND updated_at = $2", row.ID, row.UpdatedAt, stands(*row.ExpiresAt, now))
			}
		}
		return nil
	})
}

func ids(pairs []Pair) map[uuid.UUID]bool {
	set := make(map[uuid.UUID]bool, len(pairs))
	for i := range pairs {
		set[pairs[i].ID] = true
	}
	return set
}

// signDue signs self-signed certificates again that are due, or whose key cannot be decrypted any more. In the second case an order
// starts over.
func (r *Room) signDue(ctx context.Context, rows []Certificate, pairs []Pair) error {
	usable := ids(pairs)
	now := r.Clock.Now()
	var failures []error
	for i := range rows {
		row := &rows[i]
		selfSigned := row.Source == sourceSelfSigned || row.Source == sourceACME && !row.issued()
		due := selfSigned && row.ExpiresAt != nil && !now.Before(lastThird(*row.NotBefore, *row.ExpiresAt))
		if row.Source == sourceUploaded || !due && usable[row.ID] {
			continue
		}
		failures = append(failures, r.store(ctx, row.ID, "certificate.signed", feeds, func(c *Certificate) error {
			if c.FingerprintSHA256 != row.FingerprintSHA256 {
				return errOutdated
			}
			if c.Source == sourceACME {
				c.Status, c.NextAttemptAt = statusPending, nil
				return r.sign(c, keyECDSA)
			}
			return r.sign(c, c.KeyType)
		}))
	}
	return errors.Join(failures...)
}

// errOutdated means that a row was changed since the work on it began.
var errOutdated = errors.New("the certificate was changed in the meantime")

// store changes a row outside of a request. The audit entry names the action.
func (r *Room) store(ctx context.Context, id uuid.UUID, action string, feeds []apply.ID, change func(*Certificate) error) error {
	_, err := r.Engine.Commit(ctx, feeds, func(tx *db.Tx) ([]apply.Row, error) {
		_, rows, err := r.update(ctx, tx, id, action, change)
		return rows, err
	})
	if fault.Is(err, fault.NotFound) || errors.Is(err, errOutdated) {
		return nil // nobody waits for it any more
	}
	return err
}

// update changes what the gateway knows about a certificate, never what an operator chose.
func (r *Room) update(ctx context.Context, tx *db.Tx, id uuid.UUID, action string, change func(*Certificate) error) (*Certificate, []apply.Row, error) {
	if _, err := tx.Exec(ctx, "SELECT FROM certificate_certificates WHERE id = $1 FOR UPDATE", id); err != nil {
		return nil, nil, err
	}
	c, err := r.certificates.Get(ctx, tx, id)
	if err != nil {
		return nil, nil, err
	}
	was := *c
	if err := change(c); err != nil {
		return nil, nil, err
	}
	key, err := c.PrivateKeyPEM.Sealed(r.Secrets, table, keyColumn, id.String())
	if err != nil {
		return nil, nil, err
	}
	c.UpdatedAt = r.Clock.Now()
	tx.Queue(`UPDATE certificate_certificates SET certificate_pem = $2, private_key_pem = $3, not_before = $4, expires_at = $5, issuer = $6, fingerprint_sha256 = $7,
			status = $8, last_renewed_at = $9, last_error = $10, error_kind = $11, attempts = $12, next_attempt_at = $13, renew_at = $14, updated_at = $15, directory_url = $16
		WHERE id = $1`, id, c.CertificatePEM, key, c.NotBefore, c.ExpiresAt, c.Issuer, c.FingerprintSHA256,
		c.Status, c.LastRenewedAt, c.LastError, c.ErrorKind, c.Attempts, c.NextAttemptAt, c.RenewAt, c.UpdatedAt, c.DirectoryURL)
	details := map[string]any{"id": id, "status": c.Status, "fingerprint_sha256": c.FingerprintSHA256}
	if c.LastError != "" {
		details["error_kind"], details["last_error"] = c.ErrorKind, c.LastError
	}
	return c, []apply.Row{{Kind: r.certificates.Name, Was: &was, Now: c}}, r.Audit.Write(ctx, tx, action, c.Label(), details)
}

// orderDue starts the orders that are due, up to the limit: first those whose names have no trusted certificate yet.
func (r *Room) orderDue(ctx context.Context, rows []Certificate) {
	now := r.Clock.Now()
	enabled, ready := r.deps.ACME().Enabled, r.proxyReady()
	var due, hidden []*Certificate
	for i := range rows {
		row := &rows[i]
		switch {
		case enabled && isDue(row, now):
			if ready || row.Challenge == challengeDNS {
				due = append(due, row)
			} else {
				r.waiting.Store(true)
			}
		case row.ErrorKind == failedNotLive:
			hidden = append(hidden, row)
		}
	}
	if r.proxyReady() && r.waiting.Swap(false) {
		r.Wake() // it became ready since the check above
	}
	slices.SortStableFunc(due, func(a, b *Certificate) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), when(a).Compare(when(b)))
	})
	for _, row := range due {
		r.running.start(row.ID, r.rescued(ctx, func(ctx context.Context) { r.renew(ctx, row.ID) }), func(bool) { r.Wake() })
	}
	for _, row := range hidden {
		r.running.start(row.ID, r.rescued(ctx, func(ctx context.Context) { r.confirm(ctx, row, 0) }), func(again bool) {
			if again {
				r.Wake()
			} // otherwise it waits for the next pass
		})
	}
}

// rank is 0 for an order that so far has only a self-signed certificate.
func rank(c *Certificate) int {
	if c.issued() {
		return 1
	}
	return 0
}

func when(c *Certificate) time.Time {
	if c.RenewAt != nil {
		return *c.RenewAt
	}
	return c.CreatedAt
}

// isDue reports whether to order a certificate now.
func isDue(c *Certificate, now time.Time) bool {
	if c.Source != sourceACME || c.NextAttemptAt != nil && now.Before(*c.NextAttemptAt) {
		return false
	}
	return !c.issued() || c.RenewAt == nil || !now.Before(*c.RenewAt)
}

// proxyReady is false while the proxy applies a change: the names to validate may not be live yet.
func (r *Room) proxyReady() bool {
	return !slices.ContainsFunc(r.Engine.Statuses(), func(s apply.Status) bool { return s.Name == apply.ReverseProxy && s.State == apply.Pending })
}

// renew orders one certificate, stores the result, and checks that it is served.
func (r *Room) renew(ctx context.Context, id uuid.UUID) {
	// It is read again because an order may have ended since the pass read it.
	row, err := r.certificates.Get(ctx, r.DB, id)
	if err != nil || !isDue(row, r.Clock.Now()) {
		return
	}
	ordering, cancel := context.WithTimeout(ctx, orderWithin)
	defer cancel()
	got, err := r.obtain(ordering, row)
	if ctx.Err() != nil {
		return // the program is ending: this is no failure
	}
	if err != nil {
		r.fail(ctx, row, explain(err, row.Challenge))
		return
	}
	var stored *Certificate
	err = r.store(ctx, row.ID, "certificate.issued", feeds, func(c *Certificate) error {
		if !c.sameOrder(row) {
			return errOutdated
		}
		if err := c.shows(got.chain, got.key); err != nil {
			return err
		}
		c.Status, c.RenewAt, c.DirectoryURL = stands(*c.ExpiresAt, r.Clock.Now()), &got.renewAt, got.directory
		c.LastError, c.ErrorKind, c.Attempts, c.NextAttemptAt = "", "", 0, nil
		stored = c
		return nil
	})
	switch {
	case err != nil:
		r.fail(ctx, row, failed(failedOther, "the certificate was issued, but could not be stored: %v", err))
	case stored != nil:
		r.confirm(ctx, stored, servedWithin)
	}
}

// fail records why an order failed. The served certificate stays. If an operator stored the row while the order ran, its own due time
// stays, because the operator waits for an order that begins later.
func (r *Room) fail(ctx context.Context, row *Certificate, f *failure) {
	r.Log.Warn("a certificate could not be ordered", "certificate", row.Label(), "kind", f.kind, "err", f.sentence)
	err := r.store(ctx, row.ID, "certificate.failed", nil, func(c *Certificate) error {
		if !c.UpdatedAt.Equal(row.UpdatedAt) {
			return errOutdated
		}
		c.Attempts++
		next := r.Clock.Now().Add(f.wait(c.Attempts))
		c.LastError, c.ErrorKind, c.NextAttemptAt = f.sentence, f.kind, &next
		if !c.issued() {
			c.Status = statusError
		}
		return nil
	})
	if err != nil {
		r.Log.Error("the failure of an order could not be stored", "certificate", row.Label(), "err", err)
	}
}

// askWhen asks the authority when to renew its certificates: it may have a reason to do so early. asked remembers when each may be asked
// again.
func (r *Room) askWhen(ctx context.Context, asked map[uuid.UUID]time.Time) error {
	rows, err := r.certificates.Where(ctx, r.DB, "source = 'acme' AND status IN ('valid', 'expiring', 'expired')")
	if err != nil {
		return err
	}
	maps.DeleteFunc(asked, func(_ uuid.UUID, until time.Time) bool { return r.Clock.Now().After(until) })
	directory := r.directory()
	rows = slices.DeleteFunc(rows, func(c Certificate) bool { return r.Clock.Now().Before(asked[c.ID]) || !c.mayBeFrom(directory) })
	if len(rows) == 0 || !r.deps.ACME().Enabled {
		return nil
	}
	client, err := r.login(ctx, directory)
	if err != nil {
		return err
	}
	for i := range rows {
		row := &rows[i]
		certs, err := parseChain(row.CertificatePEM)
		if err != nil {
			continue
		}
		info, err := client.Certificate.GetRenewalInfo(ctx, certs.leaf())
		if errors.Is(err, api.ErrNoARI) {
			return nil
		}
		asked[row.ID] = r.Clock.Now().Add(askAgain)
		if err != nil {
			continue // it is renewed at its usual time
		}
		asked[row.ID] = r.Clock.Now().Add(max(info.RetryAfter, time.Hour))
		if window := info.SuggestedWindow; row.RenewAt == nil || row.RenewAt.Before(window.Start) || row.RenewAt.After(window.End) {
			at := r.due(ctx, client, certs.leaf())
			err = r.DB.Write(ctx, func(tx *db.Tx) error {
				// Do not overwrite newer data: an operator may have requested a renewal just now.
				tx.Queue("UPDATE certificate_certificates SET renew_at = $3 WHERE id = $1 AND updated_at = $2", row.ID, row.UpdatedAt, at)
				return nil
			})
		}
		if err != nil {
			return err
		}
	}
	r.Wake()
	return nil
}
