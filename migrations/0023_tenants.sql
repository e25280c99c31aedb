-- A tenant may be suspended: it is served nothing and works on nothing until it is resumed.

ALTER TABLE tenants ADD COLUMN suspended_at timestamptz;
