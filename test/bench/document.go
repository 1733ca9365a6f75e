package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	// documentRows is how many rules, domains and records a document has, each.
	documentRows = 10_000
	// documentPlan is how long the plan of a document may take that is stored already, in seconds.
	documentPlan = 2
	// documentApply is the time limit for applying a document to an empty gateway.
	documentApply = 10 * time.Minute
)

// measureDocument plans a large document that means nothing.
func measureDocument(ctx context.Context, s settings) ([]goal, error) {
	b, err := newBench(ctx, s)
	if err != nil {
		return nil, err
	}
	defer b.close()
	rows := documentRows / s.shrink
	fmt.Printf("a lab with %d rules, domains and records each; load %s\n", rows, loadAverage())
	if err := b.storeRules(ctx, rows); err != nil {
		return nil, err
	}
	if err := b.storeSites(ctx, sites{domains: rows, backends: max(1, rows/10)}); err != nil {
		return nil, err
	}
	if err := b.storeRecords(ctx, rowID("dns", 0), rowID("dns", 1), rows); err != nil {
		return nil, err
	}
	var plans, exports []float64
	doc, err := b.export()
	if err != nil {
		return nil, err
	}
	for range s.rounds {
		took, err := seconds(func() error { return b.exportAgain(doc) })
		if err != nil {
			return nil, err
		}
		exports = append(exports, took)
		if took, err = seconds(func() error { return b.planNothing(doc) }); err != nil {
			return nil, err
		}
		plans = append(plans, took)
	}
	detail := fmt.Sprintf("median of %d; %.1f MiB; the export takes %.2f s", s.rounds, float64(len(doc))/(1<<20), median(exports))
	applied, again, err := fillEmpty(ctx, s, doc)
	if err != nil {
		return nil, err
	}
	fmt.Printf("applied to an empty gateway in %.1f s; its export, in %.2f s, is the same byte by byte\n", applied, again)
	return []goal{{name: fmt.Sprintf("plan of an unchanged document, 3 x %d rows", rows), measured: median(plans), unit: "s", bar: documentPlan, detail: detail}}, nil
}

// fillEmpty applies a document to a new gateway, and complains unless that one exports the same then.
func fillEmpty(ctx context.Context, s settings, doc []byte) (applied, exported float64, err error) {
	b, err := newBench(ctx, s)
	if err != nil {
		return 0, 0, err
	}
	defer b.close()
	b.api.http.Timeout = documentApply
	applied, err = seconds(func() error {
		res, body, err := b.api.do(http.MethodPost, "/configuration/apply?prune=true", doc, "Content-Type", "application/yaml")
		if err == nil && res.StatusCode != http.StatusOK {
			err = fmt.Errorf("applying the document answers %s: %.2000s", res.Status, body)
		}
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	exported, err = seconds(func() error { return b.exportAgain(doc) })
	return applied, exported, err
}

// export is the whole configuration as a document.
func (b *bench) export() ([]byte, error) {
	res, body, err := b.api.do(http.MethodGet, "/configuration", nil)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("the export answers %s: %s", res.Status, body)
	}
	return body, err
}

// exportAgain exports the configuration, and fails unless it is the same as before.
func (b *bench) exportAgain(before []byte) error {
	now, err := b.export()
	if err != nil || bytes.Equal(before, now) {
		return err
	}
	was, is := strings.Split(string(before), "\n"), strings.Split(string(now), "\n")
	for i := range min(len(was), len(is)) {
		if was[i] != is[i] {
			return fmt.Errorf("two exports of one configuration differ in line %d of %d and %d: %.200s, and then %.200s", i+1, len(was), len(is), was[i], is[i])
		}
	}
	return fmt.Errorf("two exports of one configuration have %d and %d lines", len(was), len(is))
}

// planNothing plans a document, and complains unless there is nothing to do.
func (b *bench) planNothing(doc []byte) error {
	res, body, err := b.api.do(http.MethodPost, "/configuration/plan?prune=true", doc, "Content-Type", "application/yaml")
	if err != nil {
		return err
	}
	var plan struct {
		Data struct {
			Changes   []json.RawMessage
			Unchanged int
		}
	}
	if err := json.Unmarshal(body, &plan); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK || len(plan.Data.Changes) > 0 || plan.Data.Unchanged == 0 {
		return fmt.Errorf("the plan answers %s: %.1000s", res.Status, body)
	}
	return nil
}
