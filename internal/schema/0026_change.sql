-- +goose Up

-- The history of changes. That of shared rows is in shared tables, and that of a node's own rows in the node's own tables (change_local_*).
CREATE TABLE change_sets (
    id         uuid PRIMARY KEY,
    created_at timestamptz NOT NULL,
    actor      text NOT NULL,
    node_id    text NOT NULL,                 -- the node that made it
    request_id text NOT NULL,
    reason     text NOT NULL,
    reverts    uuid,                          -- the set that it reverts
    revisions  jsonb NOT NULL,                -- of each component that it affects, on that node
    -- none, unless the set must be confirmed.
    state      text NOT NULL DEFAULT 'none' CONSTRAINT change_sets_state_check CHECK (state IN ('none', 'waiting', 'confirmed', 'taken_back')),
    confirm_by timestamptz
);

-- A row that a set has changed, before and after. at defines the order.
CREATE TABLE change_rows (
    at         timestamptz NOT NULL,
    table_name text NOT NULL,
    row_id     uuid NOT NULL,
    set_id     uuid NOT NULL,
    was        jsonb,
    now        jsonb,
    PRIMARY KEY (at, table_name, row_id, set_id)
);

CREATE INDEX change_sets_created_at ON change_sets (created_at);
CREATE INDEX change_rows_set_id ON change_rows (set_id);
CREATE INDEX change_rows_row ON change_rows (table_name, row_id, at);

CREATE INDEX change_sets_reverts ON change_sets (reverts) WHERE reverts IS NOT NULL;
CREATE INDEX change_sets_waiting ON change_sets (confirm_by) WHERE state = 'waiting';

CREATE TABLE change_local_sets (LIKE change_sets INCLUDING ALL);
CREATE TABLE change_local_rows (LIKE change_rows INCLUDING ALL);

CREATE VIEW change_all_sets AS SELECT *, false AS local FROM change_sets UNION ALL SELECT *, true FROM change_local_sets;
CREATE VIEW change_all_rows AS SELECT * FROM change_rows UNION ALL SELECT * FROM change_local_rows;

-- How revisions were applied to components of this node.
CREATE TABLE change_applies (
    id             uuid PRIMARY KEY,
    component      text NOT NULL,
    first_revision bigint NOT NULL,
    last_revision  bigint NOT NULL,
    ended_at       timestamptz NOT NULL,
    duration_ms    bigint NOT NULL,
    way            text NOT NULL CONSTRAINT change_applies_way_check CHECK (way IN ('runtime', 'reload', 'none')),
    state          text NOT NULL,
    error          text NOT NULL,
    files          jsonb NOT NULL             -- the changes of files
);

CREATE INDEX change_applies_last_revision ON change_applies (component, last_revision);

