-- +goose Up
-- What went wrong, whom it was told, and what the scheduler does.

-- One row for each thing that is or was wrong: it keeps the same from being told again and again, across restarts.
CREATE TABLE alarm_conditions (
    kind     text NOT NULL,
    key      text NOT NULL,
    severity text NOT NULL,                -- the highest that was told
    subject  text NOT NULL,
    message  text NOT NULL,
    since    timestamptz NOT NULL,         -- when it began
    seen_at  timestamptz NOT NULL,         -- when it was last reported
    ended_at timestamptz,                  -- null while it lasts
    told_at  timestamptz,                  -- when it was last told
    times    integer NOT NULL DEFAULT 0,   -- how often its beginning was told in a row
    event_id uuid,                         -- what told it; null when it began again and was not told
    PRIMARY KEY (kind, key)
);

CREATE INDEX alarm_conditions_lasting ON alarm_conditions (since) WHERE ended_at IS NULL;

CREATE TABLE alarm_events (
    id         uuid PRIMARY KEY,
    created_at timestamptz NOT NULL,
    kind       text NOT NULL,
    key        text NOT NULL,
    severity   text NOT NULL CONSTRAINT alarm_events_severity_check CHECK (severity IN ('info', 'warning', 'error', 'critical')),
    subject    text NOT NULL,
    message    text NOT NULL,
    resolves   uuid                        -- the event whose condition has ended
);

CREATE INDEX alarm_events_created_at ON alarm_events (created_at);

-- Events that no channel was chosen for yet.
CREATE TABLE alarm_outbox (
    event_id uuid PRIMARY KEY CONSTRAINT alarm_outbox_event_id_fkey REFERENCES alarm_events ON DELETE CASCADE
);

-- +goose StatementBegin
CREATE FUNCTION alarm_events_announce() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('alarm_events', NEW.id::text);
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER alarm_events_announce AFTER INSERT ON alarm_events FOR EACH ROW EXECUTE FUNCTION alarm_events_announce();
ALTER TABLE alarm_events ENABLE ALWAYS TRIGGER alarm_events_announce;
