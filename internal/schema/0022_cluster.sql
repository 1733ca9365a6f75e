-- +goose Up

-- The state of this node in the cluster. It is never replicated.
CREATE TABLE ha_state (
    one          boolean PRIMARY KEY DEFAULT true CONSTRAINT ha_state_one_check CHECK (one),
    role         text NOT NULL DEFAULT 'single' CONSTRAINT ha_state_role_check CHECK (role IN ('single', 'primary', 'stepping-down', 'standby', 'fenced')),
    epoch        bigint NOT NULL DEFAULT 0,             -- of the primary, which is this node or the one it follows
    primary_id   text NOT NULL DEFAULT '',              -- the node that accepts writes; empty outside a cluster
    primary_name text NOT NULL DEFAULT '',              -- its display name
    slot         text NOT NULL DEFAULT '',              -- this node's replication slot at the primary
    changed_at   timestamptz NOT NULL DEFAULT now(),
    synced_at    timestamptz                            -- when all shared rows were last compared with the primary's
);

INSERT INTO ha_state DEFAULT VALUES;

CREATE TABLE ha_nodes (
    id          text PRIMARY KEY,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    fqdn        text NOT NULL CONSTRAINT ha_nodes_fqdn_key UNIQUE,
    public_ip   text NOT NULL DEFAULT '',
    internal_ip text NOT NULL DEFAULT '',
    mgmt_ip     text NOT NULL DEFAULT '',
    api_url     text NOT NULL DEFAULT '',
    -- Each node has its own values of these.
    status      text NOT NULL DEFAULT 'unknown' CONSTRAINT ha_nodes_status_check CHECK (status IN ('pending', 'joining', 'online', 'offline', 'leaving', 'unknown')),
    version     text NOT NULL DEFAULT '',
    config_hash text NOT NULL DEFAULT ''
);

-- The certificate authority of the cluster. Every node has it, because a promoted node must issue certificates.
CREATE TABLE ha_ca (
    id          uuid PRIMARY KEY,
    created_at  timestamptz NOT NULL,
    certificate text NOT NULL,
    private_key bytea NOT NULL -- sealed
);

-- Tokens by which nodes join. They are signed with a secret of this node, and are valid only here.
CREATE TABLE ha_join_tokens (
    id         uuid PRIMARY KEY,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    fqdn       text NOT NULL,
    spent_at   timestamptz,
    node_id    text NOT NULL DEFAULT '' -- the node that it was used for
);

-- Counts changes of this node's own rows. The revision of a component is the sum of both counters.
CREATE TABLE apply_local_revisions (
    component text PRIMARY KEY,
    revision  bigint NOT NULL
);

-- Audit entries of a node that is not the primary, until the primary has them.
CREATE TABLE audit_outbox (
    id         uuid PRIMARY KEY,
    created_at timestamptz NOT NULL,
    actor      text NOT NULL,
    action     text NOT NULL,
    subject    text NOT NULL,
    node_id    text NOT NULL,
    details    jsonb,
    request_id text NOT NULL DEFAULT ''
);

CREATE TRIGGER audit_entries_announce AFTER INSERT ON audit_outbox FOR EACH ROW EXECUTE FUNCTION audit_entries_announce();

-- All entries that this node knows, without duplicates of those that have come back from the primary.
CREATE VIEW audit_log AS
    SELECT id, created_at, actor, action, subject, node_id, details, request_id FROM audit_entries
    UNION ALL
    SELECT id, created_at, actor, action, subject, node_id, details, request_id FROM audit_outbox o WHERE NOT EXISTS (SELECT FROM audit_entries e WHERE e.id = o.id);

-- Single-use factors that were accepted here while the primary was unreachable, until it has them.
CREATE TABLE account_spent (
    user_id  uuid NOT NULL,
    kind     text NOT NULL CONSTRAINT account_spent_kind_check CHECK (kind IN ('totp', 'recovery', 'passkey')),
    value    text NOT NULL,
    spent_at timestamptz NOT NULL,
    PRIMARY KEY (user_id, kind, value)
);

