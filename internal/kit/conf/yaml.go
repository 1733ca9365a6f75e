package conf

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// YAML writes the documents of a file, with the comment of New. They are written as JSON, which is also YAML: every text is
// quoted, so that none can be a key, a number, an anchor or the end of a document. Texts that YAML would fold are refused.
func YAML(documents ...any) ([]byte, error) {
	var buf bytes.Buffer
	buf.WriteString("# Written by the gateway from its database. Changes made here are lost.\n")
	for i, d := range documents {
		if i > 0 {
			buf.WriteString("---\n")
		}
		content, err := json.Marshal(d, json.Deterministic(true), jsontext.WithIndent("  "))
		if err != nil {
			return nil, err
		}
		if err := foldless(content); err != nil {
			return nil, err
		}
		buf.Write(content)
		buf.WriteByte('\n')
	}
	return buf.Bytes(), nil
}

// foldless refuses texts with characters that YAML and JSON read differently.
func foldless(document []byte) error {
	for d := jsontext.NewDecoder(bytes.NewReader(document)); d.StackDepth() > 0 || d.InputOffset() == 0; {
		token, err := d.ReadToken()
		if err != nil {
			return err
		}
		if token.Kind() != '"' || token.String() == "" {
			continue
		}
		if err := plain(token.String()); err != nil {
			return fmt.Errorf("%s: %w", d.StackPointer(), err)
		}
	}
	return nil
}
