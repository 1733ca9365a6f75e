-- +goose Up
-- Settings of this node that can lock people out. The gateway stores the choice of the setup about IPv6 here once it has a database.
CREATE TABLE system_settings (
    id           uuid PRIMARY KEY,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    ipv6_enabled boolean NOT NULL
);

CREATE UNIQUE INDEX system_settings_one ON system_settings ((true));

INSERT INTO system_settings VALUES ('00000000-0000-7000-8000-000000000001', now(), now(), false);

SELECT change_keep('system_settings', 'id', 'local');
