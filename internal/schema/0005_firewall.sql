-- +goose Up
CREATE TABLE firewall_zones (
    id          uuid PRIMARY KEY,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    name        text NOT NULL CONSTRAINT firewall_zones_name_key UNIQUE,
    description text NOT NULL,
    builtin     boolean NOT NULL
);

INSERT INTO firewall_zones (id, created_at, updated_at, name, description, builtin)
SELECT ('00000000-0000-7000-8000-0000000001' || lpad(n::text, 2, '0'))::uuid, now(), now(), name, description, true
FROM (VALUES
    (1, 'wan', 'The internet and whatever else is not trusted.'),
    (2, 'lan', 'The people and machines inside.'),
    (3, 'dmz', 'Servers that the outside may reach.'),
    (4, 'mgmt', 'Where the gateway is managed from.'),
    (5, 'cluster', 'The link between the nodes of a cluster.')
) AS zone (n, name, description);

CREATE TABLE firewall_address_objects (
    id          uuid PRIMARY KEY,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    name        text NOT NULL CONSTRAINT firewall_address_objects_name_key UNIQUE,
    kind        text NOT NULL CONSTRAINT firewall_address_objects_kind_check CHECK (kind IN ('host', 'network', 'range', 'fqdn')),
    value       text NOT NULL,
    description text NOT NULL,
    resolved    text[] NOT NULL -- the last answer for a name
);

CREATE TABLE firewall_address_groups (
    id          uuid PRIMARY KEY,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    name        text NOT NULL CONSTRAINT firewall_address_groups_name_key UNIQUE,
    description text NOT NULL,
    members     uuid[] NOT NULL -- of firewall_address_objects
);

CREATE TABLE firewall_services (
    id          uuid PRIMARY KEY,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    name        text NOT NULL CONSTRAINT firewall_services_name_key UNIQUE,
    protocol    text NOT NULL CONSTRAINT firewall_services_protocol_check CHECK (protocol IN ('tcp', 'udp', 'tcp+udp', 'icmp', 'icmpv6', 'any')),
    port_start  integer,
    port_end    integer,
    description text NOT NULL,
    builtin     boolean NOT NULL
);

INSERT INTO firewall_services (id, created_at, updated_at, name, protocol, port_start, port_end, description, builtin)
SELECT ('00000000-0000-7000-8000-0000000002' || lpad(n::text, 2, '0'))::uuid, now(), now(), name, protocol, port, NULL, description, true
FROM (VALUES
    (1, 'HTTP', 'tcp', 80, 'Web, in the clear.'),
    (2, 'HTTPS', 'tcp', 443, 'Web over TLS.'),
    (3, 'QUIC', 'udp', 443, 'Web over HTTP/3.'),
    (4, 'SSH', 'tcp', 22, 'Secure shell.'),
    (5, 'DNS', 'tcp+udp', 53, 'Name resolution.'),
    (6, 'SMTP', 'tcp', 25, 'Mail between servers.'),
    (7, 'SMTPS', 'tcp', 465, 'Mail submission over TLS.'),
    (8, 'Submission', 'tcp', 587, 'Mail submission with STARTTLS.'),
    (9, 'IMAP', 'tcp', 143, 'Mailboxes, with STARTTLS.'),
    (10, 'IMAPS', 'tcp', 993, 'Mailboxes over TLS.'),
    (11, 'POP3S', 'tcp', 995, 'Mail download over TLS.'),
    (12, 'MySQL', 'tcp', 3306, 'MySQL and MariaDB.'),
    (13, 'PostgreSQL', 'tcp', 5432, 'PostgreSQL.'),
    (14, 'Redis', 'tcp', 6379, 'Redis and its relatives.'),
    (15, 'RDP', 'tcp+udp', 3389, 'Remote desktop.'),
    (16, 'WireGuard', 'udp', 51820, 'VPN tunnels.'),
    (17, 'Ping', 'icmp', NULL, 'ICMP for IPv4.'),
    (18, 'Ping-v6', 'icmpv6', NULL, 'ICMP for IPv6.')
) AS service (n, name, protocol, port, description);

CREATE TABLE firewall_service_groups (
    id          uuid PRIMARY KEY,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    name        text NOT NULL CONSTRAINT firewall_service_groups_name_key UNIQUE,
    description text NOT NULL,
    members     uuid[] NOT NULL, -- of firewall_services
    builtin     boolean NOT NULL
);

