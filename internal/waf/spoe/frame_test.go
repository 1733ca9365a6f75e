package spoe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
)

func TestVarint(t *testing.T) {
	for _, c := range []struct {
		n    uint64
		want []byte
	}{
		{0, []byte{0}}, {239, []byte{239}}, {240, []byte{240, 0}}, {2287, []byte{255, 127}}, {2288, []byte{240, 128, 0}},
		{264431, []byte{255, 255, 127}}, {264432, []byte{240, 128, 128, 0}}, {33818863, []byte{255, 255, 255, 127}},
		{math.MaxUint64, nil}, {math.MaxUint64 - 1, nil}, {math.MaxInt64, nil}, {1 << 63, nil},
	} {
		b := AppendVarint(nil, c.n)
		if c.want != nil && !bytes.Equal(b, c.want) {
			t.Errorf("%d is %v, not %v", c.n, b, c.want)
		}
		if n, rest, ok := Varint(append(b, 7)); !ok || n != c.n || !bytes.Equal(rest, []byte{7}) {
			t.Errorf("%d comes back as %d, %v, %v", c.n, n, rest, ok)
		}
		if _, _, ok := Varint(b[:len(b)-1]); ok {
			t.Errorf("%d is read without its last byte", c.n)
		}
	}
	for name, b := range map[string][]byte{
		"endless":          bytes.Repeat([]byte{255}, 100),
		"endless zeroes":   append([]byte{240}, append(bytes.Repeat([]byte{128}, 100), 0)...),
		"65 bits":          {240, 128, 128, 128, 128, 128, 128, 128, 128, 16},
		"beyond by adding": append([]byte{255}, append(bytes.Repeat([]byte{255}, 8), 15)...),
	} {
		if n, _, ok := Varint(b); ok {
			t.Errorf("%s: %d", name, n)
		}
	}
}

func TestText(t *testing.T) {
	if text, rest, ok := Text(AppendText([]byte(nil), "name")); !ok || string(text) != "name" || len(rest) != 0 {
		t.Errorf("%q, %q, %v", text, rest, ok)
	}
	for _, b := range [][]byte{nil, {1}, {5, 'n', 'a', 'm', 'e'}, AppendVarint(nil, math.MaxUint64)} {
		if text, _, ok := Text(b); ok {
			t.Errorf("%v: %q", b, text)
		}
	}
}

// typed has an argument of every type, as on the wire.
var typed = []struct {
	name string
	wire []byte
	kind Kind
	want any
}{
	{"null", []byte{0}, Null, nil},
	{"true", []byte{0x11}, Bool, true},
	{"false", []byte{0x01}, Bool, false},
	{"int32", append([]byte{2}, AppendVarint(nil, 70000)...), Int32, int64(70000)},
	{"uint32", append([]byte{3}, AppendVarint(nil, math.MaxUint32)...), Uint32, int64(math.MaxUint32)},
	{"negative", append([]byte{4}, AppendVarint(nil, math.MaxUint64)...), Int64, int64(-1)},
	{"uint64", append([]byte{5}, AppendVarint(nil, 1<<40)...), Uint64, int64(1 << 40)},
	{"v4", []byte{6, 192, 0, 2, 1}, IPv4, netip.MustParseAddr("192.0.2.1")},
	{"v6", append([]byte{7}, netip.MustParseAddr("2001:db8::1").AsSlice()...), IPv6, netip.MustParseAddr("2001:db8::1")},
	{"text", AppendText([]byte{8}, "a text"), String, "a text"},
	{"", AppendText([]byte{9}, "\x00\xff"), Binary, "\x00\xff"},
}

// notifyFrame is a frame with one message that has an argument of every type.
func notifyFrame(stream, id uint64) []byte {
	b := AppendText(appendHead(nil, frameNotify, stream, id), "all-types")
	b = append(b, byte(len(typed)))
	for _, a := range typed {
		b = append(AppendText(b, a.name), a.wire...)
	}
	return b
}

