from lake_assets.landing.batch_names import BatchNames, second_of


def test_names_sort_by_time_within_a_second_and_beyond() -> None:
    seconds = iter([*[1_707_616_800.5] * 12, 1_707_616_801.0, 1_707_616_900.0])
    names = BatchNames("edge-7", clock=lambda: next(seconds))

    given = [names.next() for _ in range(14)]

    assert given == sorted(given)
    assert given[0] == f"batch_1707616800_0000_{names.writer}"
    assert given[11].startswith("batch_1707616800_0011_edge-7-")
    assert given[12].startswith("batch_1707616801_0000_")
    assert [second_of(name) for name in (given[12], "part-0.parquet", "batch_x_1_n.parquet")] == [1_707_616_801, 0, 0]


def test_a_full_second_goes_on_in_the_next() -> None:
    names = BatchNames("n", clock=lambda: 1_000.0)

    given = [names.next() for _ in range(10_001)]

    assert given == sorted(set(given))
    assert second_of(given[-1]) == 1_001


def test_writers_of_one_node_at_one_time_do_not_collide() -> None:
    assert BatchNames("n", clock=lambda: 5.0).next() != BatchNames("n", clock=lambda: 5.0).next()
