package cluster

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/value"
)

const (
	tokenSecret = 32
	// tokenLasts is how long a join token is valid.
	tokenLasts = time.Hour
	tokenMark  = "gwj_"
	tokenLimit = 2048
)

// claims is the content of a join token. The joining node trusts it because the operator brought it; the cluster trusts its signature.
type claims struct {
	ID      uuid.UUID        `json:"id"`
	FQDN    value.DomainName `json:"fqdn"`
	CA      string           `json:"ca"` // fingerprint
	Expires int64            `json:"exp"`
}

var coded = base64.RawURLEncoding.Strict()

func (r *Room) signToken(c claims) (string, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	payload := coded.EncodeToString(b)
	return tokenMark + payload + "." + coded.EncodeToString(r.mac(payload)), nil
}

// mac signs the content of a token, for this use only.
func (r *Room) mac(payload string) []byte {
	h := hmac.New(sha256.New, r.tokens)
	h.Write([]byte("gateway join token\x00" + payload))
	return h.Sum(nil)
}

var errToken = fault.New(fault.Unauthenticated, "The join token is not valid here, or has expired. Create another one on the primary.")

// readToken reads a token without checking its signature.
func readToken(text string) (c claims, payload string, signature []byte, err error) {
	rest, ok := strings.CutPrefix(text, tokenMark)
	payload, signed, both := strings.Cut(rest, ".")
	if !ok || !both || len(text) > tokenLimit {
		return c, "", nil, errToken
	}
	b, err := coded.DecodeString(payload)
	if err != nil {
		return c, "", nil, errToken
	}
	if signature, err = coded.DecodeString(signed); err != nil {
		return c, "", nil, errToken
	}
	if err := json.Unmarshal(b, &c, json.RejectUnknownMembers(true)); err != nil || c.ID == uuid.Nil || c.FQDN.IsZero() || !fingerprintForm.MatchString(c.CA) {
		return c, "", nil, errToken
	}
	return c, payload, signature, nil
}

// verifyToken refuses a token that this node did not make, or that has expired. The database knows whether it was used.
func (r *Room) verifyToken(text string) (claims, error) {
	c, payload, signature, err := readToken(text)
	if err != nil {
		return claims{}, err
	}
	if subtle.ConstantTimeCompare(signature, r.mac(payload)) != 1 || !r.Clock.Now().Before(time.Unix(c.Expires, 0)) {
		return claims{}, errToken
	}
	return c, nil
}

// Token is what a node needs to join.
type Token struct {
	Token         string    `json:"token" doc:"Join token. It works once, and only for the node of that name. It is not shown again."`
	CAFingerprint string    `json:"ca_fingerprint" doc:"SHA-256 of the cluster's certificate authority. The token has it, too."`
	NodeID        string    `json:"node_id" doc:"Id under which the node is listed until it has joined."`
	NodeFQDN      string    `json:"node_fqdn" doc:"Full name of the node."`
	ExpiresAt     time.Time `json:"expires_at" doc:"When the token expires."`
	Command       string    `json:"command" doc:"What to run on the new node, unless its setup in the browser is used."`
}

// makeToken registers an expected node, and creates its token. Earlier tokens for it become invalid.
func (r *Room) makeToken(ctx context.Context, fqdn value.DomainName) (Token, error) {
	if fqdn.String() == r.node().Name {
		return Token{}, fault.Field("node_fqdn", "must be the name of another node: this one has it")
	}
	if err := r.Initialise(ctx); err != nil {
		return Token{}, err
	}
	now := r.Clock.Now()
	expires := now.Add(tokenLasts)
	var t Token
	err := r.DB.Write(ctx, func(tx *db.Tx) error {
		tx.Queue("SELECT pg_advisory_xact_lock(22, 2)") // of two tokens for one name, the second voids the first
		ca, err := r.authority(ctx, tx)
		if err != nil {
			return err
		}
		var taken bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM ha_nodes WHERE fqdn = $1 AND NOT starts_with(id, $2))`, fqdn, placeholder).Scan(&taken); err != nil {
			return err
		}
		if taken {
			return fault.Taken(map[string]string{"node_fqdn": "is a node of the cluster already: let it leave first"})
		}
		c := claims{FQDN: fqdn, CA: fingerprint(ca.cert), Expires: expires.Unix()}
		if c.ID, err = uuid.NewV7(); err != nil {
			return err
		}
		text, err := r.signToken(c)
		if err != nil {
			return err
		}
		t = Token{
			Token: text, CAFingerprint: c.CA, NodeID: placeholder + fqdn.String(), NodeFQDN: fqdn.String(), ExpiresAt: time.Unix(c.Expires, 0).UTC(),
			Command: "gateway-ctl cluster-join --primary " + r.node().Name + " --token " + text,
		}
		tx.Queue(`DELETE FROM ha_join_tokens WHERE fqdn = $1 OR expires_at < $2`, fqdn, now.AddDate(0, 0, -7))
		tx.Queue(`INSERT INTO ha_join_tokens (id, created_at, expires_at, fqdn) VALUES ($1, $2, $3, $4)`, c.ID, now, t.ExpiresAt, fqdn)
		tx.Queue(`DELETE FROM ha_nodes WHERE fqdn = $1 AND starts_with(id, $2)`, fqdn, placeholder)
		tx.Queue(`INSERT INTO ha_nodes (id, created_at, updated_at, fqdn, status) VALUES ($1, $2, $2, $3, $4)`, t.NodeID, now, fqdn, Pending)
		return r.Audit.Write(ctx, tx, "cluster.join-token.create", fqdn.String(), map[string]any{"expires_at": t.ExpiresAt})
	})
	return t, err
}

// spend uses a token for a node and its key. If many try at once, one succeeds. The same node with the same key gets its certificate
// again, which it may not have received; others get none.
func (r *Room) spend(ctx context.Context, tx *db.Tx, c claims, csr *x509.CertificateRequest) (issued string, err error) {
	key, now := keyHash(csr.PublicKey), r.Clock.Now()
	err = tx.QueryRow(ctx, `UPDATE ha_join_tokens SET spent_at = coalesce(spent_at, $2), node_id = $3, key_hash = $5
		WHERE id = $1 AND fqdn = $4 AND expires_at > $2 AND (spent_at IS NULL OR node_id = $3 AND key_hash = $5) RETURNING certificate`, c.ID, now, csr.Subject.CommonName, c.FQDN, key).Scan(&issued)
	if errors.Is(err, errNoRows) {
		return "", fault.New(fault.Conflict, "The join token has been used or replaced. Create another one on the primary.")
	}
	return issued, err
}

func keyHash(key any) string {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "" // which no request has that was read
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// joining returns the id of a node by its name, if it has its certificate but has not registered yet.
func joining(ctx context.Context, q db.Querier, fqdn string) (id string, err error) {
	err = q.QueryRow(ctx, `SELECT t.node_id FROM ha_join_tokens t JOIN ha_nodes n ON n.id = $2 || t.fqdn WHERE t.fqdn = $1 AND t.spent_at IS NOT NULL`, fqdn, placeholder).Scan(&id)
	if errors.Is(err, errNoRows) {
		return "", nil
	}
	return id, err
}