func notification(t testing.TB, b []byte) Notify {
	t.Helper()
	f, err := parseFrame(b[lengthSize:])
	if err != nil {
		t.Fatal(err)
	}
	n, err := parseNotify(f)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestEveryType(t *testing.T) {
	// A second message, without arguments, follows the first.
	n := notification(t, append(AppendText(notifyFrame(5, 300), "none"), 0))
	if n.stream != 5 || n.frame != 300 {
		t.Errorf("stream %d, frame %d", n.stream, n.frame)
	}
	var names []string
	for m := range n.Messages() {
		names = append(names, string(m.Name()))
		i := 0
		for name, v := range m.Args() {
			var got any
			switch c := typed[i]; c.want.(type) {
			case bool:
				got = v.Bool()
			case int64:
				got = v.Int()
			case netip.Addr:
				got = v.Addr()
			case string:
				got = string(v.Bytes())
			}
			if c := typed[i]; string(name) != c.name || v.Kind() != c.kind || got != c.want {
				t.Errorf("%s: %s, kind %d, %v", c.name, name, v.Kind(), got)
			}
			i++
		}
		if string(m.Name()) == "all-types" && i != len(typed) {
			t.Errorf("%d arguments", i)
		}
	}
	if !slices.Equal(names, []string{"all-types", "none"}) {
		t.Errorf("messages: %q", names)
	}
}

func TestAccessorsGiveNothingOfAnotherKind(t *testing.T) {
	for _, c := range typed {
		v, _, err := value(c.wire)
		if err != nil {
			t.Fatal(err)
		}
		number := c.kind >= Int32 && c.kind <= Uint64
		if c.kind != Bool && v.Bool() || !number && v.Int() != 0 || c.kind != IPv4 && c.kind != IPv6 && v.Addr().IsValid() || c.kind < String && v.Bytes() != nil {
			t.Errorf("%s: %v, %d, %v, %q", c.name, v.Bool(), v.Int(), v.Addr(), v.Bytes())
		}
	}
}

func TestReadingANotificationAllocatesNothing(t *testing.T) {
	b := notifyFrame(1, 1)[lengthSize:]
	sum := 0
	if n := testing.AllocsPerRun(100, func() {
		f, err := parseFrame(b)
		if err != nil {
			t.Fatal(err)
		}
		n, err := parseNotify(f)
		if err != nil {
			t.Fatal(err)
		}
		for m := range n.Messages() {
			for name, v := range m.Args() {
				sum += len(name) + len(v.Bytes()) + int(v.Int())
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if sum == 0 {
		t.Error("nothing was read")
	}
}

func greeting(items ...[]byte) []byte {
	b := appendHead(nil, frameHello, 0, 0)
	for _, i := range items {
		b = append(b, i...)
	}
	return b
}

func text(name, v string) []byte { return appendItem(nil, name, v) }

func size(n uint64) []byte {
	return AppendVarint(append(AppendText([]byte(nil), "max-frame-size"), byte(Uint32)), n)
}

func TestHello(t *testing.T) {
	versions, capabilities := text("supported-versions", "2.0"), text("capabilities", "pipelining,async,fragmentation")
	check := append(AppendText([]byte(nil), "healthcheck"), 0x11)
	for name, c := range map[string]struct {
		b    []byte
		want hello
	}{
		"whole":      {greeting(versions, size(16380), capabilities, text("engine-id", "e")), hello{16380, false, true}},
		"check":      {greeting(versions, size(16380), capabilities, check), hello{16380, true, true}},
		"two":        {greeting(text("supported-versions", "1.5, 2.3"), size(256), text("capabilities", "")), hello{256, false, false}},
		"with space": {greeting(versions, size(256), text("capabilities", "async , pipelining")), hello{256, false, true}},
	} {
		if h, err := parseHello(c.b[lengthSize:]); err != nil || h != c.want {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
	for name, c := range map[string]struct {
		b    []byte
		want status
	}{
		"no version":        {greeting(size(1000), capabilities), statusNoVersion},
		"version of bytes":  {greeting(append(AppendText([]byte(nil), "supported-versions"), AppendText([]byte{9}, "2.0")...), size(1000), capabilities), statusNoVersion},
		"another version":   {greeting(text("supported-versions", "1.0,3.0,2,2.x"), size(1000), capabilities), statusVersion},
		"no size":           {greeting(versions, capabilities), statusNoSize},
		"size as a text":    {greeting(versions, text("max-frame-size", "1000"), capabilities), statusNoSize},
		"small":             {greeting(versions, size(255), capabilities), statusSize},
		"no capabilities":   {greeting(versions, size(1000)), statusNoCapability},
		"a name at the end": {greeting(versions, size(1000), AppendText([]byte(nil), "capabilities")), statusInvalid},
		"a notification":    {notifyFrame(0, 0), statusInvalid},
		"of a stream":       {appendHead(nil, frameHello, 1, 0), statusInvalid},
		"a fragment":        {append(make([]byte, lengthSize), frameHello, 0, 0, 0, 0, 0, 0), statusFragment},
		"nothing":           {make([]byte, lengthSize), statusInvalid},
	} {
		_, err := parseHello(c.b[lengthSize:])
		var b *breach
		if !errors.As(err, &b) || b.status != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// hostile lists frames that violate the protocol, without their lengths.
func hostile() map[string][]byte {
	notify := func(payload ...byte) []byte {
		return append(appendHead(nil, frameNotify, 1, 1)[lengthSize:], payload...)
	}
	endless := bytes.Repeat([]byte{255}, 200)
	long := AppendVarint(nil, math.MaxUint64)
	all := map[string][]byte{
		"empty":                       {},
		"a type alone":                {frameNotify},
		"flags alone":                 {frameNotify, 0, 0, 0, 1},
		"no frame id":                 {frameNotify, 0, 0, 0, 1, 1},
		"endless stream id":           append([]byte{frameNotify, 0, 0, 0, 1}, endless...),
		"an unfinished fragment":      {frameNotify, 0, 0, 0, 0, 1, 1},
		"an aborted frame":            {frameNotify, 0, 0, 0, 3, 1, 1},
		"reserved flags":              {frameNotify, 0xff, 0xff, 0xff, 0xff, 1, 1},
		"a fragment":                  {frameFragment, 0, 0, 0, 1, 1, 1},
		"an unknown type":             {77, 0, 0, 0, 1, 1, 1},
		"an agent's type":             {frameAck, 0, 0, 0, 1, 1, 1},
		"another hello":               greeting(text("supported-versions", "2.0"), size(1000), text("capabilities", ""))[lengthSize:],
		"a message without its count": notify(1, 'm'),
		"a name beyond the end":       notify(200, 'm'),
		"a name of 2⁶⁴-1 bytes":       notify(long...),
		"an endless name":             notify(endless...),
		"255 arguments, none there":   notify(1, 'm', 255),
		"an argument without a value": notify(1, 'm', 1, 1, 'a'),
		"a value beyond the end":      notify(1, 'm', 1, 1, 'a', 9, 239),
		"a value of 2⁶⁴-1 bytes":      notify(append([]byte{1, 'm', 1, 1, 'a', 9}, long...)...),
		"an endless number":           notify(append([]byte{1, 'm', 1, 1, 'a', 4}, endless...)...),
		"half an address":             notify(1, 'm', 1, 1, 'a', 6, 1, 2, 3),
		"half a long address":         notify(1, 'm', 1, 1, 'a', 7, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
		"a reserved type":             notify(1, 'm', 1, 1, 'a', 10),
		"the last type":               notify(1, 'm', 1, 1, 'a', 15),
	}
	whole := notifyFrame(1, 1)[lengthSize:]
	for _, n := range []int{8, 20, 40, len(whole) - 1} {
		all[fmt.Sprintf("cut after %d bytes", n)] = whole[:n]
	}
	return all
}

func TestHostileFramesAreRefused(t *testing.T) {
	for name, b := range hostile() {
		f, err := parseFrame(b)
		if err == nil && f.kind == frameNotify {
			_, err = parseNotify(f)
		}
		if err == nil && f.kind == frameNotify {
			t.Errorf("%s is taken", name)
		}
		var of *breach
		if err != nil && !errors.As(err, &of) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzFrames parses any input as each of HAProxy's frames. What is accepted must be readable within its bounds, and its answer must have
// its numbers.
func FuzzFrames(f *testing.F) {
	for _, b := range hostile() {
		f.Add(b)
	}
	f.Add(notifyFrame(5, 300)[lengthSize:])
	f.Add(greeting(text("supported-versions", "2.0"), size(1000), text("capabilities", "pipelining"))[lengthSize:])
	f.Fuzz(func(t *testing.T, b []byte) {
		b = slices.Clip(b)
		if h, err := parseHello(b); err == nil && h.size < minFrame {
			t.Errorf("a hello with %+v", h)
		}
		frame, err := parseFrame(b)
		if err != nil {
			return
		}
		n, err := parseNotify(frame)
		if err != nil {
			return
		}
		read := 0
		for m := range n.Messages() {
			args := 0
			read += len(m.Name())
			for name, v := range m.Args() {
				args++
				read += len(name) + len(v.Bytes())
				if v.Addr().IsValid() != (v.Kind() == IPv4 || v.Kind() == IPv6) {
					t.Errorf("kind %d has address %v", v.Kind(), v.Addr())
				}
			}
			if args != int(m.args) {
				t.Errorf("%d of %d arguments", args, m.args)
			}
		}
		if read > len(b) {
			t.Errorf("%d bytes of %d", read, len(b))
		}
		var a Answer
		a.begin(n.stream, n.frame)
		answered, err := parseFrame(a.end()[lengthSize:])
		if err != nil || answered.stream != n.stream || answered.frame != n.frame || binary.BigEndian.Uint32(a.b) != uint32(len(a.b)-lengthSize) {
			t.Errorf("answered as %+v, %v", answered, err)
		}
	})
}
