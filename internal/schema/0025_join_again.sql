-- +goose Up
-- A node that did not receive its certificate gets the same one again if it asks with the same key.
ALTER TABLE ha_join_tokens ADD COLUMN key_hash text NOT NULL DEFAULT '';
ALTER TABLE ha_join_tokens ADD COLUMN certificate text NOT NULL DEFAULT '';
