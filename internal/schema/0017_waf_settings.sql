-- +goose Up
CREATE TABLE waf_settings (
    id         uuid PRIMARY KEY,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    enabled    boolean NOT NULL
);

CREATE UNIQUE INDEX waf_settings_one ON waf_settings ((true));

INSERT INTO waf_settings VALUES ('00000000-0000-7000-8000-000000000001', now(), now(), true);
