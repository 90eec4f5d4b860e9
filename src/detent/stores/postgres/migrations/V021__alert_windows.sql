-- concurrently
-- How many kinds of failures of a task are in an open window.
CREATE INDEX CONCURRENTLY detent_alert_recent ON detent.detent_alert (task, window_start);