INSERT INTO firewall_service_groups (id, created_at, updated_at, name, description, members, builtin)
SELECT ('00000000-0000-7000-8000-0000000003' || lpad(n::text, 2, '0'))::uuid, now(), now(), grp.name, grp.description,
       (SELECT array_agg(s.id ORDER BY s.id) FROM firewall_services s WHERE s.name = ANY (string_to_array(grp.services, ' '))), true
FROM (VALUES
    (1, 'Web', 'HTTP, HTTPS and HTTP/3.', 'HTTP HTTPS QUIC'),
    (2, 'Mail-Submit', 'How people hand in mail.', 'SMTPS Submission'),
    (3, 'Mail-Receive', 'How mail arrives and is read.', 'SMTP IMAP IMAPS POP3S'),
    (4, 'DNS', 'Name resolution.', 'DNS'),
    (5, 'Ping', 'ICMP for both families.', 'Ping Ping-v6')
) AS grp (n, name, description, services);

CREATE TABLE firewall_rules (
    id                uuid PRIMARY KEY,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    name              text NOT NULL,
    src_zone          text NOT NULL,
    src_kind          text NOT NULL CONSTRAINT firewall_rules_src_kind_check CHECK (src_kind IN ('any', 'object', 'group', 'cidr')),
    src_object_id     uuid CONSTRAINT firewall_rules_src_object_id_fkey REFERENCES firewall_address_objects,
    src_group_id      uuid CONSTRAINT firewall_rules_src_group_id_fkey REFERENCES firewall_address_groups,
    src_cidr          text NOT NULL,
    dst_zone          text NOT NULL,
    dst_kind          text NOT NULL CONSTRAINT firewall_rules_dst_kind_check CHECK (dst_kind IN ('any', 'object', 'group', 'cidr')),
    dst_object_id     uuid CONSTRAINT firewall_rules_dst_object_id_fkey REFERENCES firewall_address_objects,
    dst_group_id      uuid CONSTRAINT firewall_rules_dst_group_id_fkey REFERENCES firewall_address_groups,
    dst_cidr          text NOT NULL,
    service_object_id uuid CONSTRAINT firewall_rules_service_object_id_fkey REFERENCES firewall_services,
    service_group_id  uuid CONSTRAINT firewall_rules_service_group_id_fkey REFERENCES firewall_service_groups,
    action            text NOT NULL CONSTRAINT firewall_rules_action_check CHECK (action IN ('accept', 'drop', 'reject')),
    log               boolean NOT NULL,
    priority          bigint NOT NULL,
    enabled           boolean NOT NULL,
    comment           text NOT NULL,
    note              text NOT NULL,
    labels            text[] NOT NULL
);

-- Lets a new gateway answer ACME challenges, and serve its console under its own name.
INSERT INTO firewall_rules (id, created_at, updated_at, name, src_zone, src_kind, src_cidr, dst_zone, dst_kind, dst_cidr, service_group_id, action, log, priority, enabled, comment, note, labels)
VALUES ('00000000-0000-7000-8000-000000000401', now(), now(), 'Web to the gateway', 'any', 'any', '', 'self', 'any', '', '00000000-0000-7000-8000-000000000301', 'accept', false, 10, true, '', '', '{}');

CREATE TABLE firewall_nat_rules (
    id              uuid PRIMARY KEY,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    name            text NOT NULL,
    kind            text NOT NULL CONSTRAINT firewall_nat_rules_kind_check CHECK (kind IN ('dnat', 'snat', 'masquerade')),
    in_zone         text NOT NULL,
    out_zone        text NOT NULL,
    protocol        text NOT NULL CONSTRAINT firewall_nat_rules_protocol_check CHECK (protocol IN ('tcp', 'udp', 'tcp+udp', 'any')),
    src_cidr        text NOT NULL,
    dst_cidr        text NOT NULL,
    dst_port        integer,
    dst_port_end    integer,
    target_address  text NOT NULL,
    target_port     integer,
    target_port_end integer,
    enabled         boolean NOT NULL,
    priority        bigint NOT NULL,
    note            text NOT NULL,
    labels          text[] NOT NULL,
    comment         text NOT NULL
);

-- Counters of each rule on this node, accumulated across replaced kernel tables.
CREATE TABLE firewall_rule_hits (
    rule_id     uuid PRIMARY KEY CONSTRAINT firewall_rule_hits_rule_id_fkey REFERENCES firewall_rules ON DELETE CASCADE,
    since       timestamptz NOT NULL, -- when counting began
    packets     bigint NOT NULL,
    bytes       bigint NOT NULL,
    last_hit_at timestamptz
);