-- The beginning of the history: earlier states are unknown.
CREATE TABLE change_floor (
    one   boolean PRIMARY KEY DEFAULT true CONSTRAINT change_floor_one_check CHECK (one),
    since timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE change_local_floor (LIKE change_floor INCLUDING ALL);

INSERT INTO change_floor DEFAULT VALUES;
INSERT INTO change_local_floor DEFAULT VALUES;

-- Records the change of a row, if it belongs to a change set. An update of updated_at alone is not recorded. The arguments are the id column, 'shared' or 'local',
-- and the columns without history.
--
-- It runs for each row: most changes have one row, and that costs less than transition tables.
-- +goose StatementBegin
CREATE FUNCTION change_kept() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    change text := current_setting('gateway.change', true);
    before jsonb;
    after  jsonb;
    id     uuid;
BEGIN
    IF coalesce(change, '') = '' THEN
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        before := to_jsonb(OLD) - TG_ARGV[2]::text[];
    END IF;
    IF TG_OP <> 'DELETE' THEN
        after := to_jsonb(NEW) - TG_ARGV[2]::text[];
    END IF;
    IF TG_OP = 'UPDATE' AND before - 'updated_at' = after - 'updated_at' THEN
        RETURN NULL;
    END IF;
    id := coalesce(after, before) ->> TG_ARGV[0];
    -- Its time is later than that of every row before, even if the clock was set back.
    IF TG_ARGV[1] = 'local' THEN
        INSERT INTO public.change_local_rows
            SELECT greatest(clock_timestamp(), max(at) + interval '1 microsecond'), TG_TABLE_NAME, id, change::uuid, before, after FROM public.change_local_rows;
    ELSE
        INSERT INTO public.change_rows
            SELECT greatest(clock_timestamp(), max(at) + interval '1 microsecond'), TG_TABLE_NAME, id, change::uuid, before, after FROM public.change_rows;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- Records a change set, if it has recorded rows. If called again for the same set, it adds the revisions.
-- +goose StatementBegin
CREATE FUNCTION change_end(set_id uuid, created_at timestamptz, actor text, node_id text, request_id text, reason text, reverts uuid, revisions jsonb, confirm_by timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    state text := CASE WHEN confirm_by IS NULL THEN 'none' ELSE 'waiting' END;
BEGIN
    IF EXISTS (SELECT FROM public.change_rows r WHERE r.set_id = change_end.set_id) THEN
        INSERT INTO public.change_sets AS s VALUES (set_id, created_at, actor, node_id, request_id, reason, reverts, revisions, state, confirm_by)
            ON CONFLICT (id) DO UPDATE SET revisions = s.revisions || excluded.revisions;
    ELSIF EXISTS (SELECT FROM public.change_local_rows r WHERE r.set_id = change_end.set_id) THEN
        INSERT INTO public.change_local_sets AS s VALUES (set_id, created_at, actor, node_id, request_id, reason, reverts, revisions, state, confirm_by)
            ON CONFLICT (id) DO UPDATE SET revisions = s.revisions || excluded.revisions;
    END IF;
END
$$;
-- +goose StatementEnd

-- Records the outcome of a waiting change set.
-- +goose StatementBegin
CREATE FUNCTION change_settle(set_id uuid, became text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE public.change_local_sets SET state = became WHERE id = set_id AND state = 'waiting';
    IF NOT FOUND AND EXISTS (SELECT FROM public.change_sets WHERE id = set_id AND state = 'waiting') THEN
        UPDATE public.change_sets SET state = became WHERE id = set_id AND state = 'waiting';
    END IF;
END
$$;
-- +goose StatementEnd

-- Records the history of a table from now on.
-- +goose StatementBegin
CREATE FUNCTION change_keep(kept regclass, key text, place text, VARIADIC without text[] DEFAULT '{}') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE OR REPLACE TRIGGER change_kept AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION change_kept(%L, %L, %L)', kept, key, place, without);
END
$$;
-- +goose StatementEnd

SELECT ha_share('change_sets');
SELECT ha_share('change_rows');
SELECT ha_share('change_floor');

SELECT change_keep('account_oidc_settings', 'id', 'shared');
SELECT change_keep('account_users', 'id', 'shared', 'last_login_at', 'password');
SELECT change_keep('alert_channels', 'id', 'shared');
SELECT change_keep('alert_mutes', 'id', 'shared');
SELECT change_keep('alert_settings', 'id', 'shared');
SELECT change_keep('backup_remotes', 'id', 'local');
SELECT change_keep('backup_settings', 'id', 'local');
SELECT change_keep('certificate_certificates', 'id', 'shared');
SELECT change_keep('certificate_dns_providers', 'id', 'shared');
SELECT change_keep('dhcp_reservations', 'id', 'shared');
SELECT change_keep('dhcp_settings', 'id', 'local');
SELECT change_keep('dhcp_subnets', 'id', 'shared');
SELECT change_keep('dns_records', 'id', 'shared');
SELECT change_keep('dns_settings', 'id', 'local');
SELECT change_keep('dns_zones', 'id', 'shared');
SELECT change_keep('firewall_address_groups', 'id', 'shared');
SELECT change_keep('firewall_address_objects', 'id', 'shared', 'resolved');
SELECT change_keep('firewall_nat_rules', 'id', 'shared');
SELECT change_keep('firewall_rules', 'id', 'shared');
SELECT change_keep('firewall_service_groups', 'id', 'shared');
SELECT change_keep('firewall_services', 'id', 'shared');
SELECT change_keep('firewall_zones', 'id', 'shared');
SELECT change_keep('fwdproxy_acls', 'id', 'shared');
SELECT change_keep('fwdproxy_settings', 'id', 'shared');
SELECT change_keep('ids_settings', 'id', 'local');
SELECT change_keep('network_addresses', 'id', 'local');
SELECT change_keep('network_interfaces', 'id', 'local');
SELECT change_keep('network_routes', 'id', 'local');
SELECT change_keep('ntp_pools', 'id', 'shared');
SELECT change_keep('ntp_settings', 'id', 'local');
SELECT change_keep('proxy_backends', 'id', 'shared');
SELECT change_keep('proxy_domain_headers', 'id', 'shared');
SELECT change_keep('proxy_domains', 'id', 'shared');
SELECT change_keep('proxy_routing_rules', 'id', 'shared');
SELECT change_keep('proxy_servers', 'id', 'shared');
SELECT change_keep('radius_clients', 'id', 'shared');
SELECT change_keep('radius_settings', 'id', 'local');
SELECT change_keep('radius_users', 'id', 'shared');
SELECT change_keep('tunnel_interfaces', 'id', 'shared');
SELECT change_keep('tunnel_peers', 'id', 'shared');
SELECT change_keep('vrrp_settings', 'id', 'local');
SELECT change_keep('waf_configs', 'domain_id', 'shared');
SELECT change_keep('waf_settings', 'id', 'local');
