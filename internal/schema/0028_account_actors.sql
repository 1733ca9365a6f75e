-- +goose Up

-- Invalidates caches of a topic, which is the argument; see Cache in kit/db. The program that makes the change is informed by a notice on its own connection, before
-- the commit, and all others by a notification, after the commit.
-- +goose StatementBegin
CREATE FUNCTION cache_forget() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('gateway_changed', TG_ARGV[0]);
    RAISE NOTICE USING MESSAGE = TG_ARGV[0], ERRCODE = 'GW001';
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- The topic actors: the identity behind a session, an API token or a user. New rows invalidate nothing. These are row triggers, because replication fires no
-- statement triggers.
CREATE TRIGGER account_actors_changed AFTER UPDATE ON account_users FOR EACH ROW
    WHEN ((OLD.id, OLD.email, OLD.role, OLD.active) IS DISTINCT FROM (NEW.id, NEW.email, NEW.role, NEW.active)) EXECUTE FUNCTION cache_forget('actors');
CREATE TRIGGER account_actors_gone AFTER DELETE ON account_users FOR EACH ROW EXECUTE FUNCTION cache_forget('actors');
CREATE TRIGGER account_actors_emptied AFTER TRUNCATE ON account_users EXECUTE FUNCTION cache_forget('actors');
ALTER TABLE account_users ENABLE ALWAYS TRIGGER account_actors_changed;
ALTER TABLE account_users ENABLE ALWAYS TRIGGER account_actors_gone;
ALTER TABLE account_users ENABLE ALWAYS TRIGGER account_actors_emptied;

CREATE TRIGGER account_actors_changed AFTER UPDATE ON account_api_tokens FOR EACH ROW
    WHEN ((OLD.id, OLD.user_id, OLD.name, OLD.role, OLD.hash, OLD.expires_at) IS DISTINCT FROM (NEW.id, NEW.user_id, NEW.name, NEW.role, NEW.hash, NEW.expires_at)) EXECUTE FUNCTION cache_forget('actors');
CREATE TRIGGER account_actors_gone AFTER DELETE ON account_api_tokens FOR EACH ROW EXECUTE FUNCTION cache_forget('actors');
CREATE TRIGGER account_actors_emptied AFTER TRUNCATE ON account_api_tokens EXECUTE FUNCTION cache_forget('actors');
ALTER TABLE account_api_tokens ENABLE ALWAYS TRIGGER account_actors_changed;
ALTER TABLE account_api_tokens ENABLE ALWAYS TRIGGER account_actors_gone;
ALTER TABLE account_api_tokens ENABLE ALWAYS TRIGGER account_actors_emptied;

CREATE TRIGGER account_actors_changed AFTER UPDATE OR DELETE ON account_sessions FOR EACH ROW EXECUTE FUNCTION cache_forget('actors');
CREATE TRIGGER account_actors_emptied AFTER TRUNCATE ON account_sessions EXECUTE FUNCTION cache_forget('actors');
ALTER TABLE account_sessions ENABLE ALWAYS TRIGGER account_actors_changed;
ALTER TABLE account_sessions ENABLE ALWAYS TRIGGER account_actors_emptied;