-- Responses to ACME challenges: the server may query any node.
CREATE TABLE certificate_challenges (
    token             text PRIMARY KEY,
    created_at        timestamptz NOT NULL,
    key_authorization text NOT NULL
);

-- Functions that replication calls must qualify tables with their schema: its search path is empty.

-- Returns whether this node accepts changes of shared tables. The answer holds until the transaction ends: a change of role waits for it.
-- +goose StatementBegin
CREATE FUNCTION ha_writable() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    held text := pg_advisory_xact_lock_shared(22, 0);
BEGIN
    RETURN coalesce((SELECT role IN ('single', 'primary') FROM public.ha_state), false);
END
$$;
-- +goose StatementEnd

-- Checks the same, inlined because it runs with every change.
-- +goose StatementBegin
CREATE FUNCTION ha_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    held text := pg_advisory_xact_lock_shared(22, 0);
    now  text;
BEGIN
    SELECT role INTO now FROM public.ha_state;
    IF coalesce(now, '') NOT IN ('single', 'primary') THEN
        RAISE EXCEPTION 'this node takes no changes of %', TG_TABLE_NAME USING
            ERRCODE = 'read_only_sql_transaction', CONSTRAINT = 'ha_guard', DETAIL = (SELECT primary_name FROM public.ha_state);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- Makes a table shared between nodes, except for the named columns. It must be called again when the table gets another column.
-- +goose StatementBegin
CREATE FUNCTION ha_share(shared regclass, VARIADIC here text[] DEFAULT '{}') RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    columns text := (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
                     WHERE attrelid = shared AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attname <> ALL (here));
BEGIN
    IF EXISTS (SELECT FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE p.pubname = 'gateway' AND r.prrelid = shared) THEN
        EXECUTE format('ALTER PUBLICATION gateway DROP TABLE %s', shared);
    END IF;
    EXECUTE format('ALTER PUBLICATION gateway ADD TABLE %s%s', shared, CASE WHEN here = '{}' THEN '' ELSE ' (' || columns || ')' END);
    EXECUTE format('CREATE OR REPLACE TRIGGER ha_guard BEFORE INSERT OR UPDATE%s OR DELETE OR TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION ha_guard()',
        CASE WHEN here = '{}' THEN '' ELSE ' OF ' || columns END, shared);
END
$$;
-- +goose StatementEnd

CREATE PUBLICATION gateway WITH (publish = 'insert, update, delete');

ALTER TABLE firewall_address_objects ALTER COLUMN resolved SET DEFAULT '{}';

SELECT ha_share('account_users', 'last_login_at');
SELECT ha_share('account_totp');
SELECT ha_share('account_recovery_codes');
SELECT ha_share('account_passkeys', 'last_used_at');
SELECT ha_share('account_api_tokens', 'last_used_at');
SELECT ha_share('account_oidc_settings');
SELECT ha_share('alert_channels');
SELECT ha_share('alert_mutes');
SELECT ha_share('alert_settings');
SELECT ha_share('apply_revisions');
SELECT ha_share('audit_entries');
SELECT ha_share('certificate_certificates');
SELECT ha_share('certificate_challenges');
SELECT ha_share('certificate_dns_providers');
SELECT ha_share('dhcp_reservations');
SELECT ha_share('dhcp_subnets');
SELECT ha_share('dns_records');
SELECT ha_share('dns_zones');
SELECT ha_share('firewall_address_groups');
SELECT ha_share('firewall_address_objects', 'resolved');
SELECT ha_share('firewall_nat_rules');
SELECT ha_share('firewall_rules');
SELECT ha_share('firewall_service_groups');
SELECT ha_share('firewall_services');
SELECT ha_share('firewall_zones');
SELECT ha_share('fwdproxy_acls');
SELECT ha_share('fwdproxy_settings');
SELECT ha_share('ha_ca');
SELECT ha_share('ha_nodes', 'status', 'version', 'config_hash');
SELECT ha_share('ntp_pools');
SELECT ha_share('proxy_backends');
SELECT ha_share('proxy_domain_headers');
SELECT ha_share('proxy_domains');
SELECT ha_share('proxy_routing_rules');
SELECT ha_share('proxy_servers');
SELECT ha_share('radius_clients');
SELECT ha_share('radius_users');
SELECT ha_share('tunnel_interfaces');
SELECT ha_share('tunnel_peers');
SELECT ha_share('waf_configs');

