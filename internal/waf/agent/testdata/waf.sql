-- The tables that the agent reads and writes, where the database does not have them yet.
CREATE TABLE IF NOT EXISTS waf_configs (
    domain_id         uuid PRIMARY KEY REFERENCES proxy_domains (id) ON DELETE CASCADE,
    enabled           boolean NOT NULL DEFAULT false,
    mode              text NOT NULL DEFAULT 'detection' CHECK (mode IN ('detection', 'blocking')),
    paranoia_level    integer NOT NULL DEFAULT 1 CHECK (paranoia_level BETWEEN 1 AND 4),
    rule_exclusions   integer[] NOT NULL DEFAULT '{}',
    exclusion_notes   jsonb NOT NULL DEFAULT '{}',
    exclusions        jsonb NOT NULL DEFAULT '[]',
    trusted_proxies   text[] NOT NULL DEFAULT '{}',
    custom_rules      text NOT NULL DEFAULT '',
    fail_open         boolean,
    max_body_bytes    integer NOT NULL DEFAULT 131072,
    oversized         text NOT NULL DEFAULT 'refuse' CHECK (oversized IN ('refuse', 'inspect')),
    inspect_responses boolean NOT NULL DEFAULT false,
    created_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS waf_alerts (
    id         uuid PRIMARY KEY,
    created_at timestamptz NOT NULL,
    request_id text NOT NULL,
    domain_id  uuid,
    domain     text NOT NULL,
    rule_id    integer NOT NULL,
    severity   text NOT NULL,
    action     text NOT NULL CHECK (action IN ('detected', 'blocked', 'unavailable')),
    message    text NOT NULL,
    method     text NOT NULL,
    uri        text NOT NULL,
    client_ip  inet,
    score      integer NOT NULL,
    paranoia   integer NOT NULL,
    tags       text[] NOT NULL,
    data       jsonb NOT NULL,
    partial    boolean NOT NULL,
    deciding   boolean NOT NULL
);
CREATE TABLE IF NOT EXISTS waf_requests (
    request_id     text PRIMARY KEY,
    created_at     timestamptz NOT NULL,
    domain_id      uuid,
    method         text NOT NULL,
    uri            text NOT NULL,
    version        text NOT NULL,
    headers        jsonb NOT NULL,
    body           bytea NOT NULL,
    body_truncated boolean NOT NULL,
    masked         boolean NOT NULL
);
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'gateway-waf') THEN
        CREATE ROLE "gateway-waf" LOGIN;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
END $$;
GRANT SELECT ON waf_configs TO "gateway-waf";
GRANT INSERT ON waf_alerts, waf_requests TO "gateway-waf";
