-- +goose Up
-- The ACME directory of the authority that issued a certificate. It is unknown for existing certificates.
ALTER TABLE certificate_certificates ADD COLUMN directory_url text NOT NULL DEFAULT '';
ALTER TABLE certificate_certificates ALTER COLUMN directory_url DROP DEFAULT;
