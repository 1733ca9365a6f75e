package certificate

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-acme/lego/v5/acme/api"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
)

const (
	// lookEvery is how often the worker looks whether there is something to do.
	lookEvery = time.Minute
	// atOnce is how many orders run at the same time.
	atOnce = 2
	// shownWithin is how long the proxy may take until it shows a new certificate.
	shownWithin = 20 * time.Second
	// changesAtOnce is how many rows are made or deleted in one transaction.
	changesAtOnce = 200
	// askAgain is when the certificate authority is asked again when it wants to renew, unless it says so itself.
	askAgain = 6 * time.Hour
)

// running is what is being ordered now.
type running struct {
	mu   sync.Mutex
	rows map[uuid.UUID]bool
	all  sync.WaitGroup
}

// start runs f for a row, unless something runs for it, or enough runs already.
func (n *running) start(id uuid.UUID, f func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.rows[id] || len(n.rows) >= atOnce {
		return false
	}
	if n.rows == nil {
		n.rows = map[uuid.UUID]bool{}
	}
	n.rows[id] = true
	n.all.Go(func() {
		defer func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			delete(n.rows, id)
		}()
		f()
	})
	return true
}

// Run orders, renews and follows what is wanted until the context ends.
func (r *Room) Run(ctx context.Context) {
	ctx = actor.With(ctx, worker)
	var others sync.WaitGroup
	defer others.Wait()
	defer r.running.all.Wait()
	others.Go(func() { r.followProxy(ctx) })
	asked := map[uuid.UUID]time.Time{}
	asking := make(chan struct{}, 1)
	for {
		if err := r.pass(ctx); err != nil && ctx.Err() == nil && !db.Away(err) {
			r.Log.Warn("looking after the certificates", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.signal:
		case <-r.ask:
			select {
			case asking <- struct{}{}:
				others.Go(func() {
					defer func() { <-asking }()
					if err := r.askWhen(ctx, asked); err != nil && ctx.Err() == nil {
						r.Log.Warn("asking the certificate authority when to renew", "err", err)
					}
				})
			default: // it is being asked
			}
		case <-r.Clock.After(lookEvery):
		}
	}
}

// followProxy wakes the worker whenever the proxy has taken something new: a domain is live, and can be shown to be ours.
func (r *Room) followProxy(ctx context.Context) {
	applied := int64(-1)
	_ = r.Engine.Follow(ctx, func(s apply.Status) error { // it ends with the context
		if s.Name == apply.ReverseProxy && s.State == apply.Live && s.AppliedRevision != applied {
			applied = s.AppliedRevision
			r.Wake()
		}
		return nil
	})
}

// pass does all there is to do now. Orders go on after it.
func (r *Room) pass(ctx context.Context) error {
	rows, err := r.certificates.All(ctx, r.DB)
	if err != nil {
		return err
	}
	pairs, err := r.Pairs(ctx, r.DB)
	if err != nil {
		return err
	}
	r.findOwn(pairs)
	changed, err := r.follow(ctx, rows)
	failures := []error{err, r.tellStatus(ctx, rows, pairs), r.signDue(ctx, rows, pairs)}
	if changed {
		if rows, err = r.certificates.All(ctx, r.DB); err != nil {
			return err
		}
	}
	r.orderDue(ctx, rows)
	return errors.Join(failures...)
}

// tellStatus writes down how those stand that the clock, or another master key, has changed. Nothing that is shown depends
// on it.
func (r *Room) tellStatus(ctx context.Context, rows []Certificate, pairs []Pair) error {
	shown := ids(pairs)
	now := r.Clock.Now()
	return r.DB.Write(ctx, func(tx *db.Tx) error {
		for i := range rows {
			row := &rows[i]
			lost := row.Source == sourceUploaded && row.Status == statusError
			switch {
			case row.Source == sourceUploaded && !lost && !shown[row.ID]:
				tx.Queue("UPDATE certificates SET status = 'error', error_kind = 'other', last_error = $2 WHERE id = $1", row.ID,
					"the key cannot be opened with this gateway's master key: upload the certificate and its key again")
			case lost && shown[row.ID]:
				tx.Queue("UPDATE certificates SET status = $2, error_kind = '', last_error = '' WHERE id = $1", row.ID, stands(*row.ExpiresAt, now))
			case row.issued() && row.ExpiresAt != nil && stands(*row.ExpiresAt, now) != row.Status:
				tx.Queue("UPDATE certificates SET status = $3 WHERE id = $1 AND status = $2", row.ID, row.Status, stands(*row.ExpiresAt, now))
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

// signDue signs those anew that the gateway signs itself and that are due, or whose key cannot be opened any more. An order
// begins anew then.
func (r *Room) signDue(ctx context.Context, rows []Certificate, pairs []Pair) error {
	shown := ids(pairs)
	now := r.Clock.Now()
	var failures []error
	for i := range rows {
		row := &rows[i]
		selfSigned := row.Source == sourceSelfSigned || row.Source == sourceACME && !row.issued()
		due := selfSigned && row.ExpiresAt != nil && !now.Before(*third(row.NotBefore, row.ExpiresAt))
		if row.Source == sourceUploaded || !due && shown[row.ID] {
			continue
		}
		failures = append(failures, r.store(ctx, row.ID, "certificate.signed", feeds, func(c *Certificate) error {
			if c.Source == sourceACME {
				c.Status, c.NextAttemptAt = statusPending, nil
				return r.sign(c, keyECDSA)
			}
			return r.sign(c, c.KeyType)
		}))
	}
	return errors.Join(failures...)
}

// errOutdated says that a row is not any more what it was when the work on it began.
var errOutdated = errors.New("the certificate was changed meanwhile")

// store changes a row outside of a request. The audit entry is that of the action.
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

// update changes what the gateway knows about a certificate, and nothing that an operator has chosen.
func (r *Room) update(ctx context.Context, tx *db.Tx, id uuid.UUID, action string, change func(*Certificate) error) (*Certificate, []apply.Row, error) {
	if _, err := tx.Exec(ctx, "SELECT FROM certificates WHERE id = $1 FOR UPDATE", id); err != nil {
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
	tx.Queue(`UPDATE certificates SET certificate_pem = $2, private_key_pem = $3, not_before = $4, expires_at = $5, issuer = $6, fingerprint_sha256 = $7,
			status = $8, last_renewed_at = $9, last_error = $10, error_kind = $11, attempts = $12, next_attempt_at = $13, renew_at = $14, updated_at = $15
		WHERE id = $1`, id, c.CertificatePEM, key, c.NotBefore, c.ExpiresAt, c.Issuer, c.FingerprintSHA256,
		c.Status, c.LastRenewedAt, c.LastError, c.ErrorKind, c.Attempts, c.NextAttemptAt, c.RenewAt, c.UpdatedAt)
	details := map[string]any{"id": id, "status": c.Status, "fingerprint_sha256": c.FingerprintSHA256}
	if c.LastError != "" {
		details["error_kind"], details["last_error"] = c.ErrorKind, c.LastError
	}
	return c, []apply.Row{{Kind: r.certificates.Name, Was: &was, Now: c}}, r.Audit.Write(ctx, tx, action, c.Label(), details)
}

// follow makes, changes and deletes the automatic certificates, so that there is one for all that is wanted and not covered
// by others. It tells whether there was something to do.
func (r *Room) follow(ctx context.Context, rows []Certificate) (bool, error) {
	wanted, err := r.deps.Wanted(ctx, r.DB)
	if err != nil {
		return false, err
	}
	ops, err := r.plan(ctx, rows, wanted)
	for part := range slices.Chunk(ops, changesAtOnce) {
		if _, _, failure := r.Resources.Commit(ctx, resource.Set{Operations: part, Reason: "what the domains need has changed"}); failure != nil {
			return true, errors.Join(err, failure)
		}
	}
	return len(ops) > 0, err
}

func (r *Room) plan(ctx context.Context, rows []Certificate, wanted []Wanted) (ops []resource.Operation, err error) {
	now := r.Clock.Now()
	var others []string // names that need no certificate
	ours := map[uuid.UUID][]*Certificate{}
	for i := range rows {
		row := &rows[i]
		switch {
		case row.Automatic:
			ours[domainOf(row)] = append(ours[domainOf(row)], row)
		case row.trusted() && now.Before(*row.ExpiresAt):
			others = append(others, texts(row.Names)...)
		}
	}
	kept := map[uuid.UUID]bool{}
	for _, w := range wanted {
		if len(w.Names) == 0 || !slices.ContainsFunc(w.Names, func(n string) bool { return !coveredBy(others, n) }) {
			continue
		}
		row := match(ours[w.DomainID], w)
		var op *resource.Operation
		switch {
		case row != nil:
			kept[row.ID] = true
			if !slices.Equal(texts(row.Names), w.Names) {
				op, err = operation("update", &row.ID, w, row.Challenge)
			}
		case r.deps.ACME().Enabled:
			op, err = operation("create", nil, w, challengeHTTP)
		}
		if err != nil {
			return nil, err
		}
		if op != nil {
			ops = append(ops, *op)
		}
	}
	for i := range rows {
		if row := &rows[i]; row.Automatic && !kept[row.ID] {
			users, err := r.deps.Users(ctx, r.DB, row.ID)
			if err != nil {
				return nil, err
			}
			if len(users) == 0 {
				ops = append(ops, resource.Operation{Kind: r.certificates.Name, Verb: "delete", ID: &row.ID})
			}
		}
	}
	return ops, nil
}

func domainOf(row *Certificate) uuid.UUID {
	if row.DomainID == nil {
		return uuid.Nil
	}
	return *row.DomainID
}

// match finds the row of a domain. The gateway's own is known by its names: a row may have lost its domain.
func match(rows []*Certificate, w Wanted) *Certificate {
	for _, row := range rows {
		if w.DomainID != uuid.Nil || slices.Equal(texts(row.Names), w.Names) {
			return row
		}
	}
	return nil
}

func coveredBy(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return covers(n, name) })
}

func operation(verb string, id *uuid.UUID, w Wanted, challenge string) (*resource.Operation, error) {
	if slices.ContainsFunc(w.Names, func(n string) bool { return strings.HasPrefix(n, "*.") }) {
		challenge = challengeDNS
	}
	fields := map[string]any{"names": w.Names, "challenge": challenge}
	if w.DomainID != uuid.Nil {
		fields["domain_id"] = w.DomainID
	}
	body, err := json.Marshal(fields)
	return &resource.Operation{Kind: "certificate.certificate", Verb: verb, ID: id, Body: body}, err
}

// orderDue starts orders for what is due, as many as may run at once: those first that have nothing better to show.
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
			}
		case row.ErrorKind == failedNotLive:
			hidden = append(hidden, row)
		}
	}
	slices.SortStableFunc(due, func(a, b *Certificate) int {
		return cmp.Or(cmp.Compare(fresh(a), fresh(b)), when(a).Compare(when(b)))
	})
	for _, row := range due {
		r.running.start(row.ID, func() { r.renew(ctx, row); r.Wake() })
	}
	for _, row := range hidden {
		r.running.start(row.ID, func() { r.confirm(ctx, row, 0) })
	}
}

func fresh(c *Certificate) int {
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

// isDue tells whether a certificate is to be ordered now.
func isDue(c *Certificate, now time.Time) bool {
	if c.Source != sourceACME || c.NextAttemptAt != nil && now.Before(*c.NextAttemptAt) {
		return false
	}
	return !c.issued() || c.RenewAt == nil || !now.Before(*c.RenewAt)
}

// proxyReady is false while the proxy is about to take a change: what is ordered may not be live yet.
func (r *Room) proxyReady() bool {
	return !slices.ContainsFunc(r.Engine.Statuses(), func(s apply.Status) bool { return s.Name == apply.ReverseProxy && s.State == apply.Pending })
}

// renew orders one certificate, stores what comes of it, and sees that it is shown.
func (r *Room) renew(ctx context.Context, row *Certificate) {
	ordering, cancel := context.WithTimeout(ctx, orderWithin)
	defer cancel()
	got, err := r.obtain(ordering, row)
	if ctx.Err() != nil {
		return // the program ends: nobody is to blame
	}
	if err != nil {
		r.fail(ctx, row, explain(err, row.Challenge))
		return
	}
	var stored *Certificate
	err = r.store(ctx, row.ID, "certificate.issued", feeds, func(c *Certificate) error {
		if !slices.Equal(c.Names, row.Names) {
			return errOutdated
		}
		if err := c.shows(got.chain, got.key); err != nil {
			return err
		}
		c.Status, c.RenewAt = stands(*c.ExpiresAt, r.Clock.Now()), &got.renewAt
		c.LastError, c.ErrorKind, c.Attempts, c.NextAttemptAt = "", "", 0, nil
		stored = c
		return nil
	})
	switch {
	case err != nil:
		r.fail(ctx, row, failed(failedOther, "the certificate was issued, but could not be stored: %v", err))
	case stored != nil:
		r.confirm(ctx, stored, shownWithin)
	}
}

// fail writes down why an order failed. What is shown stays.
func (r *Room) fail(ctx context.Context, row *Certificate, f *failure) {
	r.Log.Warn("a certificate could not be ordered", "certificate", row.Label(), "kind", f.kind, "err", f.sentence)
	err := r.store(ctx, row.ID, "certificate.failed", nil, func(c *Certificate) error {
		if !slices.Equal(c.Names, row.Names) {
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

// confirm sees whether the proxy shows a certificate. It counts as renewed then, and not before.
func (r *Room) confirm(ctx context.Context, row *Certificate, within time.Duration) {
	why := r.notShown(ctx, row, within)
	if ctx.Err() != nil || why != "" && row.LastError == why {
		return
	}
	action := "certificate.live"
	if why != "" {
		action = "certificate.not-live"
	}
	err := r.store(ctx, row.ID, action, nil, func(c *Certificate) error {
		if c.FingerprintSHA256 != row.FingerprintSHA256 {
			return errOutdated
		}
		c.LastError, c.ErrorKind = why, ""
		if why != "" {
			c.ErrorKind = failedNotLive
			return nil
		}
		now := r.Clock.Now()
		c.LastRenewedAt = &now
		return nil
	})
	if err != nil {
		r.Log.Error("what the proxy shows could not be stored", "certificate", row.Label(), "err", err)
	}
}

// notShown says why the proxy does not show a certificate, after a while; it is empty when it does.
func (r *Room) notShown(ctx context.Context, row *Certificate, within time.Duration) string {
	name := strings.Replace(row.Names[0].String(), "*.", "gateway.", 1) // any name that the wildcard stands for
	until := r.Clock.Now().Add(within)
	for {
		shown, err := r.deps.Served(ctx, name)
		switch {
		case err == nil && shown == row.FingerprintSHA256:
			return ""
		case !r.Clock.Now().Before(until) && err != nil:
			return printable(fmt.Sprintf("the certificate is issued and stored, but the proxy does not answer for %s: %v", name, err))
		case !r.Clock.Now().Before(until):
			return fmt.Sprintf("the certificate is issued and stored, but the proxy shows another one for %s (%s)", name, shown)
		}
		select {
		case <-ctx.Done():
			return ""
		case <-r.Clock.After(time.Second):
		}
	}
}

// served asks the listener itself which certificate it shows.
func served(ctx context.Context, name string) (string, error) {
	// Who vouches for it does not matter: it is compared with the one that must be there.
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: 3 * time.Second}, Config: &tls.Config{ServerName: name, InsecureSkipVerify: true}} //nolint:gosec // see above
	conn, err := dialer.DialContext(ctx, "tcp", "127.0.0.1:443")
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return fingerprint(conn.(*tls.Conn).ConnectionState().PeerCertificates[0]), nil
}

// askWhen asks the certificate authority when it wants to renew what it has issued: it may have a reason to do so early. It
// remembers whom it need not ask again yet.
func (r *Room) askWhen(ctx context.Context, asked map[uuid.UUID]time.Time) error {
	rows, err := r.certificates.Where(ctx, r.DB, "source = 'acme' AND status IN ('valid', 'expiring', 'expired')")
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(c Certificate) bool { return r.Clock.Now().Before(asked[c.ID]) })
	if len(rows) == 0 || !r.deps.ACME().Enabled {
		return nil
	}
	client, err := r.login(ctx)
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
			continue // another authority may have issued it; it is renewed at its time
		}
		asked[row.ID] = r.Clock.Now().Add(max(info.RetryAfter, time.Hour))
		if window := info.SuggestedWindow; row.RenewAt == nil || row.RenewAt.Before(window.Start) || row.RenewAt.After(window.End) {
			at := r.due(ctx, client, certs.leaf())
			err = r.DB.Write(ctx, func(tx *db.Tx) error {
				tx.Queue("UPDATE certificates SET renew_at = $3 WHERE id = $1 AND fingerprint_sha256 = $2", row.ID, row.FingerprintSHA256, at)
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

// Summary counts the certificates.
type Summary struct {
	Total    int `json:"total" doc:"All certificates."`
	Expiring int `json:"expiring" doc:"Those with less than 14 days left."`
	Expired  int `json:"expired" doc:"Those that are over."`
	Errors   int `json:"errors" doc:"Those whose last order failed, or that cannot be shown."`
}

// Due says what a round of renewals did.
type Due struct {
	Ordered int `json:"ordered" doc:"Certificates that are due, and ordered now."`
}

func (r *Room) mountRenew() {
	httpd.Handle(r.Router, http.MethodGet, "/certificates/summary", httpd.Read, doc("certificate.summary", "How many certificates there are, and how they stand"),
		func(c *httpd.Call, _ struct{}) (s Summary, err error) {
			err = r.DB.QueryRow(c, `SELECT count(*), count(*) FILTER (WHERE status = 'expiring'), count(*) FILTER (WHERE status = 'expired'),
				count(*) FILTER (WHERE last_error <> '') FROM certificates`).Scan(&s.Total, &s.Expiring, &s.Expired, &s.Errors)
			return s, db.Fault(err)
		})
	renew := audited("certificate.renew", "Order a certificate anew, or sign it anew; the order goes on after the answer")
	renew.Feeds = []string{string(apply.ReverseProxy)}
	httpd.Handle(r.Router, http.MethodPost, "/certificates/{id}/renew", httpd.Write, renew,
		func(c *httpd.Call, in struct {
			ID uuid.UUID `path:"id" doc:"Id of the certificate."`
		}) (Certificate, error) {
			return r.renewNow(c, in.ID)
		})
	httpd.Handle(r.Router, http.MethodPost, "/certificates/renew-due", httpd.Write, audited("certificate.renew-due", "Order every certificate that is due, and ask the certificate authority whether others are"),
		func(c *httpd.Call, _ struct{}) (Due, error) { return r.renewDue(c) })
}

// renewNow has a certificate ordered without waiting for its time.
func (r *Room) renewNow(c *httpd.Call, id uuid.UUID) (Certificate, error) {
	var row *Certificate
	outcome, err := r.Engine.Commit(c, feeds, func(tx *db.Tx) (rows []apply.Row, err error) {
		row, rows, err = r.update(c, tx, id, "certificate.renew", func(row *Certificate) error {
			now := r.Clock.Now()
			switch {
			case row.Source == sourceUploaded:
				return fault.New(fault.Conflict, "an uploaded certificate cannot be renewed: bring a new one")
			case row.Source == sourceSelfSigned:
				return r.sign(row, row.KeyType)
			case !r.deps.ACME().Enabled:
				return fault.New(fault.Conflict, "certificates are not ordered: switch ACME on first")
			}
			row.NextAttemptAt = nil
			if row.issued() {
				row.RenewAt = &now
			}
			return nil
		})
		tx.AfterCommit(r.Wake)
		return rows, err
	})
	if err != nil {
		return Certificate{}, err
	}
	resource.Applied(c, outcome)
	return *row, nil
}

// renewDue counts what is due, and has it ordered. The scheduler asks for it every hour; what changes nothing leaves no entry.
func (r *Room) renewDue(ctx context.Context) (d Due, err error) {
	rows, err := r.certificates.All(ctx, r.DB)
	if err != nil || !r.deps.ACME().Enabled {
		return d, err
	}
	for i := range rows {
		if isDue(&rows[i], r.Clock.Now()) {
			d.Ordered++
		}
	}
	nudge(r.ask)
	r.Wake()
	if d.Ordered == 0 {
		return d, nil
	}
	return d, r.Audit.Record(ctx, "certificate.renew-due", "certificates", d)
}
