-- +goose Up
-- Whoever changes the settings, the program that keeps them for a start without a database hears of it.
-- +goose StatementBegin
CREATE FUNCTION system_settings_tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('system_settings', '');
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER system_settings_told AFTER UPDATE ON system_settings FOR EACH STATEMENT EXECUTE FUNCTION system_settings_tell();

-- What becomes of these while the gateway runs is no change, and no revert brings it back: the second factors of a user, and how uploads went.
SELECT change_keep('account_users', 'id', 'shared', 'last_login_at', 'oidc_subject', 'passkeys', 'password', 'totp_enabled');
SELECT change_keep('backup_remotes', 'id', 'local', 'last_error', 'last_upload_at');
