-- What outlasts a service, and what services said and what became of them.

-- last_exit is a JSON object.
CREATE TABLE services (
  name TEXT NOT NULL PRIMARY KEY,
  resume_id TEXT NOT NULL,
  last_exit BLOB
) WITHOUT ROWID;

-- Positions are shared with history and logs: no number is in two of them. size is that of text and change in bytes;
-- change is a JSON object, in rows that tell of one.
CREATE TABLE service_log (
  position INTEGER PRIMARY KEY,
  service TEXT NOT NULL,
  number INTEGER NOT NULL,
  at REAL NOT NULL,
  stream TEXT NOT NULL,
  size INTEGER NOT NULL,
  text TEXT NOT NULL,
  change BLOB
);

CREATE UNIQUE INDEX service_log_numbers ON service_log (service, number);

-- A service's rows in order, and how much they are, without reading them.
CREATE INDEX service_log_of_service ON service_log (service, position, size);
