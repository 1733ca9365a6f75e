-- +goose Up
-- Backups are files, with their descriptions beside them: the list of backups must not be in the database that a restore replaces.

CREATE TABLE backup_settings (
    id         uuid PRIMARY KEY,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    passphrase bytea, -- sealed
    prove      boolean NOT NULL
);

CREATE UNIQUE INDEX backup_settings_one ON backup_settings ((true));

INSERT INTO backup_settings VALUES ('00000000-0000-7000-8000-000000000001', now(), now(), NULL, true);
