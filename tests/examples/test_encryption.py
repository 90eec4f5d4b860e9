"""If this fails, the encryption that we show hides nothing, or nobody can open it any more."""

from pathlib import Path

from tests.examples.programs import EXAMPLES, run_to_its_end


def test_the_card_is_nowhere_and_its_owner_has_it(tmp_path: Path) -> None:
    done = run_to_its_end(EXAMPLES / "encryption" / "main.py", tmp_path)
    assert done.stdout.splitlines() == [
        "nobody in particular is not allowed to create a job of charge",
        "charged 4111-1111-1111-1111 for ada",
        "the card is in the database: False",
        "with both keys: charged 4111-1111-1111-1111 for ada",
        'without keys: "<encrypted with key k1>"',
        "moved: SealBroken",
    ]
