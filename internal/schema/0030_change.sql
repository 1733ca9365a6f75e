-- +goose Up
-- Notifies the program that saves the settings for a start without a database, whatever changes them.
-- +goose StatementBegin
CREATE FUNCTION system_settings_tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('system_settings', '');
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER system_settings_told AFTER UPDATE ON system_settings FOR EACH STATEMENT EXECUTE FUNCTION system_settings_tell();

-- These columns have no history and are not reverted, because the gateway itself updates them: the second factors of a user, and the results of uploads.
SELECT change_keep('account_users', 'id', 'shared', 'last_login_at', 'oidc_subject', 'passkeys', 'password', 'totp_enabled');
SELECT change_keep('backup_remotes', 'id', 'local', 'last_error', 'last_upload_at');
