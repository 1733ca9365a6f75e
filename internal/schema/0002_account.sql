-- +goose Up
CREATE TABLE account_users (
    id            uuid PRIMARY KEY,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    email         text NOT NULL CONSTRAINT account_users_email_key UNIQUE,
    name          text NOT NULL,
    role          text NOT NULL CONSTRAINT account_users_role_check CHECK (role IN ('admin', 'viewer')),
    active        boolean NOT NULL,
    password      text NOT NULL, -- a bcrypt hash; the empty text matches no password
    totp_enabled  boolean NOT NULL,
    oidc_subject  text NOT NULL,
    last_login_at timestamptz
);

CREATE TABLE account_sessions (
    id         uuid PRIMARY KEY,
    user_id    uuid NOT NULL CONSTRAINT account_sessions_user_id_fkey REFERENCES account_users ON DELETE CASCADE,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    address    text NOT NULL,
    user_agent text NOT NULL,
    method     text NOT NULL
);

CREATE INDEX account_sessions_user_id ON account_sessions (user_id);
CREATE INDEX account_sessions_expires_at ON account_sessions (expires_at);
