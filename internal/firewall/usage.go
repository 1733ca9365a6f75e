package firewall

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
)

// uses lists what uses each object, group, service and zone within the room.
const uses = `
	SELECT unnest(members) AS used, 'firewall.address-group' AS kind, id, name FROM firewall_address_groups
	UNION SELECT unnest(members), 'firewall.service-group', id, name FROM firewall_service_groups
	UNION SELECT ref, 'firewall.rule', id, name FROM firewall_rules,
		unnest(ARRAY[src_object_id, src_group_id, dst_object_id, dst_group_id, service_object_id, service_group_id]) AS ref WHERE ref IS NOT NULL
	UNION SELECT z.id, 'firewall.rule', r.id, r.name FROM firewall_rules r JOIN firewall_zones z ON z.name IN (r.src_zone, r.dst_zone)
	UNION SELECT z.id, 'firewall.nat-rule', n.id, n.name FROM firewall_nat_rules n JOIN firewall_zones z ON z.name IN (n.in_zone, n.out_zone)`

// Usage lists what uses an object, a group, a service or a zone.
type Usage struct {
	ID     uuid.UUID       `json:"id" doc:"Id of what is used."`
	UsedBy []resource.User `json:"used_by" doc:"What uses it."`
}

// usage lists everything that is used, or with an id only that, and what uses it.
func (r *Room) usage(ctx context.Context, q db.Querier, id *uuid.UUID) ([]Usage, error) {
	rows, err := q.Query(ctx, `SELECT used, kind, id, name FROM (`+uses+`) u WHERE $1::uuid IS NULL OR used = $1 ORDER BY used, kind, name, id`, id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Usage{}
	for rows.Next() {
		var used uuid.UUID
		var u resource.User
		if err := rows.Scan(&used, &u.Kind, &u.ID, &u.Name); err != nil {
			return nil, err
		}
		if n := len(list); n == 0 || list[n-1].ID != used {
			list = append(list, Usage{ID: used})
		}
		last := &list[len(list)-1]
		last.UsedBy = append(last.UsedBy, u)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return r.addZoneUsers(ctx, q, id, list)
}

// addZoneUsers adds the interfaces, which belong to another room.
func (r *Room) addZoneUsers(ctx context.Context, q db.Querier, id *uuid.UUID, list []Usage) ([]Usage, error) {
	zones, err := r.zones.All(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, z := range zones {
		if id != nil && z.ID != *id {
			continue
		}
		users, err := r.deps.ZoneUsers(ctx, q, z.Name)
		if err != nil {
			return nil, err
		}
		if len(users) == 0 {
			continue
		}
		found := false
		for i := range list {
			if list[i].ID == z.ID {
				list[i].UsedBy, found = append(list[i].UsedBy, users...), true
			}
		}
		if !found {
			list = append(list, Usage{z.ID, users})
		}
	}
	return list, nil
}

// refuseUsed refuses to delete something in use, and says what uses it.
func (r *Room) refuseUsed(ctx context.Context, tx *db.Tx, id uuid.UUID, title string) error {
	list, err := r.usage(ctx, tx, &id)
	if err != nil || len(list) == 0 {
		return err
	}
	return resource.InUse(title, list[0].UsedBy)
}

func (r *Room) mountUsage() {
	httpd.Handle(r.Router, http.MethodGet, "/firewall/usage", httpd.Read, tag.Doc("firewall.usage", "What uses each object, group, service and zone"),
		func(c *httpd.Call, _ struct{}) ([]Usage, error) { return r.usage(c, r.DB, nil) })
}
