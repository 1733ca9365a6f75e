-- +goose Up
CREATE TABLE waf_configs (
    domain_id         uuid CONSTRAINT waf_configs_pkey PRIMARY KEY CONSTRAINT waf_configs_domain_id_fkey REFERENCES proxy_domains ON DELETE CASCADE,
    created_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now(),
    enabled           boolean NOT NULL DEFAULT false,
    enabled_since     timestamptz, -- null while it is off
    mode              text NOT NULL DEFAULT 'detection' CONSTRAINT waf_configs_mode_check CHECK (mode IN ('detection', 'blocking')),
    paranoia_level    integer NOT NULL DEFAULT 1 CONSTRAINT waf_configs_paranoia_level_check CHECK (paranoia_level BETWEEN 1 AND 4),
    rule_exclusions   integer[] NOT NULL DEFAULT '{}', -- rules that are disabled everywhere
    exclusion_notes   jsonb NOT NULL DEFAULT '{}', -- by rule id
    exclusions        jsonb NOT NULL DEFAULT '[]', -- of {rule_id, path, variable, parameter, note}
    trusted_proxies   text[] NOT NULL DEFAULT '{}',
    custom_rules      text NOT NULL DEFAULT '',
    fail_open         boolean, -- null: in detection, not in blocking
    max_body_bytes    integer NOT NULL DEFAULT 131072,
    oversized         text NOT NULL DEFAULT 'refuse' CONSTRAINT waf_configs_oversized_check CHECK (oversized IN ('refuse', 'inspect')),
    inspect_responses boolean NOT NULL DEFAULT false
);

CREATE TABLE waf_alerts (
    id         uuid PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now(),
    request_id text NOT NULL,
    domain_id  uuid, -- may no longer exist
    domain     text NOT NULL DEFAULT '', -- the requested host
    rule_id    integer NOT NULL,
    severity   text NOT NULL DEFAULT '',
    action     text NOT NULL CONSTRAINT waf_alerts_action_check CHECK (action IN ('detected', 'blocked', 'unavailable')),
    message    text NOT NULL DEFAULT '',
    method     text NOT NULL DEFAULT '',
    uri        text NOT NULL DEFAULT '',
    client_ip  inet,
    score      integer NOT NULL DEFAULT 0,
    paranoia   integer NOT NULL DEFAULT 0,
    tags       text[] NOT NULL DEFAULT '{}',
    data       jsonb NOT NULL DEFAULT '[]', -- of {variable, key, value, masked}
    partial    boolean NOT NULL DEFAULT false,
    deciding   boolean NOT NULL DEFAULT false
);

CREATE INDEX waf_alerts_created_at ON waf_alerts (created_at DESC);
CREATE INDEX waf_alerts_domain_id ON waf_alerts (domain_id, created_at);
CREATE INDEX waf_alerts_rule_id ON waf_alerts (rule_id);
CREATE INDEX waf_alerts_client_ip ON waf_alerts (client_ip);
CREATE INDEX waf_alerts_request_id ON waf_alerts (request_id);

-- Requests that tuning inspects again. Secrets are masked before they are stored.
CREATE TABLE waf_requests (
    request_id     text PRIMARY KEY,
    created_at     timestamptz NOT NULL DEFAULT now(),
    domain_id      uuid,
    method         text NOT NULL,
    uri            text NOT NULL,
    version        text NOT NULL DEFAULT '',
    headers        jsonb NOT NULL DEFAULT '[]', -- of {name, value}
    body           bytea NOT NULL DEFAULT '',
    body_truncated boolean NOT NULL DEFAULT false,
    masked         boolean NOT NULL DEFAULT false
);

CREATE INDEX waf_requests_created_at ON waf_requests (created_at);

-- Notifies the agent of each change, including a configuration that is deleted with its domain.
-- +goose StatementBegin
CREATE FUNCTION waf_configs_announce() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('waf_configs', coalesce(NEW.domain_id, OLD.domain_id)::text);
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER waf_configs_announce AFTER INSERT OR UPDATE OR DELETE ON waf_configs FOR EACH ROW EXECUTE FUNCTION waf_configs_announce();
ALTER TABLE waf_configs ENABLE ALWAYS TRIGGER waf_configs_announce;
