package resource

import (
	"slices"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/parts"
)

// arrange assigns priorities that bring rows into the order of the document. Rows that the document does not mention keep their
// places, and as few rows as possible get a new priority. It returns the unmentioned rows that must get one nevertheless.
func (p *planning) arrange(s *section, rows []*plannedRow, deleted []*entry) (others []*plannedRow) {
	gone := make(map[uuid.UUID]bool, len(deleted))
	for _, e := range deleted {
		gone[e.id] = true
	}
	stored := slices.DeleteFunc(slices.Clone(s.entries), func(e *entry) bool { return gone[e.id] })
	place, priority := make(map[uuid.UUID]int, len(stored)), make(map[uuid.UUID]int64, len(stored))
	for i, e := range stored {
		place[e.id], priority[e.id] = i, e.priority
	}
	var places []int
	for _, row := range rows {
		if row.entry != nil {
			places = append(places, place[row.id])
		}
	}
	stays := map[int]bool{}
	for i, stay := range parts.Ascending(places) {
		stays[places[i]] = stay
	}
	byID := make(map[uuid.UUID]*plannedRow, len(rows))
	behind := map[uuid.UUID][]uuid.UUID{} // rows that follow each row that keeps its place
	var first []uuid.UUID                 // rows that come before any that keeps its place
	var last *uuid.UUID
	fixed := map[uuid.UUID]bool{}
	for _, row := range rows {
		byID[row.id] = row
		switch {
		case row.entry != nil && stays[place[row.id]]:
			last, fixed[row.id] = &row.id, true
		case last == nil:
			first = append(first, row.id)
		default:
			behind[*last] = append(behind[*last], row.id)
		}
	}
	var order []uuid.UUID
	for _, e := range stored {
		row := byID[e.id]
		if row != nil && !fixed[e.id] {
			continue // it is moved
		}
		if row != nil {
			order, first = append(order, first...), nil
		}
		order = append(append(order, e.id), behind[e.id]...)
	}
	order = append(order, first...)
	number(order, priority, func(id uuid.UUID) bool { return byID[id] == nil || fixed[id] }, func(i int, rank int64) {
		row := byID[order[i]]
		if row == nil {
			at := place[order[i]]
			row = &plannedRow{s: s, entry: stored[at], same: true, id: order[i], name: s.names[order[i]]}
			others = append(others, row)
		}
		row.rank = &rank
		if row.entry != nil {
			row.moved = [2]int{place[row.id] + 1, i + 1}
		}
	})
	return others
}

// number gives the rows that move a priority between those that stay. If there is no room, it renumbers all rows.
func number(order []uuid.UUID, priority map[uuid.UUID]int64, stays func(uuid.UUID) bool, give func(i int, rank int64)) {
	type run struct {
		from, to    int // indexes into order
		start, wide int64
	}
	var runs []run
	for i := 0; i < len(order); i++ {
		if stays(order[i]) {
			continue
		}
		from := i
		for i < len(order) && !stays(order[i]) {
			i++
		}
		n := int64(i - from)
		switch {
		case from == 0 && i == len(order):
			runs = append(runs, run{from, i, 0, step})
		case from == 0:
			runs = append(runs, run{from, i, priority[order[i]] - (n+1)*step, step})
		case i == len(order):
			runs = append(runs, run{from, i, priority[order[from-1]], step})
		default:
			low, high := priority[order[from-1]], priority[order[i]]
			wide := min((high-low)/(n+1), step)
			if wide < 1 {
				for k := range order {
					if rank := int64(k+1) * step; !stays(order[k]) || priority[order[k]] != rank {
						give(k, rank)
					}
				}
				return
			}
			runs = append(runs, run{from, i, low, wide})
		}
	}
	for _, r := range runs {
		for i := r.from; i < r.to; i++ {
			give(i, r.start+int64(i-r.from+1)*r.wide)
		}
	}
}
