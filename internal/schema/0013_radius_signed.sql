-- +goose Up
ALTER TABLE radius_clients ADD COLUMN require_message_authenticator boolean NOT NULL DEFAULT true;
ALTER TABLE radius_clients ALTER COLUMN require_message_authenticator DROP DEFAULT;
