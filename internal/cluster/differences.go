package cluster

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/wire"
)

// DifferenceFile describes a file of rows that only this node had when it was synchronised with the primary.
type DifferenceFile struct {
	NodeID    string         `json:"node_id" doc:"Id of the node that keeps the file."`
	Node      string         `json:"node" doc:"Full name of that node."`
	Name      string         `json:"name" doc:"Name of the file."`
	CreatedAt time.Time      `json:"created_at" doc:"When the node was made the same as the primary."`
	Size      int64          `json:"size" doc:"Its size in bytes."`
	Rows      int            `json:"rows" doc:"How many rows it has."`
	Tables    map[string]int `json:"tables" doc:"How many rows it has of each table."`
}

// Differences lists the files of one node or of all.
type Differences struct {
	Files   []DifferenceFile `json:"files" doc:"The files, the newest first."`
	Unasked []string         `json:"unasked" doc:"Names of the nodes that did not answer, whose files are not listed."`
}

// DifferenceRow is a row that only one node had.
type DifferenceRow struct {
	Row   int      `json:"row" doc:"Its place in the file."`
	Table string   `json:"table" doc:"Table that it is of."`
	Kind  string   `json:"kind" doc:"Name of the kind, for example ntp.pool; empty for a row that cannot be applied again."`
	ID    string   `json:"id" doc:"Id of the row; empty for a row that cannot be applied again."`
	Name  string   `json:"name" doc:"What people call it."`
	State string   `json:"state" enum:"missing,differs,same,record" doc:"How it is now. missing: the row does not exist. record: it is not configuration and cannot be applied again."`
	Then  wire.Raw `json:"then" doc:"The row as the node had it, without secrets; null for a row that cannot be applied again."`
	Now   wire.Raw `json:"now" doc:"The row as it is now, without secrets; null if there is none."`
}

type DifferencePage struct {
	Rows []DifferenceRow `json:"rows" doc:"The rows."`
	Next *int            `json:"next" doc:"Where the next page begins; null on the last one."`
}

// Reapply selects the rows to restore.
type Reapply struct {
	Rows []int `json:"rows" required:"true" maxItems:"200" doc:"Places of the rows in the file."`
}

const (
	// pageRows and pageBytes limit how much of a file is read at once, because the answer of another node is limited, too.
	pageRows  = 100
	pageBytes = answerLimit / 2
	// lineLimit is the maximum length of a line.
	lineLimit = 16 << 20
)

var (
	differencesForm = regexp.MustCompile(`^differences-(\d{8}T\d{6}\.\d{6}Z)\.jsonl$`)
	errNoFile       = fault.New(fault.NotFound, "This file does not exist.")
	errNoRow        = fault.Field("rows", "must be places of rows in the file")
)

// keptRow is a line of a file.
type keptRow struct {
	Row   int      `json:"row"`
	Table string   `json:"table"`
	Here  wire.Raw `json:"here"`
}

// part selects rows of a file: a page, or a page of one table.
type part struct {
	Name   string `json:"name" required:"true" maxLength:"128"`
	Table  string `json:"table" maxLength:"128"`
	Offset int    `json:"offset" minimum:"0"`
	Rows   []int  `json:"rows"`
}

type parted struct {
	Rows []keptRow `json:"rows"`
	Next *int      `json:"next"`
}

