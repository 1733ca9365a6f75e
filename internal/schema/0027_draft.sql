-- +goose Up

-- Changes that a user has collected and not applied yet: one draft for each. It is sealed as a whole, because what was typed may be a secret.
CREATE TABLE change_drafts (
    user_id    uuid PRIMARY KEY CONSTRAINT change_drafts_user_id_fkey REFERENCES account_users ON DELETE CASCADE,
    updated_at timestamptz NOT NULL,
    version    uuid NOT NULL,                 -- another one with every change to the draft
    content    bytea NOT NULL
);

SELECT ha_share('change_drafts');
