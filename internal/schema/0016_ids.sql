-- +goose Up
-- Settings of intrusion detection. Alerts and decisions are in CrowdSec's own database.

CREATE TABLE ids_settings (
    id           uuid PRIMARY KEY,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    enabled      boolean NOT NULL,
    blocking     boolean NOT NULL,
    ban_duration text NOT NULL,
    sources      jsonb NOT NULL,
    allow_list   jsonb NOT NULL
);

CREATE UNIQUE INDEX ids_settings_one ON ids_settings ((true));

INSERT INTO ids_settings VALUES ('00000000-0000-7000-8000-000000000001', now(), now(), false, true, '4h',
    '{"ssh": true, "haproxy": true, "packet_filter": false, "waf": true}', '[]');