// differences lists this node's files.
func (r *Room) differences() ([]DifferenceFile, error) {
	entries, err := os.ReadDir(r.Paths.State(Folder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	files := []DifferenceFile{}
	for _, e := range entries {
		form := differencesForm.FindStringSubmatch(e.Name())
		if form == nil {
			continue
		}
		at, err := time.Parse("20060102T150405.000000Z", form[1])
		if err != nil {
			continue
		}
		f := DifferenceFile{NodeID: r.node().ID, Node: r.node().Name, Name: e.Name(), CreatedAt: at, Tables: map[string]int{}}
		if info, err := e.Info(); err == nil {
			f.Size = info.Size()
		}
		if err := r.scan(f.Name, func(row keptRow, _ int) bool { f.Rows++; f.Tables[row.Table]++; return true }); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// scan reads a file until row returns false.
func (r *Room) scan(name string, row func(row keptRow, size int) (more bool)) error {
	if !differencesForm.MatchString(name) {
		return errNoFile
	}
	f, err := os.Open(r.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return errNoFile
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, lineLimit)
	for n := 0; lines.Scan(); n++ {
		x := keptRow{Row: n}
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			return fault.Wrap(fault.Conflict, err, "The file %s is damaged at line %d.", name, n+1)
		}
		x.Row = n
		if !row(x, len(lines.Bytes())) {
			return nil
		}
	}
	return lines.Err()
}

// read reads a part of a file on this node.
func (r *Room) read(p part) (parted, error) {
	out, size := parted{Rows: []keptRow{}}, 0
	err := r.scan(p.Name, func(row keptRow, bytes int) bool {
		wanted := row.Row >= p.Offset && (p.Table == "" || row.Table == p.Table)
		if len(p.Rows) > 0 {
			wanted = slices.Contains(p.Rows, row.Row)
		}
		if !wanted {
			return true
		}
		if size += bytes; len(out.Rows) > 0 && (size > pageBytes || len(out.Rows) == pageRows) {
			out.Next = new(row.Row)
			return false
		}
		out.Rows = append(out.Rows, row)
		return true
	})
	return out, err
}

func (r *Room) removeDifferences(name string) error {
	if !differencesForm.MatchString(name) {
		return errNoFile
	}
	err := os.Remove(r.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return errNoFile
	}
	return err
}

// keeper returns the node that has a file: this one, or another one that the primary asks.
func (r *Room) keeper(ctx context.Context, id string) (m Member, here bool, err error) {
	if id == r.node().ID {
		return Member{ID: id, FQDN: r.node().Name}, true, nil
	}
	s, err := Load(ctx, r.DB)
	if err != nil {
		return m, false, err
	}
	m, ok, err := member(ctx, r.DB, id)
	switch {
	case err != nil:
		return m, false, err
	case !ok || m.Expected():
		return m, false, errNoFile
	case s.Role != Primary:
		return m, false, elsewhere(s)
	}
	return m, false, nil
}

// readOf reads a part of a file on any node.
func (r *Room) readOf(ctx context.Context, node string, p part) (parted, error) {
	m, here, err := r.keeper(ctx, node)
	switch {
	case err != nil:
		return parted{}, err
	case here:
		return r.read(p)
	}
	return Ask[parted](ctx, r, m, http.MethodPost, "/agent/cluster/differences/read", p)
}

// recall describes a row, and what it is now.
func (r *Room) recall(ctx context.Context, row keptRow) (DifferenceRow, error) {
	out := DifferenceRow{Row: row.Row, Table: row.Table, State: "record"}
	kept, err := r.Resources.Recall(ctx, r.DB, row.Table, row.Here)
	if err != nil && !fault.Is(err, fault.Invalid) {
		return out, err
	}
	if err != nil || kept == nil {
		var named struct {
			Action, Subject string
		}
		if row.Table == "audit_entries" && json.Unmarshal(row.Here, &named, json.MatchCaseInsensitiveNames(true)) == nil {
			out.Name = strings.TrimSpace(named.Action + " " + named.Subject)
		}
		return out, nil
	}
	out.Kind, out.ID, out.Name, out.Then, out.Now, out.State = kept.Kind, kept.ID.String(), kept.Name, kept.Then, kept.Now, "differs"
	switch {
	case kept.Now == nil:
		out.State = "missing"
	case kept.Same:
		out.State = "same"
	}
	return out, nil
}

// mountDifferences adds the routes for the rows that only one node had.
func (r *Room) mountDifferences() {
	httpd.Handle(r.Router, http.MethodGet, "/cluster/differences", httpd.AdminRead, tag.Doc("cluster.differences.list", "List the files of rows that only one node had when it was synchronised with the primary. The primary lists the files of all nodes"), r.listDifferences)
	httpd.Handle(r.Router, http.MethodGet, "/cluster/differences/{node}/{name}", httpd.AdminRead, tag.Doc("cluster.differences.get", "Rows of a difference file, beside what they are now"),
		func(c *httpd.Call, in struct {
			Node   string `path:"node" doc:"Id of the node that keeps the file."`
			Name   string `path:"name" doc:"Name of the file."`
			Table  string `query:"table" doc:"Only rows of this table."`
			Offset int    `query:"offset" doc:"Where the page begins."`
		}) (DifferencePage, error) {
			read, err := r.readOf(c, in.Node, part{Name: in.Name, Table: in.Table, Offset: in.Offset})
			page := DifferencePage{Rows: []DifferenceRow{}, Next: read.Next}
			for _, row := range read.Rows {
				x, err := r.recall(c, row)
				if err != nil {
					return page, err
				}
				page.Rows = append(page.Rows, x)
			}
			return page, err
		})
	httpd.Handle(r.Router, http.MethodPost, "/cluster/differences/{node}/{name}/apply", httpd.Write.OnPrimary(), httpd.Doc{ID: "cluster.differences.apply", Tag: tag, Summary: "Make rows what they were on that node, as one change set", Audit: "<kind>.<verb>"},
		func(c *httpd.Call, in struct {
			Node string `path:"node" doc:"Id of the node that keeps the file."`
			Name string `path:"name" doc:"Name of the file."`
			Body Reapply
		}) (resource.Result, error) {
			return r.reapply(c, in.Node, in.Name, in.Body.Rows)
		})
	httpd.Handle(r.Router, http.MethodDelete, "/cluster/differences/{node}/{name}", httpd.Write.OnPrimary(), tag.Audited("cluster.differences.delete", "Delete a difference file"),
		func(c *httpd.Call, in struct {
			Node string `path:"node" doc:"Id of the node that keeps the file."`
			Name string `path:"name" doc:"Name of the file."`
		}) (struct{}, error) {
			m, here, err := r.keeper(c, in.Node)
			switch {
			case err != nil:
			case here:
				err = r.removeDifferences(in.Name)
			default:
				_, err = Ask[struct{}](c, r, m, http.MethodPost, "/agent/cluster/differences/delete", part{Name: in.Name})
			}
			if err != nil {
				return struct{}{}, err
			}
			return struct{}{}, r.Audit.Record(c, "cluster.differences.delete", in.Name, map[string]any{"node": m.FQDN})
		})

	httpd.Handle(r.agents, http.MethodGet, "/agent/cluster/differences", httpd.Own, tag.Doc("agent.differences.list", "Files of what this node alone had"),
		func(c *httpd.Call, _ struct{}) (out []DifferenceFile, err error) {
			err = r.fromPrimary(c, func(context.Context) error { out, err = r.differences(); return err })
			return out, err
		})
	httpd.Handle(r.agents, http.MethodPost, "/agent/cluster/differences/read", httpd.Own.Here(), tag.Doc("agent.differences.read", "Rows of a difference file"),
		func(c *httpd.Call, in struct{ Body part }) (out parted, err error) {
			err = r.fromPrimary(c, func(context.Context) error { out, err = r.read(in.Body); return err })
			return out, err
		})
	httpd.Handle(r.agents, http.MethodPost, "/agent/cluster/differences/delete", httpd.Own.Here(), tag.Doc("agent.differences.delete", "Delete a difference file"),
		func(c *httpd.Call, in struct{ Body part }) (struct{}, error) {
			return struct{}{}, r.fromPrimary(c, func(context.Context) error { return r.removeDifferences(in.Body.Name) })
		})
}

func (r *Room) listDifferences(c *httpd.Call, _ struct{}) (Differences, error) {
	out := Differences{Unasked: []string{}}
	var err error
	if out.Files, err = r.differences(); err != nil {
		return out, err
	}
	s, err := Load(c, r.DB)
	if err != nil {
		return out, err
	}
	if s.Role == Primary {
		peers, err := r.Peers(c, r.DB)
		if err != nil {
			return out, err
		}
		for _, m := range peers {
			files, err := Ask[[]DifferenceFile](c, r, m, http.MethodGet, "/agent/cluster/differences", nil)
			if err != nil {
				out.Unasked = append(out.Unasked, m.FQDN)
			}
			out.Files = append(out.Files, files...)
		}
	}
	slices.SortFunc(out.Files, func(a, b DifferenceFile) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return out, nil
}

// reapply restores rows of a node's file, as one change set.
func (r *Room) reapply(c *httpd.Call, node, name string, places []int) (resource.Result, error) {
	s, err := Load(c, r.DB)
	switch {
	case err != nil:
		return resource.Result{}, err
	case s.Role != Primary && s.Role != Single:
		return resource.Result{}, elsewhere(s)
	case len(places) == 0:
		return resource.Result{}, errNoRow
	}
	rows := make([]resource.Kept, len(places))
	for left := slices.Clone(places); len(left) > 0; {
		read, err := r.readOf(c, node, part{Name: name, Rows: left})
		if err != nil {
			return resource.Result{}, err
		}
		if len(read.Rows) == 0 {
			return resource.Result{}, errNoRow
		}
		for _, row := range read.Rows {
			kept, err := r.Resources.Recall(c, r.DB, row.Table, row.Here)
			if err != nil {
				return resource.Result{}, err
			}
			if kept == nil {
				return resource.Result{}, fault.Field("rows", "must be rows of the configuration: row %d is of %s", row.Row, row.Table)
			}
			for i, place := range places {
				if place == row.Row {
					rows[i] = *kept
				}
			}
			left = slices.DeleteFunc(left, func(place int) bool { return place == row.Row })
		}
	}
	changes, outcome, err := r.Resources.Restore(c, rows, "Applied again from "+name)
	if err != nil {
		return resource.Result{}, err
	}
	resource.Applied(c, outcome, changes...)
	return resource.Result{Changes: changes}, nil
}
