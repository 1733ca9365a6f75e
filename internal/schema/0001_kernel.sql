-- +goose Up
CREATE TABLE apply_revisions (
    component text PRIMARY KEY,
    revision  bigint NOT NULL
);

CREATE TABLE audit_entries (
    id         uuid PRIMARY KEY,
    created_at timestamptz NOT NULL,
    actor      text NOT NULL,
    action     text NOT NULL,
    subject    text NOT NULL,
    node_id    text NOT NULL,
    details    jsonb
);

CREATE INDEX audit_entries_created_at ON audit_entries (created_at);
