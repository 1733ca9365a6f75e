-- +goose Up
ALTER TABLE proxy_domains ADD COLUMN access_log boolean NOT NULL DEFAULT false;
