package app_test

import (
	"encoding/json"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// notUsed are words that texts for people must not contain. Write instead: someone, no one, automatically, again, is, points to,
// exists, works once, manages, in the meantime, must, the client that, this, no longer, at most, does not exist. After an equals
// sign or a backquote, the word is a value, such as the user nobody.
var notUsed = regexp.MustCompile("(?i)(?:^|[^=`\\w])(somebody|nobody|anybody|everybody|by (itself|themselves|oneself)|anew|stands|leads? to|is there|(?:is|are) good|good once|looks? after|meanwhile|shall|whoever|such an?|that is to say|any more|at the most|there is no such)\\b")

// notInConsole are words for which the console has others: interface, zone, on and off, "Leave empty for …", domain.
var notInConsole = regexp.MustCompile(`(?i)\b(?:(?:a|the|this|its|another|each) link(?:[^-\w]|$)|links are|empty:|(?:switch|switched) (?:it |them )?(?:on|off)\b|new site\b|remarks?\b)`)

// sentences are the texts of the console that end with a full stop: those that explain a field, introduce a page, or ask.
var sentences = regexp.MustCompile(`\.(?:help|lead|[a-zA-Z]*Text)$`)

// Every text that people read is in plain words: those of the console, every string of the programs with more than one word
// (messages, summaries, reasons, log lines, help of commands), descriptions of fields in the API document, the README and the
// pages in docs.
func TestTextsUsePlainWords(t *testing.T) {
	texts := 0
	look := func(where, text string) {
		texts++
		if word := notUsed.FindStringSubmatch(text); word != nil {
			t.Errorf("%s: %q in %q", where, word[1], text)
		}
	}
	for _, s := range sources(t) {
		if s.test || !strings.HasPrefix(s.pkg, "internal/") && !strings.HasPrefix(s.pkg, "cmd/") {
			continue
		}
		tags := map[*ast.BasicLit]bool{}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				if n.Tag != nil {
					tags[n.Tag] = true
					tag, _ := strconv.Unquote(n.Tag.Value)
					look(s.path, reflect.StructTag(tag).Get("doc"))
				}
			case *ast.BasicLit:
				if text, _ := strconv.Unquote(n.Value); n.Kind == token.STRING && !tags[n] && strings.Contains(text, " ") {
					look(s.path, text)
				}
			}
			return true
		})
	}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(filepath.Join(root, "ui", "src"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".json" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var tree any
		if err := json.Unmarshal(content, &tree); err != nil {
			return err
		}
		eachText("", tree, func(key, text string) {
			look(path, text)
			if word := notInConsole.FindString(text); word != "" {
				t.Errorf("%s, %s: %q in %q", path, key, word, text)
			}
			if sentences.MatchString(key) && !strings.ContainsAny(text[len(text)-1:], ".?:") {
				t.Errorf("%s, %s: %q has no full stop", path, key, text)
			}
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	pages := []string{filepath.Join(root, "README.md")}
	for _, folder := range []string{"docs", "docs/decisions"} {
		found, err := filepath.Glob(filepath.Join(root, folder, "*.md"))
		if err != nil || len(found) == 0 {
			t.Fatal("no pages in", folder, err)
		}
		pages = append(pages, found...)
	}
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			look(page, line)
		}
	}
	if texts < 5000 {
		t.Fatalf("only %d texts", texts)
	}
}

func eachText(key string, tree any, look func(key, text string)) {
	switch tree := tree.(type) {
	case string:
		look(key, tree)
	case map[string]any:
		for k, v := range tree {
			eachText(key+"."+k, v, look)
		}
	}
}
