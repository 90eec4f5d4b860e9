-- Circuit breakers: what all nodes know together.

-- One row for each breaker. Names sort by their bytes, in every store alike.
CREATE TABLE detent.detent_breaker (
    name         text COLLATE "C" NOT NULL PRIMARY KEY,
    version      bigint           NOT NULL,
    phase        text             NOT NULL,
    since        timestamptz,
    half_open_at timestamptz,
    -- The calls that are remembered, the trials that run: read and written as a whole.
    body         text             NOT NULL
) WITH (fillfactor = 50); -- counting is a HOT update
