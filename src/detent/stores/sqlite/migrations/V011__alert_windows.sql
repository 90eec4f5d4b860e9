-- How many kinds of failures of a task are in an open window.
CREATE INDEX detent_alert_recent ON detent_alert (task, window_start);
