-- +goose Up

-- Changes that a user has collected and not applied yet: one draft per user. All of it is sealed, because the input may contain secrets.
CREATE TABLE change_drafts (
    user_id    uuid PRIMARY KEY CONSTRAINT change_drafts_user_id_fkey REFERENCES account_users ON DELETE CASCADE,
    updated_at timestamptz NOT NULL,
    version    uuid NOT NULL,                 -- changes with every change of the draft
    content    bytea NOT NULL
);

SELECT ha_share('change_drafts');
