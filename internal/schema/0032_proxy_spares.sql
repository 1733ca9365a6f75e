-- +goose Up

-- The ids of backends that HAProxy has ready for new rows: see internal/proxy/spare.go.
CREATE TABLE proxy_spares (
    id uuid PRIMARY KEY
);

SELECT ha_share('proxy_spares');
