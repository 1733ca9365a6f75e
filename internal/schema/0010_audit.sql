-- +goose Up
ALTER TABLE audit_entries ADD COLUMN request_id text NOT NULL DEFAULT '';

-- Followers of the log are notified of each committed entry, whichever program wrote it, including entries replicated from
-- another node.
-- +goose StatementBegin
CREATE FUNCTION audit_entries_announce() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('audit_entries', NEW.id::text);
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER audit_entries_announce AFTER INSERT ON audit_entries FOR EACH ROW EXECUTE FUNCTION audit_entries_announce();
ALTER TABLE audit_entries ENABLE ALWAYS TRIGGER audit_entries_announce;
