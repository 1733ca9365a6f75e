-- +goose Up
ALTER TABLE account_users ADD COLUMN passkeys integer NOT NULL DEFAULT 0; -- number of the user's rows in account_passkeys

CREATE UNIQUE INDEX account_users_oidc_subject_key ON account_users (oidc_subject) WHERE oidc_subject <> '';

-- The first step of a login with two factors.
CREATE TABLE account_challenges (
    id          bytea PRIMARY KEY, -- SHA-256 of the ticket that the client holds
    user_id     uuid NOT NULL CONSTRAINT account_challenges_user_id_fkey REFERENCES account_users ON DELETE CASCADE,
    expires_at  timestamptz NOT NULL,
    tries       integer NOT NULL,
    issue_token boolean NOT NULL,
    ceremony    jsonb -- the pending WebAuthn ceremony, if any
);

CREATE INDEX account_challenges_user_id ON account_challenges (user_id);

CREATE TABLE account_totp (
    user_id    uuid PRIMARY KEY CONSTRAINT account_totp_user_id_fkey REFERENCES account_users ON DELETE CASCADE,
    created_at timestamptz NOT NULL,
    secret     bytea NOT NULL, -- sealed
    confirmed  boolean NOT NULL,
    last_step  bigint NOT NULL -- the latest time step whose code was used
);

CREATE TABLE account_recovery_codes (
    user_id uuid NOT NULL CONSTRAINT account_recovery_codes_user_id_fkey REFERENCES account_users ON DELETE CASCADE,
    hash    bytea NOT NULL,
    PRIMARY KEY (user_id, hash)
);

CREATE TABLE account_passkeys (
    id            uuid PRIMARY KEY,
    created_at    timestamptz NOT NULL,
    user_id       uuid NOT NULL CONSTRAINT account_passkeys_user_id_fkey REFERENCES account_users ON DELETE CASCADE,
    name          text NOT NULL,
    rp_id         text NOT NULL, -- the gateway's name at registration
    credential_id bytea NOT NULL CONSTRAINT account_passkeys_credential_key UNIQUE,
    credential    jsonb NOT NULL, -- the complete credential of go-webauthn
    sign_count    bigint NOT NULL,
    last_used_at  timestamptz
);

CREATE INDEX account_passkeys_user_id ON account_passkeys (user_id);

-- The first step of a passkey registration.
CREATE TABLE account_passkey_registrations (
    user_id    uuid PRIMARY KEY CONSTRAINT account_passkey_registrations_user_id_fkey REFERENCES account_users ON DELETE CASCADE,
    expires_at timestamptz NOT NULL,
    ceremony   jsonb NOT NULL
);

CREATE TABLE account_api_tokens (
    id           uuid PRIMARY KEY,
    created_at   timestamptz NOT NULL,
    user_id      uuid NOT NULL CONSTRAINT account_api_tokens_user_id_fkey REFERENCES account_users ON DELETE CASCADE,
    name         text NOT NULL,
    role         text NOT NULL CONSTRAINT account_api_tokens_role_check CHECK (role IN ('admin', 'viewer')),
    hash         bytea NOT NULL CONSTRAINT account_api_tokens_hash_key UNIQUE, -- SHA-256 of the token
    expires_at   timestamptz,
    last_used_at timestamptz,
    CONSTRAINT account_api_tokens_name_key UNIQUE (user_id, name)
);

CREATE TABLE account_oidc_settings (
    id             uuid PRIMARY KEY,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    enabled        boolean NOT NULL,
    issuer         text NOT NULL,
    client_id      text NOT NULL,
    client_secret  bytea, -- sealed
    scopes         text[] NOT NULL,
    allow_internal boolean NOT NULL
);

CREATE UNIQUE INDEX account_oidc_settings_one ON account_oidc_settings ((true));

INSERT INTO account_oidc_settings VALUES ('00000000-0000-7000-8000-000000000002', now(), now(), false, '', '', NULL, '{openid,email,profile}', false);

-- States that the identity provider has returned, kept until their cookie expires: each works once.
CREATE TABLE account_oidc_states (
    hash       bytea PRIMARY KEY,
    expires_at timestamptz NOT NULL
);
