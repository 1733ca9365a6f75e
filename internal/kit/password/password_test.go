package password

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/wire"
)

func TestPolicy(t *testing.T) {
	for plain, ok := range map[string]bool{
		strings.Repeat("a", 11): false,
		strings.Repeat("a", 12): true,
		strings.Repeat("é", 11): false, // characters, not bytes
		strings.Repeat("é", 12): true,
		strings.Repeat("a", 72): true,
		strings.Repeat("a", 73): false,
		strings.Repeat("é", 37): false, // bytes, not characters
	} {
		if _, err := Choose(plain); (err == nil) != ok {
			t.Errorf("%d characters, %d bytes: %v", len([]rune(plain)), len(plain), err)
		}
	}
}

func turn(t *testing.T, h *Hasher) *Turn {
	t.Helper()
	turn, err := h.Turn(t.Context(), Place{Lane: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(turn.End)
	return turn
}

func hash(t *testing.T, turn *Turn, plain string) Hash {
	t.Helper()
	c, err := Choose(plain)
	if err != nil {
		t.Fatal(err)
	}
	h, err := turn.Hash(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestMatches(t *testing.T) {
	hasher := New(bcrypt.MinCost)
	turn := turn(t, hasher)
	long := strings.Repeat("x", 72)
	h := hash(t, turn, long)
	for _, c := range []struct {
		hash  Hash
		plain string
		want  bool
	}{
		{h, long, true},
		{h, long + "y", false},
		{h, long[:71], false},
		{h, strings.Repeat("y", 10000), false},
		{"", long, false},
		{"!", long, false},
		{Hash(hasher.dummy), "anything", false},
	} {
		before := hasher.Done()
		if got := turn.Matches(c.hash, Type(c.plain)); got != c.want {
			t.Errorf("%d bytes against a hash of %d: %v", len(c.plain), len(c.hash), got)
		}
		if n := hasher.Done() - before; n != 1 {
			t.Errorf("%d hashes computed instead of 1", n)
		}
	}
}

func TestDummyCostsAsMuch(t *testing.T) {
	hasher := New(Cost)
	if cost, err := bcrypt.Cost(hasher.dummy); err != nil || cost != Cost {
		t.Errorf("cost %d: %v", cost, err)
	}
	if err := bcrypt.CompareHashAndPassword(New(bcrypt.MinCost).dummy, []byte("x")); err != bcrypt.ErrMismatchedHashAndPassword {
		t.Errorf("the dummy is not well-formed: %v", err)
	}
}

// AU-15: the cost in production.
func TestProductionCostIsTwelve(t *testing.T) {
	if h := string(hash(t, turn(t, New(Cost)), "correct horse battery")); !strings.HasPrefix(h, "$2a$12$") {
		t.Errorf("hash begins %.7s", h)
	}
}

func TestPasswordsAreNeverRevealed(t *testing.T) {
	hasher := New(bcrypt.MinCost)
	plain := "correct horse battery"
	chosen, err := Choose(plain)
	if err != nil {
		t.Fatal(err)
	}
	stored := hasher.Field()
	if err := stored.UnmarshalText([]byte(plain)); err != nil {
		t.Fatal(err)
	}
	prepared := stored
	if err := prepared.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{Type(plain), chosen, stored, prepared, prepared.Hash()} {
		text := fmt.Sprintf("%v %+v %#v %s", v, v, v, v)
		if strings.Contains(text, plain) || strings.Contains(text, "$2a$") {
			t.Errorf("%T prints as %s", v, text)
		}
		if _, isHash := v.(Hash); isHash {
			continue // the setup store writes it
		}
		if b, err := json.Marshal(v); err != nil || string(b) != `"`+secret.Mask+`"` {
			t.Errorf("%T encodes as %s, %v", v, b, err)
		}
	}
}

func TestStoredField(t *testing.T) {
	type row struct {
		Password Stored `json:"password,omitzero" required:"true"`
	}
	stored := row{Stored{hash: "h"}}
	for body, complains := range map[string]bool{
		`{}`: false, `{"password": "***SET***"}`: false, `{"password": "twelve chars"}`: false,
		`{"password": "short"}`: true, `{"password": null}`: true, `{"password": ""}`: true, `{"password": 1}`: true,
	} {
		now := stored
		if _, err := wire.Decode([]byte(body), &now); (err != nil) != complains {
			t.Errorf("%s: %v", body, err)
		}
	}
	var fresh row
	if _, err := wire.Decode([]byte(`{}`), &fresh); err == nil {
		t.Error("a new row needs a password")
	}
	if b, err := wire.Encode(stored); err != nil || string(b) != "{}" {
		t.Errorf("encoded as %s, %v", b, err)
	}
	unprepared := Stored{by: New(bcrypt.MinCost)}
	if err := unprepared.UnmarshalText([]byte("twelve chars")); err != nil {
		t.Fatal(err)
	}
	if v, err := unprepared.Value(); err != nil || v != "" {
		t.Errorf("what was not hashed is stored as %q, %v", v, err)
	}
}
