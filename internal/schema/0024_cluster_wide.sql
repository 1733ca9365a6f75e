-- +goose Up

-- When the sessions of a user were last ended, and which one was spared. Each node stores the sessions that it has created: when they end at the primary,
-- those at other nodes must end, too.
ALTER TABLE account_users ADD COLUMN sessions_ended_at timestamptz, ADD COLUMN spared_session uuid;
SELECT ha_share('account_users', 'last_login_at');

-- +goose StatementBegin
CREATE FUNCTION account_sessions_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT sessions_ended_at <> coalesce(OLD.sessions_ended_at, '-infinity') FROM public.account_users WHERE id = OLD.id) THEN
        DELETE FROM public.account_sessions s WHERE s.user_id = OLD.id AND NOT EXISTS (SELECT FROM public.account_users u WHERE u.id = OLD.id AND u.spared_session = s.id);
        DELETE FROM public.account_challenges WHERE user_id = OLD.id;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER account_sessions_end AFTER UPDATE ON account_users FOR EACH ROW WHEN (OLD.sessions_ended_at IS DISTINCT FROM NEW.sessions_ended_at) EXECUTE FUNCTION account_sessions_end();
ALTER TABLE account_users ENABLE REPLICA TRIGGER account_sessions_end;

-- A sync replaces a row that differs by deleting and inserting it.
CREATE CONSTRAINT TRIGGER account_sessions_replaced AFTER DELETE ON account_users DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION account_sessions_end();
ALTER TABLE account_users ENABLE REPLICA TRIGGER account_sessions_replaced;