-- Serializes local and replicated changes of a component, so that no two of its states have the same revision, and notifies the program
-- that applies the replicated ones.
-- +goose StatementBegin
CREATE FUNCTION apply_revisions_arrived() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(23, hashtext(NEW.component));
    PERFORM pg_notify('gateway_revision', NEW.component);
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER apply_revisions_arrived AFTER INSERT OR UPDATE ON apply_revisions FOR EACH ROW EXECUTE FUNCTION apply_revisions_arrived();
ALTER TABLE apply_revisions ENABLE REPLICA TRIGGER apply_revisions_arrived;

-- Stores an audit entry in the table that this node may write.
-- +goose StatementBegin
CREATE FUNCTION audit_store(id uuid, created_at timestamptz, actor text, action text, subject text, node_id text, details jsonb, request_id text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    held text := pg_advisory_xact_lock_shared(22, 0);
    now  text;
BEGIN
    SELECT role INTO now FROM public.ha_state;
    IF now IN ('single', 'primary') THEN
        INSERT INTO public.audit_entries VALUES (id, created_at, actor, action, subject, node_id, details, request_id) ON CONFLICT DO NOTHING;
    ELSE
        INSERT INTO public.audit_outbox VALUES (id, created_at, actor, action, subject, node_id, details, request_id) ON CONFLICT DO NOTHING;
    END IF;
END
$$;
-- +goose StatementEnd

-- A node's own tables have no foreign keys to shared ones: replication does not enforce them, so they would soon be violated, and a backup
-- with violated keys could not be restored. These triggers replace the foreign keys, for replicated changes, too.

ALTER TABLE account_sessions DROP CONSTRAINT account_sessions_user_id_fkey;
ALTER TABLE account_challenges DROP CONSTRAINT account_challenges_user_id_fkey;
ALTER TABLE account_passkey_registrations DROP CONSTRAINT account_passkey_registrations_user_id_fkey;
ALTER TABLE network_interfaces DROP CONSTRAINT network_interfaces_role_fkey;

-- +goose StatementBegin
CREATE FUNCTION account_users_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM public.account_users WHERE id = OLD.id) THEN
        DELETE FROM public.account_sessions WHERE user_id = OLD.id;
        DELETE FROM public.account_challenges WHERE user_id = OLD.id;
        DELETE FROM public.account_passkey_registrations WHERE user_id = OLD.id;
        DELETE FROM public.account_spent WHERE user_id = OLD.id;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- Deferred, because a sync replaces a row that differs from the primary's by deleting and inserting it.
CREATE CONSTRAINT TRIGGER account_users_gone AFTER DELETE ON account_users DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION account_users_gone();
ALTER TABLE account_users ENABLE ALWAYS TRIGGER account_users_gone;

-- +goose StatementBegin
CREATE FUNCTION firewall_zones_renamed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE public.network_interfaces i SET role = z.name FROM public.firewall_zones z WHERE z.id = OLD.id AND z.name <> OLD.name AND i.role = OLD.name;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER firewall_zones_renamed AFTER UPDATE ON firewall_zones FOR EACH ROW WHEN (OLD.name <> NEW.name) EXECUTE FUNCTION firewall_zones_renamed();
ALTER TABLE firewall_zones ENABLE ALWAYS TRIGGER firewall_zones_renamed;

CREATE CONSTRAINT TRIGGER firewall_zones_replaced AFTER DELETE ON firewall_zones DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION firewall_zones_renamed();
ALTER TABLE firewall_zones ENABLE ALWAYS TRIGGER firewall_zones_replaced;
