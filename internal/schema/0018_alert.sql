-- +goose Up
-- Alarms, their delivery, and the scheduler's jobs.

-- One row for each current or past problem. It prevents repeated notifications of the same problem, across restarts.
CREATE TABLE alarm_conditions (
    kind     text NOT NULL,
    key      text NOT NULL,
    severity text NOT NULL,                -- the highest since it began
    subject  text NOT NULL,
    message  text NOT NULL,
    since    timestamptz NOT NULL,         -- when it began
    seen_at  timestamptz NOT NULL,         -- when it was last reported
    ended_at timestamptz,                  -- null while the problem exists
    told_at  timestamptz,                  -- when it last caused a notification
    times    integer NOT NULL DEFAULT 0,   -- how often it began again since that notification
    event_id uuid,                         -- its latest event
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
    resolves   uuid,                       -- the event of the problem that has ended
    muted      boolean NOT NULL DEFAULT false
);

CREATE INDEX alarm_events_created_at ON alarm_events (created_at);

-- Events that are not assigned to channels yet.
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

CREATE TABLE alert_channels (
    id             uuid PRIMARY KEY,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    name           text NOT NULL,
    kind           text NOT NULL CONSTRAINT alert_channels_kind_check CHECK (kind IN ('webhook', 'email')),
    target         text NOT NULL,
    settings       jsonb NOT NULL,
    min_severity   text NOT NULL CONSTRAINT alert_channels_min_severity_check CHECK (min_severity IN ('info', 'warning', 'error', 'critical')),
    allow_internal boolean NOT NULL,
    active         boolean NOT NULL
);

CREATE TABLE alert_mutes (
    id         uuid PRIMARY KEY,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    kind       text NOT NULL CONSTRAINT alert_mutes_kind_key UNIQUE,
    until      timestamptz NOT NULL,
    reason     text NOT NULL
);

CREATE TABLE alert_settings (
    id                          uuid PRIMARY KEY,
    created_at                  timestamptz NOT NULL,
    updated_at                  timestamptz NOT NULL,
    cert_warning_days           integer NOT NULL,
    cert_error_days             integer NOT NULL,
    memory_warning_percent      integer NOT NULL,
    memory_error_percent        integer NOT NULL,
    conntrack_warning_percent   integer NOT NULL,
    conntrack_error_percent     integer NOT NULL,
    disk_warning_percent        integer NOT NULL,
    disk_error_percent          integer NOT NULL,
    tunnel_down_minutes         integer NOT NULL,
    degraded_seconds            integer NOT NULL,
    failed_logins               integer NOT NULL,
    failed_logins_minutes       integer NOT NULL,
    replication_lag_seconds     integer NOT NULL,
    digest_over                 integer NOT NULL,
    history_days                integer NOT NULL
);

CREATE UNIQUE INDEX alert_settings_one ON alert_settings ((true));

INSERT INTO alert_settings VALUES ('00000000-0000-7000-8000-000000000001', now(), now(), 14, 3, 90, 95, 80, 95, 90, 95, 5, 60, 10, 15, 60, 10, 90);

-- Delivery of an event by a channel. Rows of a deleted channel are kept, with its name.
CREATE TABLE alert_deliveries (
    event_id   uuid NOT NULL CONSTRAINT alert_deliveries_event_id_fkey REFERENCES alarm_events ON DELETE CASCADE,
    channel_id uuid NOT NULL,
    channel    text NOT NULL,
    state      text NOT NULL CONSTRAINT alert_deliveries_state_check CHECK (state IN ('waiting', 'ok', 'error', 'skipped')),
    attempts   integer NOT NULL DEFAULT 0,
    error      text NOT NULL DEFAULT '',
    digest     boolean NOT NULL DEFAULT false,
    next_at    timestamptz NOT NULL,
    ended_at   timestamptz,
    PRIMARY KEY (event_id, channel_id)
);

CREATE INDEX alert_deliveries_due ON alert_deliveries (channel_id, next_at) WHERE state = 'waiting';

CREATE TABLE scheduler_jobs (
    name        text PRIMARY KEY,
    started_at  timestamptz,
    ended_at    timestamptz,
    result      text NOT NULL DEFAULT '',  -- '', running, ok, failed, panicked, overdue
    error       text NOT NULL DEFAULT '',  -- for everyone
    detail      text NOT NULL DEFAULT '',  -- for administrators
    runs        bigint NOT NULL DEFAULT 0,
    failures    bigint NOT NULL DEFAULT 0,
    next_at     timestamptz,
    tick        timestamptz,               -- the tick of the last run, for jobs that run at intervals from boot
    wanted_at   timestamptz,
    wanted_by   text NOT NULL DEFAULT ''
);
