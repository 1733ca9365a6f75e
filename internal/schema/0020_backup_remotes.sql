-- +goose Up
-- Off-site targets: where archives are sent after each backup. Secrets in settings are sealed.

CREATE TABLE backup_remotes (
    id             uuid PRIMARY KEY,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    name           text NOT NULL,
    kind           text NOT NULL CONSTRAINT backup_remotes_kind_check CHECK (kind IN ('s3', 'sftp')),
    settings       jsonb NOT NULL,
    active         boolean NOT NULL,
    allow_internal boolean NOT NULL,
    keep           integer NOT NULL CONSTRAINT backup_remotes_keep_check CHECK (keep BETWEEN 1 AND 1000),
    last_upload_at timestamptz,
    last_error     text NOT NULL
);
