from lake_assets.landing.names import BatchNames, second_of


class Clock:
    def __init__(self, *seconds: float) -> None:
        self.seconds = list(seconds)

    def __call__(self) -> float:
        return self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]


def test_names_sort_by_time_within_a_second_and_beyond() -> None:
    names = BatchNames("edge-7", clock=Clock(*[1_707_616_800.5] * 12, 1_707_616_801.0, 1_707_616_900.0))

    given = [names.next() for _ in range(14)]

    assert given == sorted(given)
    assert given[0] == f"batch_1707616800_0000_{names.writer}"
    assert given[11].startswith("batch_1707616800_0011_edge-7-")
    assert given[12].startswith("batch_1707616801_0000_")


def test_a_clock_that_goes_backwards_is_waited_for() -> None:
    names = BatchNames("n", clock=Clock(1_000, 400, 401, 1_001, 1_002))

    given = [names.next() for _ in range(5)]

    assert given == sorted(given)
    assert [second_of(name) for name in given] == [1_000, 1_000, 1_000, 1_001, 1_002]
    assert names.behind == 600


def test_a_full_second_goes_on_in_the_next() -> None:
    names = BatchNames("n", clock=lambda: 1_000.0)

    given = [names.next() for _ in range(10_001)]

    assert given == sorted(set(given))
    assert second_of(given[-1]) == 1_001


def test_names_go_on_behind_those_of_an_earlier_writer() -> None:
    names = BatchNames("n", after=2_000, clock=lambda: 1_000.0)

    assert names.next() > "batch_0000002000_0000"
    assert names.next() > f"batch_0000002000_0000_{names.writer}"


def test_writers_of_one_node_at_one_time_do_not_collide() -> None:
    assert BatchNames("n", clock=lambda: 5.0).next() != BatchNames("n", clock=lambda: 5.0).next()


def test_the_second_of_a_name_that_is_none_of_ours() -> None:
    assert second_of("part-0.parquet") == 0
    assert second_of("batch_x_1_n.parquet") == 0
