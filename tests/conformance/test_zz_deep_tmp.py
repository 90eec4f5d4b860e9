import random, os
import pytest
from detent.stores.postgres import PostgresStore
from detent.testing.conformance import HistoryConformance
from detent.testing.conformance import histories as h

inner = HistoryConformance.test_any_history_leaves_the_store_as_it_leaves_the_specification.hypothesis.inner_test
SEEDS = range(int(os.environ.get("S0","0")), int(os.environ.get("S1","200")))
W = {"enqueue":6,"claim":6,"end":8,"control":4,"release":2,"join":1,"leave":1,"page":1,"delete":1}

async def test_deep(postgres_url):
    store = PostgresStore(postgres_url)
    await store.open()
    c = HistoryConformance()
    bad = {}
    for seed in SEEDS:
        r = random.Random(seed)
        steps = r.choices(list(W), list(W.values()), k=60)
        hist = [(s, r.randrange(100), r.randrange(100)) for s in steps]
        try:
            await inner(c, store, hist)
        except AssertionError as e:
            # shrink
            msg = str(e)
            i = 0
            while i < len(hist):
                t = hist[:i]+hist[i+1:]
                try:
                    await inner(c, store, t)
                except AssertionError as e2:
                    hist = t; msg = str(e2); continue
                i += 1
            bad[seed] = (hist, msg)
            print("SEED", seed, hist, "\n", msg[:1500])
            if len(bad) > 4: break
    await store.close()
    assert not bad
